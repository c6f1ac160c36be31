"""The page of the Python API: which objects there are. Their text is in their docstrings, and mkdocstrings shows it."""

import inspect

import fumarole
from fumarole import pipeline

HEAD = """# Python API

Generated from the docstrings. [The Python client](../how-to/client.md) shows how it is used.
"""


def page() -> str:
    """Directives for each public object, in groups."""
    public = {name: getattr(fumarole, name) for name in fumarole.__all__ if name != "__version__"}
    errors = [name for name, each in public.items() if inspect.isclass(each) and issubclass(each, Exception)]
    functions = [name for name, each in public.items() if inspect.isroutine(each)]
    classes = [name for name in public if name not in errors and name not in functions]
    groups = {
        "Functions": [f"fumarole.{name}" for name in functions],
        "Classes": [f"fumarole.{name}" for name in sorted(classes, key=lambda name: (name != "Client", name))],
        "Errors": [f"fumarole.{name}" for name in errors],
        "The data pipeline": [f"fumarole.pipeline.{name}" for name in pipeline.__all__],
    }
    return HEAD + "".join(_group(title, names) for title, names in groups.items())


def _group(title: str, names: list[str]) -> str:
    return f"\n## {title}\n\n" + "".join(f"::: {name}\n\n" for name in names)
