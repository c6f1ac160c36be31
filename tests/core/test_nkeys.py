"""NKeys, and what is none. The pairs come from the library that NATS' own clients use."""

import nkeys
import pytest
from nacl.signing import SigningKey

from fumarole.core.nkeys import decode_user_key, encode_user_key, encode_user_seed

SEED = bytes(range(32))


def test_a_pair_is_what_the_library_of_nats_reads() -> None:
    public = bytes(SigningKey(SEED).verify_key)
    pair = nkeys.from_seed(encode_user_seed(SEED).encode())
    assert pair.public_key.decode() == encode_user_key(public)
    assert decode_user_key(encode_user_key(public)) == public


KEY = encode_user_key(SEED)
MISTAKES = [
    ("nothing", "", "not the public key of a user"),
    ("a key cut off", KEY[:-2], "base32|not the public key"),
    ("another letter", KEY[:10] + ("A" if KEY[10] != "A" else "B") + KEY[11:], "check sum"),
    ("small letters", KEY.lower(), "base32"),
    ("a seed", encode_user_seed(SEED), "not the public key of a user"),
    ("an account", "AD7SEANS6BCBF6FHIB7SQ3UGJVPW53BXOALP75YXJBBXQL7EAFB6NJNA", "not the public key of a user"),
    ("not ASCII", "Ü" * 56, "base32"),
]


@pytest.mark.parametrize(("text", "why"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_what_is_no_key(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        decode_user_key(text)
