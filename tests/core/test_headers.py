"""Header blocks, and how little of them has to be looked at."""

from hypothesis import given
from hypothesis import strategies as st

from fumarole.core import headers

lines = st.lists(
    st.sampled_from(
        [
            *(
                b"Name: a",
                b"Name:b",
                b"Name:",
                b"Name : c",
                b" Name: d",
                b"name: e",
                b"Other: Name: f",
                b"Name: \xff \xa0",
            ),
            *(b"Name", b"", b"\r", b"\n", b"Name: \r", b"NATS/1.0", b"Name: h\n", b"N\xffame: i"),
        ]
    ),
    max_size=6,
).map(b"\r\n".join)


@given(lines)
def test_the_last_of_a_name(block: bytes) -> None:
    assert headers.last(block, "Name") == dict(headers.parse(block)).get("Name")


@given(lines, st.integers(0, 7))
def test_so_many_lines(block: bytes, most: int) -> None:
    assert headers.parse(block, most) == headers.parse(b"\r\n".join(block.split(b"\r\n")[: most + 1]))


def test_what_is_built_is_parsed() -> None:
    pairs = [("Producer", "2f1c"), ("Unit", "celsius"), ("Unit", "kelvin")]
    assert headers.parse(headers.build(pairs)) == pairs
    assert headers.parse(headers.build(pairs), 2) == pairs[:2]
    assert headers.last(headers.build(pairs), "Unit") == "kelvin"
