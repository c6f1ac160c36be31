"""Access: origins, hosts and credentials of a request (H5).

A browser sends requests on behalf of any page that it shows. A page of another site must not reach a broker that trusts
its machine, so a request that says it comes from elsewhere is refused, unless that origin is configured. A name that
suddenly resolves to this machine (DNS rebinding) makes another site's page look like one of ours: without users, what
touches messages also wants a Host that is loopback or configured.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from http.cookies import CookieError, SimpleCookie
from typing import Final

from fumarole.protocols.http import Head
from fumarole.sessions.stream import Claim

COOKIE: Final = "fumarole"
"""The name of the cookie that `POST /v1/session` gives."""
SENDABLE: Final = (
    *("Authorization", "Content-Type", "Fumarole-Producer", "Fumarole-Metadata", "Last-Event-ID"),
    *("traceparent", "tracestate"),
)
_MESSAGE_HEADER = re.compile(r"fumarole-header-[a-z0-9_-]{1,100}")
FOREIGN: Final = "this request comes from another site; configure its origin in `http.origins` to allow it"
REBOUND: Final = "without users, requests name localhost or a host of `http.hosts`; this one names another"


def is_loopback(host: str) -> bool:
    """Is this a name or an address of the machine itself?"""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(authority: str) -> str:
    """The name or address of `NAME:PORT`, `[ADDRESS]:PORT` or either without a port."""
    if authority.startswith("["):
        return authority[: authority.find("]") + 1].lower()
    return authority.partition(":")[0].lower().rstrip(".")


def foreign_origin(head: Head, origins: tuple[str, ...], *, secure: bool) -> bool:
    """Does a page of another origin send this?"""
    fields = head.fields
    origin = fields.get("origin")
    if origin is not None:
        own = f"{'https' if secure else 'http'}://{fields.get('host', '')}"
        return origin.lower() != own.lower() and origin not in origins
    return fields.get("sec-fetch-site") == "cross-site"


def sendable(head: Head) -> list[str]:
    """The fields that a page of a configured origin may send: those that mean something here, and headers of a message
    as far as it asks for them."""
    asked = head.fields.get("access-control-request-headers", "").split(",")
    return [*SENDABLE, *(name for each in asked if _MESSAGE_HEADER.fullmatch(name := each.strip().lower()))]


def is_navigation(head: Head) -> bool:
    """Did a person follow a link?"""
    fields = head.fields
    return head.method in ("GET", "HEAD") and fields.get("sec-fetch-mode") == "navigate" and "origin" not in fields


def names_this_machine(head: Head, hosts: tuple[str, ...]) -> bool:
    """Is its Host loopback, or configured? What has none was sent by no browser."""
    host = head.fields.get("host")
    return host is None or is_loopback(host_name(host)) or host_name(host) in hosts


def claim_of(head: Head) -> Claim | None:
    """What the field Authorization says. None: nothing that is understood here."""
    scheme, _, given = head.fields.get("authorization", "").partition(" ")
    given = given.strip()
    if scheme.lower() == "bearer" and given:
        return Claim(None, None, given)
    if scheme.lower() == "basic" and given:
        try:
            user, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return Claim(user, password, None) if colon else None
    return None


def cookie_of(head: Head) -> str | None:
    """The value of the login cookie."""
    text = head.fields.get("cookie")
    if text is None or COOKIE not in text:
        return None
    try:
        morsel = SimpleCookie(text).get(COOKIE)
    except CookieError:
        return None
    return None if morsel is None else morsel.value


def challenge(head: Head) -> str:
    """What WWW-Authenticate says. Never Basic to a page: its browser would open a dialog."""
    is_page = any(name in head.fields for name in ("origin", "sec-fetch-site", "sec-fetch-mode"))
    return 'Bearer realm="fumarole"' if is_page else 'Basic realm="fumarole", charset="UTF-8", Bearer realm="fumarole"'
