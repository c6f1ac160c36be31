"""Files of CURVE keys: a secret one is read only where no other user can read it (A8)."""

from __future__ import annotations

from pathlib import Path

import pytest
import zmq.auth
from zmq.utils import z85

from fumarole.bridge import keys
from fumarole.bridge.errors import CannotBridgeError
from fumarole.bridge.keys import read_key_pair, read_public_key, read_public_keys


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    public, secret = zmq.auth.create_certificates(tmp_path, "bridge")
    Path(secret).chmod(0o600)
    return Path(public), Path(secret)


def test_a_private_key_is_read(pair: tuple[Path, Path]) -> None:
    public, secret = pair
    assert read_key_pair(secret) == zmq.auth.load_certificate(secret)
    assert read_public_key(public) == read_key_pair(secret)[0]
    secret.chmod(0o400)
    assert len(read_key_pair(secret)[1]) == 40


@pytest.mark.parametrize("mode", [0o604, 0o660, 0o620, 0o601, 0o644, 0o610, 0o777])
def test_a_key_that_others_can_read_is_not(pair: tuple[Path, Path], mode: int) -> None:
    _, secret = pair
    secret.chmod(mode)
    with pytest.raises(CannotBridgeError, match=rf"open to other users \(mode {mode:04o}\).*chmod 600 {secret}"):
        read_key_pair(secret)


@pytest.mark.parametrize(("owner", "taken"), [(0, True), (1000, False)])
def test_the_group_may_read_what_is_roots(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, owner: int, taken: bool
) -> None:
    """So are secrets mounted into containers."""
    _, secret = pair
    secret.chmod(0o640)
    monkeypatch.setattr(keys, "_owner", lambda _: owner)
    if taken:
        read_key_pair(secret)
    else:
        with pytest.raises(CannotBridgeError, match="mode 0640"):
            read_key_pair(secret)


def test_what_is_no_key(pair: tuple[Path, Path], tmp_path: Path) -> None:
    public, _ = pair
    public.chmod(0o600)
    with pytest.raises(CannotBridgeError, match="has only a public key"):
        read_key_pair(public)
    wrong = tmp_path / "wrong"
    for text in (
        "",
        "nonsense",
        '    public-key = "short"\n',
        f'    public-key = "{"é" * 40}"\n',
        f'    public-key = "{"#" * 40}"\n',
        "\0\xff",
    ):
        wrong.write_text(text)
        wrong.chmod(0o600)
        with pytest.raises(CannotBridgeError, match="has no CURVE key"):
            read_key_pair(wrong)
        with pytest.raises(CannotBridgeError, match="has no CURVE key"):
            read_public_key(wrong)
    for read in (read_key_pair, read_public_key):
        with pytest.raises(CannotBridgeError, match="none has no CURVE key"):
            read(tmp_path / "none")


def test_keys_of_clients(pair: tuple[Path, Path], tmp_path: Path) -> None:
    public, _ = pair
    assert read_public_keys(tmp_path) == {z85.decode(read_public_key(public))}
    with pytest.raises(CannotBridgeError, match="has no keys of clients"):
        read_public_keys(tmp_path / "none")
