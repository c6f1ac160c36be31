"""What must hold between settings."""

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from fumarole.config.load import ConfigurationError, load
from fumarole.config.settings import Settings, Tls

TOKEN = f"token = 'sha256:{'5' * 64}'"
OTHER_TOKEN = f"token = 'sha256:{'6' * 64}'"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    for name in ("server", "other"):
        issued = authority.issue_cert("localhost")
        issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        issued.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    (folder / "garbage.pem").write_text("garbage")
    (folder / "empty.pem").touch()
    (folder / "short.secret").write_text("open sesame")
    return folder


def mistakes_of(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(folder)
    Path("f.toml").write_text(text)
    with pytest.raises(ConfigurationError) as error:
        load("f.toml", {}, {})
    return [str(mistake) for mistake in error.value.mistakes]


# The text of a file, and the beginning and words of each of its mistakes.
INCONSISTENT: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "data where there is a file": ("data = 'ca.pem'", [("1: data", "no folder")]),
    "data at a path too long": (f"data = '{'x' * 300}'", [("1: data", "no folder")]),
    "a file at a path too long": (
        f"tls = {{certificate = '{'x' * 300}', key = 'server.key'}}",
        [("1: tls.certificate", "cannot be read")],
    ),
    "a door without an address": ("doors.nats = []", [("1: doors.nats", "at least one address")]),
    "an address twice": ("doors.nats = ['a:1', 'b:1', 'a:1']", [("1: doors.nats[2]", "'a:1', which doors.nats[0]")]),
    "a certificate without a key": ("[tls]\ncertificate = 'server.pem'", [("1: tls.key", "found nothing")]),
    "a key without a certificate": ("[tls]\nkey = 'server.key'", [("1: tls.certificate", "found nothing")]),
    "links with a certificate that is none": (
        "[links]\ncertificate = 'garbage.pem'\nkey = 'server.key'\nauthority = 'ca.pem'",
        [("2: links.certificate", "PEM")],
    ),
    "links with the key of another": (
        "[links]\ncertificate = 'server.pem'\nkey = 'other.key'\nauthority = 'ca.pem'",
        [("3: links.key", "the key of links.certificate")],
    ),
    "links with an authority that is none": (
        "[links]\ncertificate = 'server.pem'\nkey = 'server.key'\nauthority = 'garbage.pem'",
        [("4: links.authority", "certificates in a PEM file")],
    ),
    "a file of headers that is not there": (
        "[traces]\nendpoint = 'http://a'\nheaders_file = 'nowhere'",
        [("3: traces.headers_file", "cannot be read")],
    ),
    "a file of headers that are none": (
        "[traces]\nendpoint = 'http://a'\nheaders_file = 'garbage.pem'",
        [("3: traces.headers_file", "whose line 1 is no header")],
    ),
    "a collector's authority that is none": (
        "[traces]\nendpoint = 'https://a'\nauthority = 'garbage.pem'",
        [("3: traces.authority", "certificates in a PEM file")],
    ),
    "a secret that is empty": ("[links]\nsecret_file = 'empty.pem'", [("2: links.secret_file", "first line is empty")]),
    "a secret that can be guessed": ("[links]\nsecret_file = 'short.secret'", [("2: links.secret_file", "too short")]),
    "a secret that is not there": ("[links]\nsecret_file = 'nowhere'", [("2: links.secret_file", "cannot be read")]),
    "a name that is too long with a worker's number": (
        f"workers = 11\nnode = '{'n' * 61}'",
        [("2: node", "at most 63 characters together with `/10`")],
    ),
    "no ports left for all workers": (
        "workers = 3\ncluster = 'a:65534'\n[links]\naddress = 'b:65535'",
        [("2: cluster", "found 'a:65534', expected a port from 1 to 65533"), ("4: links.address", "3 workers")],
    ),
    "any free port for several workers": ("workers = 2\ncluster = 'a:0'", [("2: cluster", "a port from 1 to")]),
    "neither": ("[tls]", [("1: tls.certificate", "nothing"), ("1: tls.key", "nothing")]),
    "files that are not there": (
        "[tls]\ncertificate = 'a'\nkey = 'b'\nclient_authority = 'c'\nclient_certificates = 'required'",
        [("2: tls.certificate", "cannot be read"), ("3: tls.key", "cannot"), ("4: tls.client_authority", "cannot")],
    ),
    "a folder for a file": ("[tls]\ncertificate = '.'\nkey = 'server.key'", [("2: tls.certificate", "cannot be read")]),
    "the key of another": ("tls = {certificate = 'server.pem', key = 'other.key'}", [("1: tls.key", "of another")]),
    "a certificate that is none": ("tls = {certificate = 'garbage.pem', key = 'server.key'}", [("1: tls.cert", "PEM")]),
    "an empty certificate": ("tls = {certificate = 'empty.pem', key = 'server.key'}", [("1: tls.cert", "PEM")]),
    "an authority that is none": (
        "[tls]\ncertificate = 'server.pem'\nkey = 'server.key'\n"
        "client_authority = 'garbage.pem'\nclient_certificates = 'optional'",
        [("4: tls.client_authority", "PEM")],
    ),
    "client certificates without an authority": (
        "[tls]\ncertificate = 'server.pem'\nkey = 'server.key'\nclient_certificates = 'required'",
        [("4: tls.client_certificates", "without tls.client_authority")],
    ),
    "an authority that nobody is checked by": (
        "[tls]\ncertificate = 'server.pem'\nkey = 'server.key'\nclient_authority = 'ca.pem'",
        [("1: tls.client_certificates", '"optional" or "required"')],
    ),
    "an authority, and a wrong choice": (
        "[tls]\ncertificate = 'server.pem'\nkey = 'server.key'\n"
        "client_authority = 'ca.pem'\nclient_certificates = 'yes'",
        [("5: tls.client_certificates", "found 'yes'")],
    ),
    "a namespace that is not allowed": (
        "allowed_namespaces = ['lab']\n[namespaces.lap]",
        [("2: namespaces.lap", "allowed_namespaces (default, lab) (did you mean lab?)")],
    ),
    "a name that is none is not said to be not allowed": (
        "allowed_namespaces = ['lab']\n[namespaces.a_b]",
        [("2: namespaces.a_b", "1 to 63 letters")],
    ),
    "a user's namespace that is not allowed": (
        f"allowed_namespaces = []\n[[users]]\nname = 'a'\n{TOKEN}\nnamespace = 'lab'",
        [("5: users[0].namespace", "allowed_namespaces (default)")],
    ),
    "a name in the list that cannot be read": (
        f"allowed_namespaces = ['l b']\n[[users]]\nname = 'a'\n{TOKEN}\nnamespace = 'lab'",
        [("1: allowed_namespaces[0]", "found 'l b'")],
    ),
    "a name twice": (
        f"[[users]]\nname = 'a'\n{TOKEN}\n[[users]]\nname = 'a'\n{OTHER_TOKEN}",
        [("5: users[1].name", "'a' again, first at f.toml:2")],
    ),
    "a name three times": (
        f"[[users]]\nname = 'a'\n{TOKEN}\n[[users]]\nname = 'a'\n{OTHER_TOKEN}\n[[users]]\nname = 'a'\ntoken = 5",
        [
            ("5: users[1].name", "first at f.toml:2"),
            ("8: users[2].name", "first at f.toml:2"),
            ("9: users[2].token", ""),
        ],
    ),
    "a token twice": (
        f"[[users]]\nname = 'a'\n{TOKEN}\n[[users]]\nname = 'b'\n{TOKEN}",
        [("6: users[1].token", "the token of users[0], expected")],
    ),
    "a user who has nothing to prove it by": (
        "\n[[users]]\nname = 'a'",
        [("2: users[0]", "neither password nor token nor nkey")],
    ),
    "a password that cannot be read is there": (
        "users = [{name = 'a', password = 'x'}]",
        [("1: users[0].pass", "hash")],
    ),
    "a pattern": (
        f"[[users]]\nname = 'a'\n{TOKEN}\nsubscribe.deny = ['a',\n'b.>.c']",
        [
            (
                "5: users[0].subscribe.deny[1]",
                "found 'b.>.c', expected a pattern: `>` must be the last word, at position 2",
            )
        ],
    ),
    "a pattern in the namespace's grammar": (
        f"users = [{{name = 'a', {TOKEN}, publish.allow = ['é']}}]",
        [("1: users[0].publish.allow[0]", "at position 0")],
    ),
    "a namespace of KubeMQ's clients that is not allowed": (
        "allowed_namespaces = ['lab']\nkubemq.namespace = 'lib'",
        [("2: kubemq.namespace", "(did you mean lab?)")],
    ),
    "a grammar that cannot be read": (
        f"users = [{{name = 'a', {TOKEN}, publish.allow = ['a b']}}]\nnamespaces.default.grammar = 'x'",
        [("2: namespaces.default.grammar", "found 'x'")],
    ),
}


@pytest.mark.parametrize(("text", "expected"), INCONSISTENT.values(), ids=INCONSISTENT.keys())
def test_inconsistent(
    text: str, expected: list[tuple[str, str]], certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mistakes = mistakes_of(text, certificates, monkeypatch)
    assert len(mistakes) == len(expected)
    for mistake, (beginning, words) in zip(mistakes, expected, strict=True):
        assert mistake.startswith(f"f.toml:{beginning}")
        assert words in mistake


CONSISTENT = {
    "data where there is a folder": "data = '.'",
    "data where there is nothing": "data = 'a/b'",
    "any free port twice": "doors.nats = ['a:0', 'a:0']",
    "one port on two hosts": "doors.nats = ['a:1', '[::1]:1']",
    "the last ports that workers can have": "workers = 3\ncluster = 'a:65533'",
    "any free port for one": f"cluster = 'a:0'\nnode = '{'n' * 63}'",
    "default though not listed": f"allowed_namespaces = []\nusers = [{{name = 'a', {TOKEN}}}]\n[namespaces.default]",
    "a namespace that is allowed": f"allowed_namespaces = ['lab']\nusers = [{{name='a', {TOKEN}, namespace='lab'}}]",
    "a namespace where all are allowed": f"users = [{{name='a', {TOKEN}, namespace='lab'}}]",
    "names that differ in case": f"users = [{{name='a', {TOKEN}}}, {{name='A', {OTHER_TOKEN}}}]",
    "patterns": f"users = [{{name='a', {TOKEN}, publish.allow=['a.*', 'b*.>', '>'], publish.deny=['_INBOX.>']}}]",
    "a pattern in its own grammar": f"users = [{{name='a', {TOKEN}, publish.allow=['é']}}]\n"
    "namespaces.default.grammar = 'channel'",
    "a pattern in a grammar that nobody wrote": f"users = [{{name='a', {TOKEN}, namespace='kubemq', "
    "publish.allow=['é']}]",
    "a namespace of KubeMQ's clients that nobody wrote": "allowed_namespaces = ['lab']",
    "TLS": "tls = {certificate = 'server.pem', key = 'server.key'}",
}


@pytest.mark.parametrize("text", CONSISTENT.values(), ids=CONSISTENT.keys())
def test_consistent(text: str, certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(certificates)
    Path("f.toml").write_text(text)
    assert load("f.toml", {}, {}) != Settings()


@pytest.mark.parametrize("wanted", ["optional", "required"])
def test_client_certificates(wanted: str, certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(certificates)
    files = {"FUMAROLE_TLS_CERTIFICATE": "server.pem", "FUMAROLE_TLS_KEY": "server.key"}
    files |= {"FUMAROLE_TLS_CLIENT_AUTHORITY": "ca.pem", "FUMAROLE_TLS_CLIENT_CERTIFICATES": wanted}
    tls = load(None, files, {}).tls
    assert isinstance(tls, Tls)
    assert (tls.client_authority, tls.client_certificates) == (Path("ca.pem"), wanted)


def test_a_key_with_a_password(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = serialization.load_pem_private_key((certificates / "server.key").read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"hunter2"),
    )
    (certificates / "encrypted.key").write_bytes(encrypted)
    text = "tls = {certificate = 'server.pem', key = 'encrypted.key'}"
    (mistake,) = mistakes_of(text, certificates, monkeypatch)
    assert "without a password" in mistake
