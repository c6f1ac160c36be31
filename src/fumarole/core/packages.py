"""Third-party packages that an installation may lack, and the sentence with the command that installs them.

The client runs on the standard library. The broker and the command line need the base install; everything else is an
extra of the distribution. Each extra has one row here: the part that it is for, and the modules that this part cannot
do without. A part calls `need` where it begins, and imports its packages afterwards:

    need("kubemq")    # the KubeMQ door needs h2, which is not installed: pip install 'fumarole[kubemq]'
    import h2

`explained` gives the same sentence for an import that failed with no `need` before it.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Final, NamedTuple


class Extra(NamedTuple):
    """The extra of `pip install 'fumarole[…]'`."""

    part: str
    """The part of Fumarole that it is for, as the subject of a sentence."""
    modules: tuple[str, ...]
    """Packages that all of that part imports."""
    optional: tuple[str, ...] = ()
    """Packages that some of it imports."""


BASE: Final = ""
EXTRAS: Final[Mapping[str, Extra]] = {
    BASE: Extra("Fumarole beyond its client", (), ("argon2", "lark", "msgspec", "re2", "rich", "typer")),
    "nkeys": Extra("a user with an nkey", ("nacl",)),
    "kubemq": Extra("the KubeMQ door", ("h2", "google.protobuf")),
    "bridge": Extra("the bridge", ("zmq", "msgpack"), ("aio_pika", "aiormq", "nacl", "pamqp", "yarl")),
    "pipeline": Extra(
        "the data pipeline", ("numpy", "pyarrow"), ("deltalake", "matplotlib", "pandas", "py4j", "pyspark")
    ),
}


class MissingPackageError(ImportError):
    """A package is not installed, or cannot be loaded. The text names it, the part that needs it and the command."""


def need(extra: str, *more: str) -> None:
    """Imports what all of a part imports, and more of its extra. Raises MissingPackageError."""
    for module in (*EXTRAS[extra].modules, *more):
        try:
            import_module(module)
        except ImportError as error:
            raise MissingPackageError(_sentence(extra, module, error), name=module) from None


def absence(extra: str) -> str:
    """The sentence of what is not installed for this extra; empty where all is. Nothing is imported."""
    for module in EXTRAS[extra].modules:
        try:
            found = find_spec(module)
        except ModuleNotFoundError:  # not even the package around it
            found = None
        if found is None:
            return _sentence(extra, module, ModuleNotFoundError(name=module))
    return ""


def explained(error: ImportError) -> str:
    """The sentence for an import that failed; empty where it was not for a package of an extra."""
    if isinstance(error, MissingPackageError):
        return str(error)
    missing = (error.name or "").partition(".")[0]
    for extra, (_, modules, optional) in EXTRAS.items():
        for module in (*modules, *optional):
            if missing == module.partition(".")[0]:
                return _sentence(extra, module, error)
    return ""


def _sentence(extra: str, module: str, error: ImportError) -> str:
    what = f"'fumarole[{extra}]'" if extra else "fumarole"
    if isinstance(error, ModuleNotFoundError) and module.startswith(error.name or "?"):
        reason = "is not installed"
    else:
        reason = f"cannot be loaded ({error})"
    return f"{EXTRAS[extra].part} needs {module}, which {reason}: pip install {what}"
