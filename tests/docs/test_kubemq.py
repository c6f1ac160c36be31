"""docs/reference/kubemq.md says what the door does; its examples are run beside the SDKs, in tests/integration/kubemq."""

import re
from pathlib import Path

from fumarole.config.load import load
from fumarole.exchange.namespaces import KUBEMQ
from fumarole.protocols import kubemq, kubemq_pb2
from fumarole.sessions import kubemq as session
from tests.docs.test_docs import rows

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "kubemq.md").read_text()


def test_every_method_is_in_the_table() -> None:
    (service,) = kubemq_pb2.DESCRIPTOR.services_by_name.values()
    assert {row[0].strip("`") for row in rows("reference/kubemq.md", "method")} == {
        method.name for method in service.methods
    }


def test_every_error_of_kubemq_is_in_the_table_with_its_status() -> None:
    """Each text that the sources have is documented, and no other number is."""
    table = rows("reference/kubemq.md", "text")
    documented = {re.sub(r"^`+|,? ?…?`+$| `+$", "", row[0]): row[1].strip("`") for row in table}
    texts = {
        value.strip(", ") for value in vars(kubemq).values() if isinstance(value, str) and value.startswith("Error ")
    }
    assert texts == {text for text in documented if text.startswith("Error ")}
    statuses = {"Error 409": "UNAVAILABLE", "Error 412": "PERMISSION_DENIED", "Error 421": "UNAUTHENTICATED"}
    for text in texts:
        assert documented[text] == statuses.get(text[:9], "INTERNAL")


def test_every_sentence_of_our_own_is_in_the_table() -> None:
    sources = Path(__file__).parents[2] / "src" / "fumarole"
    code = "".join((sources / layer / "kubemq.py").read_text() for layer in ("protocols", "sessions", "doors"))
    said = [*re.findall(r'Fault\(\s*f?"([^"{]+)', code), session.NO_STORE, session.NO_QUEUES]
    assert len(said) > 6
    table = " ".join(row[0] for row in rows("reference/kubemq.md", "text"))
    for sentence in said:
        assert re.split(r"[:,] ", sentence)[0].strip() in table


def test_the_configuration_works(tmp_path: Path) -> None:
    (example,) = re.findall(r"(?s)```toml\n(.*?)```", PAGE)
    (tmp_path / "example.toml").write_text(example)
    (user,) = load(tmp_path / "example.toml", {}, {}).users or ()
    assert user.namespace == KUBEMQ


def test_the_words_that_begin_topics_and_headers_are_documented() -> None:
    for word in (*kubemq.RESERVED, kubemq.EMPTY, kubemq.ID, kubemq.METADATA, kubemq.TAG, kubemq.EXECUTED, kubemq.ERROR):
        assert f"`{word}" in PAGE
