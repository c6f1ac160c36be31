"""Keyed groups (F8): their throughput beside a plain group, and how evenly keys fall on members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from bench.effort import Effort
from bench.figures import Figure, against
from bench.generator import Load, run_load
from bench.servers import COMPILED, Server, fumarole, many_files, settle

CLAIM = "Keyed groups"
LOAD = Load(2_000_000, topics=1_000, consumers=4)
MEMBERS = 8
WANTED = 0.8
OFF = {1_000: 1.3, 100_000: 1.05}
"""By keys: the fullest member beside an even share, at most."""
AT_ONCE = 1_000


def measure(effort: Effort) -> Iterator[Figure]:
    many_files()
    with fumarole(COMPILED) as server:
        load = LOAD._replace(messages=effort.share(LOAD.messages))
        keyed = plain = 0.0
        for turn in range(effort.rounds):
            effort.tell(f"round {turn + 1}")
            plain = max(plain, run_load(server.port, load._replace(group="workers")).rate)
            keyed = max(keyed, run_load(server.port, load._replace(group="workers@topic")).rate)
        yield against("a plain group", CLAIM, "by topic, 4 members", keyed, plain, "/s", at_least=WANTED)
        for keys, most in OFF.items():
            effort.tell(f"{keys:,} keys")
            shares = _shares(server, keys)
            name = f"the fullest of {MEMBERS} members, {keys:,} keys"
            note = f"The emptiest has {min(shares):,} of {keys:,} keys."
            yield against("an even share", CLAIM, name, max(shares), keys / MEMBERS, "keys", at_most=most, note=note)


def _shares(server: Server, keys: int) -> list[int]:
    """How many topics each member gets, each topic published once."""
    with ExitStack() as connections:
        members = [connections.enter_context(server.connect()) for _ in range(MEMBERS)]
        for member in members:
            member.sendall(b"SUB k.> workers@topic 1\r\n")
            settle(member)
        publisher = connections.enter_context(server.connect())
        shares = [0] * MEMBERS
        for begin in range(0, keys, AT_ONCE):
            publisher.sendall(b"".join(b"PUB k.%d 1\r\nx\r\n" % key for key in range(begin, begin + AT_ONCE)))
            settle(publisher)
            for number, member in enumerate(members):
                member.sendall(b"PING\r\n")
                heard = b""
                while not heard.endswith(b"PONG\r\n"):
                    heard += member.recv(1 << 16)
                shares[number] += heard.count(b"MSG ")
        return shares
