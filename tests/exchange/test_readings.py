import pytest

from fumarole.exchange.readings import ReadingError, check_identity, check_metadata, check_number

A = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("identity", [A, "2F1C0A52-6d0f-4c8e-Ba5e-3b1f7d2c4e60"])
def test_identities(identity: str) -> None:
    assert check_identity(identity) == identity.lower()


@pytest.mark.parametrize(
    "identity",
    [
        "",
        "x",
        A[:-1],
        A + "0",
        A.replace("-4", "-1"),
        A.replace("-8", "-7"),
        A.replace("-", ""),
        A.encode(),
        1,
        None,
        f"{A}\n",
    ],
)
def test_identities_refused(identity: object) -> None:
    with pytest.raises(ReadingError):
        check_identity(identity)


TOO_LARGE = [2**64, -(2**63) - 1, 10**400, -(10**400)]
HALVES = ["\ud800", "a\udfff", "\udf0b\ud83c"]


def shown(value: object) -> str:
    return ascii(value)[:24]


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), True, "1", None, [1], b"2", *TOO_LARGE], ids=shown
)
def test_values_refused(value: object) -> None:
    """M10."""
    with pytest.raises(ReadingError):
        check_number(value)


@pytest.mark.parametrize(
    "metadata",
    [
        *[None, [], "a", {1: "a"}, {b"a": 1}, {"a": [1]}, {"a": {}}, {"a": float("nan")}, {"a": float("inf")}],
        *[{"a": value} for value in (b"x", *TOO_LARGE, *HALVES)],
        *[{key: 1} for key in HALVES],
    ],
    ids=shown,
)
def test_metadata_refused(metadata: object) -> None:
    with pytest.raises(ReadingError) as refused:
        check_metadata(metadata)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 1.7976931348623157e308, 0])
def test_numbers_taken(value: float) -> None:
    assert check_number(value) == value
    assert check_metadata({"a": value}) == {"a": value}
