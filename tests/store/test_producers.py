import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fumarole.core.query.tree import Value
from fumarole.store.producers import FILE, Damaged, Gone, Kept, ProducerStore, StoreError
from tests.random_examples import examples

A, B, C = (f"0000000{n}-0000-4000-8000-000000000000" for n in range(3))


@contextmanager
def opened(folder: Path) -> Iterator[ProducerStore]:
    store = ProducerStore(folder)
    try:
        yield store
    finally:
        store.close()


def write(folder: Path, *changes: Kept) -> None:
    with opened(folder) as store:
        store.write(changes)
        store.commit()


def read(folder: Path) -> list[Kept]:
    with opened(folder) as store:
        return [kept for some in store.read(2) for kept in some]


def shape(metadata: dict[str, Value] | None) -> list[tuple[str, type, str]]:
    """1, 1.0 and true are equal to Python, and so are 0.0 and -0.0."""
    return [(key, type(value), repr(value)) for key, value in (metadata or {}).items()]


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"Room": "410", "Kind": "temperature"}, id="text"),
        pytest.param({"": "", "a\0b": "\0", "`'\"\\": "'\"\\\n"}, id="text that needs escapes"),
        pytest.param({"Straße": "Ätna 🌋", "温度": "\u2028"}, id="Unicode"),
        pytest.param({"a": 0, "b": -1, "c": 2**63, "d": 2**64 - 1, "e": -(2**63)}, id="the largest integers"),
        pytest.param({"a": 0.1, "b": -0.0, "c": 5e-324, "d": 1.7976931348623157e308, "e": 1.0, "f": 1e22}, id="floats"),
        pytest.param({"a": True, "b": False, "c": 1, "d": 1.0, "e": "true", "f": "1"}, id="kinds that look alike"),
    ],
)
def test_every_kind_of_value_comes_back(tmp_path: Path, metadata: dict[str, Value]) -> None:
    write(tmp_path, Kept("default", A, metadata))
    (kept,) = read(tmp_path)
    assert kept[:2] == ("default", A)
    assert shape(kept.metadata) == shape(metadata)


VALUES = st.text() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["default", "lab"]),
        st.sampled_from([A, B, C]),
        st.none() | st.dictionaries(st.text(max_size=5), VALUES, max_size=5),
    ),
    max_size=8,
)


@examples(40)
@given(st.lists(CHANGES, max_size=4))
def test_it_is_what_a_dictionary_would_be(
    tmp_path_factory: pytest.TempPathFactory, transactions: list[list[tuple[str, str, dict[str, Value] | None]]]
) -> None:
    folder = tmp_path_factory.mktemp("store")
    known: dict[tuple[str, str], dict[str, Value]] = {}
    for changes in transactions:
        latest = {change[:2]: change[2] for change in changes}
        write(folder, *(Kept(*name, metadata) for name, metadata in latest.items()))
        for name, metadata in latest.items():
            if metadata is None:
                known.pop(name, None)
            else:
                known[name] = metadata
    found = {kept[:2]: shape(kept.metadata) for kept in read(folder)}
    assert found == {name: shape(metadata) for name, metadata in known.items()}


def test_many_are_written_in_lots(tmp_path: Path) -> None:
    def named(number: int) -> str:
        return f"{number:08x}-0000-4000-8000-000000000000"

    write(tmp_path, *(Kept("default", named(number), {"n": number}) for number in range(1_000)))
    write(tmp_path, *(Kept("default", named(number), None) for number in range(0, 1_000, 2)))
    assert [kept.metadata for kept in read(tmp_path)] == [{"n": number} for number in range(1, 1_000, 2)]


def test_keys_are_in_memory_once(tmp_path: Path) -> None:
    key = "a key that is longer than any that a parser keeps for itself, as keys may be"
    write(tmp_path, Kept("default", A, {key: 1}), Kept("default", B, {key: 2}))
    first, second = (list(kept.metadata or ()) for kept in read(tmp_path))
    assert first[0] is second[0]


def test_nothing_is_made_before_there_is_something_to_write(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with opened(folder) as store:
        assert not folder.exists()
        store.write([Kept("default", A, {})])
        store.commit()
    assert [path.name for path in folder.iterdir()] == [FILE]


def test_what_is_not_committed_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, Kept("default", A, {}))
    with opened(tmp_path) as store:
        store.write([Kept("default", B, {})])
    assert [kept.identity for kept in read(tmp_path)] == [A]


def test_the_file_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fumarole.store.producers.LOCKED_SECONDS", 0.01)
    with opened(tmp_path) as owner, opened(tmp_path) as other:
        owner.write([Kept("default", A, {})])
        owner.commit()
        with pytest.raises(StoreError, match="in use, perhaps by another broker"):
            next(other.read(1))
        with pytest.raises(StoreError, match="in use, perhaps by another broker"):
            other.write([Kept("default", B, {})])
        # There is none of the shared memory that fails, or worse, on a full disk.
        assert not (tmp_path / f"{FILE}-shm").exists()
        owner.close()
        assert [kept.identity for some in other.read(1) for kept in some] == [A]


@pytest.mark.parametrize(
    "content", [b"no database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000], ids=["text", "head"]
)
def test_a_damaged_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    (tmp_path / f"{FILE}-wal").write_bytes(b"beside it")
    with opened(tmp_path) as store:
        with pytest.raises(Damaged, match="is damaged"):
            next(store.read(1))
        aside = store.set_aside()
        assert aside.read_bytes() == content
        store.write([Kept("default", A, {})])
        store.commit()
        assert store.set_aside() != aside
    assert aside.read_bytes() == content
    assert aside.with_name(f"{aside.name}-wal").read_bytes() == b"beside it"


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(("default", B, b'{"a": null}'), id="nothing under a key"),
        pytest.param(("default", B, b'{"a": [1]}'), id="nested"),
        pytest.param(("default", B, b'{"a": NaN}'), id="not a number"),
        pytest.param(("default", B, b'{"a": 18446744073709551616}'), id="an integer beyond 64 bits"),
        pytest.param(("default", B, b'{"a": ' + b"9" * 5_000 + b"}"), id="an integer of 5,000 digits"),
        pytest.param(("default", B, rb'{"a": "\ud83c"}'), id="half of a surrogate pair"),
        pytest.param(("default", B, rb'{"\udf0b": 1}'), id="the other half"),
        pytest.param(("default", B, b'{"a": 1'), id="cut short"),
        pytest.param(("default", B, b"[]"), id="no object"),
        pytest.param(("default", B, b'{"a": "\xff"}'), id="no UTF-8"),
        pytest.param(("default", B, 7), id="a number for metadata"),
        pytest.param(("default", "B", b"{}"), id="no identity"),
        pytest.param(("default", b"\xff", b"{}"), id="no text"),
        pytest.param(("default", 7, b"{}"), id="a number for an identity"),
        pytest.param(("no_name", B, b"{}"), id="no namespace"),
    ],
)
def test_a_row_that_makes_no_sense_takes_no_other_with_it(tmp_path: Path, row: tuple[object, object, object]) -> None:
    write(tmp_path, Kept("default", A, {}))
    database = sqlite3.connect(tmp_path / FILE)
    with database:
        statement = "INSERT INTO producers VALUES (CAST(? AS TEXT), CAST(? AS TEXT), ?)"
        if isinstance(row[1], int):
            statement = "INSERT INTO producers VALUES (?, CAST(? AS BLOB), ?)"
        database.execute(statement, row)
    database.close()
    write(tmp_path, Kept("default", C, {}))
    with opened(tmp_path) as store:
        assert [kept.identity for some in store.read(1) for kept in some] == [A, C]
        assert store.unreadable == 1


def test_a_file_of_another_form_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path, Kept("default", A, {}))
    database = sqlite3.connect(tmp_path / FILE)
    database.execute("PRAGMA user_version = 7")
    database.close()
    with pytest.raises(StoreError, match=r"another version of fumarole \(form 7\)"):
        read(tmp_path)


def test_a_file_that_is_taken_away_is_missed(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.write([Kept("default", A, {})])
        store.commit()
        for path in tmp_path.iterdir():
            path.unlink()
        with pytest.raises(Gone, match="removed or replaced"):
            store.write([Kept("default", B, {})])
        store.write([Kept("default", C, {})])
        store.commit()
    assert [kept.identity for kept in read(tmp_path)] == [C]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with opened(tmp_path / "file" / "data") as store, pytest.raises(StoreError, match="cannot make the folder"):
        store.write([Kept("default", A, {})])
