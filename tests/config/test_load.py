"""From the file, the environment and flags to settings: what wins, and that every mistake is named."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fumarole.config.load import FLAGS, READ_ELSEWHERE, VARIABLES, ConfigurationError, Mistake, load
from fumarole.config.mistakes import KeyPath, key_text
from fumarole.config.settings import Log, Settings, UserSettings, only
from fumarole.config.values import Address, Secret
from fumarole.core.limits import Limits
from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.server.credentials import Credentials

DIGEST = "sha256:" + "5" * 64
HASH = "$argon2id$v=19$m=65536,t=3,p=4$" + "c" * 22 + "$" + "d" * 43

LoadText = Callable[..., Settings]


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadText:
    monkeypatch.chdir(tmp_path)

    def load_text(
        text: str | bytes,
        environ: Mapping[str, str] | None = None,
        flags: Mapping[str, str | list[str] | None] | None = None,
    ) -> Settings:
        Path("f.toml").write_bytes(text.encode() if isinstance(text, str) else text)
        return load("f.toml", environ or {}, flags or {})

    return load_text


def mistakes_in(work: Callable[[], object]) -> list[Mistake]:
    with pytest.raises(ConfigurationError) as error:
        work()
    return error.value.mistakes


USER = UserSettings(name="a", token=Secret(DIGEST))

LOADED: dict[str, tuple[str, Settings]] = {
    "a limit": ("[limits]\npayload = '2 MiB'", Settings(limits=Limits(payload=2 * 1024**2))),
    "a dotted key": ("limits.idle = '5 s'", Settings(limits=Limits(idle=5.0))),
    "a byte order mark": ("\ufefflog.level = 'debug'", Settings(log=Log(level="debug"))),
    "an empty table of doors": ("[doors]", Settings()),
    "a door": (
        "doors.nats = ['[::1]:1', 'a:0']",
        Settings(doors=only(nats=(Address("::1", 1), Address("a", 0)))),
    ),
    "another": ("doors.kubemq = ['a:0']", Settings(doors=only(kubemq=(Address("a", 0),)))),
    "a namespace whose grammar is another": (
        "namespaces.kubemq.outbox = 1",
        Settings(namespaces={"kubemq": NamespaceRules(grammar=Grammar.CHANNEL, outbox=1)}),
    ),
    "allowed namespaces": ("allowed_namespaces = ['a']", Settings(allowed_namespaces=("a",))),
    "no allowed namespaces": ("allowed_namespaces = []", Settings(allowed_namespaces=())),
    "an empty namespace": ("[namespaces.a]", Settings(namespaces={"a": NamespaceRules()})),
    "a namespace": (
        "[namespaces.a]\ngrammar = 'channel'\noverflow = 'disconnect'\noutbox = '1 KiB'",
        Settings(namespaces={"a": NamespaceRules(Grammar.CHANNEL, Overflow.DISCONNECT, 1024)}),
    ),
    "nobody": ("users = []", Settings(users=())),
    "a user": (f"[[users]]\nname = 'a'\ntoken = '{DIGEST}'", Settings(users=(USER,))),
    "a user with both": (
        f"[[users]]\nname = 'a'\ntoken = '{DIGEST}'\npassword = '{HASH}'",
        Settings(users=(UserSettings(name="a", token=Secret(DIGEST), password=Secret(HASH)),)),
    ),
}


@pytest.mark.parametrize(("text", "expected"), LOADED.values(), ids=LOADED.keys())
def test_loaded(text: str, expected: Settings, load_text: LoadText) -> None:
    assert load_text(text) == expected


PERMISSIONS = {
    "left out, everything is allowed": ("", None, ()),
    "an empty list allows nothing": ("publish.allow = []", (), ()),
    "a list allows what it has": ("publish.allow = ['a.>']", ("a.>",), ()),
    "denied only": ("publish = { deny = ['a', 'b*.*'] }", None, ("a", "b*.*")),
}


@pytest.mark.parametrize(("text", "allow", "deny"), PERMISSIONS.values(), ids=PERMISSIONS.keys())
def test_permissions(text: str, allow: tuple[str, ...] | None, deny: tuple[str, ...], load_text: LoadText) -> None:
    users = load_text(f"[[users]]\nname = 'a'\ntoken = '{DIGEST}'\n{text}").users
    assert users is not None
    assert (users[0].publish.allow, users[0].publish.deny) == (allow, deny)


# One mistake: its line, its key, and words that its text must have.
MISTAKES: dict[str, tuple[str, int, str, str]] = {
    "an unknown key": ("\n\npayload_size = 1", 3, "payload_size", "unknown setting"),
    "a key nearly right": ("[limits]\npaylod = 1", 2, "limits.paylod", "did you mean payload?"),
    "a key in the wrong table": ("[log]\nidle = 1", 2, "log.idle", "did you mean limits.idle?"),
    "an unknown table": ("[limit]", 1, "limit", "did you mean limits?"),
    "an unknown door": ("[doors]\nnatz = ['a:1']", 2, "doors.natz", "did you mean nats?"),
    "a table that is none": ("limits = 3", 1, "limits", "found a number, expected a table"),
    "a list that is none": ("[doors]\nnats = '127.0.0.1:4222'", 2, "doors.nats", "found text, expected a list"),
    "an item": ("[doors]\nnats = [\n'a:1',\n'b']", 4, "doors.nats[1]", "found 'b', expected HOST:PORT"),
    "a size": ("[limits]\npayload = 'big'", 2, "limits.payload", "found 'big', expected 1 B to 512 MiB"),
    "a time": ("[limits]\nidle = nan", 2, "limits.idle", "found nan, expected 1 ms to 24 h"),
    "a count": ("[limits]\nconnections = 1.5", 2, "limits.connections", "found 1.5, expected a whole number"),
    "a control line too short for CONNECT": ("[limits]\ncontrol_line = 4", 2, "limits.control_line", "256 B to 1 MiB"),
    "a date": ("[limits]\nidle = 2020-01-01", 2, "limits.idle", "found a date or time"),
    "a choice": ("[log]\nlevel = 'INFO'", 2, "log.level", "did you mean info?"),
    "a choice that is a number": ("[log]\nlevel = 10", 2, "log.level", 'found 10, expected one of "debug"'),
    "a grammar": ("[namespaces.a]\ngrammar = 'chan'", 2, "namespaces.a.grammar", '"open" (did you mean channel?)'),
    "a policy": ("[namespaces.a]\noverflow = 'drop'", 2, "namespaces.a.overflow", '"drop-oldest", "drop-newest"'),
    "an outbox": ("[namespaces.a]\noutbox = true", 2, "namespaces.a.outbox", "found true, expected 1 B"),
    "a namespace's name": ("[namespaces.a_b]", 1, "namespaces.a_b", "1 to 63 letters"),
    "a namespace that is no table": ("namespaces.a = 1", 1, "namespaces.a", "found a number, expected a table"),
    "namespaces that are no tables": ("namespaces = ['a']", 1, "namespaces", "found a list, expected a table"),
    "a name of an allowed namespace": (
        "allowed_namespaces = ['a', 'é']",
        1,
        "allowed_namespaces[1]",
        "1 to 63 letters",
    ),
    "users that are one table": ("[users]\nname = 'a'", 1, "users", "found a table, expected a list of tables"),
    "a user that is no table": ("users = ['ada:hunter2']", 1, "users[0]", "found text, expected a table"),
    "a user without a name": (f"\n[[users]]\ntoken = '{DIGEST}'", 2, "users[0].name", "found nothing"),
    "a plain password": ("[[users]]\nname = 'a'\npassword = 'p'", 3, "users[0].password", "`fumarole password`"),
    "a plain token": ("[[users]]\nname = 'a'\ntoken = 't'", 3, "users[0].token", '"sha256:"'),
    "not TOML": ("a = 1\nb = \n", 2, "", "invalid value"),
    "not TOML, at the end": ("a = 1\nb = [1\n\n", 2, "", "unclosed array"),
    "a key twice": ("data = 'a'\ndata = 'b'", 2, "", "cannot overwrite a value"),
}


@pytest.mark.parametrize(("text", "line", "key", "words"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistake(text: str, line: int, key: str, words: str, load_text: LoadText) -> None:
    (mistake,) = mistakes_in(lambda: load_text(text))
    assert (mistake.line, mistake.key) == (line, key)
    assert words in str(mistake)
    assert str(mistake).startswith(f"f.toml:{line}: ")


UNREADABLE = {
    "bytes that are not UTF-8": (b"a = 1\nb = '\xff'", 2, "not UTF-8"),
    "a list nested too deep": (b"a = " + b"[" * 100_000 + b"]" * 100_000, None, "nested too deep"),
    "a number of too many digits": (b"a = " + b"1" * 5000, None, "too long"),
}


@pytest.mark.parametrize(("content", "line", "words"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_unreadable(content: bytes, line: int | None, words: str, load_text: LoadText) -> None:
    (mistake,) = mistakes_in(lambda: load_text(content))
    assert mistake.line == line
    assert words in mistake.found


@pytest.mark.parametrize("path", ["nowhere.toml", ".", "a\0b"])
def test_no_file(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (mistake,) = mistakes_in(lambda: load(path, {}, {}))
    assert mistake.expected == "a file that can be read"


def test_every_mistake_is_named_once_in_the_order_of_lines(load_text: LoadText) -> None:
    text = f"""\
        colour = "red"
        [[users]]
        name = "ada"
        pasword = "hunter2"
        password = "{HASH}"
        namespace = "-"
        publish = {{ allow = ["a.>.b", 5], deny = "x" }}
        [limits]
        payload = 0
        idle = "soon"
        [[users]]
        password = 12
        [log]
        level = []
    """
    mistakes = mistakes_in(lambda: load_text(text, {"FUMAROLE_LIMITS_DRAIN": "-1"}, {"--nats": ["x", "a:1"]}))
    # A pattern of a user whose namespace cannot be read is not looked at: its grammar is unknown.
    assert [(mistake.line, mistake.key) for mistake in mistakes] == [
        (1, "colour"),
        (4, "users[0].pasword"),
        (6, "users[0].namespace"),
        (7, "users[0].publish.allow[1]"),
        (7, "users[0].publish.deny"),
        (9, "limits.payload"),
        (10, "limits.idle"),
        (11, "users[1].name"),
        (12, "users[1].password"),
        (14, "log.level"),
        (None, "limits.drain"),
        (None, "doors.nats[0]"),
    ]
    assert [str(mistake.origin) for mistake in mistakes[-2:]] == ["FUMAROLE_LIMITS_DRAIN", "--nats"]


# Variables and flags.

SAMPLES: dict[KeyPath, str] = {
    ("data",): "elsewhere",
    ("allowed_namespaces",): "a,b",
    ("grammar",): "channel",
    ("limits", "query_depth"): "12",
    ("http", "origins"): "https://plots.example.org,http://127.0.0.1:8000",
    ("http", "hosts"): "fumarole.example.org,fumarole",
    ("http", "off"): "console,metrics",
    ("http", "metrics_open"): "true",
    ("http", "cookie_life"): "1234",
    ("http", "streams_per_user"): "12",
    ("kubemq", "namespace"): "lab",
    ("mqtt", "namespace"): "lab",
    ("mqtt", "max_qos"): "1",
    ("mqtt", "max_keep_alive"): "12",
    ("msgpack", "namespace"): "lab",
    ("node",): "a",
    ("cluster",): "localhost:1",
    ("peer",): "localhost:1,[::1]:2",
    ("workers",): "3",
    ("links", "name"): "lab",
    ("links", "silence"): "12",
    ("links", "address"): "localhost:2",
    ("links", "outbox"): "12345",
    ("log", "level"): "error",
    ("log", "format"): "json",
    ("traces", "endpoint"): "https://[::1]:4318/v1/traces",
    ("traces", "service"): "volcanoes",
}


def sample(path: KeyPath) -> str:
    """A value other than the default."""
    return SAMPLES.get(path) or {"doors": "localhost:1,[::1]:0", "limits": "1234"}[str(path[0])]


def test_variables_and_flags_have_names_made_from_the_setting() -> None:
    names = {key_text(path): (variable, flag) for (variable, path), flag in zip(VARIABLES.items(), FLAGS, strict=True)}
    assert names["limits.control_line"] == ("FUMAROLE_LIMITS_CONTROL_LINE", "--limits-control-line")
    assert names["doors.nats"] == ("FUMAROLE_NATS", "--nats")
    assert names["data"] == ("FUMAROLE_DATA", "--data")
    assert len(VARIABLES) == len(FLAGS) == len(set(VARIABLES.values())) == len(names)


FILES = {"secret_file", "certificate", "key", "authority", "headers_file"}
"""Settings of `links` and `traces` that must be there, and some of them together."""


@pytest.mark.parametrize(
    "variable", [name for name, path in VARIABLES.items() if path[0] != "tls" and path[-1] not in FILES]
)
def test_a_setting_is_the_same_from_file_variable_and_flag(variable: str, load_text: LoadText) -> None:
    path = VARIABLES[variable]
    (flag,) = (name for name, known in FLAGS.items() if known == path)
    text = sample(path)
    is_list = path[0] in {"doors", "allowed_namespaces", "peer"} or path[-1] in {"origins", "hosts", "off"}
    needed = 'cluster = "localhost:3"\n' if path[0] == "peer" else ""
    from_file = load_text(f"{needed}{key_text(path)} = {json.dumps(text.split(',') if is_list else text)}")
    assert from_file != Settings()
    assert load_text(needed, {variable: text}) == from_file
    assert load_text(needed, {}, {flag: text}) == from_file
    assert load_text(needed, {}, {flag: text.split(",") if is_list else [text]}) == from_file


WINNERS = {
    "nothing": ("", {}, {}, 60.0),
    "the file": ("limits.idle = 1", {}, {}, 1.0),
    "a variable over the file": ("limits.idle = 1", {"FUMAROLE_LIMITS_IDLE": "2"}, {}, 2.0),
    "a flag over both": ("limits.idle = 1", {"FUMAROLE_LIMITS_IDLE": "2"}, {"--limits-idle": "3"}, 3.0),
    "a flag over the file": ("limits.idle = 1", {}, {"--limits-idle": "3"}, 3.0),
    "a flag that was not given": ("limits.idle = 1", {}, {"--limits-idle": None}, 1.0),
}


@pytest.mark.parametrize(("text", "environ", "flags", "idle"), WINNERS.values(), ids=WINNERS.keys())
def test_who_wins(text: str, environ: Any, flags: Any, idle: float, load_text: LoadText) -> None:
    assert load_text(text, environ, flags).limits == Limits(idle=idle)


def test_an_override_leaves_the_rest_of_its_table(load_text: LoadText) -> None:
    loaded = load_text("[limits]\nidle = 1\ndrain = 1", {"FUMAROLE_LIMITS_IDLE": "2"})
    assert loaded.limits == Limits(idle=2.0, drain=1.0)


def test_a_list_of_flags_that_is_empty_was_not_given(load_text: LoadText) -> None:
    assert load_text("doors.nats = ['a:1']", {}, {"--nats": []}).doors == only(nats=(Address("a", 1),))


def test_mistakes_of_what_is_overridden_are_named_too(load_text: LoadText) -> None:
    text = "[limits]\nidle = 'x'\n[doors]\nnats = ['y']"
    environ = {"FUMAROLE_LIMITS_IDLE": "x", "FUMAROLE_NATS": "a:1"}
    mistakes = mistakes_in(lambda: load_text(text, environ, {"--limits-idle": "2"}))
    assert [str(mistake.origin) for mistake in mistakes] == ["f.toml:2", "f.toml:4", "FUMAROLE_LIMITS_IDLE"]


def test_an_override_below_what_is_no_table(load_text: LoadText) -> None:
    mistakes = mistakes_in(lambda: load_text("limits = 1", {"FUMAROLE_LIMITS_IDLE": "x"}))
    assert [(str(mistake.origin), mistake.key) for mistake in mistakes] == [
        ("f.toml:1", "limits"),
        ("FUMAROLE_LIMITS_IDLE", "limits.idle"),
    ]


def test_what_is_missing_is_looked_for_where_its_table_began(load_text: LoadText) -> None:
    Path("cert.pem").touch()
    mistakes = mistakes_in(lambda: load_text("data = 'x'", {"FUMAROLE_TLS_CERTIFICATE": "cert.pem"}))
    assert [(str(mistake.origin), mistake.key) for mistake in mistakes] == [("FUMAROLE_TLS_CERTIFICATE", "tls.key")]


UNKNOWN_VARIABLES = {
    "a letter missing": ("FUMAROLE_LIMIT_PAYLOAD", "FUMAROLE_LIMITS_PAYLOAD"),
    "a door with its table": ("FUMAROLE_DOORS_NATS", "FUMAROLE_NATS"),
    "a port that is no Kubernetes address": ("FUMAROLE_NATS_PORT", "FUMAROLE_NATS"),
    "one for the client": ("FUMAROLE_SERVER", "FUMAROLE_SERVERS"),
}


@pytest.mark.parametrize(("name", "meant"), UNKNOWN_VARIABLES.values(), ids=UNKNOWN_VARIABLES.keys())
def test_unknown_variable(name: str, meant: str) -> None:
    (mistake,) = mistakes_in(lambda: load(None, {name: "hunter2"}, {}))
    assert (mistake.origin.source, mistake.suggestion) == (name, meant)
    assert "hunter2" not in str(mistake)


FOREIGN_VARIABLES = {
    **dict.fromkeys(sorted(READ_ELSEWHERE), "nats://ada:hunter2@host"),
    "FUMAROLE_SERVICE_HOST": "10.0.0.1",
    "FUMAROLE_SERVICE_PORT_NATS": "4222",
    "FUMAROLE_PORT": "tcp://10.0.0.1:4222",
    "FUMAROLE_NATS_PORT": "tcp://10.0.0.1:4222",
    "FUMAROLE_NATS_PORT_4222_TCP_ADDR": "10.0.0.1",
    "FUMAROLES": "1",
    "PATH": "/bin",
}


@pytest.mark.parametrize("name", FOREIGN_VARIABLES)
def test_a_variable_that_is_not_ours_changes_nothing(name: str) -> None:
    assert load(None, {name: FOREIGN_VARIABLES[name]}, {}) == Settings()


@pytest.mark.parametrize("variable", sorted(VARIABLES.keys() - {"FUMAROLE_TLS_KEY"}))
def test_an_empty_variable_is_a_mistake(variable: str) -> None:
    mistakes = mistakes_in(lambda: load(None, {variable: ""}, {}))
    assert any(mistake.found == "an empty text" for mistake in mistakes)


def test_a_flag_that_there_is_not_is_our_own_fault() -> None:
    with pytest.raises(KeyError):
        load(None, {}, {"--natz": "a:1"})


# Whatever is written.

KNOWN_KEYS = sorted({part for path in VARIABLES.values() for part in map(str, path)})
KEYS = st.sampled_from([*KNOWN_KEYS, "users", "namespaces", "name", "publish", "allow", "default"]) | st.text(
    max_size=3
)
SCALARS = st.integers() | st.floats() | st.booleans() | st.text(max_size=5) | st.sampled_from(["a:1", "a.>", "strict"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",\n".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(character):08x}" for character in value) + '"'
    return re.sub("e([0-9])", r"e+\1", str(value).lower())


def load_or_mistakes(content: str | bytes, load_text: LoadText) -> Settings | list[Mistake]:
    """Any other exception goes through."""
    try:
        return load_text(content)
    except ConfigurationError as error:
        return error.mistakes


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=st.dictionaries(KEYS, VALUES, max_size=5))
def test_a_document_is_loaded_or_its_mistakes_have_lines(document: dict[str, Any], load_text: LoadText) -> None:
    text = "".join(f"{toml(key)} = {toml(value)}\n" for key, value in document.items())
    outcome = load_or_mistakes(text, load_text)
    if isinstance(outcome, Settings):
        Credentials(outcome.users or ())
    else:
        assert {mistake.line for mistake in outcome} <= set(range(1, text.count("\n") + 1))
        assert "\n".join(map(str, outcome)).replace("\n", "").isprintable()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary())
def test_bytes_are_loaded_or_have_mistakes(content: bytes, load_text: LoadText) -> None:
    assert load_or_mistakes(content, load_text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    around=st.sampled_from(
        ["{}", "users = {}", "users = [{}]", "users = [[{}]]", "a = {}", "namespaces = {}", "doors = {}"]
    ),
    secret=st.sampled_from(["'hunter2'", "['hunter2']", "{x = 'hunter2'}", "[['hunter2']]", "'nats://hunter2@a'"]),
    key=st.sampled_from(["password", "token", "pasword", "nats"]),
)
def test_no_mistake_repeats_a_secret(around: str, secret: str, key: str, load_text: LoadText) -> None:
    table = f"{key} = {secret}" if around == "{}" else f"{{{key} = {secret}}}"
    assume(not (key == "nats" and secret == "['hunter2']"))
    mistakes = mistakes_in(lambda: load_text(around.format(table)))
    assert "hunter2" not in "\n".join(map(str, mistakes))
