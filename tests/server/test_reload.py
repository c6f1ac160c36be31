"""What waits for a restart, and whose connections go on. tests/integration/test_reload.py has the running broker."""

from pathlib import Path

from fumarole.config.load import load
from fumarole.config.settings import Settings
from fumarole.server.credentials import Credentials, token_digest
from fumarole.server.reload import staying, waiting_for_restart


def settings(folder: Path, text: str) -> Settings:
    file = folder / "fumarole.toml"
    file.write_text(text)
    return load(file, {}, {})


def test_what_waits_for_a_restart(tmp_path: Path) -> None:
    old = settings(tmp_path, "[limits]\npayload = 9\n[namespaces.a]\n")
    assert waiting_for_restart(old, old) == []
    assert (
        waiting_for_restart(old, settings(tmp_path, "[log]\nlevel = 'error'\n[namespaces.b]\ngrammar='channel'\n"))
        == []
    )
    new = settings(tmp_path, "node = 'b'\ndata = 'x'\nusers = []\n[namespaces.a]\ngrammar = 'channel'\n")
    assert waiting_for_restart(old, new) == ["data", "node", "users", "namespaces.a.grammar"]


def test_who_stays(tmp_path: Path) -> None:
    def users(*rows: str) -> Settings:
        return settings(tmp_path, "".join(f"[[users]]\n{row}\n" for row in rows))

    def row(name: str, token: str, more: str = "") -> str:
        return f'name = "{name}"\ntoken = "{token_digest(token)}"\n{more}'

    old = users(row("ann", "1"), row("bob", "2"), row("eve", "3"), row("moved", "4"))
    new = users(
        row("ann", "1", "publish = { deny = ['x'] }"), row("eve", "other"), row("moved", "4", "namespace = 'b'")
    )
    known = Credentials(new.users or ()).users
    stay = staying(old.users, new.users, known)
    assert stay == {"ann": known["ann"]}
    assert stay["ann"].publish is not None
    assert staying(None, new.users, known) == {}
