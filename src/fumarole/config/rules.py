"""`[[rules]]` in a configuration file or one of their own: rules with their mistakes, each at its line."""

from pathlib import Path

from fumarole.config.load import read_file
from fumarole.config.mistakes import ConfigurationError
from fumarole.core.payloads import DeclarationError
from fumarole.core.rules import Rules, parse


def load_rules(path: Path) -> Rules:
    """The rules of a file, which may have settings of a broker as well. Raises ConfigurationError."""
    document, report = read_file(path)
    try:
        return parse(document.get("rules", []))
    except DeclarationError as error:
        for wrong in error.wrong:
            report.add(("rules", *wrong.place), wrong.found, wrong.expected)
        raise ConfigurationError(report.mistakes) from None
