"""The site's pages: all are gathered, every command and setting is in them, and the navigation has every page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import fumarole
from fumarole import pipeline
from scripts.site import commands, settings, stage
from tests.docs.test_links import broken
from tests.surface.surface import surface

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text of each page of the site, by its path."""
    folder = tmp_path_factory.mktemp("site")
    found = stage.stage(folder)
    assert len(found) == len(set(found))
    return {path: (folder / path).read_text() for path in found}


def test_links_hold_in_the_site_too(tmp_path: Path) -> None:
    pages = stage.stage(tmp_path)
    assert {page: faults for page in pages if (faults := broken(tmp_path / page))} == {}


@pytest.mark.parametrize("command", [name for name in surface()["commands"] if " " in name])
def test_every_command_is_there_with_every_option(pages: dict[str, str], command: str) -> None:
    name = command.removeprefix("fumarole ")
    page = pages["reference/command-line.md"]
    if name not in commands.all_commands():  # it only has others below it
        assert f"## fumarole {name} " in page
        return
    section = re.split(r"(?m)^## ", page.partition(f"## fumarole {name}\n")[2])[0]
    rows = re.findall(r"(?m)^\| (`.*?`) \|", section)
    options = {name for row in rows for name in re.findall(r"`(--?[\w-]+)", row)}
    assert options == {name for name in surface()["commands"][command] if name.startswith("-")}
    arguments = [row for row in rows if not row.startswith("`-")]
    assert len(arguments) == sum(not name.startswith("-") for name in surface()["commands"][command])


def test_every_setting_is_there_with_its_names_and_kind(pages: dict[str, str]) -> None:
    page = pages["reference/configuration.md"]
    rows = dict(re.findall(r"(?m)^\| `([^`]+)` \| (.*? \| .*?) \|", page))
    assert set(settings.all_settings()) <= rows.keys()
    seen = surface()
    for flag, name in seen["settings"].items():
        assert f"`{flag}`" in rows[name]
    assert all(f"`{variable}`" in page for variable in seen["variables"])
    assert {kind for row in rows.values() if not (kind := row.rpartition("|")[2].strip())} == set()


def test_every_public_name_is_there(pages: dict[str, str]) -> None:
    shown = set(re.findall(r"(?m)^::: (\S+)$", pages["reference/python.md"]))
    public = {f"fumarole.{name}" for name in fumarole.__all__} - {"fumarole.__version__"}
    assert shown == public | {f"fumarole.pipeline.{name}" for name in pipeline.__all__}


def test_a_command_or_setting_without_its_place_is_an_error() -> None:
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text()
    with pytest.raises(ValueError, match=r"differ: token$"):
        commands.complete(text.replace("## fumarole token\n", "## token\n"))
    text = (ROOT / "docs" / "reference" / "configuration.md").read_text()
    with pytest.raises(ValueError, match=r"lacks limits\.payload$"):
        settings.complete(text.replace("| `limits.payload` |", "| payload |"))


# The navigation.


class Loader(yaml.SafeLoader):  # type: ignore[misc] # it has no types
    """Without the functions that the site's builder makes of some values."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, _suffix, _node: None)
SITE: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)


def leaves(entry: Any) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    below = entry.values() if isinstance(entry, dict) else entry
    return [page for each in below for page in leaves(each)]


def test_the_navigation_has_every_page_once(pages: dict[str, str]) -> None:
    assert sorted(leaves(SITE["nav"])) == sorted(pages)


def test_a_page_is_listed_under_its_kind() -> None:
    sections = {title: leaves(below) for entry in SITE["nav"] for title, below in entry.items()}
    for title, folder in {"Tutorials": "tutorial", "How-to": "how-to", "Reference": "reference"}.items():
        assert {path.split("/")[0] for path in sections[title]} == {folder}
    inside = {path.split("/")[0] for path in sections["Explanation"]}
    assert inside == {"architecture.md", "explanation", "decisions"}
