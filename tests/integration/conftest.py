"""Brokers for the tests here: each configuration and hot_path is started once a module, unless a test needs its own."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme

from tests.integration.canary import Canary
from tests.integration.oracle import Target, watched
from tests.integration.running import RunningBroker

HOT_PATHS = ("compiled", "plain")
HEAVY = (
    *("test_bad_behaviour.py", "test_churn.py", "test_drain.py", "test_liveness.py", "test_logins.py"),
    *("test_slow_and_many.py", "test_slow_consumers.py", "test_dear_queries.py"),
)
"""What plain Python takes long for: with it, they are for `make soak`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in HEAVY and "[plain" in item.name:
            item.add_marker(pytest.mark.soak)


class Brokers:
    """Starts brokers, remembers them, and sees that each ends well."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._shared: dict[tuple[str, str, bool], RunningBroker] = {}
        self._canaries: dict[int, Canary] = {}

    def start(
        self, config: str = "", hot_path: str = "compiled", port: int = 0, observed: bool = False
    ) -> RunningBroker:
        """One of the test's own, which the test ends itself."""
        return RunningBroker(self._folders.mktemp("broker"), config, hot_path, port, observed)

    def share(self, config: str = "", hot_path: str = "compiled", observed: bool = False) -> RunningBroker:
        """One that other tests with the same wishes use too."""
        key = config, hot_path, observed
        broker = self._shared.get(key)
        if broker is None or not broker.is_running():
            broker = self._shared[key] = self.start(config, hot_path, observed=observed)
        return broker

    def canary(self, broker: RunningBroker, user: str = "", password: str = "", authority: str = "") -> Canary:
        """The one that lives in this broker. `authority`: a file, where the broker has TLS."""
        if broker.pid not in self._canaries:
            self._canaries[broker.pid] = Canary(broker.port, user, password, authority)
        return self._canaries[broker.pid]

    def stop(self) -> None:
        for canary in self._canaries.values():
            canary.close()
        for broker in self._shared.values():
            broker.stop()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    started = Brokers(tmp_path_factory)
    yield started
    started.stop()


@pytest.fixture(params=HOT_PATHS)
def engine_name(request: pytest.FixtureRequest) -> str:
    """Each form of the hot path in turn."""
    name: str = request.param
    return name


@pytest.fixture
def broker(brokers: Brokers, engine_name: str) -> RunningBroker:
    """A broker with default settings."""
    return brokers.share("", engine_name)


StartBroker = Callable[..., RunningBroker]


@pytest.fixture
def start_broker(brokers: Brokers, engine_name: str) -> Iterator[StartBroker]:
    """Starts brokers of the test's own, with the hot_path of this run. What the test has not ended is ended after it."""
    started: list[RunningBroker] = []

    def start(config: str = "", port: int = 0, observed: bool = False) -> RunningBroker:
        started.append(brokers.start(config, engine_name, port, observed))
        return started[-1]

    yield start
    for broker in started:
        broker.release()


@pytest.fixture
def target(brokers: Brokers, engine_name: str) -> Iterator[Target]:
    """A broker to be attacked, under the oracle."""
    broker = brokers.share("", engine_name, observed=True)
    with watched(broker, brokers.canary(broker)) as watched_target:
        yield watched_target


class Authority:
    """A certificate authority of our own, and what it has signed."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self._server = self._authority.issue_cert("127.0.0.1", "localhost")
        self._client = self._authority.issue_cert("client@example.org")
        self.authority_file = folder / "authority.pem"
        self.certificate = folder / "server.pem"
        self.key = folder / "server.key"
        self._authority.cert_pem.write_to_path(str(self.authority_file))
        self._server.private_key_pem.write_to_path(str(self.key))
        for pem in self._server.cert_chain_pems:
            pem.write_to_path(str(self.certificate), append=True)

    def config(self, client_certificates: str = "none") -> str:
        """The `[tls]` table."""
        text = f'[tls]\ncertificate = "{self.certificate}"\nkey = "{self.key}"\n'
        if client_certificates != "none":
            text += f'client_authority = "{self.authority_file}"\nclient_certificates = "{client_certificates}"\n'
        return text

    def client_context(self, with_certificate: bool = False) -> ssl.SSLContext:
        """What a client that trusts this authority uses."""
        context = ssl.create_default_context()
        self._authority.configure_trust(context)
        if with_certificate:
            self._client.configure_cert(context)
        return context


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))
