"""A configuration that is loaded again while the broker runs (A7): by SIGHUP or `fumarole reload`.

What is new is read and checked as a whole before anything changes. A mistake changes nothing:

    reload asked for      the file has a mistake in line 7        it is logged with its line; all goes on as before
                          the file is right                       users, limits, namespaces, certificates and the log
                                                                  level are those of the file; a door that moved, for
                                                                  instance, is named as what waits for a restart
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from fumarole.config.settings import Settings, UserSettings
from fumarole.core.errors import FumaroleError
from fumarole.exchange.permissions import User

RELOADED: Final = frozenset({"allowed_namespaces", "limits", "log", "namespaces", "tls", "users"})
"""Settings that are in force at once. All others wait for a restart."""

Load = Callable[[], Settings]
"""Reads the configuration again. Raises ConfigurationError."""


class NotReloadedError(FumaroleError):
    """Nothing was changed. The text has the reason, mistakes with their lines."""


def waiting_for_restart(old: Settings, new: Settings) -> list[str]:
    """Names of settings that differ and cannot change while the broker runs."""
    fixed = [name for name in old.__struct_fields__ if name not in RELOADED]
    names = [name for name in fixed if getattr(old, name) != getattr(new, name)]
    grammars = [
        f"namespaces.{name}.grammar"
        for name, rules in new.namespaces.items()
        if name in old.namespaces and old.namespaces[name].grammar is not rules.grammar
    ]
    if (old.users is None) != (new.users is None):
        names.append("users")
    if (old.tls is None) != (new.tls is None):
        names.append("tls")
    elif old.tls is not None and new.tls is not None and old.tls.handshake_first != new.tls.handshake_first:
        names.append("tls.handshake_first")
    return [*names, *grammars]


def staying(
    old: Iterable[UserSettings] | None, new: Iterable[UserSettings] | None, users: Mapping[str, User]
) -> dict[str, User]:
    """By name, the users whose connections stay, with their new rules: namespace and credentials are the same."""
    before = {user.name: _proof(user) for user in old or ()}
    return {user.name: users[user.name] for user in new or () if before.get(user.name) == _proof(user)}


def _proof(user: UserSettings) -> tuple[object, ...]:
    return user.namespace, user.password, user.token, user.nkey
