"""Random frames, to our reader in both its forms and to the one of `websockets`: all hear the same, or refuse it with the same code.

Prints how many sequences there were, how many of them were refused, and how many bytes were heard.
"""

from __future__ import annotations

import random
import sys

from websockets.protocol import State  # type: ignore[import-not-found]
from websockets.server import ServerProtocol  # type: ignore[import-not-found]

from fumarole.fastpath.websocket import Frames as CompiledFrames
from fumarole.protocols.websocket import BINARY, CLOSE, CONTINUATION, PING, PONG, FrameFault, FrameReader, Frames

SEQUENCES, SEED = int(sys.argv[1]), int(sys.argv[2])
OPCODES = (*[BINARY] * 6, *[CONTINUATION] * 6, PING, PING, PONG, CLOSE, 0x3, 0xB)
SIZES = (0, 1, 2, 3, 7, 8, 63, 124, 125, 126, 127, 300, 65_535, 65_536, 70_000)
CLOSES = (
    b"",
    b"\x03",
    b"\x03\xe8",
    b"\x03\xe8bye",
    b"\x03\xed",
    b"\x03\xe8\xff",
    b"\x03\xf7",
    b"\x13\x88",
    b"\x0b\xb8x",
    b"\x00\x01",
    b"\x0f\xa0",
)
Heard = tuple[bytes, list[tuple[int, bytes]], int]
"""What the frames carry, the control frames that ask for an answer, and the code of the refusal or 0."""


def frames(chance: random.Random) -> list[bytes]:
    """Mostly right: fragments that begin and end, with control frames between them."""
    made, is_open = [], False
    for _ in range(chance.randint(1, 12)):
        opcode = chance.choice(OPCODES)
        if opcode == CLOSE and is_open:
            continue  # in the middle of a message: the protocol allows it, `websockets` calls it a fault
        if opcode in (BINARY, CONTINUATION) and chance.random() < 0.97:
            opcode = CONTINUATION if is_open else BINARY
        is_last = chance.random() < (0.99 if opcode >= CLOSE else 0.5)
        if opcode < CLOSE:
            is_open = not is_last
        content = chance.choice(CLOSES) if opcode == CLOSE else chance.randbytes(size_of(chance, opcode))
        made.append(frame(chance, opcode, content, is_last=is_last))
    return made


def size_of(chance: random.Random, opcode: int) -> int:
    return chance.choice(SIZES[:9]) if opcode >= CLOSE and chance.random() < 0.98 else chance.choice(SIZES)


def frame(chance: random.Random, opcode: int, content: bytes, *, is_last: bool) -> bytes:
    first = opcode | (0x80 if is_last else 0)
    if chance.random() < 0.01:
        first |= chance.choice((0x10, 0x20, 0x40))
    size, is_masked = len(content), chance.random() < 0.99
    mark = 0x80 if is_masked else 0
    if size < 126:
        head = bytes((first, mark | size))
    elif size < 1 << 16:
        head = bytes((first, mark | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, mark | 127)) + size.to_bytes(8, "big")
    if not is_masked:
        return head + content
    key = chance.randbytes(4)
    return head + key + bytes(byte ^ key[at & 3] for at, byte in enumerate(content))


def by_websockets(pieces: list[bytes]) -> Heard:
    protocol = ServerProtocol(state=State.OPEN, max_size=None)
    content, controls = b"", []
    for piece in pieces:
        protocol.receive_data(piece)
        for event in protocol.events_received():
            if event.opcode in (BINARY, CONTINUATION):
                content += event.data
            elif event.opcode != PONG:
                controls.append((int(event.opcode), bytes(event.data)))
        if protocol.parser_exc is not None:
            sent = protocol.close_sent
            return content, controls, 0 if sent is None else int(sent.code)
        if controls and controls[-1][0] == CLOSE:
            break
    return content, controls, 0


def by_ours(reader: FrameReader, pieces: list[bytes]) -> Heard:
    content = b""
    controls: list[tuple[int, bytes]] = []
    for piece in pieces:
        try:
            content += reader.take(piece)
        except FrameFault as fault:
            return content, controls, fault.code
        controls += reader.controls
        if controls and controls[-1][0] == CLOSE:
            break
    return content, controls, 0


def shown(heard: Heard) -> tuple[int, list[tuple[int, bytes]], int]:
    return len(heard[0]), heard[1], heard[2]


def main() -> None:
    chance = random.Random(SEED)
    refused = heard = 0
    for number in range(SEQUENCES):
        whole = frames(chance)
        wanted = by_websockets(whole)
        for form in (Frames, CompiledFrames):
            found = by_ours(form(), whole)
            assert found == wanted, (number, form, [each[:20] for each in whole], shown(found), shown(wanted))
        refused += wanted[2] != 0
        heard += len(wanted[0])
        if not wanted[2]:
            data = b"".join(whole)
            cuts = sorted(chance.sample(range(len(data)), min(len(data), 20)))
            pieces = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
            for form in (Frames, CompiledFrames):
                assert by_ours(form(), pieces) == wanted, (number, form)
    print(SEQUENCES, refused, heard)


main()
