"""Queries and what they say of some metadata (M9, M10), row by row, for every engine to be held to (M11).

Plain data: an engine needs to know nothing of ours but the text of a query and the values of the metadata. Queries with
tests of the message are in `messages`.
"""

from collections.abc import Mapping
from typing import NamedTuple

Values = Mapping[str, str | int | float | bool]


class Case(NamedTuple):
    about: str
    query: str
    metadata: Values
    holds: bool | None
    """None: unknown."""

    @property
    def name(self) -> str:
        truth = {True: "true", False: "false", None: "unknown"}[self.holds]
        return f"{self.about}: {self.query!r} of {dict(self.metadata)} is {truth}"


def _rows(
    about: str,
    query: str,
    true: tuple[Values, ...] = (),
    false: tuple[Values, ...] = (),
    unknown: tuple[Values, ...] = (),
) -> list[Case]:
    return [
        Case(about, query, metadata, truth)
        for truth, group in ((True, true), (False, false), (None, unknown))
        for metadata in group
    ]


NOTHING: Values = {}
BIG = 2**53

COMPARISONS = [
    *_rows("text", "a = 'x'", ({"a": "x"},), ({"a": "y"}, {"a": ""}, {"a": "X"}, {"a": "x "}), ({"b": "x"}, NOTHING)),
    *_rows("text", "a != 'x'", ({"a": "y"}, {"a": "X"}), ({"a": "x"},), ({"a": 1}, {"a": True}, NOTHING)),
    *_rows("text", "a <> 'x'", ({"a": "y"},), ({"a": "x"},), (NOTHING,)),
    *_rows("text", "a < 'b'", ({"a": "a"}, {"a": "B"}, {"a": ""}, {"a": "azz"}), ({"a": "b"}, {"a": "ba"})),
    *_rows("text", "a <= 'b'", ({"a": "b"}, {"a": "a"}), ({"a": "b "},), ({"a": 1},)),
    *_rows("text", "a > 'b'", ({"a": "ba"}, {"a": "c"}, {"a": "é"}), ({"a": "b"}, {"a": "B"}), ({"a": False},)),
    *_rows("text", "a >= 'b'", ({"a": "b"}, {"a": "ba"}), ({"a": "a"},), (NOTHING,)),
    *_rows("empty text", "a = ''", ({"a": ""},), ({"a": " "},), ({"a": 0}, {"a": False}, NOTHING)),
    *_rows("text of digits", "a < '9'", ({"a": "10"},), ({"a": "9"},), ({"a": 8},)),
    *_rows("number", "a = 5", ({"a": 5}, {"a": 5.0}), ({"a": 4}, {"a": 5.5}), ({"a": "5"}, {"a": True}, NOTHING)),
    *_rows("number", "a != 5", ({"a": 4}, {"a": 5.1}), ({"a": 5}, {"a": 5.0}), ({"a": "4"}, NOTHING)),
    *_rows("number", "a < 5", ({"a": 4}, {"a": 4.999}, {"a": -6}), ({"a": 5}, {"a": 5.0}), ({"a": "4"}, {"a": False})),
    *_rows("number", "a <= 5", ({"a": 5}, {"a": 5.0}), ({"a": 5.001},), ({"a": "5"},)),
    *_rows("number", "a > 5", ({"a": 6}, {"a": 5.5}), ({"a": 5}, {"a": -5}), ({"a": "6"}, {"a": True})),
    *_rows("number", "a >= 5", ({"a": 5}, {"a": 5.0}, {"a": 7}), ({"a": 4},), (NOTHING,)),
    *_rows("decimal", "a = 0.1", ({"a": 0.1},), ({"a": 0.1 + 0.2 - 0.2}, {"a": 0}), ({"a": "0.1"},)),
    *_rows("decimal", "a >= -2.5", ({"a": -2.5}, {"a": 0}), ({"a": -2.6}, {"a": -3})),
    *_rows("decimal, written as whole", "a = 5.0", ({"a": 5}, {"a": 5.0}), ({"a": 5.5},)),
    *_rows("exponent", "a = 1e3", ({"a": 1000}, {"a": 1000.0}), ({"a": 1},)),
    *_rows("exponent", "a < 1.5E-3", ({"a": 0.001},), ({"a": 0.002},)),
    *_rows("exponent", "a > -2e+2", ({"a": -199},), ({"a": -200},)),
    *_rows("sign", "a = +7", ({"a": 7},), ({"a": -7},)),
    *_rows("sign", "a = -7", ({"a": -7},), ({"a": 7},)),
    *_rows("leading zeros", "a = 007", ({"a": 7},), ({"a": 0},)),
    *_rows("zero", "a = 0", ({"a": 0}, {"a": 0.0}, {"a": -0.0}), ({"a": 1},), ({"a": False}, {"a": ""})),
    *_rows("zero", "a = -0.0", ({"a": 0}, {"a": 0.0}), (), ({"a": False},)),
    *_rows("beyond doubles", f"a = {BIG + 1}", ({"a": BIG + 1},), ({"a": BIG}, {"a": float(BIG)})),
    *_rows("beyond doubles", f"a > {BIG}", ({"a": BIG + 1},), ({"a": float(BIG)}, {"a": BIG})),
    *_rows("beyond doubles", f"a < {BIG + 1}", ({"a": float(BIG)},), ({"a": BIG + 1}, {"a": float(BIG + 2)})),
    *_rows("64 bits", f"a = {2**63 - 1}", ({"a": 2**63 - 1},), ({"a": 2**63 - 2}, {"a": float(2**63)})),
    *_rows("64 bits", f"a = {-(2**63)}", ({"a": -(2**63)}, {"a": -float(2**63)}), ({"a": -(2**63) + 1},)),
    *_rows("64 bits without sign", f"a = {2**64 - 1}", ({"a": 2**64 - 1},), ({"a": 2**63}, {"a": float(2**64)})),
    *_rows("beyond 64 bits", "a < 1e20", ({"a": 2**64 - 1}, {"a": float(2**64)}), ({"a": 1e20},), ({"a": "1"},)),
    *_rows("beyond 64 bits", "a >= 1e20", ({"a": 1e20}, {"a": 1e300}), ({"a": 2**64 - 1}, {"a": -1e20}), (NOTHING,)),
    *_rows("beyond 64 bits", "a > -1e20", ({"a": -(2**63)}, {"a": 0.5}), ({"a": -1e20}, {"a": -1e300})),
    *_rows("beyond 64 bits", "a = 18446744073709551616.0", ({"a": float(2**64)},), ({"a": 2**64 - 1},)),
    *_rows("beyond 64 bits", "a NOT IN (1e20, 1)", ({"a": 1e21}, {"a": 2**64 - 1}), ({"a": 1e20}, {"a": 1})),
    *_rows("smallest double", "a > 0", ({"a": 5e-324},), ({"a": 0.0},)),
    *_rows("largest double", "a = 1.7976931348623157e308", ({"a": 1.7976931348623157e308},), ({"a": 1e308},)),
    *_rows("truth", "a = true", ({"a": True},), ({"a": False},), ({"a": 1}, {"a": "true"}, NOTHING)),
    *_rows("truth", "a = FALSE", ({"a": False},), ({"a": True},), ({"a": 0}, {"a": ""}, NOTHING)),
    *_rows("truth", "a != True", ({"a": False},), ({"a": True},), ({"a": 0}, {"a": "x"})),
    *_rows("false comes before true", "a < true", ({"a": False},), ({"a": True},), ({"a": 0},)),
    *_rows("false comes before true", "a >= true", ({"a": True},), ({"a": False},), ({"a": 2},)),
]

LISTS_AND_RANGES = [
    *_rows("IN", "a IN ('x', 'y')", ({"a": "x"}, {"a": "y"}), ({"a": "z"}, {"a": "x, y"}), ({"a": 1}, NOTHING)),
    *_rows(
        "IN", "a in (1, 2.5, 3)", ({"a": 1}, {"a": 1.0}, {"a": 2.5}), ({"a": 2}, {"a": 0}), ({"a": "1"}, {"a": True})
    ),
    *_rows("IN of one", "a IN (7)", ({"a": 7},), ({"a": 8},), ({"a": "7"},)),
    *_rows("IN with repetition", "a IN (7, 7.0, 8)", ({"a": 7}, {"a": 8}), ({"a": 9},)),
    *_rows("IN of truth values", "a IN (true, false)", ({"a": True}, {"a": False}), (), ({"a": 1}, NOTHING)),
    *_rows(
        "IN of two kinds", "a IN (1, 'x')", ({"a": 1}, {"a": "x"}), (), ({"a": 2}, {"a": "y"}, {"a": True}, NOTHING)
    ),
    *_rows("NOT IN", "a NOT IN ('x', 'y')", ({"a": "z"},), ({"a": "x"}, {"a": "y"}), ({"a": 1}, NOTHING)),
    *_rows("NOT IN", "NOT a IN (1, 2)", ({"a": 3},), ({"a": 1}, {"a": 2.0}), ({"a": "3"}, {"a": False}, NOTHING)),
    *_rows("NOT IN of two kinds", "a NOT IN (1, 'x')", (), ({"a": 1}, {"a": "x"}), ({"a": 2}, {"a": "y"})),
    *_rows(
        "BETWEEN",
        "a BETWEEN 1 AND 5",
        ({"a": 1}, {"a": 5}, {"a": 2.5}),
        ({"a": 0.999}, {"a": 6}),
        ({"a": "3"}, NOTHING),
    ),
    *_rows(
        "BETWEEN",
        "a between 'b' and 'd'",
        ({"a": "b"}, {"a": "czz"}, {"a": "d"}),
        ({"a": "a"}, {"a": "da"}),
        ({"a": 3},),
    ),
    *_rows("BETWEEN, ends exchanged", "a BETWEEN 5 AND 1", (), ({"a": 3}, {"a": 1}, {"a": 5}), ({"a": "3"},)),
    *_rows("BETWEEN, ends equal", "a BETWEEN 5 AND 5.0", ({"a": 5},), ({"a": 4}, {"a": 6})),
    *_rows("BETWEEN truth values", "a BETWEEN false AND true", ({"a": False}, {"a": True}), (), ({"a": 0},)),
    *_rows("BETWEEN two kinds", "a BETWEEN 1 AND 'x'", (), ({"a": 0}, {"a": "y"}), ({"a": 1}, {"a": "x"}, {"a": True})),
    *_rows(
        "NOT BETWEEN", "a NOT BETWEEN 1 AND 5", ({"a": 0}, {"a": 5.01}), ({"a": 1}, {"a": 5}), ({"a": "9"}, NOTHING)
    ),
    *_rows("NOT BETWEEN two kinds", "a NOT BETWEEN 1 AND 'x'", ({"a": 0}, {"a": "y"}), (), ({"a": 1}, {"a": "x"})),
    *_rows(
        "AND of BETWEEN", "a BETWEEN 1 AND 5 AND b = 2", ({"a": 3, "b": 2},), ({"a": 3, "b": 1}, {"a": 9}), ({"a": 3},)
    ),
]

PATTERNS = [
    *_rows("LIKE start", "a LIKE '4%'", ({"a": "4"}, {"a": "410"}), ({"a": "14"}, {"a": ""}), ({"a": 410}, NOTHING)),
    *_rows("LIKE end", "a LIKE '%C'", ({"a": "C"}, {"a": "°C"}), ({"a": "Ca"}, {"a": "c"}), ({"a": True},)),
    *_rows("LIKE inside", "a LIKE '%ab%'", ({"a": "ab"}, {"a": "xaby"}, {"a": "aab"}), ({"a": "a-b"}, {"a": "ba"})),
    *_rows("LIKE both ends", "a LIKE 'ab%ba'", ({"a": "abba"}, {"a": "ab ba"}), ({"a": "aba"}, {"a": "ab"})),
    *_rows("LIKE one character", "a LIKE '4_0'", ({"a": "410"}, {"a": "4%0"}), ({"a": "40"}, {"a": "4110"})),
    *_rows(
        "LIKE one character, Unicode",
        "a LIKE '_'",
        ({"a": "火"}, {"a": "🌋"}),
        ({"a": ""}, {"a": "ab"}, {"a": "e\u0301"}),
    ),
    *_rows("LIKE line ends", "a LIKE 'a_b%'", ({"a": "a\nb\r\nc"},), ({"a": "ab"},)),
    *_rows("LIKE anything", "a LIKE '%'", ({"a": ""}, {"a": "x\ny"}), (), ({"a": 5}, NOTHING)),
    *_rows("LIKE something", "a LIKE '_%'", ({"a": "x"}, {"a": "xy"}), ({"a": ""},)),
    *_rows("LIKE something, the other way", "a LIKE '%_%'", ({"a": "x"}, {"a": "xy"}), ({"a": ""},)),
    *_rows("LIKE nothing", "a LIKE ''", ({"a": ""},), ({"a": "x"},), ({"a": 0},)),
    *_rows(
        "LIKE without wildcards", "a LIKE 'abc'", ({"a": "abc"},), ({"a": "ABC"}, {"a": "abcd"}), ({"a": 1}, NOTHING)
    ),
    *_rows(
        "LIKE with regex characters", "a LIKE '.*[x]%'", ({"a": ".*[x]"}, {"a": ".*[x]y"}), ({"a": "x"}, {"a": "abx"})
    ),
    *_rows("LIKE has no escape", r"a LIKE '5\%'", ({"a": "5\\"}, {"a": "5\\x"}), ({"a": "5%"},)),
    *_rows("LIKE in order", "a LIKE '%a%b_%c'", ({"a": "abxc"}, {"a": "xaxbbcc"}), ({"a": "bac"}, {"a": "abc"})),
    *_rows("LIKE, ends do not overlap", "a LIKE 'a_%_a'", ({"a": "abba"},), ({"a": "aba"}, {"a": "a"})),
    *_rows("LIKE, parts do not overlap", "a LIKE '%ab%ab_%'", ({"a": "ababx"},), ({"a": "abx"}, {"a": "abab"})),
    *_rows("LIKE repeated", "a LIKE '%aab%'", ({"a": "aaaab"},), ({"a": "aaaa"},)),
    *_rows("NOT LIKE", "a NOT LIKE '4%'", ({"a": "510"}, {"a": ""}), ({"a": "410"},), ({"a": 510}, NOTHING)),
    *_rows("NOT LIKE without wildcards", "a NOT LIKE 'x'", ({"a": "y"},), ({"a": "x"},), ({"a": 1},)),
    *_rows(
        "MATCHES anywhere",
        "a MATCHES '4[0-9]'",
        ({"a": "41"}, {"a": "x410"}),
        ({"a": "4"}, {"a": ""}),
        ({"a": 41}, NOTHING),
    ),
    *_rows("MATCHES whole", "a MATCHES '^4[0-9]+$'", ({"a": "410"},), ({"a": "410a"}, {"a": "x410"}, {"a": "410\n"})),
    *_rows("MATCHES either", "a MATCHES '^(north|south)-'", ({"a": "south-1"},), ({"a": "southern"},)),
    *_rows("MATCHES the empty expression", "a MATCHES ''", ({"a": ""}, {"a": "x"}), (), ({"a": 1},)),
    *_rows("MATCHES case", "a MATCHES '^x'", ({"a": "xy"},), ({"a": "Xy"},)),
    *_rows("MATCHES any case", "a MATCHES '(?i)^x'", ({"a": "Xy"}, {"a": "xy"}), ({"a": "yx"},)),
    *_rows("MATCHES Unicode", "a MATCHES '^.[äö]$'", ({"a": "火ä"}, {"a": "🌋ö"}), ({"a": "ä"}, {"a": "xa"})),
    *_rows("MATCHES digits", r"a MATCHES '^\d{3}$'", ({"a": "410"},), ({"a": "41"}, {"a": "٤١٠"})),
    *_rows("MATCHES, catastrophic elsewhere", "a MATCHES '(x+)+$'", ({"a": "x" * 50},), ({"a": "x" * 50 + "!"},)),
    *_rows("NOT MATCHES", "a NOT MATCHES '^4'", ({"a": "510"}, {"a": ""}), ({"a": "410"},), ({"a": 510}, NOTHING)),
]

PRESENCE = [
    *_rows("HAS", "HAS a", ({"a": "x"}, {"a": ""}, {"a": 0}, {"a": False}), (NOTHING, {"b": 1})),
    *_rows("NOT HAS", "NOT HAS a", (NOTHING, {"b": 1}), ({"a": 0},)),
    *_rows("IS NULL", "a IS NULL", (NOTHING, {"b": 1}), ({"a": ""}, {"a": 0}, {"a": False})),
    *_rows("IS NOT NULL", "a IS NOT NULL", ({"a": 0}, {"a": ""}), (NOTHING,)),
    *_rows("NOT IS NULL", "NOT a IS NULL", ({"a": False},), (NOTHING,)),
    *_rows("missing or other", "a IS NULL OR a != 'x'", (NOTHING, {"a": "y"}), ({"a": "x"},), ({"a": 1},)),
    *_rows("a key alone", "a", ({"a": True},), ({"a": False},), ({"a": 1}, {"a": "true"}, NOTHING)),
    *_rows("a key alone, denied", "NOT a", ({"a": False},), ({"a": True},), ({"a": 0}, NOTHING)),
    *_rows(
        "keys alone",
        "not a and (b or `c d`)",
        ({"a": False, "b": True}, {"a": False, "c d": True}),
        ({"a": True},),
        (NOTHING,),
    ),
    *_rows(
        "a key alone before BETWEEN",
        "a AND b BETWEEN 1 AND 2 AND c",
        ({"a": True, "b": 1, "c": True},),
        ({"a": True, "b": 3, "c": True},),
    ),
    *_rows("has of another kind", "HAS a AND a = 1", ({"a": 1},), (NOTHING, {"a": 2}), ({"a": "1"},)),
]

# Three-valued logic: each of a and b is true, false or unknown.
TRUTH_VALUES: dict[bool | None, str] = {True: "x", False: "y"}


def _truths(**truths: bool | None) -> Values:
    return {key: TRUTH_VALUES[truth] for key, truth in truths.items() if truth is not None}


AND_TABLE = {
    (True, True): True, (True, None): None, (True, False): False,
    (None, True): None, (None, None): None, (None, False): False,
    (False, True): False, (False, None): False, (False, False): False,
}  # fmt: skip
OR_TABLE = {
    (True, True): True, (True, None): True, (True, False): True,
    (None, True): True, (None, None): None, (None, False): None,
    (False, True): True, (False, None): None, (False, False): False,
}  # fmt: skip
NOT_TABLE: dict[bool | None, bool | None] = {True: False, None: None, False: True}

LOGIC = [
    *[Case("AND", "a = 'x' AND b = 'x'", _truths(a=a, b=b), truth) for (a, b), truth in AND_TABLE.items()],
    *[Case("OR", "a = 'x' OR b = 'x'", _truths(a=a, b=b), truth) for (a, b), truth in OR_TABLE.items()],
    *[Case("NOT", "NOT a = 'x'", _truths(a=a), truth) for a, truth in NOT_TABLE.items()],
    *[Case("NOT NOT", "NOT NOT a = 'x'", _truths(a=a), a) for a in NOT_TABLE],
    *[
        Case("NOT AND", "NOT (a = 'x' AND b = 'x')", _truths(a=a, b=b), NOT_TABLE[truth])
        for (a, b), truth in AND_TABLE.items()
    ],
    *[
        Case("NOT OR", "NOT (a = 'x' OR b = 'x')", _truths(a=a, b=b), NOT_TABLE[truth])
        for (a, b), truth in OR_TABLE.items()
    ],
    *_rows("no excluded middle", "a = 'x' OR NOT a = 'x'", ({"a": "x"}, {"a": "y"}), (), ({"a": 1}, NOTHING)),
    *_rows("contradiction", "a = 'x' AND NOT a = 'x'", (), ({"a": "x"}, {"a": "y"}), ({"a": 1}, NOTHING)),
    *_rows("NOT really negates", "NOT Room = '410'", ({"Room": "411"},), ({"Room": "410"},), (NOTHING,)),
    *_rows("AND before OR", "a = 1 OR b = 1 AND c = 1", ({"a": 1, "b": 0, "c": 0},), ({"a": 0, "b": 1, "c": 0},)),
    *_rows("AND before OR", "a = 1 AND b = 1 OR c = 1", ({"a": 0, "b": 0, "c": 1},), ({"a": 1, "b": 0, "c": 0},)),
    *_rows("parentheses", "(a = 1 OR b = 1) AND c = 1", ({"a": 1, "b": 0, "c": 1},), ({"a": 1, "b": 0, "c": 0},)),
    *_rows("NOT before AND", "NOT a = 1 AND b = 1", ({"a": 0, "b": 1},), ({"a": 0, "b": 0}, {"a": 1, "b": 0})),
    *_rows("NOT before OR", "NOT a = 1 OR b = 1", ({"a": 1, "b": 1}, {"a": 0, "b": 0}), ({"a": 1, "b": 0},)),
    *_rows("NOT of parentheses", "NOT (a = 1 OR b = 1)", ({"a": 0, "b": 0},), ({"a": 1}, {"b": 1}), ({"a": 0},)),
    *_rows("nested", "((a = 1))", ({"a": 1},), ({"a": 2},), (NOTHING,)),
    *_rows("many terms", "a=1 OR a=2 OR a=3 OR b=1", ({"a": 3}, {"a": 9, "b": 1}), ({"a": 4, "b": 2},), ({"a": 4},)),
    *_rows("different from both", "a != 1 AND a != 2", ({"a": 3},), ({"a": 1}, {"a": 2}), ({"a": "3"}, NOTHING)),
    *_rows("different from both kinds", "a != 1 AND a != 'x'", (), ({"a": 1}, {"a": "x"}), ({"a": 2}, {"a": "y"})),
]

SPELLING = [
    *_rows("keywords in any case", "a = 1 aNd nOt b iN (2) oR hAs c", ({"a": 1, "b": 3}, {"c": 1}), ({"a": 2},)),
    *_rows("keywords in any case", "a Is NoT nUlL", ({"a": 1},), (NOTHING,)),
    *_rows("keys have one case", "Room = 1", ({"Room": 1},), (), ({"room": 1}, {"ROOM": 1})),
    *_rows("white space", "\t a\n=\r\n 1  \n AND\tb=2 ", ({"a": 1, "b": 2},), ({"a": 1, "b": 3},)),
    *_rows("no white space", "(a=1)OR(b='2')AND NOT(c>=3)", ({"a": 1}, {"b": "2", "c": 2})),
    *_rows("double quotes", 'a = "x"', ({"a": "x"},), ({"a": '"x"'},)),
    *_rows("quote in quotes", "a = 'it''s'", ({"a": "it's"},), ({"a": "it''s"},)),
    *_rows("quote in double quotes", 'a = "it\'s ""so"""', ({"a": 'it\'s "so"'},), ({"a": "it's so"},)),
    *_rows("only quotes", "a = ''''", ({"a": "'"},), ({"a": "''"}, {"a": ""})),
    *_rows("backslash is a character", r"a = '\n'", ({"a": "\\n"},), ({"a": "\n"},)),
    *_rows("text over lines", "a = 'x\ny'", ({"a": "x\ny"},), ({"a": "x y"},)),
    *_rows("keywords in text", "a = 'x AND (y'", ({"a": "x AND (y"},), ({"a": "x"},)),
    *_rows("Unicode text", "a = '火山 Ätna 🌋'", ({"a": "火山 Ätna 🌋"},), ({"a": "火山 Ätna"},)),
    *_rows("Unicode is not normalised", "a = '\u00e9'", ({"a": "\u00e9"},), ({"a": "e\u0301"},)),
    *_rows("Unicode order is by code points", "a < '\uffff'", ({"a": "\ue000"},), ({"a": "🌋"},)),
    *_rows("NUL", "a = 'x\0y'", ({"a": "x\0y"},), ({"a": "x"},)),
    *_rows("Unicode key", "Gerät = 1 AND 温度 > 3", ({"Gerät": 1, "温度": 4},), ({"Gerät": 1, "温度": 3},)),
    *_rows("signs in keys", "a_b~c$d/e%f.g-h = 1", ({"a_b~c$d/e%f.g-h": 1},), (), ({"a_b": 1},)),
    *_rows("first signs of keys", "_a=1 AND ~b=1 AND /d=1 AND %e=1 AND .f=1",
           ({"_a": 1, "~b": 1, "/d": 1, "%e": 1, ".f": 1},)),
    *_rows("a key that begins with a dollar sign", "`$value` = 1 AND `$.a` = 1", ({"$value": 1, "$.a": 1},), (), ({"$value": 1},)),
    *_rows("minus in a key", "a-1 = 2", ({"a-1": 2},), (), ({"a": 3},)),
    *_rows("minus before a number", "a=-1", ({"a": -1},), ({"a": 1},)),
    *_rows("less than minus", "a<-1", ({"a": -2},), ({"a": -1},)),
    *_rows("a path as key", "Place/Building = 'Soda'", ({"Place/Building": "Soda"},), ({"Place/Building": "x"},)),
    *_rows("back-quotes", "`Room No.` = 1 AND `1st` = 2", ({"Room No.": 1, "1st": 2},), ({"Room No.": 1, "1st": 3},)),
    *_rows("back-quotes of a plain key", "`a` = 1", ({"a": 1},), ({"a": 2},), ({"`a`": 1},)),
    *_rows("back-quote in back-quotes", "`a``b` = 1", ({"a`b": 1},), (), ({"a``b": 1},)),
    *_rows("the empty key", "`` = 1", ({"": 1},), (), ({"a": 1},)),
    *_rows("keyword as key", "`and` = 1 OR `NULL` = 2", ({"and": 1}, {"NULL": 2}), (), ({"AND": 1},)),
    *_rows("HAS with back-quotes", "HAS `not`", ({"not": 0},), ({"NOT": 0},)),
]  # fmt: skip

KEYS_LIKE_KEYWORDS = [
    case
    for key in (
        "order", "android", "nothing", "island", "india", "likely", "matchesX", "hash", "nullable", "trueish",
        "falsehood", "betweenness", "is_on", "not-a", "AND.x", "or/x", "in$",
    )
    for case in _rows("key like a keyword", f"{key}=1 AND NOT {key} IN (2)", ({key: 1},), ({key: 2},), (NOTHING,))
]  # fmt: skip

CASES = [*COMPARISONS, *LISTS_AND_RANGES, *PATTERNS, *PRESENCE, *LOGIC, *SPELLING, *KEYS_LIKE_KEYWORDS]


class Refusal(NamedTuple):
    name: str
    query: str
    position: int
    found: str
    expected: str
    """A part of what is expected."""


TEST = "a test (a key, HAS, NOT or a parenthesis)"
VALUE = "a value (text in quotes, a number, true or false)"
NUMBER = "a number such as"
MORE = "AND, OR or the end"
NAMES = "$value, $topic, $producer, $size or $.path.to.field"
PATH = "a dot and a key of the payload"

REFUSALS = [
    Refusal("nothing", "", 0, "the end", TEST),
    Refusal("white space", " \n ", 3, "the end", TEST),
    Refusal(
        "two keys",
        "a b",
        2,
        "`b`",
        "a comparison (= != <> < <= > >=), IN, BETWEEN, LIKE, MATCHES, IS, NOT, AND, OR or the end",
    ),
    Refusal("a value alone", "5", 0, "`5`", TEST),
    Refusal("a truth value alone", "true", 0, "`true`", TEST),
    Refusal("no value", "a =", 3, "the end", VALUE),
    Refusal("text without quotes", "Room = Soda", 7, "`Soda`", VALUE),
    Refusal("a value first", "5 = a", 0, "`5`", TEST),
    Refusal("null as a value", "a = NULL", 4, "`NULL`", VALUE),
    Refusal("two equal signs", "a == 1", 3, "`=`", VALUE),
    Refusal("an unknown sign", "a # 1", 2, "`#`", "a comparison"),
    Refusal("an exclamation mark", "a ! 1", 2, "`!`", "a comparison"),
    Refusal("a semicolon", "a = 1; b", 5, "`;`", "back-quotes"),
    Refusal("a NUL", "a = 1 \0", 6, "`\N{REPLACEMENT CHARACTER}`", "back-quotes"),
    Refusal("text without its end", "a = 'x", 4, "a text without its end", "the same quote once more"),
    Refusal("text with its end doubled", "a = 'x''", 4, "a text without its end", "the same quote once more"),
    Refusal("text in double quotes without its end", "a = \"x'", 4, "a text without its end", "the same quote"),
    Refusal("a key without its end", "`a = 1", 0, "a key in back-quotes without its end", "the same quote once more"),
    Refusal("two tests", "a = 1 b = 2", 6, "`b`", MORE),
    Refusal("two values", "a = 1 2", 6, "`2`", MORE),
    Refusal("AND at the end", "a = 1 AND", 9, "the end", TEST),
    Refusal("AND at the start", "AND a = 1", 0, "`AND`", TEST),
    Refusal("AND twice", "a = 1 AND AND b = 2", 10, "`AND`", TEST),
    Refusal("NOT alone", "NOT", 3, "the end", TEST),
    Refusal("NOT after a key", "a NOT = 1", 6, "`=`", "IN, BETWEEN, LIKE or MATCHES"),
    Refusal("a keyword as a key", "like = 1", 0, "`like`", TEST),
    Refusal("open parenthesis", "(a = 1", 6, "the end", "AND, OR or a closing parenthesis"),
    Refusal("closed parenthesis", "a = 1)", 5, "`)`", MORE),
    Refusal("empty parentheses", "()", 1, "`)`", TEST),
    Refusal("empty list", "a IN ()", 6, "`)`", VALUE),
    Refusal("list without parentheses", "a IN 1, 2", 5, "`1`", "an opening parenthesis"),
    Refusal("list that goes on", "a IN (1,", 8, "the end", VALUE),
    Refusal("list without a comma", "a IN (1 2)", 8, "`2`", "a closing parenthesis or a comma"),
    Refusal("list of keys", "a IN (b)", 6, "`b`", VALUE),
    Refusal("BETWEEN without AND", "a BETWEEN 1", 11, "the end", "AND"),
    Refusal("BETWEEN with OR", "a BETWEEN 1 OR 2", 12, "`OR`", "AND"),
    Refusal("LIKE a number", "a LIKE 5", 7, "`5`", "text in quotes"),
    Refusal("LIKE with ESCAPE", "a LIKE 'x' ESCAPE 'y'", 11, "`ESCAPE`", MORE),
    Refusal("MATCHES a key", "a MATCHES b", 10, "`b`", "text in quotes"),
    Refusal("HAS text", "HAS 'a'", 4, "`'a'`", "a key"),
    Refusal("IS a value", "a IS 5", 5, "`5`", "NOT or NULL"),
    Refusal("IS NOT a value", "a IS NOT 5", 9, "`5`", "NULL"),
    Refusal("a number that goes on", "a = 12abc", 4, "`12abc`", NUMBER),
    Refusal("a number with two points", "a = 1.2.3", 4, "`1.2.3`", NUMBER),
    Refusal("a number that ends with a point", "a = 5.", 4, "`5.`", NUMBER),
    Refusal("a number with an underscore", "a = 1_0", 4, "`1_0`", NUMBER),
    Refusal("a number in hexadecimal", "a = 0x10", 4, "`0x10`", NUMBER),
    Refusal("an exponent without digits", "a = 1e", 4, "`1e`", NUMBER),
    Refusal("two signs", "a = --5", 4, "`--5`", "a value"),
    Refusal("a sign apart from its number", "a = - 5", 4, "`-`", "a value"),
    Refusal("digits of another script", "a = ٣", 4, "`٣`", "a value"),
    Refusal("a decimal that starts with its point", "a > .5", 4, "`.5`", VALUE),
    Refusal("not a number", "a = NaN", 4, "`NaN`", VALUE),
    Refusal("infinity", "a = -inf", 4, "`-inf`", "a value"),
    Refusal("a decimal too large", "a = 1e999", 4, "`1e999`", "a number that a double can hold"),
    Refusal("an integer too large", f"a = {2**64}", 4, f"`{2**64}`", f"a whole number from {-(2**63)} to {2**64 - 1}"),
    Refusal("an integer too low", f"a = {-(2**63) - 1}", 4, f"`{-(2**63) - 1}`", "a whole number from"),
    Refusal("an integer of 5,000 digits", "a = " + "9" * 5000, 4, f"`{'9' * 31}…`", "a whole number from"),
    Refusal("a regular expression without its end", "a MATCHES '(x'", 10, "`missing ): (x`", "RE2"),
    Refusal("a back-reference", r"a = 1 OR a MATCHES '(x)\1'", 19, r"`invalid escape sequence: \1`", "RE2"),
    Refusal("look-ahead", "a NOT MATCHES 'x(?=y)'", 14, "`invalid perl operator: (?=`", "RE2"),
    Refusal("a regular expression too large", r"a MATCHES '(\pL{50}){20}'", 10, "`pattern too large", "RE2"),
    Refusal("an automaton too large", "a MATCHES '(x?){600}x{600}y'", 10, "`an automaton of ", "RE2"),
    Refusal("repetition of repetition", "a MATCHES '((x{100}){100}){100}'", 10, "`invalid repetition size", "RE2"),
    Refusal("half a surrogate pair", "a = '\ud800'", 5, "half a surrogate pair", "a character"),
    Refusal("a dotless i", "a ıN (1)", 2, "`ıN`", "IN, BETWEEN"),
    Refusal("a key that starts with a digit", "1st = 2", 0, "`1st`", NUMBER),
    Refusal("a key that starts with a minus", "-a = 2", 0, "`-a`", "back-quotes"),
    Refusal("a key with marks", "e\u0301 = 1", 1, "`\u0301`", "back-quotes"),
    Refusal("an unknown name of the message", "a = 1 AND $valu > 5", 10, "`$valu`", NAMES),
    Refusal("a name of the message in capitals", "$Value > 5", 0, "`$Value`", NAMES),
    Refusal("a dollar sign alone", "$ = 1", 0, "`$`", "a metadata key that begins with $ goes in back-quotes"),
    Refusal("a path without a dot", "$value.x = 1", 0, "`$value.x`", NAMES),
    Refusal("a path without keys", "$. = 1", 2, "the end of the path", PATH),
    Refusal("a path that ends with a dot", "$.a. = 1", 4, "the end of the path", PATH),
    Refusal("a path with two dots", "$.a..b = 1", 4, "`.b`", PATH),
    Refusal("a path without a dot between keys", "$.a`b` = 1", 3, "``b``", PATH),
    Refusal(
        "a path without the end of a key", "$.a.`b = 1", 4, "a key in back-quotes without its end", "the same quote"
    ),
    Refusal("a path of 65 keys", "$" + ".a" * 65 + " = 1", 130, "key number 65", "at most 64"),
    Refusal("a name of the message as a value", "a = $value", 4, "`$value`", VALUE),
    Refusal("a number before a name of the message", "5$value = 1", 0, "`5$value`", NUMBER),
]
