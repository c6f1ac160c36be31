"""Identity of nodes: what they say of themselves, and how they prove that they belong to the cluster.

Both ends of a new connection say hello, each with a number that was never used before. Then the dialing node proves
that it knows the secret: by a digest, keyed with the secret, over both hellos. If that is right, the other does the
same, with another word in front. The secret itself is never sent; a proof is good for these two hellos only, so to have
overheard one is of no use; and an eavesdropper sees nothing of the dialed node.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from fumarole.protocols.cluster_protocol import PROTOCOL, ClusterProtocolError, Hello, Proof, body

DATA, BEATS = "data", "beats"
LANES = (DATA, BEATS)
NONCE_BYTES = 32
LONGEST_NAME = 63


@dataclass(slots=True)
class Identity:
    """What this node says of itself."""

    node: str
    cluster: str
    version: str
    incarnation: int
    address: str = ""
    clients: tuple[str, ...] = ()

    def hello(self, lane: str, nonce: bytes) -> Hello:
        return Hello(
            PROTOCOL,
            self.version,
            self.cluster,
            self.node,
            self.incarnation,
            self.address,
            self.clients,
            lane,
            nonce,
        )


def check_hello(own: Hello, other: Hello) -> None:
    """Can these two speak with each other? Raises ClusterProtocolError."""
    if other.protocol != PROTOCOL:
        raise ClusterProtocolError(
            "node %s (%s) speaks link protocol %s, this is %s with %s",
            shown(other.node),
            shown(other.version),
            other.protocol,
            own.version,
            PROTOCOL,
        )
    if other.cluster != own.cluster:
        raise ClusterProtocolError(
            "node %s belongs to the cluster %s, not %s", shown(other.node), shown(other.cluster), own.cluster
        )
    if not other.node or len(other.node) > LONGEST_NAME or not other.node.isprintable():
        raise ClusterProtocolError("a node without a proper name")
    if other.lane not in LANES or len(other.nonce) != NONCE_BYTES:
        raise ClusterProtocolError("a hello that is not complete")


def prove(secret: bytes, role: str, dialed: Hello, accepted: Hello) -> bytes:
    """The digest with which the dialing or the dialed node proves that it knows the secret."""
    said = b"fumarole link " + role.encode() + b"\0" + body(dialed) + b"\0" + body(accepted)
    return hmac.digest(secret, said, "sha256")


def check_proof(secret: bytes, role: str, dialed: Hello, accepted: Hello, proof: Proof) -> None:
    """Raises ClusterProtocolError."""
    if not hmac.compare_digest(prove(secret, role, dialed, accepted), proof.digest):
        other = dialed if role == "dialed" else accepted
        raise ClusterProtocolError("node %s does not know the secret of this cluster", shown(other.node))


def shown(text: str, most: int = 32) -> str:
    """A stranger's words, fit for a log."""
    return ascii(text[:most])
