"""Logins of all doors: the user of a client, verified once for each credential, in the order of `login_queue` (A2).

A token is a digest that is looked up, and a signature takes 0.1 ms: both are verified at once. A password is verified
in a thread; what was verified is remembered, so that a fleet that comes back after a power cut pays for each user once.
A verification goes on when its client has gone: the client that comes again finds it done.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic
from typing import Final, Protocol

from fumarole.doors.log_limiter import LogLimiter
from fumarole.doors.login_queue import PATIENCE, Entry, LoginQueue
from fumarole.exchange.permissions import User
from fumarole.sessions.stream import Claim, KeyProof

warn = LogLimiter(logging.getLogger(__name__))

THREADS: Final = 2
"""That verify passwords."""


class Verifier(Protocol):
    """The users there are."""

    def by_token(self, token: str) -> User | None: ...

    def by_key(self, proof: KeyProof) -> User | None: ...

    def named(self, name: str) -> tuple[User, str] | None:
        """The user of this name, and what the configuration has in place of the password or token."""

    def digest(self, user: str, password: str) -> bytes:
        """Equal for equal credentials, of no use outside this process."""

    def recall(self, digest: bytes) -> User | None:
        """The user, where these credentials were verified before."""

    def remember(self, digest: bytes, user: User) -> None: ...

    def check(self, user: str, password: str) -> User | None:
        """Blocking: takes as long as a password hash takes."""


class TooManyLoginsError(Exception):
    """More logins wait than may."""


class TooLateError(Exception):
    """The login waited too long, at an address from which wrong ones come."""


class Logins:
    """One for all doors of a broker."""

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier
        self.refused = 0
        self.failed = 0
        self._queue = LoginQueue()
        self._claims: dict[bytes, Claim] = {}
        self._results: dict[bytes, asyncio.Future[User | None]] = {}
        self._free = THREADS
        self._executor: ThreadPoolExecutor | None = None
        self._alarm: asyncio.TimerHandle | None = None

    def by_token(self, token: str, address: str) -> User | None:
        """The user of a token; None: there is none."""
        user = self.verifier.by_token(token)
        if user is None:
            self._tell(address, "unknown token")
        return user

    def known(self, claim: Claim) -> User | None:
        """The user, where no password has to be hashed to know it."""
        if claim.token:
            return self.verifier.by_token(claim.token)
        if not claim.user or not claim.password:
            return None
        return self.verifier.recall(self.verifier.digest(claim.user, claim.password))

    async def verify(self, claim: Claim, address: str) -> User | None:
        """The user that these credentials belong to; None: they are wrong.

        Raises TooManyLoginsError or TooLateError.
        """
        if claim.key is not None:
            user = self.verifier.by_key(claim.key)
            if user is None:
                self._tell(address, "unknown nkey, or a wrong signature")
            return user
        if claim.token:
            return self.by_token(claim.token, address)
        if not claim.user or not claim.password:
            self._tell(address, "no user and password, and no token")
            return None
        digest = self.verifier.digest(claim.user, claim.password)
        user = self.verifier.recall(digest)
        if user is not None:
            return user
        result = self._results.get(digest)
        entry = Entry(digest, claim.user, address, monotonic())
        if result is not None and digest in self._claims:  # it waits, perhaps behind wrong ones of another address
            if self._queue.put(entry):
                self._work()
        elif result is None:
            if not self._queue.put(entry):
                self.refused += 1
                warn("%s: too many logins wait, one was refused", address)
                raise TooManyLoginsError
            self._claims[digest] = claim
            result = self._results[digest] = asyncio.get_running_loop().create_future()
            self._work()
        return await asyncio.shield(result)

    def renew(self, verifier: Verifier) -> None:
        """The configuration was loaded again, and these are its users."""
        self.verifier = verifier

    def close(self) -> None:
        """Nothing more is verified."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)

    def _work(self) -> None:
        """Gives each free thread the login whose turn it is."""
        now = monotonic()
        loop = asyncio.get_running_loop()
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, "logins")
        while self._free and (entry := self._queue.next(now)):
            self._free -= 1
            claim = self._claims.pop(entry.digest)
            assert claim.user is not None
            assert claim.password is not None
            verifier = self.verifier
            checking = loop.run_in_executor(self._executor, verifier.check, claim.user, claim.password)
            checking.add_done_callback(partial(self._checked, entry, verifier, now))
        if self._free and self._alarm is None and (wakes := self._queue.wakes_at(now)) is not None:
            self._alarm = loop.call_later(min(max(wakes - now, 0.001), PATIENCE), self._wake)

    def _wake(self) -> None:
        self._alarm = None
        for entry in self._queue.too_late(monotonic()):
            del self._claims[entry.digest]
            result = self._results.pop(entry.digest)
            result.set_exception(TooLateError())
            result.exception()  # its client may have gone: then it is not awaited
            self._tell(entry.address, "it waited too long behind wrong ones")
        self._work()

    def _checked(self, entry: Entry, verifier: Verifier, began: float, done: asyncio.Future[User | None]) -> None:
        self._free += 1
        result = self._results.pop(entry.digest)
        if verifier is not self.verifier:  # the users were loaded again meanwhile: the client tries again
            result.set_exception(TooLateError())
            result.exception()
            self._work()
            return
        user = None if done.cancelled() or done.exception() is not None else done.result()
        if user is None:
            now = monotonic()
            self._queue.failed(entry, now, now - began)
            self._tell(entry.address, f"wrong password for user {entry.user[:64]!r}")
        else:
            self.verifier.remember(entry.digest, user)
        if not result.done():
            result.set_result(user)
        self._work()

    def _tell(self, address: str, why: str) -> None:
        self.failed += 1
        warn("login from %s failed: %s", address, why)
