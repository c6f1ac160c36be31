"""docs/reference/http.md: each call has an example, and each example answers what stands below it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fumarole.sessions.http.api import DESCRIPTION, ROUTES
from fumarole.sessions.http.openapi import document, table
from tests.integration.http.webs import WebBroker

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()
EXAMPLES = re.findall(r"```sh\n(.*?)```\n```(?:json|text)\n(.*?)```", PAGE, re.DOTALL)
HERE = "http://127.0.0.1:8222"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    started = WebBroker(tmp_path_factory.mktemp("broker"))
    yield started
    started.stop()


def test_the_table_is_that_of_the_code() -> None:
    shown = PAGE.partition("<!-- made from the table in sessions/http/api.py -->\n")[2].partition("\n<!-- end -->")[0]
    assert shown == table(ROUTES)


def test_every_call_has_an_example() -> None:
    shell = "\n".join(commands for commands, _ in EXAMPLES)
    for route in (*ROUTES, DESCRIPTION):
        path = re.escape(HERE + route.path)
        path = re.sub(r"\\\{(topic|pattern)\\\}", r"[^\\s?\"]+", path).replace(r"\{id\}", "[0-9a-f-]+")
        method = {"GET": r"(?!.*-X)(?!.*-d )(?!.*--data)", "POST": r"(?=.*(-d|--data|-X POST))"}.get(
            route.method, f"(?=.*-X {route.method})"
        )
        joined = shell.replace("\\\n", " ")
        assert re.search(rf"^{method}.*{path}(?=[\s?\"]|$)", joined, re.MULTILINE), f"{route.method} {route.path}"


def test_the_examples(broker: WebBroker) -> None:
    """One after another: those that come later find what those before have published."""
    for commands, wanted in EXAMPLES:
        shell = commands.replace(HERE, broker.web).replace("curl ", "curl -s --noproxy '*' ")
        run = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=30, check=False)
        pattern = re.escape(wanted.strip()).replace("…", ".*?")
        assert re.fullmatch(pattern, run.stdout.strip(), re.DOTALL), f"{commands}\n{run.stdout}{run.stderr}"


def test_the_description_names_every_call() -> None:
    described = json.loads(json.dumps(document(ROUTES, "1")))
    named = {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}
    assert named == {(route.method, route.path.replace("{pattern}", "{topic}")) for route in ROUTES}
    operations = [each for methods in described["paths"].values() for each in methods.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
