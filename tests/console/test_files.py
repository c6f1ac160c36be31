"""The files of the console: all from here, small, and the vendored ones as they were published."""

import json
import re
from pathlib import Path

import fumarole

FILES = Path(fumarole.__file__).parent / "console"
MOST_BYTES = 250_000
NAMESPACES = {"http://www.w3.org/2000/svg"}


def test_all_of_it_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES.rglob("*") if path.is_file()) < MOST_BYTES


def test_nothing_is_fetched_from_elsewhere() -> None:
    for path in FILES.rglob("*"):
        if path.suffix in (".html", ".css", ".js", ".svg") and path.parent.name != "vendor":
            assert set(re.findall(r"https?://[^\s\"'`)>]+", path.read_text())) - NAMESPACES == set(), path.name


def test_no_script_or_style_is_inline() -> None:
    page = (FILES / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []
    for path in FILES.glob("*.js"):
        assert not re.search(r"dangerouslySetInnerHTML|innerHTML|\beval\(|new Function", path.read_text()), path.name


def test_every_import_is_there() -> None:
    for path in FILES.glob("*.js"):
        for name in re.findall(r"from \"(/[^\"]+)\"", path.read_text()):
            assert (FILES / name[1:]).is_file(), f"{path.name} imports {name}"


def test_vendored_files_are_listed_with_version_and_licence() -> None:
    listed = json.loads((FILES / "vendor" / "vendor.json").read_text())
    assert {each["file"] for each in listed} == {path.name for path in (FILES / "vendor").iterdir()} - {"vendor.json"}
    assert all(each["version"] and each["licence"] and len(each["sha256"]) == 64 for each in listed)


def test_vendored_files_are_as_published() -> None:
    from hashlib import sha256

    for each in json.loads((FILES / "vendor" / "vendor.json").read_text()):
        assert sha256((FILES / "vendor" / each["file"]).read_bytes()).hexdigest() == each["sha256"], each["file"]
