"""How commands end, and what they print of texts that others wrote: shown, not obeyed by the terminal."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import typer

from fumarole.cli import pub
from fumarole.cli.terminal import FAILED, fail, json_text, printable, run
from fumarole.client import ClosedError
from tests.cli.commands import run_here

STEERING = "\x1b[2J\x9b2J\x07\r"
SHOWN = r"\x1b[2J\x9b2J\x07\x0d"


def test_what_steers_a_terminal_is_shown() -> None:
    assert printable(f"é\t日\n{STEERING}") == f"é\t日\n{SHOWN}"
    assert printable("a\u202eb\u2028c\u2066\u200fd") == r"a\u202eb\u2028c\u2066\u200fd"


def test_json_means_the_same() -> None:
    text = json_text({STEERING: ["é", STEERING]})
    assert text.isprintable()
    assert "é" in text
    assert json.loads(text) == {STEERING: ["é", STEERING]}


def test_why_a_command_failed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        fail(f"refused: {STEERING}")
    assert capsys.readouterr().err == f"refused: {SHOWN}\n"


def test_errors_of_several_tasks_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    async def fails() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in (1, 2, 2):
                tasks.create_task(closed(number))

    async def closed(number: int) -> None:
        async with asyncio.TaskGroup():
            raise ClosedError(f"broker {number} is gone")

    with pytest.raises(typer.Exit) as ended:
        run(fails())
    assert ended.value.exit_code == FAILED
    assert capsys.readouterr().err == "broker 1 is gone; broker 2 is gone\n"


def test_what_is_our_own_fault_among_them_is_not_hidden() -> None:
    async def fails() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wrong(ClosedError("gone")))
            tasks.create_task(wrong(KeyError("bug")))

    async def wrong(error: Exception) -> None:
        raise error

    with pytest.raises(ExceptionGroup):
        run(fails())


@contextmanager
def server(answer: bytes, stays: bool) -> Iterator[str]:
    """Greets one client, answers so what it says then, and hangs up, or says nothing more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b'INFO {"server_id":"x","version":"2.10.0","max_payload":1048576}\r\n')
                connection.recv(4096)
                connection.sendall(answer)
                while stays and connection.recv(4096):
                    pass

        serving = threading.Thread(target=serve)
        serving.start()
        yield f"nats://127.0.0.1:{listener.getsockname()[1]}"
        serving.join()


def test_what_a_server_says() -> None:
    with server(b"-ERR 'no \x1b[2J entry'\r\n", stays=False) as rude:
        ended = run_here("pub", "a", "1", "--servers", rude)
    assert ended.code == 1
    assert r"(no \x1b[2J entry)" in ended.err
    assert "\x1b" not in ended.err


def test_a_server_that_does_not_confirm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pub, "FLUSH_SECONDS", 0.1)
    with server(b"PONG\r\n", stays=True) as silent:
        ended = run_here("pub", "a", "1", "--servers", silent)
    text = "no server confirmed within 0.1 s that it received everything; some of it may be lost\n"
    assert (ended.code, ended.err) == (1, text)
