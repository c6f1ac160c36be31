"""What does not change while the node runs: the console's files and the description of the calls."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from fumarole.sessions.http.call import VARY, Answer, Call
from fumarole.sessions.http.service import Page

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Of the console: nothing from elsewhere, nothing inline, and no page may frame it."""
KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}


def page(suffix: str, body: bytes) -> Page:
    """A file, with the tag by which a browser asks whether it has changed. The tag is weak (RFC 9110, 8.8.1): the file
    has the same one whether it is compressed or not."""
    tag = f'W/"{blake2b(body, digest_size=12).hexdigest()}"'
    return Page(KINDS.get(suffix, "application/octet-stream"), body, tag)


def served(made: Page) -> Callable[[Call], None]:
    """A call that answers with this."""
    return lambda call: show(call, made)


def show(call: Call, made: Page) -> None:
    """The page, or that it has not changed."""
    fields: list[Answer] = [("ETag", made.tag), ("Cache-Control", "no-cache"), VARY]
    if made.kind.startswith("text/html"):
        fields += [("Content-Security-Policy", POLICY), ("X-Frame-Options", "DENY"), ("Referrer-Policy", "no-referrer")]
    given = call.head.fields.get("if-none-match", "")
    if given.strip() == "*" or made.tag.removeprefix("W/") in (
        each.strip().removeprefix("W/") for each in given.split(",")
    ):
        call.empty(304, fields)
    else:
        call.whole(200, made.kind, made.body, fields)
