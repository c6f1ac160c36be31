"""The folder that the site is built from: the pages of docs/ and those beside it, with links that hold there.

    docs/reference/topics.md      →  reference/topics.md
    README.md                     →  index.md
    CONTRIBUTING.md, bench/…      →  the same path

A link to a file that is no page (an example, the service unit) leads to a copy of that file.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path, PurePosixPath
from typing import Final

from scripts.site import commands, python_api, settings

ROOT: Final = Path(__file__).parents[2]
BESIDE: Final = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/results.md",
    "examples/README.md",
)
"""Pages that are not in docs/."""
COMPLETED: Final = {
    "docs/reference/command-line.md": commands.complete,
    "docs/reference/configuration.md": settings.complete,
}
LINK: Final = re.compile(r"(?P<before>\]\()(?P<target>[^()\s#]+)(?P<anchor>#[^()\s]*)?(?P<after>\))")
OUTSIDE: Final = re.compile(r"[a-z]+:")


def place(path: str) -> str:
    """Where a file of the repository is in the site."""
    if path == "README.md":
        return "index.md"
    return path.removeprefix("docs/")


def stage(folder: Path) -> list[str]:
    """Fills the folder anew; the pages in it, by their place."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = [*BESIDE, *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))]
    linked: set[str] = set()
    for path in pages:
        text = (ROOT / path).read_text()
        if complete := COMPLETED.get(path):
            text = complete(text)
        _write(folder / place(path), _with_links(text, path, set(pages), linked))
    _write(folder / "reference/python.md", python_api.page())
    for path in sorted(linked):
        (folder / place(path)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / place(path))
    return [*map(place, pages), "reference/python.md"]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _with_links(text: str, page: str, pages: set[str], linked: set[str]) -> str:
    """The text with its links as they must be in the site; files that are no pages are added to `linked`."""

    def moved(found: re.Match[str]) -> str:
        target = found["target"]
        if OUTSIDE.match(target):
            return found[0]
        path = os.path.normpath(PurePosixPath(page).parent / target)
        if (ROOT / path).is_dir():
            path = _first_page(path, pages)
        if path not in pages:
            linked.add(path)
        relative = os.path.relpath(place(path), PurePosixPath(place(page)).parent)
        return f"{found['before']}{relative}{found['anchor'] or ''}{found['after']}"

    fence = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(moved, part) for part in fence.split(text))


def _first_page(folder: str, pages: set[str]) -> str:
    """A link to a folder leads to its overview, or else to the first page in it."""
    inside = sorted(path for path in pages if path.startswith(f"{folder}/"))
    return next((path for path in inside if path.endswith(("README.md", "index.md"))), inside[0])
