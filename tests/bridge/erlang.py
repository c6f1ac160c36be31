"""Erlang itself, for tests: a function of one binary, written in Erlang, put to many."""

from __future__ import annotations

import glob
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

RABBIT_COMMON = "/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/rabbit_common-*/ebin"
"""RabbitMQ's own code for properties and tables."""
_PROGRAM = """
F = %s,
{ok, In} = file:read_file("in"),
Out = [begin R = iolist_to_binary(F(B)), <<(byte_size(R)):32, R/binary>> end || <<N:32, B:N/binary>> <= In],
ok = file:write_file("out", Out),
halt(0).
"""


def erlang(function: str, inputs: Iterable[bytes]) -> list[bytes]:
    """What `function`, the text of a fun that makes iodata of a binary, makes of each."""
    paths = glob.glob(RABBIT_COMMON)  # noqa: PTH207 - the pattern is absolute
    assert paths, "RabbitMQ is missing; `make setup-test` installs it (Debian package rabbitmq-server)"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.joinpath("in").write_bytes(b"".join(len(each).to_bytes(4, "big") + each for each in inputs))
        command = ["erl", "-noshell", "-pa", paths[0], "-eval", _PROGRAM % function]
        environment = {"PATH": os.environ["PATH"], "HOME": folder}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()[-2000:]
        out = place.joinpath("out").read_bytes()
    found = []
    while out:
        size = int.from_bytes(out[:4], "big")
        found.append(out[4 : 4 + size])
        out = out[4 + size :]
    return found
