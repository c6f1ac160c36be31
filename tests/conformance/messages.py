"""Queries with tests of the message, and what they say of some (F6), row by row, for every engine to be held to (M11).

Plain data, as in `queries`: of a message its topic, its payload and whose it is.
"""

import json
from typing import NamedTuple
from zlib import crc32

from tests.conformance.queries import BIG, NOTHING, Values


class Sent(NamedTuple):
    """A message. Of a reading from the MsgPack door the payload is the value as text (M8)."""

    payload: bytes = b""
    topic: str = "volcanoes.etna"
    producer: str | None = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"


class MessageCase(NamedTuple):
    about: str
    query: str
    metadata: Values
    message: Sent
    holds: bool | None
    is_in_set: bool = True
    """Is its producer in the set of the query?"""

    @property
    def name(self) -> str:
        truth = {True: "true", False: "false", None: "unknown"}[self.holds]
        of = f"{dict(self.metadata)}, {shortened(self.message.topic)}, {shortened(self.message.payload)}, "
        return f"{self.about}: {self.query!r} of {of}{self.message.producer and self.message.producer[:4]} is {truth}"


def shortened(text: str | bytes) -> str:
    shown = repr(text)
    return shown if len(shown) < 40 else f"{shown[:20]}…{crc32(shown.encode()) % 10_000}…{len(text)}"


def _payloads(
    about: str,
    query: str,
    true: tuple[bytes | str, ...] = (),
    false: tuple[bytes | str, ...] = (),
    unknown: tuple[bytes | str, ...] = (),
) -> list[MessageCase]:
    return [
        MessageCase(about, query, NOTHING, Sent(payload.encode() if isinstance(payload, str) else payload), truth)
        for truth, group in ((True, true), (False, false), (None, unknown))
        for payload in group
    ]


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _nested(depth: int) -> str:
    """An object with `a` and, so deep in all, arrays."""
    return '{"a": 1, "b": ' + "[" * (depth - 1) + "]" * (depth - 1) + "}"


LONG = 32 * 1024
"""The longest payload of which fields are asked."""
KIBIBYTES = '{"a": 1, "b": "%s"}'
LONGEST_DIGITS = 400
EXACT = 12345678901234567891  # beyond 63 bits, and no double

VALUES = [
    *_payloads(
        "$value", "$value > 80", ("81", "80.5", "1e3", "8.1E+1", " 81 ", "\n81\r\n\t"), ("80", "80.0", "-81", "0")
    ),
    *_payloads(
        "$value of no number",
        "$value > 80",
        (),
        (),
        (
            *[
                "x",
                "NaN",
                "Infinity",
                "-Infinity",
                "inf",
                "0x51",
                "1_000",
                "+81",
                ".5",
                "81.",
                "081",
                "1e",
                "--81",
                "true",
                "[81]",
                "81f",
                "81d",
                "٨١",
            ],
            *("", " ", "81 x", "8 1", '"81"', '{"value": 81}', b"\xff", "\x0b81", "\xa081"),
        ),
    ),
    *_payloads(
        "$value beyond doubles",
        "HAS $value",
        ("1.7976931348623157e308", "1e-400", "-0"),
        ("1e999", "-1e999", "9" * 400, "x", ""),
    ),
    *_payloads("$value IS NULL", "$value IS NULL", ("x", "1e999"), ("0", "21.5")),
    *_payloads(
        "$value exactly",
        f"$value = {EXACT}",
        (f"{EXACT}", f"{EXACT}.0", f"{EXACT}.{'0' * 18}"),
        (f"{EXACT - 1}", f"{EXACT}e0", f"{EXACT}.{'0' * 19}"),
    ),
    *_payloads(
        "$value beyond 64 bits",
        "$value = 1e20",
        ("100000000000000000000", "1e20", "100000000000000000001"),
        ("100000000000000100000",),
    ),
    *_payloads(
        "$value in all forms",
        f"$value IN (5, {BIG + 1})",
        ("5", "5.0", "0.5e1", f"{BIG + 1}"),
        ("6", f"{BIG}", f"{BIG + 1}e0"),
        ("x",),
    ),
    *_payloads("$value between", "$value NOT BETWEEN 10 AND 20.5", ("9.99", "21"), ("10", "20.5"), ("",)),
    *_payloads("$value of another kind", "$value = 'x' OR $value = true", (), (), ("1", "x", "true")),
    *_payloads("$value has one case", "$value != 0", ("-1", "1e-300"), ("0", "-0.0", "0e5"), ("zero",)),
    *_payloads(
        "a long $value",
        "$value > 1",
        ("2." + "0" * 2000, "1" * 300),
        ("0." + "3" * 2000, "1e-" + "9" * 2000),
        ("1e" + "9" * 2000,),
    ),
]

ETNA = Sent(b"21.5", "volcanoes.etna.north")
_ID = "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60"
ENVELOPES = [
    *[
        MessageCase("$topic", query, NOTHING, Sent(b"", topic), truth)
        for query, topic, truth in (
            ("$topic = 'volcanoes.etna'", "volcanoes.etna", True),
            ("$topic = 'volcanoes.etna'", "volcanoes.Etna", False),
            ("$topic = ''", "", True),
            ("$topic = 5", "5", None),
            ("$topic LIKE 'volcanoes.%.north'", "volcanoes.etna.north", True),
            ("$topic LIKE 'volcanoes.%.north'", "volcanoes.etna.south", False),
            ("$topic NOT MATCHES 'etna$'", "volcanoes.etna", False),
            ("$topic IN ('a', 'b')", "b", True),
            ("$topic > 'b'", "火", True),
            ("HAS $topic", "", True),
            ("$topic IS NULL", "a", False),
        )
    ],
    *[
        MessageCase("$size", query, NOTHING, Sent(payload), truth)
        for query, payload, truth in (
            ("$size = 0", b"", True),
            ("$size = 2", "é".encode(), True),
            ("$size >= 5", b"\x00\xff\n\r ", True),
            ("$size BETWEEN 1 AND 3", b"21.5", False),
            ("$size > 100000", b"x" * 100_001, True),
            ("$size = '4'", b"21.5", None),
            ("HAS $size", b"", True),
        )
    ],
    *[
        MessageCase("$producer", query, NOTHING, Sent(b"", "a", producer), truth)
        for query, producer, truth in (
            (f"$producer = '{_ID}'", _ID, True),
            (f"$producer = '{_ID.upper()}'", _ID, False),
            ("$producer LIKE '2f1c%'", _ID, True),
            (f"$producer != '{_ID}'", None, None),
            ("HAS $producer", None, False),
            ("HAS $producer", _ID, True),
            ("$producer IS NULL", None, True),
        )
    ],
]

ODD_KEYS = ("", "'", '"', "'\"?]", "$", "[0]", "\\", "\n", "*")
JSON_FIELDS = [
    *_payloads(
        "a field",
        "$.a > 5",
        ('{"a": 6}', ' {"b": 1,\t"a" : 5.5}\r\n', '{"a":6e0}'),
        ('{"a": 5}', '{"a": -6}'),
        ('{"a": "6"}', '{"a": true}', '{"a": null}', '{"a": [6]}', '{"a": {"a": 6}}', '{"b": 6}', '{"A": 6}', "{}"),
    ),
    *_payloads(
        "no object", "$.a = 1", (), (), ("", " ", "1", '"a"', '[{"a": 1}]', "null", "true", "a", b"\x81\xa1a\x01")
    ),
    *_payloads(
        "text",
        "$.a = 'x'",
        ('{"a": "x"}', r'{"a": "\u0078"}'),
        ('{"a": "X"}', '{"a": ""}'),
        ('{"a": 1}', '{"a": ["x"]}'),
    ),
    *_payloads("text of digits", "$.a = '5'", ('{"a": "5"}',), ('{"a": "5.0"}',), ('{"a": 5}',)),
    *_payloads("truth", "$.a", ('{"a": true}',), ('{"a": false}',), ('{"a": 1}', '{"a": "true"}', "{}")),
    *_payloads("truth in order", "$.a < true", ('{"a": false}',), ('{"a": true}',), ('{"a": 0}',)),
    *_payloads(
        "a path",
        "$.pressure.hpa BETWEEN 900 AND 1000",
        ('{"pressure": {"hpa": 900, "x": {}}}',),
        ('{"pressure": {"hpa": 899.9}}',),
        (
            '{"pressure": 950}',
            '{"pressure.hpa": 950}',
            '{"hpa": 950}',
            '{"pressure": [{"hpa": 950}]}',
            '{"pressure": null}',
        ),
    ),
    *_payloads(
        "a deep path",
        "$.a.b.c.d = 'x'",
        ('{"a": {"b": {"c": {"d": "x"}}}}',),
        ('{"a": {"b": {"c": {"d": "y"}}}}',),
        ('{"a": {"b": {"c": "x"}}}',),
    ),
    *_payloads(
        "keys in back-quotes",
        "$.`a b`.`c.d`.`e``f` = 1",
        ('{"a b": {"c.d": {"e`f": 1}}}',),
        ('{"a b": {"c.d": {"e`f": 2}}}',),
        ('{"a b": {"c": {"d": 1}}}',),
    ),
    *_payloads(
        "odd keys",
        " AND ".join([f"$.`{key}` = 1" for key in ODD_KEYS]),
        (_json(dict.fromkeys(ODD_KEYS, 1)),),
        (_json(dict.fromkeys(ODD_KEYS, 0)),),
        ("{}",),
    ),
    *_payloads(
        "keys of any script",
        "$.温度 > 20 AND $.`🌋` = 1 AND $.2nd = 1",
        ('{"温度": 21, "🌋": 1, "2nd": 1}', r'{"\u6e29\u5ea6": 21, "\ud83c\udf0b": 1, "2nd": 1}'),
    ),
    *_payloads("signs in keys", "$.a-b_c~d/e%f$g = 1", ('{"a-b_c~d/e%f$g": 1}',), (), ('{"a": 1}',)),
    *_payloads(
        "HAS",
        "HAS $.a",
        ('{"a": 0}', '{"a": ""}', '{"a": []}', '{"a": {}}', '{"a": 1e999}'),
        ('{"a": null}', "{}", "x", "5"),
    ),
    *_payloads(
        "HAS below", "HAS $.a.b", ('{"a": {"b": {}}}',), ('{"a": {"b": null}}', '{"a": {}}', '{"a": 1}', '{"a": [1]}')
    ),
    *_payloads("IS NULL", "$.a IS NULL", ('{"a": null}', "{}", "x"), ('{"a": 0}', '{"a": []}')),
    *_payloads(
        "missing or above", "$.a IS NULL OR $.a > 5", ("{}", '{"a": 6}'), ('{"a": 5}',), ('{"a": "x"}', '{"a": []}')
    ),
    *_payloads("NOT of another kind", "NOT $.a = 5", ('{"a": 6}',), ('{"a": 5}',), ('{"a": "6"}', '{"a": {}}', "{}")),
    *_payloads("NOT IN", "$.a NOT IN (5, 6)", ('{"a": 7}',), ('{"a": 6.0}',), ('{"a": "7"}', '{"a": [7]}', "{}")),
    *_payloads(
        "IN of kinds",
        "$.a IN (5, 'x', true)",
        ('{"a": 5}', '{"a": "x"}', '{"a": true}'),
        (),
        ('{"a": 6}', '{"a": "5"}', '{"a": []}'),
    ),
    *_payloads("LIKE", "$.a LIKE '4_%'", ('{"a": "410"}',), ('{"a": "4"}',), ('{"a": 410}', '{"a": ["410"]}')),
    *_payloads("NOT MATCHES", "$.a NOT MATCHES '^4'", ('{"a": "510"}',), ('{"a": "410"}',), ('{"a": 510}', "{}")),
    *_payloads("escapes", "$.a = 'x\"\\/\n\t\x08\x0c\r'", (r'{"a": "x\"\\\/\n\t\b\f\r"}',), ('{"a": "x"}',)),
    *_payloads("NUL", "$.a = '\0'", (r'{"a": "\u0000"}',), (), ('{"a": "\0"}',)),
]

JSON_NUMBERS = [
    *_payloads(
        "exactly",
        f"$.a = {EXACT}",
        (f'{{"a": {EXACT}}}', f'{{"a": {EXACT}.0}}', f'{{"a": {EXACT}.{"0" * 18}}}'),
        (f'{{"a": {EXACT + 1}}}', f'{{"a": {EXACT}e0}}', f'{{"a": {EXACT}.{"0" * 19}}}'),
    ),
    *_payloads(
        "beyond doubles' gaps",
        f"$.a > {BIG}",
        (f'{{"a": {BIG + 1}}}', f'{{"a": {BIG + 1}.0}}'),
        (f'{{"a": {BIG}}}', f'{{"a": {BIG + 1}e0}}'),
    ),
    *_payloads(
        "64 bits",
        f"$.a IN ({-(2**63)}, {2**64 - 1})",
        (f'{{"a": {-(2**63)}}}', f'{{"a": {2**64 - 1}}}'),
        (f'{{"a": {2**64 - 2}}}', f'{{"a": {-(2**63) + 1}}}'),
    ),
    *_payloads(
        "beyond 64 bits",
        "$.a = 1e20",
        (
            '{"a": 100000000000000000000}',
            '{"a": 100000000000000000001}',
            '{"a": 100000000000000000001.0}',
            '{"a": 1e20}',
        ),
        ('{"a": 100000000000000100000}',),
    ),
    *_payloads(
        "just beyond 64 bits",
        f"$.a = {2**64}.0",
        (f'{{"a": {2**64}}}', f'{{"a": {2**64 + 1}}}', f'{{"a": {2**64 + 1}.0}}'),
        (f'{{"a": {2**64 - 1}}}',),
    ),
    *_payloads(
        "below 64 bits",
        f"$.a < {-(2**63)}",
        ('{"a": -9223372036854779000}',),
        (f'{{"a": {-(2**63) - 1}}}', f'{{"a": {-(2**63)}}}'),
    ),
    *_payloads(
        "decimals",
        "$.a = 0.1",
        (
            '{"a": 0.1}',
            '{"a": 0.10}',
            '{"a": 1e-1}',
            '{"a": 0.1000000000000000055511151231257827021181583404541015625}',
        ),
        ('{"a": 0.10000000000000002}',),
    ),
    *_payloads("zero", "$.a = 0", ('{"a": 0}', '{"a": -0}', '{"a": -0.0}', '{"a": 0e9}', '{"a": 1e-400}')),
    *_payloads(
        "the largest",
        "$.a > 1e308",
        ('{"a": 1.7976931348623157e308}', f'{{"a": {"9" * 309}.5}}'.replace("9", "1")),
        ('{"a": 1e308}',),
        ('{"a": 1e309}', '{"a": 1e999}', f'{{"a": {"9" * 400}}}'),
    ),
    *_payloads(
        "long numbers",
        "$.a = 1",
        (
            '{"a": 1, "b": %s}' % ("9" * LONGEST_DIGITS),
            '{"a": 1.%s}' % ("0" * (LONGEST_DIGITS - 2)),
            '{"a": 1, "b": "%s"}' % ("9" * 5000),
        ),
        (),
        (
            '{"a": 1, "b": %s}' % ("9" * (LONGEST_DIGITS + 1)),
            '{"a": 1, "b": -%s}' % ("9" * LONGEST_DIGITS),
            '{"a": 1, "b": [%s]}' % ("9" * 5000),
            '{"a": 1.%s}' % ("0" * (LONGEST_DIGITS - 1)),
            '{"a": 1, "b": 1e-%s}' % ("9" * LONGEST_DIGITS),
        ),
    ),
    *_payloads(
        "other numbers",
        "$.a = 1",
        (),
        (),
        (
            *[f'{{"a": {number}}}' for number in ["01", "+1", "1.", ".1e1", "0x1", "1f", "1_0", "NaN"]],
            *[f'{{"a": 1, "b": {number}}}' for number in ["NaN", "Infinity", "-Infinity", "01"]],
        ),
    ),
]

JSON_REFUSED = [
    *_payloads(
        "not JSON",
        "$.a = 1",
        (),
        (),
        (
            '{"a": 1',
            '{"a": 1,}',
            '{"a" 1}',
            "{a: 1}",
            "{'a': 1}",
            '{"a": 1} x',
            '{"a": 1}{}',
            '{"a": 1}]',
            '{"a": 1},0',
            '{"a": 1}, {"a": 1}',
            '{"a": 1 /* */}',
            '{"a": 1, "b": "\t"}',
            '{"a": 1, "b": tru}',
            '{"a": 1, "b": truex}',
            r'{"a": 1, "b": "\x"}',
            r'{"a": 1, "b": "\u00g0"}',
            '{"a": 1, "b": [1,]}',
            '{"a":\xa01}',
            '\ufeff{"a": 1}',
            '\0{"a": 1}',
            '{"a": 1}\0',
            '{"a": 1}\x0b',
            '{"a": 1, "b": "',
            '{"a": 1, "b": "\\"',
            '{"a": 1, "b": [}]',
            '{"a": 1, 2: 3}',
            '{"a": 1 "b": 2}',
            '{,"a": 1}',
            '{"a": 1,,"b": 1}',
        ),
    ),
    *_payloads(
        "not UTF-8",
        "$.a = 1",
        ('{"a": 1, "b": "é"}',),
        (),
        (
            b'{"a": 1, "b": "\xe9"}',
            b'{"a": 1, "b": "\xed\xa0\x80"}',
            b'{"a": 1, "b": "\xc0\x80"}',
            '{"a": 1}'.encode("utf-16"),
            '{"a": 1}'.encode("utf-16-le"),
            b'{"a": 1, "b": "\xf0\x9f\x8c"}',
            b'{"a": 1, "b": "\xf5\x80\x80\x80"}',
        ),
    ),
    *_payloads(
        "a key twice",
        "$.a = 1",
        ('{"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 2}]}',),
        (),
        (
            '{"a": 1, "a": 1}',
            '{"a": 1, "b": 2, "b": 3}',
            '{"a": 1, "b": [{"c": {"d": 1, "d": 1}}]}',
            r'{"a": 1, "\u0061": 1}',
            '{"a": 1, "": 0, "": 0}',
        ),
    ),
    *_payloads(
        "half a surrogate pair",
        "$.a = 1",
        (
            r'{"a": 1, "b": "\uD83C\udf0B"}',
            r'{"a": 1, "b": "\\ud83c"}',
            r'{"a": 1, "b": "\ud7ff\ue000"}',
            r'{"a": 1, "b": "\\\ud83c\udf0b\\udf0b"}',
            '{"a": 1, "b": "ud83c \\\\ud"}',
        ),
        (),
        (
            r'{"a": 1, "b": "\ud83c"}',
            r'{"a": 1, "b": "\udf0b\ud83c"}',
            r'{"a": 1, "\udf0b": 2}',
            r'{"a": 1, "b": "\ud83cx"}',
            r'{"a": 1, "b": "\ud83c\u0041"}',
            r'{"a": 1, "b": "\ud83c\ud83c\udf0b"}',
            r'{"a": 1, "b": "\\\ud83c"}',
            r'{"a": 1, "b": "\ud83c\\udf0b"}',
        ),
    ),
    *_payloads(
        "nested",
        "$.a = 1",
        (
            _nested(64),
            '{"a": 1, "b": "%s"}' % ("[{" * 100),
            '{"a": 1, "b": [%s[]]}' % ("[], {}, " * 100),
            '{"a": 1, "b": "\\\\", "c": [%s[]]}' % ("[], " * 99),
        ),
        (),
        (
            _nested(65),
            _nested(1000),
            _nested(10_000),
            '{"a": 1, "b": ' + '{"c": ' * 64 + "1" + "}" * 65,
            "[" * 30_000,
            '{"a": 1, "b": "\\"", "c": ' + "[" * 64 + "]" * 64 + "}",
        ),
    ),
    *_payloads(
        "long",
        "$.a = 1",
        (KIBIBYTES % ("x" * (LONG - 17)), KIBIBYTES % ("é" * (LONG // 2 - 9))),
        (),
        (
            KIBIBYTES % ("x" * (LONG - 16)),
            KIBIBYTES % ("é" * (LONG // 2 - 8)),
            '{"a": 1}' + " " * LONG,
            _json({"a": 1} | {str(number): number for number in range(10_000)}),
        ),
    ),
    *_payloads("many keys", "$.a = 1", (_json({str(number): number for number in range(2_000)} | {"a": 1}),)),
]

SO2: Values = {"Kind": "so2", "Room": "4"}
LOGIC_OF_BOTH = [
    MessageCase("both", query, metadata, Sent(payload), truth, is_in_set)
    for query, metadata, payload, truth, is_in_set in (
        ("Kind = 'so2' AND $value > 80", SO2, b"81", True, True),
        ("Kind = 'so2' AND $value > 80", SO2, b"80", False, True),
        ("Kind = 'so2' AND $value > 80", SO2, b"x", None, True),
        ("Kind = 'so2' AND $value > 80", {"Kind": "co2"}, b"81", False, False),
        ("Kind = 'so2' AND $value > 80", NOTHING, b"81", None, False),
        ("Kind = 'so2' AND $value > 80", NOTHING, b"80", False, False),
        ("Kind = 'so2' OR $value > 80", {"Kind": "co2"}, b"81", True, True),
        ("Kind = 'so2' OR $value > 80", {"Kind": "co2"}, b"80", False, True),
        ("Kind = 'so2' OR $value > 80", SO2, b"x", True, True),
        ("Kind = 'so2' OR $value > 80", NOTHING, b"80", None, True),
        ("NOT (Kind = 'so2' AND $value > 80)", SO2, b"81", False, True),
        ("NOT (Kind = 'so2' AND $value > 80)", SO2, b"79", True, True),
        ("NOT (Kind = 'so2' AND $value > 80)", {"Kind": "co2"}, b"81", True, True),
        ("NOT (Kind = 'so2' OR $value > 80)", {"Kind": "co2"}, b"79", True, True),
        ("NOT (Kind = 'so2' OR $value > 80)", {"Kind": "co2"}, b"81", False, True),
        ("NOT (Kind = 'so2' OR $value > 80)", SO2, b"79", False, False),
        ("NOT (Kind = 'so2' OR $value > 80)", NOTHING, b"79", None, False),
        ("NOT $value > 80", NOTHING, b"79", True, True),
        ("NOT NOT NOT $value > 80", NOTHING, b"81", False, True),
        ("NOT NOT NOT $value > 80", NOTHING, b"x", None, True),
        ("$value > 80 AND NOT $value > 80", NOTHING, b"81", False, True),
        ("Kind = 'so2' AND (Room = '4' OR $size > 1)", SO2, b"", True, True),
        ("Kind = 'so2' AND (Room = '5' OR $size > 1)", SO2, b"", False, True),
        ("Kind = 'so2' AND (Room = '5' OR $size > 1)", SO2, b"81", True, True),
        ("Kind = 'so2' AND (Room = '5' AND $size > 1 OR Room = '6')", SO2, b"81", False, False),
        ("(Room = '4' AND $value > 1) OR (Room = '5' AND $value > 2)", {"Room": "5"}, b"2", False, True),
        ("(Room = '4' AND $value > 1) OR (Room = '5' AND $value > 2)", {"Room": "4"}, b"2", True, True),
        ("(Room = '4' AND $value > 1) OR (Room = '5' AND $value > 2)", {"Room": "6"}, b"9", False, False),
        ("Room IS NULL AND $.a IS NULL", NOTHING, b"{}", True, True),
        ("Room IS NULL AND $.a IS NULL", SO2, b"{}", False, False),
        ("HAS Room AND NOT HAS $.a", SO2, b'{"a": 1}', False, True),
        ("`$value` > 80 AND $value > 80", {"$value": 81}, b"81", True, True),
        ("`$value` > 80 AND $value > 80", {"$value": 81}, b"x", None, True),
        ("`$value` > 80", {"$value": 1}, b"81", False, False),
        (
            "Kind = 'so2' AND $topic LIKE 'volcanoes.%' AND $.a BETWEEN 1 AND 2 AND $size < 99",
            SO2,
            b'{"a": 1}',
            True,
            True,
        ),
    )
]

MESSAGE_CASES = [*VALUES, *ENVELOPES, *JSON_FIELDS, *JSON_NUMBERS, *JSON_REFUSED, *LOGIC_OF_BOTH]
