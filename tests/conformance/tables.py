"""The tables of the contract, row by row, for every engine to be held to."""

from typing import NamedTuple


class Match(NamedTuple):
    pattern: str
    topic: str
    matches: bool

    @property
    def name(self) -> str:
        return f"{self.pattern or '(empty)'} {'matches' if self.matches else 'not'} {self.topic or '(empty)'}"


def _rows(pattern: str, matching: str, other: str) -> list[Match]:
    return [Match(pattern, t, True) for t in matching.split()] + [Match(pattern, t, False) for t in other.split()]


KILIMANJARO = "volcanoes.tanzania.kilimanjaro"

# T4, T5, T6 and the table under T9.
NATIVE = [
    *_rows(f"{KILIMANJARO}.*", f"{KILIMANJARO}.east {KILIMANJARO}.west", KILIMANJARO),
    *_rows("volcanoes.usa.>", "volcanoes.usa.atka volcanoes.usa.kahoolawe.north", "volcanoes.usa"),
    *_rows("volcanoes.usa.*", "volcanoes.usa.atka", "volcanoes.usa.kahoolawe.north"),
    *_rows("foo", "foo", "bar zoo FOO"),
    *_rows("foo.*", "foo.bar foo.ZOO", "foo foo.bar.zoo"),
    *_rows("foo.>", "foo.bar foo.bar.zoo", "foo"),
    *_rows("foo.*.*.bar", "foo.a.b.bar", "foo.bar.zoo"),
    *_rows("foo*.>", "foo.bar foo1.bar", "foo"),
    *_rows("*", "foo", "foo.bar"),
    *_rows(">", f"foo foo.bar a..b {KILIMANJARO}.east", ""),
    *_rows("a*z", "az abz aaz azz", "a z abzc ba.z"),
    *_rows("*bar", "bar foobar", "barn foo.bar"),
    *_rows("a*b*c", "abc aXbYc abbcc", "acb ab abcd"),
    *_rows("a.*.c", "a.b.c a..c", "a.c a.b.d"),
    *_rows("a..b", "a..b", "a.b a.x.b"),
    Match(">", "", True),
    Match("*", "", True),
    Match("", "", True),
    Match("", "a", False),
    Match("foo", "", False),
    Match("*.*", "", False),
]

# T7: bindings B1 to B5 of seed 004, and which of them a key reaches.
AMQP_BINDINGS = {"B1": "a.#", "B2": "a.b", "B3": "a.b.#", "B4": "a.c", "B5": "a.#.c"}
AMQP_KEYS = {
    "a": "B1",
    "a.b": "B1 B2 B3",
    "a.c": "B1 B4 B5",
    "a.b.c": "B1 B3 B5",
    "a.b.d": "B1 B3",
    "a.b.c.d": "B1 B3",
    "a.b.c.c": "B1 B3 B5",
}

# G4: the eight receivers of seed 002: (pattern, group).
RECEIVERS = {
    "R1": ("foo.>", ""),
    "R2": ("foo.>", "g1"),
    "R3": ("foo.>", "g1"),
    "R4": ("foo.*", "g2"),
    "R5": ("foo.*", "g2"),
    "R6": (">", "w1"),
    "R7": ("*", ""),
    "R8": ("foo.bar", ""),
}
# What each topic reaches; `R2|R3` is one of the two. The seed lists R8 for `foo.bar.zoo` too. That is the seed's
# mistake: R8 subscribes to exactly `foo.bar`, and a pattern without wildcards matches its own topic and no other
# (T4).
RECEIVED = {
    "foo": "R6 R7",
    "foo.bar": "R1 R2|R3 R4|R5 R6 R8",
    "foo.bar.zoo": "R1 R2|R3 R6",
}
