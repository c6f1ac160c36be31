"""Commands that send and receive: `pub`, `sub`, `request`, `reply`."""

from __future__ import annotations

from typing import Annotated

import typer

from fumarole.cli.access import DEFAULT_SERVERS, Access, Servers, TlsAuthority, TlsCertificate, TlsKey
from fumarole.cli.terminal import MISUSED, fail, finite, run
from fumarole.core import headers
from fumarole.protocols.nats import MOST_AWAITED

Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME:VALUE", help="A header; may be repeated.")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line, for scripts.")]
Group = Annotated[str, typer.Option("--group", "-g", metavar="NAME", help="Share the messages with this group.")]


def pub(
    topic: Annotated[str, typer.Argument(help="Where to; letters, digits, - and _, with dots between the words.")],
    payload: Annotated[str | None, typer.Argument(help="What to publish. Left out: each line of stdin.")] = None,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="So many times, or lines.")] = None,
    rate: Annotated[float | None, typer.Option(callback=finite, min=0.001, help="At most so many a second.")] = None,
    header: Headers = None,
    reply: Annotated[str, typer.Option(metavar="TOPIC", help="Where answers should go.")] = "",
    whole: Annotated[bool, typer.Option("--whole", help="All of stdin is one message.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Publish a message, or each line of stdin."""
    from fumarole.cli.pub import Work, publish

    if whole and payload is not None:
        fail("--whole takes the message from stdin, so no payload can be given", MISUSED)
    work = Work(topic, payload, count, rate, header_pairs(header), reply, whole)
    run(publish(Access(servers, tls_authority, tls_certificate, tls_key), work))


def header_pairs(texts: list[str] | None) -> list[tuple[str, str]]:
    """`Unit: celsius` as a name and a value."""
    pairs = []
    for text in texts or []:
        name, colon, value = (part.strip() for part in text.partition(":"))
        if not colon or not _is_header(name, value):
            fail(f"{text!r} is not a header; expected NAME:VALUE, UTF-8, no space in the name and no line end", MISUSED)
        pairs.append((name, value))
    return pairs


def _is_header(name: str, value: str) -> bool:
    try:
        headers.build([(name, value)])
    except ValueError:
        return False
    return True


def sub(
    pattern: Annotated[str, typer.Argument(help="`*` is one word, `foo*` part of one, `>` the rest.")] = ">",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, max=MOST_AWAITED, help="End after so many messages.")
    ] = None,
    group: Group = "",
    raw: Annotated[bool, typer.Option("--raw", help="Payloads only, as they are.")] = False,
    as_json: AsJson = False,
    timeout: Annotated[
        float | None,
        typer.Option(callback=finite, min=0.001, metavar="SECONDS", help="End when none came for so long."),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="QUERY", help="Readings of the producers that this query selects, and who they are."),
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Show messages as they are published."""
    access = Access(servers, tls_authority, tls_certificate, tls_key)
    if where is not None:
        from fumarole.cli.readings import show_readings

        run(show_readings(access, where, pattern, count, group, timeout, raw, as_json), interrupted=0)
        return
    from fumarole.cli.receiving import show_messages

    run(show_messages(access, pattern, count, group, timeout, raw, as_json), interrupted=0)


def request(
    topic: Annotated[str, typer.Argument(help="Whom to ask.")],
    payload: Annotated[str, typer.Argument(help="What to ask.")] = "",
    replies: Annotated[
        str, typer.Option("--replies", "-r", metavar="N|all", help="How many answers to wait for.")
    ] = "1",
    timeout: Annotated[
        float, typer.Option(callback=finite, min=0.001, metavar="SECONDS", help="How long to wait for them.")
    ] = 5.0,
    header: Headers = None,
    raw: Annotated[bool, typer.Option("--raw", help="Payloads only, as they are.")] = False,
    as_json: AsJson = False,
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Ask, and show what is answered."""
    from fumarole.cli.receiving import ask

    if replies != "all" and not (replies.isdecimal() and int(replies)):
        fail(f"--replies is a number above 0, or `all`, not {replies!r}", MISUSED)
    wanted = None if replies == "all" else int(replies)
    access = Access(servers, tls_authority, tls_certificate, tls_key)
    run(ask(access, topic, payload, wanted, timeout, header_pairs(header), raw, as_json))


def reply(
    pattern: Annotated[str, typer.Argument(help="Which requests to answer.")],
    text: Annotated[str | None, typer.Argument(help="The answer.")] = None,
    echo: Annotated[bool, typer.Option("--echo", help="Answer with the request's own payload.")] = False,
    command: Annotated[
        str | None,
        typer.Option(
            metavar="CMD", help="Run this in a shell, with the payload on stdin and $TOPIC set; answer what it prints."
        ),
    ] = None,
    group: Group = "",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, max=MOST_AWAITED, help="End after so many requests.")
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    tls_authority: TlsAuthority = None,
    tls_certificate: TlsCertificate = None,
    tls_key: TlsKey = None,
) -> None:
    """Answer requests: with a text, an echo, or what a command prints."""
    from fumarole.cli.receiving import answer

    if [text is not None, echo, command is not None].count(True) != 1:
        fail("say how to answer: with TEXT, --echo or --command, one of them", MISUSED)
    access = Access(servers, tls_authority, tls_certificate, tls_key)
    run(answer(access, pattern, group, count, text, command), interrupted=0)
