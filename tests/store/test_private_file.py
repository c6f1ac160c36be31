"""A8: what the broker writes is its user's alone."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumarole.store.private_file import make_folder, make_private
from fumarole.store.producers import Kept, ProducerStore, StoreError


@pytest.fixture(autouse=True)
def generous() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_made(tmp_path: Path) -> None:
    make_folder(tmp_path / "data")
    make_private(tmp_path / "data/file")
    assert (mode(tmp_path / "data"), mode(tmp_path / "data/file")) == (0o700, 0o600)


def test_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    file.chmod(0o664)
    make_private(file)
    assert (mode(file), file.read_text()) == (0o600, "kept")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("another's")
    (tmp_path / "file").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        make_private(tmp_path / "file")


def test_the_database_of_producers(tmp_path: Path) -> None:
    store = ProducerStore(tmp_path / "data")
    store.write([Kept("default", "2f1c0a52-6d0f-4c8e-9a5e-3b1f7d2c4e60", {"Room": "410"})])
    store.commit()
    modes = {mode(path) for path in (tmp_path / "data").iterdir()}
    store.close()
    assert modes == {0o600}


def test_a_database_that_is_a_link(tmp_path: Path) -> None:
    store = ProducerStore(tmp_path)
    store.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="symbolic links"):
        list(store.read(10))
    assert not (tmp_path / "elsewhere").exists()
