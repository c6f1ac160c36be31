"""Commands of the pipeline, in this process."""

from typer.testing import CliRunner

from fumarole.cli.main import app


def run_command(*arguments: str, code: int = 0) -> tuple[str, str]:
    """What `fumarole` says, with these arguments, on stdout and stderr."""
    ended = CliRunner().invoke(app, arguments)
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    assert ended.exit_code == code, ended.stderr
    return ended.stdout, ended.stderr
