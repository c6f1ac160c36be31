"""nats-py with TLS and with credentials: who gets in, and what they may do there."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import argon2
import nats
import nats.errors
import pytest
from nats.aio.client import Client

from fumarole.server.credentials import token_digest
from tests.integration.conftest import Authority, Brokers
from tests.integration.running import RunningBroker

SECONDS = 10
_QUICK = argon2.PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


def user(name: str, secret: str, *lines: str) -> str:
    """A `[[users]]` table; the secret is a password, and with `token-` before it a token."""
    if secret.startswith("token-"):
        proof = f'token = "{token_digest(secret)}"'
    else:
        proof = f'password = "{_QUICK.hash(secret)}"'
    return "\n".join(["[[users]]", f'name = "{name}"', proof, *lines, ""])


@pytest.fixture(scope="module")
def users() -> str:
    """Salted hashes differ each time; made once, one broker serves all tests."""
    return "\n".join([
        user("ada", "lovelace", 'namespace = "volcanoes"'),
        user("bob", "token-of-bob", 'namespace = "volcanoes"'),
        user("eve", "drop", 'namespace = "elsewhere"'),
        user(
            "limited",
            "limited",
            'namespace = "volcanoes"',
            'publish = { allow = ["open.>", "_INBOX.>"], deny = ["open.secret.>"] }',
            'subscribe = { allow = ["open.>", "_INBOX.>"], deny = ["open.secret.>", "open.*.hidden"] }',
        ),
        user("mute", "mute", 'namespace = "volcanoes"', "publish = { allow = [] }"),
    ])  # fmt: skip


@pytest.fixture
def guarded(brokers: Brokers, engine_name: str, users: str) -> RunningBroker:
    return brokers.share(users, engine_name)


async def connect(broker: RunningBroker, **options: Any) -> Client:
    return await nats.connect(broker.url, allow_reconnect=False, **options)


async def refused(broker: RunningBroker, **options: Any) -> Exception:
    """Why the broker, or the client, did not want this connection. nats-py leaves its socket open then; it is closed here."""
    client = Client()
    try:
        await client.connect(broker.url, allow_reconnect=False, **options)
        await client.flush(2)  # nats-py believes in a connection that is closed instead of answered
    except (ssl.SSLError, nats.errors.Error, ConnectionError) as error:
        return error
    finally:
        for name in ("_io_writer", "_bare_io_writer"):
            writer = getattr(client._transport, name, None)
            if writer is not None:
                writer.transport.abort()
        await asyncio.sleep(0)
    raise AssertionError("it was accepted")


class Errors:
    """The errors of the broker, as nats-py reports it."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    async def hear(self, error: Exception) -> None:
        await self._queue.put(str(error))

    async def next(self) -> str:
        return await asyncio.wait_for(self._queue.get(), SECONDS)


@pytest.fixture
async def ada(guarded: RunningBroker) -> AsyncIterator[Client]:
    client = await connect(guarded, user="ada", password="lovelace")
    yield client
    await client.close()


@pytest.fixture
async def limited(guarded: RunningBroker) -> AsyncIterator[tuple[Client, Errors]]:
    errors = Errors()
    client = await connect(guarded, user="limited", password="limited", error_cb=errors.hear)
    yield client, errors
    await client.close()


async def topics(subscription: Any, last: str) -> list[str]:
    """What comes before the last of a number of messages."""
    heard: list[str] = []
    while (topic := (await subscription.next_msg(timeout=SECONDS)).subject) != last:
        heard.append(topic)
    return heard


async def test_password_and_token_lead_to_their_namespace(guarded: RunningBroker, ada: Client) -> None:
    bob = await connect(guarded, token="token-of-bob")
    eve = await connect(guarded, user="eve", password="drop")
    heard = [await one.subscribe(">") for one in (ada, bob, eve)]
    for one in (ada, bob, eve):
        await one.flush()
    await bob.publish("a", b"")
    await bob.publish("end", b"")
    await eve.publish("end", b"")
    assert [await topics(one, "end") for one in heard] == [["a"], ["a"], []]
    await bob.close()
    await eve.close()


WRONG: dict[str, dict[str, Any]] = {
    "nothing": {},
    "wrong password": {"user": "ada", "password": "lovelacE"},
    "no such user": {"user": "nobody", "password": "lovelace"},
    "the password of another": {"user": "ada", "password": "drop"},
    "empty password": {"user": "ada", "password": ""},
    "the name as a token": {"token": "ada"},
    "the password as a token": {"token": "lovelace"},
    "the token as a password": {"user": "bob", "password": "token-of-bob"},
    "the digest as a token": {"token": token_digest("token-of-bob")},
    "a very long password": {"user": "ada", "password": "x" * 3000},
    "a password that is no ASCII": {"user": "ada", "password": "lövelace"},
    "a password with NUL": {"user": "ada", "password": "lovelace\0"},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_others_do_not_get_in(guarded: RunningBroker, wrong: dict[str, Any]) -> None:
    assert "authorization" in str(await refused(guarded, **wrong)).lower()


async def test_secrets_are_not_logged(guarded: RunningBroker) -> None:
    log = "\n".join(guarded.log)
    assert not any(secret in log for secret in ("lovelace", "lovelacE", "token-of-bob", "argon2", "sha256"))


async def test_publish_permissions(ada: Client, limited: tuple[Client, Errors]) -> None:
    client, errors = limited
    everything = await ada.subscribe(">")
    await ada.flush()
    for topic in ("open.a", "closed.a", "open.secret.a", "open.b", "open"):
        await client.publish(topic, b"")
    await client.publish("open.end", b"")
    assert await topics(everything, "open.end") == ["open.a", "open.b"]
    errors_seen = [await errors.next() for _ in range(3)]
    for topic, error in zip(("closed.a", "open.secret.a", "open"), errors_seen, strict=True):
        assert "permissions violation" in error.lower()
        assert f'"{topic}"' in error


async def test_a_user_may_be_allowed_to_publish_nothing(guarded: RunningBroker) -> None:
    errors = Errors()
    mute = await connect(guarded, user="mute", password="mute", error_cb=errors.hear)
    await mute.publish("a", b"")
    assert 'publish to "a"' in (await errors.next()).lower()
    await mute.close()


@pytest.mark.parametrize(
    "pattern", ["closed", "closed.>", ">", "*.a", "open.secret.>", "open.secret.x", "open.secret.*"]
)
@pytest.mark.parametrize("group", ["", "g"])
async def test_subscribe_permissions(limited: tuple[Client, Errors], pattern: str, group: str) -> None:
    client, errors = limited
    await client.subscribe(pattern, queue=group)
    error = await errors.next()
    assert "permissions violation" in error.lower()
    assert f'"{pattern}"' in error


async def test_what_is_denied_does_not_leak_through_a_wider_pattern(
    ada: Client, limited: tuple[Client, Errors]
) -> None:
    client, _ = limited
    subscriptions = [await client.subscribe(pattern) for pattern in ("open.>", "open.*.*")]
    await client.flush()
    for topic in ("open.secret.a", "open.x.hidden", "open.x.seen", "open.x.hidden"):
        await ada.publish(topic, b"")
    await ada.publish("open.the.end", b"")
    for subscription in subscriptions:
        assert await topics(subscription, "open.the.end") == ["open.x.seen"]


async def test_a_member_that_may_not_see_a_message_is_not_chosen(ada: Client, limited: tuple[Client, Errors]) -> None:
    """Hazard 4: it goes to a member that may receive it, every time."""
    client, _ = limited
    restricted = await client.subscribe("open.>", queue="g")
    await client.flush()
    free = await ada.subscribe("open.>", queue="g")
    for _ in range(50):
        await ada.publish("open.secret.a", b"")
        await ada.publish("open.x", b"")
    async with asyncio.timeout(SECONDS):
        while free.pending_msgs + restricted.pending_msgs < 100:  # noqa: ASYNC110 - the client has no event for it
            await asyncio.sleep(0.01)
    heard = [(await free.next_msg(timeout=SECONDS)).subject for _ in range(free.pending_msgs)]
    assert heard.count("open.secret.a") == 50
    got = [(await restricted.next_msg(timeout=SECONDS)).subject for _ in range(restricted.pending_msgs)]
    assert set(got) == {"open.x"}
    assert len(got) + heard.count("open.x") == 50
    assert 10 <= len(got) <= 40


async def test_a_request_to_what_nobody_may_see_has_no_responders(ada: Client, limited: tuple[Client, Errors]) -> None:
    client, _ = limited
    await client.subscribe("open.>")
    await client.flush()
    with pytest.raises(nats.errors.NoRespondersError):
        await ada.request("open.secret.a", b"", timeout=SECONDS)


async def test_the_counters_are_no_way_round_publish_permissions(ada: Client, limited: tuple[Client, Errors]) -> None:
    """Hazard 4: the node answers `$FUM.stats` to the asker, never to a topic of the asker's choice."""
    client, _ = limited
    everything = await ada.subscribe(">")
    await ada.flush()
    await client.publish("$FUM.stats", b"", reply="closed.a")
    await client.publish("open.end", b"")
    assert await topics(everything, "open.end") == []
    refusal = (await client.request("$FUM.stats", b"", timeout=SECONDS)).data
    assert b"for users with the role admin" in refusal  # A4


# TLS.


async def test_tls(brokers: Brokers, engine_name: str, authority: Authority) -> None:
    broker = brokers.share(authority.config(), engine_name)
    client = await connect(broker, tls=authority.client_context())
    assert client._server_info["tls_required"] is True
    subscription = await client.subscribe("a")
    payload = bytes(range(256)) * 4000
    await client.publish("a", payload)
    assert (await subscription.next_msg(timeout=SECONDS)).data == payload
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("nobody", b"", timeout=SECONDS)
    await client.close()


async def test_a_client_that_does_not_trust_us(brokers: Brokers, engine_name: str, authority: Authority) -> None:
    broker = brokers.share(authority.config(), engine_name)
    assert "certificate" in str(await refused(broker, tls=ssl.create_default_context())).lower()


async def test_tls_and_credentials(brokers: Brokers, engine_name: str, authority: Authority, users: str) -> None:
    broker = brokers.share(authority.config() + users, engine_name)
    client = await connect(broker, tls=authority.client_context(), user="ada", password="lovelace")
    subscription = await client.subscribe("a")
    await client.publish("a", b"1")
    assert (await subscription.next_msg(timeout=SECONDS)).data == b"1"
    await client.close()
    error = await refused(broker, tls=authority.client_context(), user="ada", password="wrong")
    assert "authorization" in str(error).lower()


@pytest.mark.parametrize("with_certificate", [False, True], ids=["without", "with certificate"])
async def test_client_certificates_optional(
    brokers: Brokers, engine_name: str, authority: Authority, with_certificate: bool
) -> None:
    broker = brokers.share(authority.config("optional"), engine_name)
    client = await connect(broker, tls=authority.client_context(with_certificate))
    await client.flush()
    await client.close()


async def test_client_certificates_required(brokers: Brokers, engine_name: str, authority: Authority) -> None:
    broker = brokers.share(authority.config("required"), engine_name)
    client = await connect(broker, tls=authority.client_context(with_certificate=True))
    await client.flush()
    await client.close()
    await refused(broker, tls=authority.client_context())


async def test_tls_clients_leave_no_line_in_the_log(brokers: Brokers, engine_name: str, authority: Authority) -> None:
    broker = brokers.share(authority.config(), engine_name)
    logged = len(broker.log)
    for _ in range(5):
        client = await connect(broker, tls=authority.client_context())
        await client.close()
    assert broker.log[logged:] == []
