"""`pub`, `sub`, `request`, `reply`, as processes."""

import base64
import json
import os
import pty
import signal
import subprocess

import pytest

from tests.cli.commands import CommandLine


def test_lines_of_stdin_arrive_in_order(command_line: CommandLine) -> None:
    sub = command_line.start("sub", "volcanoes.>", "--count", "10000", "--raw")
    command_line.wait_for_consumers(1)
    lines = b"".join(b"%d\n" % number for number in range(10000))
    pub = command_line.run("pub", "volcanoes.usa.atka", stdin=lines)
    assert (pub.code, pub.out, pub.err) == (0, b"", "")
    ended = command_line.end(sub)
    assert (ended.code, ended.out, ended.err) == (0, lines, "")


def test_a_payload_as_argument_as_often_as_asked(command_line: CommandLine) -> None:
    sub = command_line.start("sub", "--count", "3")
    command_line.wait_for_consumers(1)
    assert command_line.run("pub", "a.b", "21.5 °C", "--count", "3", "--rate", "1000").code == 0
    assert command_line.end(sub).lines == ["a.b  21.5 °C"] * 3


def test_a_count_of_lines(command_line: CommandLine) -> None:
    sub = command_line.start("sub", "--count", "3", "--raw")
    command_line.wait_for_consumers(1)
    assert command_line.run("pub", "a", "-n", "2", stdin=b"1\r\n2\n3\n").code == 0
    assert command_line.run("pub", "a", stdin=b"last, without an end").code == 0
    assert command_line.end(sub).lines == ["1", "2", "last, without an end"]


def test_headers_and_reply_are_shown(command_line: CommandLine) -> None:
    text, as_json = command_line.start("sub", "--count", "1"), command_line.start("sub", "--count", "1", "--json")
    command_line.wait_for_consumers(2)
    pub = ("pub", "a", "x", "-H", "Unit: celsius", "--header", "A:1", "--header", "A:2", "--reply", "r.1")
    assert command_line.run(*pub).code == 0
    assert command_line.end(text).lines == ["a  x", "    Unit: celsius", "    A: 1", "    A: 2", "    reply to: r.1"]
    assert json.loads(command_line.end(as_json).out) == {
        "topic": "a",
        "payload": "x",
        "reply": "r.1",
        "headers": {"Unit": ["celsius"], "A": ["1", "2"]},
    }


def test_all_of_stdin_as_one_message_of_any_bytes(command_line: CommandLine) -> None:
    sub = command_line.start("sub", "--count", "1", "--json")
    command_line.wait_for_consumers(1)
    assert command_line.run("pub", "", "--whole", stdin=b"\xff\n\x00\n").code == 0
    shown = json.loads(command_line.end(sub).out)
    assert shown == {"topic": "", "payload_base64": base64.b64encode(b"\xff\n\x00\n").decode()}


def test_a_group_shares(command_line: CommandLine) -> None:
    members = [command_line.start("sub", "a", "--group", "g", "--timeout", "3", "--raw") for _ in range(2)]
    command_line.wait_for_consumers(2)
    command_line.run("pub", "a", stdin=b"".join(b"%d\n" % number for number in range(100)))
    received = [line for member in members for line in command_line.end(member).lines]
    assert sorted(map(int, received)) == list(range(100))


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        pytest.param(("pub", "a b", "x"), 1, "white space", id="topic refused here"),
        pytest.param(("pub", "a/b", "x"), 1, "Invalid Publish Subject", id="topic refused there"),
        pytest.param(("pub", "a", "x", "-H", "nonsense"), 2, "expected NAME:VALUE", id="no header"),
        pytest.param(("pub", "a", "x", "-H", "Two Words: v"), 2, "no space in the name", id="header with a space"),
        pytest.param(("pub", "a", "x", "-H", "A: 1\n2"), 2, "no line end", id="header of two lines"),
        pytest.param(("pub", "a", "x", "-H", "A: \udcff"), 2, "UTF-8", id="header that is no UTF-8"),
        pytest.param(("request", "a", "x", "-H", "Two Words: v"), 2, "expected NAME:VALUE", id="the same in a request"),
        pytest.param(("pub", "a", "x", "--whole"), 2, "no payload can be given", id="two payloads"),
        pytest.param(("pub", "a", "x" * 100, "--count", "0"), 2, "--count", id="count of nothing"),
        pytest.param(("sub", "a.>.b"), 1, "must be the last word", id="pattern refused there"),
        pytest.param(("sub", "a", "--count", "2", "--timeout", "0.05"), 1, "0 messages of 2", id="too few came"),
        pytest.param(("request", "nobody", "x"), 1, "no responder for requests to 'nobody'", id="nobody answers"),
        pytest.param(("request", "a", "x", "--replies", "0"), 2, "`all`", id="no replies wanted"),
        pytest.param(("reply", "a"), 2, "say how to answer", id="no answer"),
        pytest.param(("reply", "a", "x", "--echo"), 2, "one of them", id="two answers"),
        pytest.param(("pub", "a", "x", "--servers", "http://a"), 2, "not the address of a server", id="address"),
        pytest.param(("pub", "a", "x", "--tls-authority", "/nowhere"), 2, "No such file", id="no such authority"),
    ],
)
def test_what_is_wrong_is_said(command_line: CommandLine, arguments: tuple[str, ...], code: int, text: str) -> None:
    ended = command_line.run_here(*arguments)
    assert (ended.code, ended.out) == (code, b"")
    assert text in ended.err


@pytest.mark.parametrize("command", ["pub a x", "pub a", "sub", "request a x", "reply a x", "stats", "bench"])
def test_without_a_broker(command_line: CommandLine, command: str) -> None:
    ended = command_line.run_here(*command.split(), "--servers", "nats://lab:secret@127.0.0.1:1")
    expected = "no broker at nats://127.0.0.1:1 (connection refused); start one with `fumarole serve`\n"
    assert (ended.code, ended.out, ended.err) == (1, b"", expected)


def test_the_end_of_time_without_a_count_is_no_failure(command_line: CommandLine) -> None:
    ended = command_line.run("sub", "--timeout", "0.05")
    assert (ended.code, ended.out, ended.err) == (0, b"", "")


def test_request_and_reply(command_line: CommandLine) -> None:
    reply = command_line.start("reply", "ask.*", "the answer", "--count", "2")
    command_line.wait_for_consumers(1)
    asked = command_line.run("request", "ask.me", "x")
    assert (asked.code, asked.lines, asked.err) == (0, ["the answer"], "")
    asked = command_line.run("request", "ask.me", "x", "--json")
    assert json.loads(asked.out)["payload"] == "the answer"
    assert command_line.end(reply).code == 0


def test_replies_by_echo_as_many_as_come(command_line: CommandLine) -> None:
    for _ in range(2):
        command_line.start("reply", "ask", "--echo")
    command_line.wait_for_consumers(2)
    assert command_line.run("request", "ask", "x", "--replies", "2", "--raw").lines == ["x", "x"]
    assert command_line.run("request", "ask", "x", "--replies", "all", "--timeout", "1").lines == ["x", "x"]
    asked = command_line.run("request", "ask", "x", "--replies", "3", "--timeout", "1")
    assert (asked.code, asked.lines, asked.err) == (1, ["x", "x"], "2 of 3 replies within 1 s\n")


def test_replies_by_command(command_line: CommandLine) -> None:
    command_line.start("reply", "ask.*", "--command", 'echo "$TOPIC"; cat; exit 3')
    command_line.wait_for_consumers(1)
    assert command_line.run("request", "ask.me", "why").lines == ["ask.me", "why", "    Exit-Code: 3"]


def test_an_answer_that_is_too_large_is_not_sent(command_line: CommandLine) -> None:
    """And others have theirs."""
    command = 'if [ "$(cat)" = much ]; then head -c 2000000 /dev/zero; else echo little; fi'
    reply = command_line.start("reply", "ask", "--command", command, "--count", "2")
    command_line.wait_for_consumers(1)
    asked = command_line.run("request", "ask", "much", "--timeout", "1")
    assert (asked.code, asked.err) == (1, "0 of 1 replies within 1 s\n")
    assert command_line.run("request", "ask", "x").lines == ["little"]
    ended = command_line.end(reply)
    assert ended.code == 0
    assert ended.err.startswith("ask: not answered: 2000000 bytes, and the server accepts 1048576; ")


def test_what_is_no_request_is_not_answered(command_line: CommandLine) -> None:
    reply = command_line.start("reply", "ask", "x", "--count", "1")
    command_line.wait_for_consumers(1)
    command_line.run("pub", "ask", "no question")
    ended = command_line.end(reply)
    assert (ended.code, ended.err) == (0, "ask: not a request, not answered\n")


@pytest.mark.parametrize(("command", "code"), [("sub", 0), ("reply a --echo", 0), ("pub a", 130)])
def test_ctrl_c_ends_quietly(command_line: CommandLine, command: str, code: int) -> None:
    process = command_line.start(*command.split())
    if command.startswith("pub"):
        sub = command_line.start("sub", "--count", "1", "--raw")
        command_line.wait_for_consumers(1)
        assert process.stdin is not None
        process.stdin.write(b"x\n")
        process.stdin.flush()
        assert command_line.end(sub).out == b"x\n"
    else:
        command_line.wait_for_consumers(1)
    process.send_signal(signal.SIGINT)
    # stdin is still open: that alone must not keep it.
    assert process.wait(timeout=10) == code
    ended = command_line.end(process)
    assert (ended.out, ended.err) == (b"", "")


def test_a_payload_makes_no_line_of_its_own(command_line: CommandLine) -> None:
    """One that looks like another message is one line all the same."""
    sub = command_line.start("sub", "--count", "1")
    command_line.wait_for_consumers(1)
    command_line.run("pub", "a", "1\nalarm.fire  burning")
    assert command_line.end(sub).out == b"a  1\\x0aalarm.fire  burning\n"


def test_who_has_seen_enough_ends_it_quietly(command_line: CommandLine) -> None:
    """`fumarole sub | head -n 1`"""
    sub = command_line.start("sub")
    command_line.wait_for_consumers(1)
    command_line.run("pub", "a", "1")
    assert sub.stdout is not None
    assert sub.stdout.readline() == b"a  1\n"
    sub.stdout.close()
    while sub.poll() is None:
        command_line.run("pub", "a", "2")
    assert sub.stderr is not None
    assert (sub.returncode, sub.stderr.read()) == (0, b"")


def on_a_terminal(command_line: CommandLine, *arguments: str, **variables: str) -> str:
    """What a command prints on stdout when that is a terminal."""
    terminal, end = pty.openpty()
    sub = command_line.start(*arguments, stdout=end, stderr=subprocess.PIPE, **variables)
    os.close(end)
    command_line.wait_for_consumers(1)
    command_line.run("pub", "a", "\x1b[31mred", "-H", "A:\x07")
    shown = b""
    while b"A: " not in shown:
        shown += os.read(terminal, 4096)
    assert command_line.end(sub).code == 0
    os.close(terminal)
    return shown.decode()


def test_a_terminal_has_colours_and_is_not_steered_by_others(command_line: CommandLine) -> None:
    shown = on_a_terminal(command_line, "sub", "--count", "1", TERM="xterm")
    assert shown.startswith("\x1b[36ma\x1b[0m  \\x1b[31mred")
    assert "\\x07" in shown
    assert "\x07" not in shown


def test_no_color(command_line: CommandLine) -> None:
    shown = on_a_terminal(command_line, "sub", "--count", "1", TERM="xterm", NO_COLOR="1")
    assert shown.startswith("a  \\x1b[31mred")
    assert "\x1b" not in shown


def test_long_work_shows_a_progress_bar_on_a_terminal(command_line: CommandLine) -> None:
    terminal, end = pty.openpty()
    pub = command_line.start("pub", "a", "x", "--count", "20", "--rate", "16", stderr=end, TERM="xterm")
    os.close(end)
    shown = b""
    while b"published 20 messages" not in shown:
        shown += os.read(terminal, 4096)
    assert b"publishing" in shown
    assert b"%" in shown
    ended = command_line.end(pub)
    assert (ended.code, ended.out) == (0, b"")
    os.close(terminal)


def test_what_is_retained_is_shown_and_comes_first(command_line: CommandLine) -> None:
    for topic, payload in (("a.b", "1"), ("a.c", "2"), ("a.b", "3"), ("a.d", "4")):
        assert command_line.run("pub", topic, payload, "--retain").code == 0
    assert command_line.run("pub", "a.d", "", "--retain").code == 0
    shown = [json.loads(line) for line in command_line.run("last", "a.>", "--json").lines]
    assert sorted((each["topic"], each["payload"]) for each in shown) == [("a.b", "3"), ("a.c", "2")]
    assert all(float(each["headers"]["Last"][0]) >= 0 for each in shown)
    table = command_line.run("last", "a.*").lines
    assert [line.split()[:2] for line in table] == [["topic", "value"], ["a.b", "3"], ["a.c", "2"]]
    assert "nothing is known" in command_line.run("last", "z.>").err
    sub = command_line.run("sub", "a.b", "--last", "--every", "500ms", "--count", "1", "--json")
    assert json.loads(sub.out)["payload"] == "3"
    assert command_line.run("sub", "--every", "1 parsec").code == 2


def test_a_view_as_a_table_and_as_json(command_line: CommandLine) -> None:
    said = {"producers": [{"id": "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60", "metadata": {"Kind": "t", "Room": "410"}}]}
    assert command_line.run("request", "$FUM.describe", json.dumps(said)).code == 0
    assert command_line.run("view", "select Room where Kind = 't'", "--once").out.split() == [b"Room", b"410"]
    shown = command_line.run("view", "select Room, count(*) where Kind = 't'", "--once", "--json")
    assert json.loads(shown.out) == {"New": [["410", 1]], "Del": []}
    wrong = command_line.run("view", "select Room")
    assert wrong.code != 0
    assert "where" in wrong.err
