"""The same subscription in other languages and protocols: what the console offers under "copy as".

Each form is a program or command that runs as it stands, with the address of this node in it. Where a protocol cannot
express it, a sentence says why. A test runs every form.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote

from fumarole.core.query.view import is_view

DEFAULT: Final = "default"


class Copy(NamedTuple):
    """One form."""

    form: str
    lines: str = ""
    why_not: str = ""


def copies(*, where: str, topic: str, host: str, doors: Mapping[str, int], namespace: str = DEFAULT) -> list[Copy]:
    """All forms of a query, a view or a pattern. `doors` has the ports of the doors that are open."""
    if is_view(where):
        return _of_view(where, host, doors, namespace)
    return _of_query(where, host, doors, namespace) if where else _of_pattern(topic, host, doors, namespace)


def _of_query(where: str, host: str, doors: Mapping[str, int], namespace: str) -> list[Copy]:
    nats = _address(host, doors, "nats", namespace)
    web = f"http://{host}:{doors.get('http', 8222)}/v1/stream?where={quote(where, safe='')}{_chosen(namespace)}"
    return [
        Copy("python", _PYTHON_QUERY.format(nats=nats, where=json.dumps(where))),
        Copy("fumarole", f"fumarole sub --servers {nats} --where {shlex.quote(where)}"),
        Copy("curl", f"curl -N {shlex.quote(web)}"),
        Copy("javascript", _JAVASCRIPT.format(url=json.dumps(web))),
        Copy("nats", _NATS_QUERY.format(nats=nats, where=shlex.quote(where))),
        _msgpack(where, host, doors, namespace),
        Copy("mosquitto_sub", why_not="MQTT has no place for a query; subscribe to a topic, or use another form."),
        Copy("spark", _SPARK.format(nats=nats, option="where", value=json.dumps(where))),
    ]


def _of_view(view: str, host: str, doors: Mapping[str, int], namespace: str) -> list[Copy]:
    nats = _address(host, doors, "nats", namespace)
    web = f"http://{host}:{doors.get('http', 8222)}/v1/stream?where={quote(view, safe='')}{_chosen(namespace)}"
    return [
        Copy("python", _PYTHON_VIEW.format(nats=nats, view=json.dumps(view))),
        Copy("fumarole", f"fumarole view --servers {nats} {shlex.quote(view)}"),
        Copy("curl", f"curl -N {shlex.quote(web)}"),
        Copy("javascript", _JAVASCRIPT_VIEW.format(url=json.dumps(web))),
        Copy("nats", _NATS_VIEW.format(nats=nats, view=shlex.quote(view))),
        _msgpack(view, host, doors, namespace),
        Copy("mosquitto_sub", why_not="MQTT has no place for a query; use another form."),
        Copy("spark", why_not="The live source reads messages; a view is a `groupBy` on its metadata columns."),
    ]


def _of_pattern(topic: str, host: str, doors: Mapping[str, int], namespace: str) -> list[Copy]:
    nats = _address(host, doors, "nats", namespace)
    web = f"http://{host}:{doors.get('http', 8222)}/v1/stream?topic={quote(topic, safe='')}{_chosen(namespace)}"
    return [
        Copy("python", _PYTHON_TOPIC.format(nats=nats, topic=json.dumps(topic))),
        Copy("fumarole", f"fumarole sub --servers {nats} {shlex.quote(topic)}"),
        Copy("curl", f"curl -N {shlex.quote(web)}"),
        Copy("javascript", _JAVASCRIPT.format(url=json.dumps(web))),
        Copy("nats", f"nats --server {nats} sub {shlex.quote(topic)}"),
        Copy("msgpack", why_not="The plain form of the MsgPack door takes a query; a map with `topic` subscribes too."),
        _mosquitto(topic, host, doors, namespace),
        Copy("spark", _SPARK.format(nats=nats, option="topic", value=json.dumps(topic))),
    ]


def _address(host: str, doors: Mapping[str, int], door: str, namespace: str) -> str:
    user = "" if namespace == DEFAULT else f"{namespace}@"
    return f"nats://{user}{host}:{doors.get(door, 4222)}"


def _chosen(namespace: str) -> str:
    return "" if namespace == DEFAULT else f"&namespace={namespace}"


def _msgpack(where: str, host: str, doors: Mapping[str, int], namespace: str) -> Copy:
    if "msgpack" not in doors:
        return Copy("msgpack", why_not="The MsgPack door of this node is closed.")
    if namespace != DEFAULT:
        return Copy("msgpack", why_not="Without users, clients of the MsgPack door are in one namespace, set there.")
    return Copy("msgpack", _MSGPACK.format(host=json.dumps(host), port=doors["msgpack"], where=json.dumps(where)))


def _mosquitto(topic: str, host: str, doors: Mapping[str, int], namespace: str) -> Copy:
    if "mqtt" not in doors:
        return Copy("mosquitto_sub", why_not="The MQTT door of this node is closed.")
    if namespace != DEFAULT:
        return Copy("mosquitto_sub", why_not="Without users, clients of the MQTT door are in one namespace, set there.")
    words = topic.split(".")
    if any("*" in word and word != "*" for word in words):
        return Copy("mosquitto_sub", why_not="MQTT has no wildcard inside a level.")
    if words[-1] == ">" and len(words) > 1:
        return Copy("mosquitto_sub", why_not="MQTT's `#` matches the level above it too, which `>` does not.")
    levels = ["+" if word == "*" else "#" if word == ">" else word for word in words]
    mqtt = shlex.quote("/".join(levels))
    return Copy("mosquitto_sub", f"mosquitto_sub -h {host} -p {doors['mqtt']} -v -t {mqtt}")


_PYTHON_QUERY: Final = """\
import asyncio
import fumarole


async def main():
    async with fumarole.connect("{nats}") as client:
        async with client.where({where}) as readings:
            async for reading in readings:
                print(reading)


asyncio.run(main())"""
_PYTHON_VIEW: Final = """\
import asyncio
import fumarole


async def main():
    async with fumarole.connect("{nats}") as client:
        async with client.view({view}) as view:
            async for change in view:
                print(change, view.entries)


asyncio.run(main())"""
_PYTHON_TOPIC: Final = """\
import asyncio
import fumarole


async def main():
    async with fumarole.connect("{nats}") as client:
        async with client.subscribe({topic}) as messages:
            async for message in messages:
                print(message.topic, message.payload)


asyncio.run(main())"""
_JAVASCRIPT: Final = """\
const events = new EventSource({url})
for (const kind of ["set", "reading", "message", "dropped"])
  events.addEventListener(kind, (event) => console.log(kind, event.data))"""
_JAVASCRIPT_VIEW: Final = """\
const events = new EventSource({url})
events.addEventListener("view", (event) => console.log(event.data))"""
_NATS_VIEW: Final = """\
# the answer has the entries, and the topic on which changes follow
nats --server {nats} request '$FUM.view' {view}"""
_NATS_QUERY: Final = """\
# the answer has the set, and the topics on which readings and changes follow
nats --server {nats} request '$FUM.where' {where}"""
_MSGPACK: Final = """\
import socket
import msgpack

subscriber = socket.create_connection(({host}, {port}))
subscriber.sendall(msgpack.packb({where}))
for value in msgpack.Unpacker(subscriber.makefile("rb", buffering=0)):
    print(value, flush=True)"""
_SPARK: Final = """\
from fumarole import pipeline

pipeline.register(spark)
readings = spark.readStream.format("fumarole").option("servers", "{nats}").option("{option}", {value}).load()
readings.writeStream.format("console").start()"""
