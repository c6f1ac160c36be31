import re
import ssl
from pathlib import Path

import pytest
import trustme

import fumarole
from fumarole.client import Disconnected, Reconnected
from fumarole.config.settings import PermissionSettings, UserSettings
from fumarole.config.values import Secret
from fumarole.core.limits import Limits
from fumarole.protocols import nats
from fumarole.server.credentials import hash_password, token_digest
from tests.client.brokers import Notices, RealBroker
from tests.client.conftest import StartBroker, StartFake, StartProcess
from tests.ports import free_port

PASSWORD = "p@ss:w/rd"
ENCODED = "p%40ss%3Aw%2Frd"
USERS = (
    UserSettings(
        name="lab",
        password=Secret(hash_password(PASSWORD)),
        namespace="volcanoes",
        roles=("admin",),
        publish=PermissionSettings(deny=("secret.>",)),
        subscribe=PermissionSettings(deny=("secret.>",)),
    ),
    UserSettings(name="station", token=Secret(token_digest("t0ken")), namespace="volcanoes", roles=("admin",)),
)


@pytest.fixture
def closed_port() -> int:
    return free_port()


async def test_no_broker(closed_port: int) -> None:
    url = f"nats://127.0.0.1:{closed_port}"
    expected = f"no broker at {url} (connection refused); start one with `fumarole serve`"
    with pytest.raises(fumarole.NoServerError, match=re.escape(expected)) as error:
        await fumarole.connect(url)
    assert isinstance(error.value, ConnectionError)
    assert error.value.failures == {url: "connection refused"}


async def test_a_host_with_several_addresses(closed_port: int) -> None:
    with pytest.raises(fumarole.NoServerError, match="connection refused"):
        await fumarole.connect(f"localhost:{closed_port}")


async def test_an_unknown_host() -> None:
    with pytest.raises(fumarole.NoServerError, match="unknown host"):
        await fumarole.connect("nats://no-such-host.invalid")


async def test_a_server_that_says_nothing(start_fake: StartFake) -> None:
    server = await start_fake(greeting=b"")
    with pytest.raises(fumarole.NoServerError, match=r"no answer within 0\.05 s"):
        await fumarole.connect(server.url, timeout=0.05)


@pytest.mark.parametrize(
    ("greeting", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak the NATS protocol"),
        (b"-ERR 'maximum connections exceeded'\r\n", "maximum connections exceeded"),
        (nats.info({}) + b"-ERR 'maximum connections exceeded'\r\n", "maximum connections exceeded"),
        (nats.info({}) + nats.PONG, "said more than a greeting before it was answered"),
        (nats.info({}), "closed the connection"),
    ],
    ids=["another protocol", "too many connections", "the same behind INFO", "an answer too early", "gone at once"],
)
async def test_a_server_that_is_of_no_use(start_fake: StartFake, greeting: bytes, reason: str) -> None:
    server = await start_fake(greeting=greeting, hangs_up=True)
    with pytest.raises(fumarole.NoServerError, match=reason):
        await fumarole.connect(server.url)


async def test_a_server_that_asks_for_a_sign_of_life_at_once(start_fake: StartFake) -> None:
    """As nats-server does after a second, should the client be slow."""
    server = await start_fake(greeting=nats.info({}) + nats.PING)
    async with fumarole.connect(server.url) as client:
        await client.flush()


async def test_servers_are_tried_in_turn(broker: RealBroker, closed_port: int, start_fake: StartFake) -> None:
    silent = await start_fake(greeting=b"")
    servers = [f"nats://127.0.0.1:{closed_port}", silent.url, broker.url]
    async with fumarole.connect(servers, timeout=0.5) as client:
        assert client.server == broker.url
    async with fumarole.connect(",".join(servers), timeout=0.5) as client:
        assert client.server == broker.url


async def test_every_server_that_failed_is_named(closed_port: int, start_fake: StartFake) -> None:
    silent = await start_fake(greeting=b"")
    with pytest.raises(fumarole.NoServerError) as error:
        await fumarole.connect([f"nats://127.0.0.1:{closed_port}", silent.url], timeout=0.05)
    assert list(error.value.failures.values()) == ["connection refused", "no answer within 0.05 s"]


@pytest.mark.parametrize("credentials", [f"lab:{ENCODED}", "t0ken"])
async def test_credentials_in_the_address(start_broker: StartBroker, credentials: str) -> None:
    broker = await start_broker(users=USERS)
    async with fumarole.connect(broker.login(credentials)) as client:
        assert (await client.stats())["namespace"] == "volcanoes"


async def test_credentials_as_arguments(start_broker: StartBroker) -> None:
    broker = await start_broker(users=USERS)
    async with (
        fumarole.connect(broker.url, user="lab", password=PASSWORD) as lab,
        fumarole.connect(broker.url, token="t0ken") as station,
        lab.subscribe("a") as messages,
    ):
        await station.publish("a", b"1")
        assert (await anext(messages)).payload == b"1"


@pytest.mark.parametrize("credentials", ["lab:wrong", "wrong", "nobody:x"])
async def test_wrong_credentials(start_broker: StartBroker, credentials: str) -> None:
    broker = await start_broker(users=USERS)
    with pytest.raises(fumarole.AuthorizationError, match=r"refused the credentials.*check user and password") as error:
        await fumarole.connect(broker.login(credentials))
    assert "wrong" not in str(error.value)


async def test_what_a_user_may_not_do_is_told(start_broker: StartBroker) -> None:
    broker = await start_broker(users=USERS)
    async with fumarole.connect(broker.login(f"lab:{ENCODED}"), on_notice=lambda _: None) as client:
        with pytest.raises(fumarole.RefusedError, match="Permissions Violation for Subscription"):
            await client.subscribe("secret.plan")
        await client.publish("secret.plan")
        with pytest.raises(fumarole.RefusedError, match="Permissions Violation for Publish"):
            await client.flush()


async def test_who_may_not_hear_answers_is_told_what_is_missing(start_broker: StartBroker) -> None:
    deaf = UserSettings(name="deaf", token=Secret(token_digest("t0ken")), subscribe=PermissionSettings(allow=("a",)))
    broker = await start_broker(users=(deaf,))
    async with fumarole.connect(broker.login("t0ken")) as client:
        for _ in range(2):
            with pytest.raises(fumarole.RefusedError, match=r"may not receive replies; it needs `_INBOX\.>`"):
                await client.stats()


async def test_the_user_names_the_namespace_where_there_are_no_users(broker: RealBroker) -> None:
    async with (
        fumarole.connect(broker.login("one:x")) as one,
        fumarole.connect(broker.login("two")) as two,
        one.subscribe("a") as messages,
    ):
        await two.publish("a", b"two's")
        await two.flush()
        await one.publish("a", b"one's")
        assert (await anext(messages)).payload == b"one's"


class Certificates:
    """Files for a broker, made by an authority of our own."""

    def __init__(self, folder: Path, *names: str) -> None:
        self._authority = trustme.CA()
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        issued = self._authority.issue_cert(*names)
        issued.private_key_pem.write_to_path(str(key))
        for pem in issued.cert_chain_pems:
            pem.write_to_path(str(certificate), append=True)
        self.flags = ("--tls-certificate", str(certificate), "--tls-key", str(key))

    def context(self) -> ssl.SSLContext:
        """Of a client that trusts the authority."""
        context = ssl.create_default_context()
        self._authority.configure_trust(context)
        return context


@pytest.mark.parametrize("scheme", ["nats", "tls"])
async def test_tls(start_process: StartProcess, tmp_path: Path, scheme: str) -> None:
    certificates = Certificates(tmp_path, "127.0.0.1")
    url = start_process(*certificates.flags).url.replace("nats", scheme)
    async with (
        fumarole.connect(url, tls=certificates.context()) as client,
        client.subscribe("a", limit=1000) as messages,
    ):
        await client.publish_many(("a", bytes(1000)) for _ in range(1000))
        assert [len(message.payload) async for message in messages] == [1000] * 1000


async def test_a_node_told_of_by_its_number_has_the_certificate_of_its_name(
    start_process: StartProcess, tmp_path: Path, closed_port: int
) -> None:
    certificates = Certificates(tmp_path, "localhost")
    broker = start_process(*certificates.flags)
    url = broker.url.replace("nats://127.0.0.1", "tls://localhost")
    notices = Notices()
    async with fumarole.connect(url, tls=certificates.context(), on_notice=notices) as client:
        reconnecting = client._reconnecting
        assert reconnecting.connection is not None
        reconnecting._servers.learn(reconnecting.connection.server, [f"127.0.0.1:{closed_port}"])
        broker.kill()
        await notices.wait_for(Disconnected)
        start_process(*certificates.flags, port=closed_port)
        await notices.wait_for(Reconnected)
        assert client.server == f"tls://127.0.0.1:{closed_port}"


async def test_a_certificate_that_is_not_right(start_process: StartProcess, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path, "broker.example")
    url = start_process(*certificates.flags).url
    with pytest.raises(fumarole.NoServerError, match="its certificate is not trusted: IP address mismatch"):
        await fumarole.connect(url, tls=certificates.context())
    # Without a context of its own, a client follows a server that asks for TLS, with the system's authorities.
    with pytest.raises(fumarole.NoServerError, match="its certificate is not trusted"):
        await fumarole.connect(url)


@pytest.mark.parametrize("way", ["tls://", "tls="])
async def test_who_asks_for_tls_is_never_served_without(start_fake: StartFake, tmp_path: Path, way: str) -> None:
    server = await start_fake()
    url = (
        f"tls://lab:secret@127.0.0.1:{server.port}" if way == "tls://" else f"nats://lab:secret@127.0.0.1:{server.port}"
    )
    with pytest.raises(fumarole.NoServerError, match="does not offer TLS"):
        await fumarole.connect(url, tls=None if way == "tls://" else ssl.create_default_context())
    assert server.everything() == b""


MESSAGE = b"MSG a 2 5\r\nevil!\r\n"


@pytest.mark.parametrize("behind", [MESSAGE, MESSAGE[:-4], b"P", nats.PONG, b"-ERR 'Invalid Publish Subject'\r\n"])
async def test_nothing_in_the_clear_goes_before_tls(start_fake: StartFake, behind: bytes) -> None:
    """An attacker on the way could say it, and let the true server go on."""
    server = await start_fake(greeting=nats.info({"tls_required": True}) + behind)
    notices = Notices()
    with pytest.raises(fumarole.NoServerError, match=r"more than a greeting|Invalid Publish Subject"):
        await fumarole.connect(server.url, on_notice=notices)
    assert server.everything() == b""
    assert notices.all == []


async def test_nothing_in_the_clear_goes_before_tls_on_the_way_back(start_fake: StartFake) -> None:
    server = await start_fake()
    notices = Notices()
    async with fumarole.connect(server.url, on_notice=notices) as client, client.subscribe("a") as messages:
        server.greeting = nats.info({"tls_required": True}) + MESSAGE
        server.cut()
        await server.wait_for(lambda: len(server.heard) == 3)
        server.greeting = nats.info({})
        await notices.wait_for(Reconnected)
        await client.flush()
        assert messages.received == 0


async def test_what_is_said_about_the_client(start_fake: StartFake) -> None:
    server = await start_fake()
    async with fumarole.connect(f"nats://lab:secret@127.0.0.1:{server.port}", name="n", user="other", echo=False):
        protocol = nats.ServerProtocol(Limits(control_line=1 << 16))
        protocol.receive_data(server.everything())
        (connect,) = protocol.events_received()
    assert isinstance(connect, nats.Connect)
    expected = {"user": "lab", "pass": "secret", "name": "n", "echo": False, "headers": True, "no_responders": True}
    assert expected.items() <= connect.options.items()
    assert connect.options["verbose"] is False


async def test_a_connection_that_was_not_opened_warns() -> None:
    with pytest.warns(RuntimeWarning, match="never awaited"):
        fumarole.connect()
