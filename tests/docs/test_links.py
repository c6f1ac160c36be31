"""Every relative link and anchor in the Markdown of this repository leads somewhere, and so does every page that code names."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "bench", "deploy", "examples", ".github")
PAGES = sorted(
    page
    for pages in (ROOT.glob("*.md"), *((ROOT / folder).rglob("*.md") for folder in FOLDERS))
    for page in pages
    if "build" not in page.relative_to(ROOT).parts
)
SOURCES = sorted(
    source
    for folder in ("src", "tests", "scripts", "bench", "deploy", "examples")
    for source in (ROOT / folder).rglob("*")
    if source.suffix in {".py", ".pyx", ".pxd", ".pyi", ".proto", ".toml", ".yaml", ".service", ""}
    if source.is_file() and "build" not in source.relative_to(ROOT).parts
)
LINK = re.compile(r"\]\((?P<target>[^()\s]+)\)")
OUTSIDE = re.compile(r"[a-z]+:")
PAGE_IN_CODE = re.compile(r"(?<![\w/.-])docs/[\w./-]+\.(?:md|toml|svg)\b")


def without_code(text: str) -> str:
    """A link in a fenced block, or between back-quotes, is no link."""
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", re.sub(r"(?ms)^```.*?^```$", "", text))


def slug(heading: str) -> str:
    """As GitHub makes it: small letters, punctuation gone, a hyphen for each blank."""
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"(?m)^#+ (.+)$", re.sub(r"(?ms)^```.*?^```$", "", page.read_text())):
        name = slug(heading.strip())
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(found)


def broken(page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    faults = []
    for target in LINK.findall(without_code(page.read_text())):
        if OUTSIDE.match(target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists():
            faults.append(f"{target}: there is no {there}")
        elif anchor and (there.suffix != ".md" or anchor not in anchors(there)):
            faults.append(f"{target}: {there.name} has no heading {anchor}")
    return faults


def test_pages_are_found() -> None:
    names = {page.relative_to(ROOT).as_posix() for page in PAGES}
    assert names >= {"README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", "docs/reference/topics.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links(page: Path) -> None:
    assert broken(page) == []


def test_pages_that_sources_name_exist() -> None:
    missing = {
        f"{source.relative_to(ROOT)}: {name}"
        for source in SOURCES
        if source != Path(__file__)
        for name in PAGE_IN_CODE.findall(source.read_text(errors="ignore"))
        if not (ROOT / name).exists()
    }
    assert missing == set()


# The check itself.


def test_a_broken_link_and_a_broken_anchor_are_found(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("# A heading, with `code` & more\n## Twice\n## Twice\n```\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md) [b](other.md#a-heading-with-code--more) [c](other.md#twice-1) [d](#here) [e](https://x.invalid)\n"
        "# Here\n`[f](nowhere.md)` [g](nowhere.md) [h](other.md#no-heading)\n"
    )
    assert [fault.partition(":")[0] for fault in broken(page)] == ["nowhere.md", "other.md#no-heading"]
