"""The `fumarole` command, also as `python -m fumarole`."""

import sys

from fumarole.core.packages import explained


def main() -> None:
    """Runs the command line. Where only the client is installed, says what to install."""
    try:
        from fumarole.cli.main import main as command_line
    except ImportError as error:
        if not (sentence := explained(error)):
            raise
        sys.exit(_misused(sentence))
    command_line()


def _misused(sentence: str) -> int:
    print(sentence, file=sys.stderr)  # noqa: T201
    return 2


if __name__ == "__main__":
    main()
