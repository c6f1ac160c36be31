"""The handshake: who gets in, and who does not."""

from dataclasses import replace

import msgspec
import pytest

from fumarole.cluster.identity import NONCE_BYTES, Identity, check_hello, check_proof, prove
from fumarole.protocols.cluster_protocol import ClusterProtocolError, Hello, Proof, frame

A = Identity("a", "lab", "0.1", 1, "127.0.0.1:6222")
B = Identity("b", "lab", "0.1", 2, "127.0.0.1:6223")
SECRET = b"open sesame"


def hello(identity: Identity = A, lane: str = "data", nonce: bytes = b"1" * NONCE_BYTES) -> Hello:
    return identity.hello(lane, nonce)


def test_both_prove_themselves() -> None:
    dialed, accepted = hello(A), hello(B, nonce=b"2" * NONCE_BYTES)
    for role in ("dialed", "accepted"):
        check_proof(SECRET, role, dialed, accepted, Proof(prove(SECRET, role, dialed, accepted)))


def test_a_proof_is_good_for_one_handshake_one_secret_and_one_side() -> None:
    dialed, accepted = hello(A), hello(B, nonce=b"2" * NONCE_BYTES)
    proof = Proof(prove(SECRET, "dialed", dialed, accepted))
    again = hello(B, nonce=b"3" * NONCE_BYTES)
    other_name, other_lane = hello(replace(A, node="c")), hello(A, lane="beats")
    for secret, role, one, two in (
        (b"another", "dialed", dialed, accepted),
        (SECRET, "accepted", dialed, accepted),  # what one side says is no use to the other
        (SECRET, "dialed", dialed, again),  # a replay
        (SECRET, "dialed", other_name, accepted),
        (SECRET, "dialed", other_lane, accepted),
    ):
        with pytest.raises(ClusterProtocolError, match="does not know the secret"):
            check_proof(secret, role, one, two, proof)
    assert SECRET not in frame(proof) + frame(dialed)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"cluster": "field"}, "belongs to the cluster 'field', not lab", id="cluster"),
        pytest.param({"protocol": 3, "version": "9.9"}, "speaks link protocol 3, this is 0.1 with 2", id="version"),
        pytest.param({"node": ""}, "without a proper name", id="no name"),
        pytest.param({"node": "x" * 64}, "without a proper name", id="long name"),
        pytest.param({"node": "a\nb"}, "without a proper name", id="two lines"),
        pytest.param({"lane": "third"}, "not complete", id="lane"),
        pytest.param({"nonce": b"short"}, "not complete", id="nonce"),
    ],
)
def test_who_cannot_be_spoken_with(change: dict[str, object], reason: str) -> None:
    with pytest.raises(ClusterProtocolError, match=reason):
        check_hello(hello(A), msgspec.structs.replace(hello(B), **change))
