"""`[[payloads]]` in a configuration file: declarations with their mistakes, each at its line."""

from pathlib import Path

from fumarole.config.load import read_file
from fumarole.config.mistakes import ConfigurationError, Report
from fumarole.core.payloads import DeclarationError, Payloads, parse


def load_payloads(path: Path) -> Payloads:
    """The declarations of a file, which may have settings of a broker as well. Raises ConfigurationError."""
    document, report = read_file(path)
    return _parsed(document.get("payloads", []), report)


def _parsed(tables: object, report: Report) -> Payloads:
    try:
        return parse(tables)
    except DeclarationError as error:
        for wrong in error.wrong:
            report.add(("payloads", *wrong.place), wrong.found, wrong.expected)
        raise ConfigurationError(report.mistakes) from None
