"""Files for those who work on the repository: workflows, hooks, templates, the changelog."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import fumarole

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(workflow: Path) -> list[dict[str, Any]]:
    return [step for job in read(workflow)["jobs"].values() for step in job["steps"]]


def test_there_is_a_workflow_for_each_purpose() -> None:
    assert [path.stem for path in WORKFLOWS] == ["check", "docs", "test", "wheels"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_whole(workflow: Path) -> None:
    content = read(workflow)
    assert content["name"] == workflow.stem
    assert True in content  # `on`, which YAML 1.1 reads as a truth value
    assert content["permissions"] == {"contents": "read"}
    for job in content["jobs"].values():
        assert job["runs-on"].startswith("ubuntu-")
        assert job["timeout-minutes"] <= 60
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])


@pytest.mark.parametrize("name", ["check", "wheels"])
def test_every_python_is_tried(name: str) -> None:
    (job,) = read(ROOT / ".github" / "workflows" / f"{name}.yml")["jobs"].values()
    assert job["strategy"]["matrix"]["python"] == PYTHONS
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={PYTHONS[0]}"


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_one_step_of_a_workflow_calls_make(workflow: Path) -> None:
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    assert all(re.fullmatch(r"make [a-z-]+ PYTHON=python", command) for command in commands)


def test_hooks_are_local_and_run_the_tools_of_the_environment() -> None:
    (source,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert source["repo"] == "local"
    assert {hook["language"] for hook in source["hooks"]} == {"system"}
    tools = {hook["entry"].split()[0] for hook in source["hooks"]}
    assert tools == {f".venv/bin/{tool}" for tool in ("ruff", "mypy", "pytest")}


@pytest.mark.parametrize("name", ["bug", "proposal"])
def test_templates_of_issues_ask_for_something(name: str) -> None:
    form = read(ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert {"name", "description", "body"} <= form.keys()
    ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 1
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_the_changelog_has_the_version_and_keeps_unreleased_first() -> None:
    titles = re.findall(r"(?m)^## (.+)$", (ROOT / "CHANGELOG.md").read_text())
    assert titles[0] == "Unreleased"
    assert fumarole.__version__ in titles
    kinds = set(re.findall(r"(?m)^### (.+)$", (ROOT / "CHANGELOG.md").read_text()))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_changelog_has_each_entry_once() -> None:
    unreleased = (ROOT / "CHANGELOG.md").read_text().partition("## Unreleased\n")[2].partition("\n## ")[0]
    beginnings = [entry[:30] for entry in re.findall(r"(?m)^- (.+)$", unreleased)]
    assert len(beginnings) > 20
    assert [entry for entry in beginnings if beginnings.count(entry) > 1] == []
