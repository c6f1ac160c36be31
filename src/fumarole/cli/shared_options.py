"""Options that several commands share, written once: as the fields of a class.

@dataclass(frozen=True)
class SparkOptions:
    master: Annotated[str, typer.Option(help="Where Spark runs.")] = "local[*]"

@shared_options
def rollup(spark_options: SparkOptions, every: str = "1 minute") -> None: …      rollup --master URL --every DURATION
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints


def shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, with the fields of each parameter that is a class of options in place of it."""
    own = inspect.signature(command, eval_str=True).parameters
    sets: dict[str, Any] = {name: each.annotation for name, each in own.items() if is_dataclass(each.annotation)}
    if not sets:
        return command
    parameters = [
        one for name, each in own.items() for one in (_options(sets[name]) if name in sets else [_keyword(each)])
    ]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        made = {name: kind(**{each.name: given.pop(each.name) for each in fields(kind)}) for name, kind in sets.items()}
        command(**made, **given)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_options


def _options(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [_parameter(each.name, _default(each), hints[each.name]) for each in fields(kind)]


def _default(field: Field[Any]) -> Any:
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _keyword(parameter: inspect.Parameter) -> inspect.Parameter:
    return _parameter(parameter.name, parameter.default, parameter.annotation)


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    # Keyword-only parameters: one without a default may follow one with a default.
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
