"""Requests of commands, whole and bit by bit."""

import json
import os
import socket
from collections.abc import Iterator

import pytest

from fumarole.pipeline.warm.incoming import MOST_BYTES, SIZE, Incoming

REQUEST = {"ask": "status", "more": "ä" * 100}
BODY = json.dumps(REQUEST).encode()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, Incoming]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    incoming = Incoming(theirs)
    with ours:
        yield ours, incoming
    incoming.close()


@pytest.mark.parametrize("size", [1, 3, 4, 5, 1000])
def test_it_is_there_when_its_last_byte_is(pair: tuple[socket.socket, Incoming], size: int) -> None:
    ours, incoming = pair
    whole = SIZE.pack(len(BODY)) + BODY
    for begin in range(0, len(whole), size):
        ours.sendall(whole[begin : begin + size])
        found = incoming.receive()
        assert found == (REQUEST if begin + size >= len(whole) else None)


def test_streams_come_along_and_are_closed(pair: tuple[socket.socket, Incoming]) -> None:
    ours, incoming = pair
    own = os.pipe()
    socket.send_fds(ours, [SIZE.pack(len(BODY))], list(own))
    for each in own:
        os.close(each)
    ours.sendall(BODY)
    found = incoming.receive()
    while found is None:
        found = incoming.receive()
    reading, writing = incoming.streams
    os.write(writing, b"through")
    assert os.read(reading, 7) == b"through"
    incoming.close()
    with pytest.raises(OSError, match="Bad file"):
        os.read(reading, 1)


@pytest.mark.parametrize(
    "junk", [SIZE.pack(0), SIZE.pack(MOST_BYTES + 1), SIZE.pack(2) + b"[]", SIZE.pack(2) + b"{}{", SIZE.pack(2) + b"{{"]
)
def test_what_is_no_request(pair: tuple[socket.socket, Incoming], junk: bytes) -> None:
    ours, incoming = pair
    ours.sendall(junk)
    with pytest.raises(ValueError):  # noqa: PT011  # of JSON too
        incoming.receive()


def test_one_that_hangs_up(pair: tuple[socket.socket, Incoming]) -> None:
    ours, incoming = pair
    ours.sendall(SIZE.pack(len(BODY)) + BODY[:-1])
    assert incoming.receive() is None
    ours.close()
    with pytest.raises(ValueError, match="too soon"):
        incoming.receive()
