"""The options of `serve`: one for each setting that has a flag, made from the configuration's own list of them.

Making them needs the whole tree of settings, so they are made only when `serve` runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any

import typer

from fumarole.config.load import FLAGS
from fumarole.config.mistakes import KeyPath
from fumarole.config.schema import is_list
from fumarole.config.settings import Settings
from fumarole.config.values import Address, size_text
from fumarole.doors.registry import DOORS

PANELS = {"limits": "Limits (sizes such as 64KiB, times such as 500ms)", "tls": "TLS", "links": "Cluster"}
HELP = {
    **{f"--{door.name}": door.help for door in DOORS.values()},
    "--data": "The folder for durable files.",
    "--allowed-namespaces": "The allowed namespaces; may be repeated.",
    "--grammar": "The valid topics: strict, channel (UTF-8 without white space), or open.",
    "--node": "The name of this node in its cluster.",
    "--cluster": "Listen for other nodes here.",
    "--peer": "A node of the cluster to join; may be repeated, one is enough.",
    "--workers": "Processes that share the doors, or auto: one for each core.",
    "--links-name": "The name of the cluster.",
    "--links-secret-file": "A file whose first line is the secret of all nodes.",
    "--links-certificate": "The certificate of this node for other nodes, PEM.",
    "--links-key": "Its key, PEM.",
    "--links-authority": "The authority of other nodes' certificates, PEM.",
    "--links-address": "The address at which other nodes reach this one, if it is not the listening one.",
    "--links-outbox": "Bytes that may wait for one other node.",
    "--links-silence": "A node that is silent for so long is gone.",
    "--log-level": "debug, info, warning or error.",
    "--log-format": "text or json.",
    "--limits-control-line": "The longest protocol line.",
    "--limits-payload": "The largest payload, headers included.",
    "--limits-connections": "Open connections.",
    "--limits-connections-per-address": "Open connections from one address.",
    "--limits-consumers-per-connection": "Subscriptions of one connection.",
    "--limits-outbox": "Bytes that may wait for a slow connection.",
    "--limits-handshake": "The time from accept to CONNECT.",
    "--limits-tls-handshake": "The same with TLS.",
    "--limits-idle": "Silence after which the broker pings a client.",
    "--limits-drain": "The time for outboxes to empty when the broker stops.",
    "--tls-certificate": "The server's certificate and its chain, PEM.",
    "--tls-key": "Its key, PEM.",
    "--tls-client-authority": "The authority of clients' certificates, PEM.",
    "--tls-client-certificates": "none, optional or required.",
    "--tls-handshake-first": "true: at the NATS door, TLS comes before INFO.",
}
"""The help of each option. A setting without an entry here is described in docs/reference/configuration.md only."""
SIZES = ("control_line", "payload", "outbox")


def serve_with_settings(serve: Callable[..., None]) -> Callable[..., None]:
    """The same command, with an option for every setting; their values are in the context's parameters."""
    own = list(inspect.signature(serve, eval_str=True).parameters.values())
    settings = [_parameter(flag, path) for flag, path in FLAGS.items()]

    @functools.wraps(serve)
    def command(**arguments: Any) -> None:
        serve(**{parameter.name: arguments[parameter.name] for parameter in own})

    command.__signature__ = inspect.Signature([*own, *settings])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *settings]}
    return command


def _parameter(flag: str, path: KeyPath) -> inspect.Parameter:
    default = default_text(path)
    option = typer.Option(
        help=HELP.get(flag, ""),
        metavar="VALUE",
        show_default=default or False,
        rich_help_panel=PANELS.get(str(path[0])),
    )
    annotation = Annotated[list[str] | None if is_list(path) else str | None, option]  # type: ignore[valid-type]
    name = flag.removeprefix("--").replace("-", "_")
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


def default_text(path: KeyPath) -> str:
    """The default of a setting, as text; empty: none."""
    value: Any = Settings()
    for key in path:
        value = getattr(value, str(key), None)
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value if isinstance(item, Address | str))
    if value is None:
        return ""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}s"
    return size_text(value).replace(" ", "") if path[-1] in SIZES else str(value)
