"""docs/decisions: every package that we need has a page that says what it does, what else there was, and who keeps it."""

import re
import tomllib

import pytest

from tests.docs.test_docs import DOCS, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PAGES = {page.stem: page.read_text() for page in (DOCS / "decisions").glob("*.md")}
NEEDED = [
    *PROJECT["project"]["dependencies"],
    *(each for extra in PROJECT["project"]["optional-dependencies"].values() for each in extra),
    *(each for group in PROJECT["dependency-groups"].values() for each in group),
]
PACKAGES = sorted({re.split(r"[^\w.-]", each)[0] for each in NEEDED} - {"fumarole"})


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_is_named_on_a_page(package: str) -> None:
    # `grpcio` is not named by `grpcio-tools`.
    name = re.compile(rf"(?<![\w-]){re.escape(package)}(?![\w-])", re.IGNORECASE)
    naming = [title for title, text in PAGES.items() if name.search(text)]
    assert naming
    assert any(re.search(r"Who keeps|who keeps", PAGES[title]) for title in naming)
