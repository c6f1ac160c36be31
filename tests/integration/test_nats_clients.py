"""What NATS' own clients need of a server beyond messages: services, keys, TLS before INFO, errors that end no client."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

import nats
import nats.errors
import pytest
from nats.micro import add_service

from fumarole.server.credentials import new_key_pair
from tests.integration.conftest import Authority, Brokers
from tests.integration.raw import RawClient
from tests.integration.running import RunningBroker
from tests.integration.test_nats_py_secure import connect, refused

SECONDS = 10


async def test_no_refusal_ends_the_client(broker: RunningBroker) -> None:
    """Clients close for good on an error that they do not know."""
    errors: asyncio.Queue[Exception] = asyncio.Queue()
    client = await connect(broker, error_cb=errors.put)
    await client.publish("device:12", b"x")
    await client.subscribe("room/5")
    await client.subscribe("$SYS.>")
    await client.publish("a", b"x", headers={"Producer": "billing-service"})
    await client.publish(
        "readings", b"x", headers={"Producer": "1c1b4eb2-86e6-45d3-b3f4-4d92cc1a2f60", "Metadata": "no"}
    )
    await client.flush(SECONDS)
    told = [str(await asyncio.wait_for(errors.get(), SECONDS)).lower() for _ in range(4)]
    assert client.is_connected
    assert all("permissions violation for" in text for text in told)
    assert "--grammar channel" in told[0]
    assert "--grammar channel" in told[1]
    await client.close()


async def test_a_service(broker: RunningBroker) -> None:
    """nats.micro: found by name, asked, and its endpoints counted."""
    server, client = await connect(broker), await connect(broker)

    async def double(request: Any) -> None:
        await request.respond(str(2 * int(request.data)).encode())

    service = await add_service(server, name="Doubler", version="1.0.0")
    await service.add_endpoint(name="double", handler=double)
    await server.flush(SECONDS)
    answer = await client.request("double", b"21", timeout=SECONDS)
    assert answer.data == b"42"
    pong = json.loads((await client.request("$SRV.PING", b"", timeout=SECONDS)).data)
    assert pong["name"] == "Doubler"
    stats = json.loads((await client.request(f"$SRV.STATS.Doubler.{pong['id']}", b"", timeout=SECONDS)).data)
    assert stats["endpoints"][0]["num_requests"] == 1
    await service.stop()
    for each in (server, client):
        await each.close()


async def test_there_is_no_jetstream(broker: RunningBroker) -> None:
    """As nats-server without it: 503, at once, and the client goes on."""
    client = await connect(broker)
    with pytest.raises(nats.errors.NoRespondersError):
        await client.request("$JS.API.INFO", b"", timeout=SECONDS)
    await client.subscribe("$KV.bucket.>")
    await client.flush(SECONDS)
    assert client.is_connected
    assert client.last_error is None
    await client.close()


async def test_who_am_i(broker: RunningBroker) -> None:
    client = await connect(broker)
    answer = json.loads((await client.request("$SYS.REQ.USER.INFO", b"", timeout=SECONDS)).data)
    assert answer["data"]["account"] == "default"
    await client.close()


async def test_an_nkey(brokers: Brokers, engine_name: str) -> None:
    seed, public = new_key_pair()
    config = f'[[users]]\nname = "sensor"\nnkey = "{public}"\nnamespace = "volcanoes"\npublish = {{ allow = ["a"] }}\n'
    broker = brokers.share(config, engine_name)
    client = await connect(broker, nkeys_seed_str=seed)
    answer = json.loads((await client.request("$SYS.REQ.USER.INFO", b"", timeout=SECONDS)).data)
    assert (answer["data"]["user"], answer["data"]["account"]) == ("sensor", "volcanoes")
    await client.close()
    for options in ({"nkeys_seed_str": new_key_pair()[0]}, {}, {"user": "sensor", "password": public}):
        assert "authorization" in str(await refused(broker, **options)).lower()
    assert any("login from 127.0.0.1 failed: unknown nkey, or a wrong signature" in line for line in broker.log)


def test_a_signature_is_of_no_use_to_another_connection(brokers: Brokers, engine_name: str) -> None:
    _, public = new_key_pair()
    broker = brokers.share(f'[[users]]\nname = "sensor"\nnkey = "{public}"\n', engine_name)
    with RawClient(broker.port) as one, RawClient(broker.port) as other:
        nonces = {client.info["nonce"] for client in (one, other)}
        assert len(nonces) == 2
        assert all(len(nonce) >= 16 for nonce in nonces)


async def test_tls_before_info(brokers: Brokers, authority: Authority, engine_name: str) -> None:
    broker = brokers.share(authority.config() + "handshake_first = true\n", engine_name)
    client = await nats.connect(
        f"tls://127.0.0.1:{broker.port}",
        tls=authority.client_context(),
        tls_handshake_first=True,
        allow_reconnect=False,
    )
    subscription = await client.subscribe("a")
    await client.publish("a", b"hi")
    assert (await subscription.next_msg(timeout=SECONDS)).data == b"hi"
    await client.close()
    with RawClient(broker.port, greet=False) as raw:
        assert not raw.socket.recv(100).startswith(b"INFO"), "the handshake's deadline ends it"


async def test_certificates_are_announced(brokers: Brokers, authority: Authority, engine_name: str) -> None:
    """A client looks at `tls_verify` before it shows its own."""
    broker = brokers.share(authority.config("required"), engine_name)
    with RawClient(broker.port) as raw:
        info = raw.info
    assert (info["tls_required"], info["tls_verify"]) == (True, True)
    context: ssl.SSLContext = authority.client_context(with_certificate=True)
    client = await nats.connect(f"tls://127.0.0.1:{broker.port}", tls=context, allow_reconnect=False)
    await client.flush(SECONDS)
    await client.close()
