"""Very many clients log in with passwords at once, as after a power cut (A2).

1,000 clients of ten users, then 300 clients of 300 users. Both again while another address sends 100 wrong passwords
a second. A refusal ends the measurement. The time of 300 users stands beside that of their hashes alone, in as many
threads as the broker has for them.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from bench.effort import Effort
from bench.figures import Figure, against, within
from bench.servers import CannotMeasureError, Server, many_files
from bench.settings import configured
from fumarole.doors.logins import THREADS
from fumarole.server.credentials import hash_password, verify_password

CLAIM = "logins"
CLIENTS, FEW_USERS, MANY_USERS = 1_000, 10, 300
LIMIT_SECONDS, TIMES_THE_HASHES = 10.0, 1.3
PATIENCE = 120.0
WRONG_A_SECOND = 100
GUESSER = """
import socket, sys, time
began, number, open_ones = time.monotonic(), 0, []
while True:
    guess = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10, ("127.0.0.2", 0))
    guess.sendall(b'CONNECT {"verbose":false,"user":"user-%d","pass":"wrong-%d"}\\r\\n' % (number % 10, number))
    open_ones.append(guess)
    number += 1
    if len(open_ones) > 1000:
        open_ones.pop(0).close()
    if number == 50:
        print("ready", flush=True)
    time.sleep(max(0.0, began + number / float(sys.argv[2]) - time.monotonic()))
"""
User = tuple[str, str]
"""Name and password."""


def measure(effort: Effort) -> Iterator[Figure]:
    many_files()
    few = [(f"user-{number}", f"password of {number}") for number in range(FEW_USERS)]
    many = [(f"user-{number}", f"password of {number}") for number in range(effort.share(MANY_USERS))]
    crowd = [few[number % len(few)] for number in range(effort.share(CLIENTS))]
    effort.tell(f"hashing {len(many)} passwords")
    with ThreadPoolExecutor(THREADS) as threads:
        hashes = list(threads.map(hash_password, [password for _, password in many]))
    config = "".join(
        f'[[users]]\nname = "{name}"\npassword = "{each}"\n' for (name, _), each in zip(many, hashes, strict=True)
    )
    for wrong in (0, WRONG_A_SECOND):
        beside = f", beside {wrong} wrong logins a second" if wrong else ""
        effort.tell(f"{len(crowd):,} clients of {FEW_USERS} users{beside}")
        took = [_storm(config, crowd, wrong) for _ in range(effort.rounds)]
        name = f"{len(crowd):,} clients of {FEW_USERS} users at once{beside}: all are in"
        yield within(LIMIT_SECONDS, CLAIM, name, min(took), "s")
    for wrong in (0, WRONG_A_SECOND):
        beside = f", beside {wrong} wrong logins a second" if wrong else ""
        alone, took = [], []
        for turn in range(effort.rounds):
            effort.tell(f"{len(many)} users{beside}, round {turn + 1}")
            alone.append(_hashes_alone(many, hashes))
            took.append(_storm(config, many, wrong))
        rounds = [ours / theirs for ours, theirs in zip(took, alone, strict=True)]
        name = f"{len(many)} users at once{beside}: all are in"
        best = rounds.index(min(rounds))
        yield against(
            "their hashes", CLAIM, name, took[best], alone[best], "s", at_most=TIMES_THE_HASHES, rounds=rounds
        )


def _hashes_alone(users: Sequence[User], hashes: Sequence[str]) -> float:
    """Seconds."""
    began = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        right = threads.map(verify_password, hashes, [password.encode() for _, password in users])
        assert all(right)
    return time.perf_counter() - began


def _storm(config: str, users: Sequence[User], wrong: int) -> float:
    """Seconds until each of these is in, at a broker that has just started."""
    with configured(config) as server, ExitStack() as stack:
        if wrong:
            stack.enter_context(_guesses(server, wrong))
        began = time.perf_counter()
        clients = [stack.enter_context(_client(server, *user)) for user in users]
        for client in clients:
            _await_pong(client)
        return time.perf_counter() - began


def _client(server: Server, name: str, password: str) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
    made.sendall(b'CONNECT {"verbose":false,"user":"%b","pass":"%b"}\r\nPING\r\n' % (name.encode(), password.encode()))
    return made


def _await_pong(client: socket.socket) -> None:
    heard = b""
    while not heard.endswith(b"PONG\r\n"):
        more = client.recv(4096)
        if not more or b"-ERR" in more:
            raise CannotMeasureError(f"a client with the right password was refused: {more[-80:]!r}")
        heard += more


@contextmanager
def _guesses(server: Server, wrong: int) -> Iterator[None]:
    """Another address says wrong passwords meanwhile."""
    command = [sys.executable, "-c", GUESSER, str(server.port), str(wrong)]
    guesser = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert guesser.stdout is not None
    try:
        guesser.stdout.readline()
        yield
        if guesser.poll() is not None:
            raise CannotMeasureError("the wrong logins ended before the right ones were in")
    finally:
        with contextlib.suppress(ProcessLookupError):
            guesser.kill()
        guesser.wait()
        guesser.stdout.close()
