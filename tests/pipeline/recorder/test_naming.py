from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import fs

from fumarole.pipeline.archive.places import Root, open_root
from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.recorder.naming import NameTaken, take_name


def test_recorders_of_one_machine_get_numbers_and_the_same_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node.örtlich-7")
    root = open_root(tmp_path)
    first, second = take_name(root, "default", None), take_name(root, "default", None)
    assert (first.name, second.name) == ("node.-rtlich-7", "node.-rtlich-7-2")
    elsewhere = take_name(root, "other", None)
    assert elsewhere.name == first.name
    first.release()
    again = take_name(root, "default", None)
    assert again.name == first.name
    for lock in (second, elsewhere, again):
        lock.release()


def test_a_name_is_nobody_elses(tmp_path: Path) -> None:
    root = open_root(tmp_path)
    lock = take_name(root, "default", "tokyo-1")
    with pytest.raises(NameTaken, match=r"another recorder named tokyo-1 runs on .*; give this one another --name"):
        take_name(root, "default", "tokyo-1")
    lock.release()
    take_name(root, "default", "tokyo-1").release()


@pytest.mark.parametrize("name", ["", "a/b", "a b", "_x", ".x", "ä"])
def test_names_that_cannot_be(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match="letters, digits"):
        take_name(open_root(tmp_path), "default", name)


def test_elsewhere_nobody_can_be_kept_out() -> None:
    root = Root(fs._MockFileSystem(), "archive", "mock://archive")
    assert take_name(root, "default", "a").name == take_name(root, "default", "a").name == "a"
