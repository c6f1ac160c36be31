"""From where this broker is reachable. Without users its doors are open to this machine only (A1). Links between
machines are encrypted, or a warning says that they are not (A9).

    nats = ["127.0.0.1:4222"], no users      this machine alone: all is well
    nats = ["0.0.0.0:4222"], no users        the broker does not start; with --insecure it does, and warns at each start
    nats = ["0.0.0.0:4222"], with users      all is well
"""

from __future__ import annotations

import logging

from fumarole.config.settings import Settings
from fumarole.core.errors import FumaroleError
from fumarole.exchange.permissions import is_loopback

log = logging.getLogger(__name__)


class ExposedError(FumaroleError):
    """A listener is open to other machines, and there are no users."""


def is_local(host: str) -> bool:
    """True when only this machine reaches the address. Of names, only `localhost` counts."""
    return host.lower() == "localhost" or is_loopback(host)


def check_reach(settings: Settings, insecure: bool) -> None:
    """Raises ExposedError where a door without users is open to other machines; `insecure` makes that a warning."""
    _check_links(settings)
    exposed = [f"{door} {address}" for door, address in settings.doors.addresses() if not is_local(address.host)]
    if not exposed or settings.users is not None:
        return
    if not insecure:
        raise ExposedError(
            f"without users every client of other machines would be let in ({', '.join(exposed)}). "
            "Configure [[users]], listen on 127.0.0.1, or accept it with --insecure"
        )
    log.warning("--insecure: without users every client of other machines is let in (%s)", ", ".join(exposed))


def _check_links(settings: Settings) -> None:
    addresses = [each for each in (settings.cluster, *settings.peer) if each is not None]
    if settings.links.certificate is None and not all(is_local(each.host) for each in addresses):
        log.warning("links to other machines are not encrypted: set links.certificate, links.key and links.authority")
