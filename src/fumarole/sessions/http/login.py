"""The cookie of a browser, which sends credentials once (H5)."""

from __future__ import annotations

from fumarole.sessions.http.access import COOKIE
from fumarole.sessions.http.call import Call

EVERYBODY = "there are no users here, so there is nothing to log in to"


def give(call: Call) -> None:
    """`POST /v1/session`: a cookie for the user of the credentials that came with it."""
    service, user = call.service, call.user
    if user is None or service.cookies is None:
        call.problem(409, EVERYBODY)
        return
    life = service.settings.cookie_life
    cookie = _cookie(call, service.cookies.give(user, life), round(life))
    call.json(200, told(call), [("Set-Cookie", cookie)])


def whose(call: Call) -> None:
    """`GET /v1/session`: the user of this request."""
    call.json(200, told(call))


def take(call: Call) -> None:
    """`DELETE /v1/session`: the browser forgets its cookie."""
    call.empty(204, [("Set-Cookie", _cookie(call, "", 0))])


def told(call: Call) -> dict[str, object]:
    """What a page may want to know of its user: what it need not offer, because it would be refused."""
    exchange, _ = call.here()
    return {
        "user": None if call.user is None else call.user.name,
        "namespace": exchange.name,
        "admin": call.session.is_admin,
        "may_publish": _may_publish(call),
        "subscribe": None if call.user is None or call.user.subscribe is None else call.user.subscribe.allow,
        "node": call.service.node.name,
    }


def _may_publish(call: Call) -> bool:
    """Is there a topic that this user may publish to? Without users, pages offer it on the machine itself only."""
    if call.user is None:
        return call.session.is_admin
    return call.user.publish is None or call.user.publish.allow != ()


def _cookie(call: Call, value: str, life: int) -> str:
    secure = "; Secure" if call.session.remote.secure else ""
    return f"{COOKIE}={value}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}"
