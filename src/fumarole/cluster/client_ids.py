"""Client ids between nodes: questions and answers (`exchange/client_ids.py`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import count
from typing import TYPE_CHECKING

from fumarole.exchange.client_ids import ClientClaim, ClientIds, Done, Verdict
from fumarole.protocols.cluster_protocol import ClaimedId, ClientsAnswered, ClientsClaimed, slices

if TYPE_CHECKING:
    from fumarole.cluster.peer import Peer


class Question:
    """A claim of this node that others have still to answer."""

    __slots__ = ("done", "verdict", "waits_for")

    def __init__(self, waits_for: set[str], done: Done) -> None:
        self.waits_for = waits_for
        self.done = done
        self.verdict = Verdict.GRANTED


class ClusterClientIds:
    """This node's part in it."""

    def __init__(self, ids: ClientIds, peers: Callable[[], Collection[Peer]]) -> None:
        self._ids = ids
        self._peers = peers
        self._tokens = count(1)
        self._asked: dict[int, Question] = {}
        ids.ask = self.ask

    def ask(self, claim: ClientClaim, done: Done) -> None:
        """A connection here claims an id. Nodes that are not there any more are not waited for."""
        peers = [peer for peer in self._peers() if peer.is_linked() and not peer.leaving]
        if not peers:
            done(Verdict.GRANTED)
            return
        token = next(self._tokens)
        self._asked[token] = Question({peer.name for peer in peers}, done)
        for peer in peers:
            peer.say(ClientsClaimed(token, (ClaimedId(*claim),)))

    def claimed(self, peer: Peer, said: ClientsClaimed) -> None:
        """A connection of another node claims ids. Token 0: it has told of all that it has."""
        verdict = Verdict.GRANTED
        for each in said.claims:
            claim = ClientClaim(each.namespace, each.client_id, each.user, each.time)
            verdict = max(verdict, self._ids.claimed(claim, peer.name))
        if said.token:
            peer.say(ClientsAnswered(said.token, int(verdict)))

    def answered(self, peer: str, said: ClientsAnswered) -> None:
        question = self._asked.get(said.token)
        if question is not None:
            if said.verdict in (Verdict.OTHER_USER, Verdict.TOO_LATE):
                question.verdict = max(question.verdict, Verdict(said.verdict))
            self._settle(said.token, question, peer)

    def evict(self, peer: str) -> None:
        """This node is gone, or has left: it is not waited for."""
        for token, question in list(self._asked.items()):
            self._settle(token, question, peer)

    def _settle(self, token: int, question: Question, peer: str) -> None:
        question.waits_for.discard(peer)
        if not question.waits_for and self._asked.pop(token, None) is not None:
            question.done(question.verdict)

    def everything(self) -> Iterator[ClientsClaimed]:
        """All ids that are in use here, for a node that has just come."""
        for some in slices(ClaimedId(*claim) for claim in list(self._ids.claims())):
            yield ClientsClaimed(0, some)
