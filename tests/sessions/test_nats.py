import json
from itertools import pairwise, product

import pytest

from fumarole.core.limits import Limits
from fumarole.core.topic import Grammar
from fumarole.exchange.namespaces import NamespaceRules
from fumarole.exchange.outbox import Overflow
from fumarole.exchange.permissions import Permissions, User
from fumarole.fastpath.hot_path import HotPath
from fumarole.sessions.nats import NatsSession
from fumarole.sessions.stream import Claim, KeyProof, RemoteAddress
from tests.desk import Client, Desk


@pytest.fixture
def desk(hot_path: HotPath) -> Desk:
    return Desk(hot_path)


# What one client says, and what it hears; CONNECT with verbose false and headers true goes before.
DIALOGUES: list[tuple[str, str, str]] = [
    ("ping", "PING\r\n", "PONG\r\n"),
    ("hears itself", "SUB a 1\r\nPUB a 2\r\nhi\r\n", "MSG a 1 2\r\nhi\r\n"),
    (
        "two subscriptions, two messages",
        "SUB a 1\r\nSUB * 2\r\nPUB a 1\r\nx\r\n",
        "MSG a 1 1\r\nx\r\nMSG a 2 1\r\nx\r\n",
    ),
    ("order", "SUB > 1\r\nPUB a 1\r\n1\r\nPUB b 1\r\n2\r\n", "MSG a 1 1\r\n1\r\nMSG b 1 1\r\n2\r\n"),
    ("reply", "SUB a 1\r\nPUB a r.1 1\r\nx\r\n", "MSG a 1 r.1 1\r\nx\r\n"),
    ("odd spelling comes out right", "SUB a 1\r\npub  a\t001\nx\r\n", "MSG a 1 1\r\nx\r\n"),
    ("headers", "SUB a 1\r\nHPUB a 12 13\r\nNATS/1.0\r\n\r\nx\r\n", "HMSG a 1 12 13\r\nNATS/1.0\r\n\r\nx\r\n"),
    ("headers, reply", "SUB a 1\r\nHPUB a r 8 9\r\nNATS/1.0x\r\n", "HMSG a 1 r 8 9\r\nNATS/1.0x\r\n"),
    ("unsubscribe", "SUB a 1\r\nUNSUB 1\r\nPUB a 1\r\nx\r\nPING\r\n", "PONG\r\n"),
    ("unsubscribe a stranger", "UNSUB 9\r\nPING\r\n", "PONG\r\n"),
    (
        "unsubscribe after two",
        "SUB a 1\r\nUNSUB 1 2\r\n" + "PUB a 1\r\nx\r\n" * 3 + "PING\r\n",
        "MSG a 1 1\r\nx\r\n" * 2 + "PONG\r\n",
    ),
    (
        "unsubscribe after two, one was before",
        "SUB a 1\r\nPUB a 1\r\nx\r\nUNSUB 1 2\r\n" + "PUB a 1\r\nx\r\n" * 3,
        "MSG a 1 1\r\nx\r\n" * 2,
    ),
    (
        "unsubscribe after what is past",
        "SUB a 1\r\nPUB a 1\r\nx\r\nUNSUB 1 1\r\nPUB a 1\r\nx\r\n",
        "MSG a 1 1\r\nx\r\n",
    ),
    (
        "unsubscribe after what is no count",
        "SUB a 1\r\nUNSUB 1 -1\r\n",
        "-ERR 'Parser Error: the count of UNSUB is one to nine digits'\r\n",
    ),
    (
        "unsubscribe after too many",
        "SUB a 1\r\nUNSUB 1 9999999999\r\n",
        "-ERR 'Parser Error: the count of UNSUB is one to nine digits'\r\n",
    ),
    ("a sid twice is the first", "SUB a 1\r\nSUB b 1\r\nPUB b 1\r\nx\r\nPUB a 1\r\nx\r\n", "MSG a 1 1\r\nx\r\n"),
    (
        "the empty topic",
        "SUB $EMPTY 1\r\nSUB > 2\r\nPUB $EMPTY 1\r\nx\r\n",
        "MSG $EMPTY 2 1\r\nx\r\nMSG $EMPTY 1 1\r\nx\r\n",
    ),
    ("empty words", "SUB a..b 1\r\nPUB a..b 1\r\nx\r\n", "MSG a..b 1 1\r\nx\r\n"),
    (
        "a pattern with `>` inside",
        "SUB a.>.b 1\r\nPING\r\n",
        '-ERR \'Permissions Violation for Subscription to "a.>.b": Invalid Subject: '
        "`>` must be the last word, at position 2'\r\nPONG\r\n",
    ),
    (
        "a wildcard in a publish",
        "PUB a.* 1\r\nx\r\nPING\r\n",
        '-ERR \'Permissions Violation for Publish to "a.*": Invalid Publish Subject: '
        "`*` is for patterns, a topic has no wildcards, at position 2'\r\nPONG\r\n",
    ),
    (
        "a topic of the server's own",
        "PUB $SYS.x 1\r\nx\r\n",
        "-ERR 'Permissions Violation for Publish to \"$SYS.x\"'\r\n",
    ),
    ("services of clients", "SUB $SRV.PING 1\r\nPUB $SRV.PING 1\r\nx\r\n", "MSG $SRV.PING 1 1\r\nx\r\n"),
    ("services of clients, all", "SUB $SRV.> 1\r\nPUB $SRV.PING.a-b 1\r\nx\r\n", "MSG $SRV.PING.a-b 1 1\r\nx\r\n"),
    (
        "a service with a letter that the grammar does not have",
        "PUB $SRV.a/b 1\r\nx\r\n",
        '-ERR \'Permissions Violation for Publish to "$SRV.a/b": Invalid Publish Subject: "/" is not allowed '
        "(letters, digits, `-`, `_` and `.`; with --grammar channel more), at position 6'\r\n".replace('"/"', "'/'"),
    ),
    (
        "JetStream is not here",
        "SUB $JS.> 1\r\nPUB $JS.API.INFO 0\r\n\r\nPUB $KV.b.k 1\r\nx\r\nUNSUB 1\r\nPING\r\n",
        "PONG\r\n",
    ),
    ("a reply of another grammar", "SUB a 1\r\nPUB a r/\u00e9 1\r\nx\r\n", "MSG a 1 r/\u00e9 1\r\nx\r\n"),
    (
        "a reply that ends with a dot",
        "PUB a r. 1\r\nx\r\n",
        "-ERR 'Permissions Violation for Publish to \"a\": Invalid Publish Subject: a channel cannot begin or end with `.`, at position 1'\r\n",
    ),
    ("a group of another grammar", "SUB a g/@\u00e9 1\r\nPUB a 1\r\nx\r\n", "MSG a 1 1\r\nx\r\n"),
    (
        "a wrong reply",
        "PUB a b* 1\r\nx\r\n",
        '-ERR \'Permissions Violation for Publish to "a": Invalid Publish Subject: '
        "`*` is for patterns, a topic has no wildcards, at position 1'\r\n",
    ),
    ("unknown", "FOO\r\nPING\r\n", "-ERR 'Unknown Protocol Operation'\r\n"),
    ("a server's operation", "+OK\r\n", "-ERR 'Unknown Protocol Operation'\r\n"),
]


@pytest.mark.parametrize(("says", "hears"), [row[1:] for row in DIALOGUES], ids=[row[0] for row in DIALOGUES])
def test_dialogue(desk: Desk, says: str, hears: str) -> None:
    """In one piece, and byte by byte."""
    assert desk.connect().asks(says).decode() == hears
    slow = desk.connect(user="another")
    for byte in says.encode():
        slow.say(bytes([byte]))
    assert slow.hears().decode() == hears


def test_info(hot_path: HotPath) -> None:
    desk = Desk(hot_path, Limits(payload=77), authentication=True)
    line = Client(desk).hears()
    assert line.startswith(b"INFO {")
    options = json.loads(line[5:])
    assert options["max_payload"] == 77
    assert options["headers"] is True
    assert options["proto"] == 1
    assert options["auth_required"] is True
    # Clients read these without asking whether they are there (nats-core), and compare the version.
    assert options.keys() >= {"server_id", "version", "go", "host", "port", "headers", "max_payload"}
    assert options["version"].startswith("2.")
    assert options["fumarole"] == desk.node.version
    assert options.keys().isdisjoint({"nonce", "tls_required", "tls_verify", "connect_urls", "cluster"})


def test_info_where_clients_show_certificates(hot_path: HotPath) -> None:
    """nats-core and Go's client ask for `tls_verify`."""
    session = NatsSession(
        Desk(hot_path).node, RemoteAddress("127.0.0.1", 4222, "127.0.0.1", secure=True, asks=True), 0, None
    )
    options = json.loads(session.outbox.take()[5:])
    assert (options["tls_required"], options["tls_verify"]) == (True, True)


def test_info_of_a_node_of_a_cluster(desk: Desk) -> None:
    """The node itself is among the addresses: a client may come back to it."""
    desk.node.reachable, desk.node.cluster_name = ["10.0.0.2:4222"], "east"
    client = Client(desk)
    options = json.loads(client.hears()[5:])
    assert (options["cluster"], options["connect_urls"]) == ("east", ["127.0.0.1:4222", "10.0.0.2:4222"])
    client.say('CONNECT {"verbose":false}\r\n')
    client.session.inform(lame_duck=True)
    options = json.loads(client.hears()[5:])
    assert (options["ldm"], options["connect_urls"]) == (True, ["10.0.0.2:4222"])
    # The last node says so: clients take a list to replace what they knew, and no list to change nothing.
    desk.node.reachable = []
    client.session.inform()
    assert json.loads(client.hears()[5:])["connect_urls"] == ["127.0.0.1:4222"]
    client.session.inform(lame_duck=True)
    assert "connect_urls" not in json.loads(client.hears()[5:])


def test_info_over_websocket_has_web_doors(hot_path: HotPath) -> None:
    """H6: in the first one, and in the one that sends clients away."""
    desk = Desk(hot_path)
    desk.node.reachable, desk.node.reachable_web = ["10.0.0.2:4222"], ["http://10.0.0.2:8222"]
    session = NatsSession(desk.node, RemoteAddress("127.0.0.1", 8222, "127.0.0.1", over_web=True), 0, None)
    assert json.loads(session.outbox.take()[5:])["connect_urls"] == ["127.0.0.1:8222", "10.0.0.2:8222"]
    session.receive_data(b'CONNECT {"verbose":false}\r\n')
    session.inform(lame_duck=True)
    options = json.loads(session.outbox.take()[5:])
    assert (options["ldm"], options["connect_urls"]) == (True, ["10.0.0.2:8222"])


def test_who_am_i(desk: Desk) -> None:
    """In the form of nats-server."""
    client = desk.connect(user="lab")
    heard = client.asks("SUB in.1 1\r\nPUB $SYS.REQ.USER.INFO in.1 0\r\n\r\n")
    answer = json.loads(heard.split(b"\r\n")[1])
    assert answer["data"] == {"user": "", "account": "lab"}
    assert answer["server"]["jetstream"] is False
    assert answer["server"]["id"] == desk.node.name


def test_who_am_i_with_permissions(hot_path: HotPath) -> None:
    client = Client(Desk(hot_path, authentication=True))
    client.say('CONNECT {"verbose":false}\r\n')
    client.hears()
    client.session.admit(User("ann", "lab", Permissions(("a.>",), ("a.no",)), Permissions(None, ("b",))))
    heard = client.asks("SUB in.1 1\r\nPUB $SYS.REQ.USER.INFO in.1 0\r\n\r\n")
    assert json.loads(heard.split(b"\r\n")[1])["data"] == {
        "user": "ann",
        "account": "lab",
        "permissions": {
            "publish": {"allow": ["a.>"], "deny": ["a.no"]},
            "subscribe": {"allow": [">"], "deny": ["b"]},
        },
    }


@pytest.mark.parametrize("topic", ["$JS.API.INFO", "$KV.bucket.key", "$SRV.PING"])
def test_a_request_to_what_is_not_here(desk: Desk, topic: str) -> None:
    """R1: 503, as nats-server without JetStream, and the message is counted (D3)."""
    heard = desk.connect(no_responders=True).asks(f"SUB in.1 1\r\nPUB {topic} in.1 0\r\n\r\n")
    assert heard.startswith(b"HMSG in.1 1 ")
    assert b"NATS/1.0 503\r\nNats-Subject: " + topic.encode() in heard
    assert desk.counters()["dropped"]["no consumer"] == 1


def test_jetstream_topics_are_held_to_permissions(hot_path: HotPath) -> None:
    client = Client(Desk(hot_path, authentication=True))
    client.say('CONNECT {"verbose":false}\r\n')
    client.hears()
    client.session.admit(User("ann", "lab", Permissions(("a.>",))))
    assert (
        client.asks("PUB $JS.API.INFO 0\r\n\r\n") == b"-ERR 'Permissions Violation for Publish to \"$JS.API.INFO\"'\r\n"
    )


def test_jwt_is_refused_with_a_sentence(hot_path: HotPath) -> None:
    client = Client(Desk(hot_path, authentication=True))
    client.hears()
    heard = client.asks('CONNECT {"verbose":false,"jwt":"eyJ0","sig":"x"}\r\n')
    assert heard == b"-ERR 'Authorization Violation: JWTs are not offered; use a password, a token or an nkey'\r\n"
    assert client.session.close_expected()


def test_an_nkey_is_a_claim(hot_path: HotPath) -> None:
    """Signed is the nonce of INFO, which no other connection has."""
    desk = Desk(hot_path, authentication=True)
    nonces = iter(["first", "second"])
    desk.node.nonce = lambda: next(nonces)
    client, other = Client(desk), Client(desk)
    assert [json.loads(each.hears()[5:])["nonce"] for each in (client, other)] == ["first", "second"]
    client.say('CONNECT {"verbose":false,"nkey":"UABC","sig":"c2ln"}\r\n')
    assert client.session.claim == Claim(None, None, None, KeyProof("UABC", "c2ln", "first"))
    assert (
        Client(Desk(hot_path, authentication=True))
        .asks('CONNECT {"nkey":7}\r\n')
        .endswith(b"nkey and sig are text'\r\n")
    )


@pytest.mark.parametrize("given", ['"user":"a_b"', '"auth_token":"s3cr3t!"', '"user":"-"', '"user":"\u00e9"', ""])
def test_a_user_that_cannot_be_a_namespace_is_in_the_default_one(desk: Desk, given: str) -> None:
    """N3: without authentication."""
    client = Client(desk)
    client.hears()
    assert client.asks(f'CONNECT {{"verbose":false{"," if given else ""}{given}}}\r\nPING\r\n') == b"PONG\r\n"
    default = desk.connect()
    assert default.asks("SUB a 1\r\n") == b""
    client.asks("PUB a 1\r\nx\r\n")
    assert default.hears() == b"MSG a 1 1\r\nx\r\n"


@pytest.mark.parametrize("producer", ["billing-service", "", "2f1c0a52-6d0f-1c8e-9a5e-3b1f7d2c4e60"])
def test_a_header_producer_that_names_none_is_an_ordinary_header(desk: Desk, producer: str) -> None:
    """M8."""
    client = desk.connect(headers=True)
    block = f"NATS/1.0\r\nProducer: {producer}\r\n\r\n"
    said = client.asks(f"SUB a 1\r\nHPUB a {len(block)} {len(block) + 1}\r\n{block}x\r\n")
    assert said == f"HMSG a 1 {len(block)} {len(block) + 1}\r\n{block}x\r\n".encode()


def test_verbose(desk: Desk) -> None:
    client = desk.connect(verbose=True)
    says = "SUB a 1\r\nPUB a 1\r\nx\r\nUNSUB 1\r\nPING\r\nPONG\r\nPUB * 1\r\nx\r\nCONNECT {}\r\n"
    said = client.asks(says).decode()
    assert said.startswith("+OK\r\nMSG a 1 1\r\nx\r\n+OK\r\n+OK\r\nPONG\r\n-ERR 'Permissions Violation for Publish to")
    assert said.endswith("'\r\n+OK\r\n")


def test_a_client_is_verbose_unless_it_says_otherwise(desk: Desk) -> None:
    assert Client(desk).asks("CONNECT {}\r\nPING\r\n").endswith(b"}\r\n+OK\r\nPONG\r\n")


def test_without_connect_one_is_in_the_default_namespace(desk: Desk) -> None:
    listener = desk.connect()
    listener.say("SUB a 1\r\n")
    Client(desk).say("PUB a 2\r\nhi\r\n")
    assert listener.hears() == b"MSG a 1 2\r\nhi\r\n"


def test_echo_off(desk: Desk) -> None:
    silent, other = desk.connect(echo=False), desk.connect()
    silent.say("SUB a 1\r\nSUB a g 2\r\n")
    other.say("SUB a g 1\r\n")
    silent.say("PUB a 1\r\nx\r\n" * 4)
    assert silent.hears() == b""
    assert other.hears() == b"MSG a 1 1\r\nx\r\n" * 4
    assert silent.asks("PUB a 1\r\nx\r\nPING\r\n") == b"PONG\r\n"


def test_headers_are_kept_from_who_does_not_know_them(desk: Desk) -> None:
    modern, old = desk.connect(), desk.connect(headers=False)
    for client in (modern, old):
        client.say("SUB a 1\r\n")
    modern.say("HPUB a r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n")
    assert modern.hears() == b"HMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    assert old.hears() == b"MSG a 1 r 2\r\nhi\r\n"


def test_nobody_to_answer(desk: Desk) -> None:
    """R1: at once, and only to the one who asked."""
    asking, other = desk.connect(no_responders=True), desk.connect(no_responders=True)
    for client in (asking, other):
        client.say("SUB inbox.* 7\r\n")
    expected = b"HMSG inbox.1 7 43 43\r\nNATS/1.0 503\r\nNats-Subject: nobody.home\r\n\r\n\r\n"
    assert asking.asks("PUB nobody.home inbox.1 2\r\nhi\r\n") == expected
    assert asking.asks("PUB $JS.API.INFO inbox.1 0\r\n\r\n").startswith(b"HMSG inbox.1 7 44 44\r\nNATS/1.0 503\r\n")
    assert other.hears() == b""
    other.say("SUB nobody.home 8\r\n")
    assert asking.asks("PUB nobody.home inbox.1 2\r\nhi\r\n") == b""
    assert desk.connect().asks("SUB inbox.* 1\r\nPUB not.there inbox.1 2\r\nhi\r\n") == b"", "only who understands it"
    once = desk.connect(no_responders=True)
    assert once.asks("SUB in 1\r\nUNSUB 1 1\r\n" + "PUB none in 0\r\n\r\n" * 2).count(b" 503") == 2, "not counted"
    assert once.asks("PUB in 0\r\n\r\n" * 2) == b"MSG in 1 0\r\n\r\n"
    assert desk.connect(no_responders=True).asks("SUB in g 1\r\nPUB none in 0\r\n\r\n") == b"", "not in a group"


def test_namespaces(desk: Desk) -> None:
    """N2, N3: by user name or token; the same topic and group in two are strangers."""
    clients = [desk.connect(), desk.connect(user="lab"), desk.connect(auth_token="lab"), desk.connect(user="default")]
    for client in clients:
        client.say("SUB a 1\r\nSUB a g 2\r\n")
    clients[1].say("PUB a 1\r\nx\r\n")
    heard = [client.hears() for client in clients]
    assert heard[0] == heard[3] == b""
    assert sorted((heard[1] + heard[2]).split(b"MSG ")[1:]) == [b"a 1 1\r\nx\r\n", b"a 1 1\r\nx\r\n", b"a 2 1\r\nx\r\n"]


def test_a_namespace_that_is_not_allowed(hot_path: HotPath) -> None:
    desk = Desk(hot_path, allowed=frozenset({"lab"}))
    client = Client(desk)
    assert b"Authorization Violation" in client.asks('CONNECT {"user":"elsewhere"}\r\n')
    assert client.session.close_expected()
    assert Client(desk).asks('CONNECT {"user":"no such name!"}\r\n').endswith(b"+OK\r\n")  # N3: the default one
    assert not Client(desk).say('CONNECT {"user":"lab"}\r\n').session.close_expected()


def test_a_channel_namespace(hot_path: HotPath) -> None:
    """T2."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(grammar=Grammar.CHANNEL)})
    client = desk.connect()
    assert client.asks("SUB Ätna.* 1\r\nPUB Ätna.süd é 1\r\nx\r\n") == "MSG Ätna.süd 1 é 1\r\nx\r\n".encode()
    assert client.asks("PUB a. 1\r\nx\r\n").startswith(
        b'-ERR \'Permissions Violation for Publish to "a.": Invalid Publish Subject: a channel cannot begin'
    )


def test_credentials(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    client = Client(desk)
    client.hears()
    client.say('CONNECT {"verbose":false,"user":"ann","pass":"secret"}\r\nSUB a 1\r\nPUB a 2\r\nhi\r\nPI')
    assert client.session.claim == Claim("ann", "secret", None)
    assert client.hears() == b"", "nothing goes on until the credentials were looked at"
    client.session.admit(User("ann", "lab"))
    assert client.hears() == b"MSG a 1 2\r\nhi\r\n"
    assert client.asks("NG\r\nPUB a 2\r\nho\r\n") == b"PONG\r\nMSG a 1 2\r\nho\r\n"
    assert client.session.exchange is not None
    assert client.session.exchange.name == "lab"


def test_wrong_credentials(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    client = Client(desk)
    client.say('CONNECT {"user":"ann","pass":"wrong"}\r\nPUB a 2\r\nhi\r\n')
    client.session.admit(None)
    assert client.hears().endswith(b"-ERR 'Authorization Violation'\r\n")
    assert client.session.close_expected()
    assert desk.counters()["received"] == 0


@pytest.mark.parametrize("says", ["PUB a 1\r\n", "SUB a 1\r\n", "UNSUB 1\r\n", "HPUB a 1 1\r\n"])
def test_before_credentials_nothing_is_done(hot_path: HotPath, says: str) -> None:
    client = Client(Desk(hot_path, authentication=True))
    assert client.asks(says).endswith(b"-ERR 'Authorization Violation'\r\n")
    assert client.session.close_expected()


def test_permissions(hot_path: HotPath) -> None:
    desk = Desk(hot_path, authentication=True)
    client = Client(desk)
    client.say('CONNECT {"verbose":false}\r\n')
    client.hears()
    client.session.admit(User("ann", "lab", Permissions(("a.>",), ("a.no",)), Permissions(None, ("secret.>",))))
    assert client.asks("PUB b 1\r\nx\r\n") == b"-ERR 'Permissions Violation for Publish to \"b\"'\r\n"
    assert client.asks("PUB a.no 1\r\nx\r\n") == b"-ERR 'Permissions Violation for Publish to \"a.no\"'\r\n"
    assert client.asks("SUB secret.* 1\r\n") == b"-ERR 'Permissions Violation for Subscription to \"secret.*\"'\r\n"
    assert client.asks("SUB > 2\r\nPUB a.yes 1\r\nx\r\n") == b"MSG a.yes 2 1\r\nx\r\n"
    free = Client(desk)
    free.say("CONNECT {}\r\n")
    free.session.admit(User("bob", "lab"))
    free.say("PUB secret.x 1\r\nx\r\n")
    assert client.hears() == b""
    assert desk.counters("lab")["dropped"] == {"no consumer": 1, "outbox full": 0, "refused": 2}


def test_too_many_consumers(hot_path: HotPath) -> None:
    client = Desk(hot_path, Limits(consumers_per_connection=2)).connect()
    said = client.asks("SUB a 1\r\nSUB b 2\r\nSUB c 3\r\nUNSUB 1\r\nSUB c 3\r\n")
    assert said == b"-ERR 'Permissions Violation for Subscription to \"c\": maximum subscriptions exceeded'\r\n"


@pytest.mark.parametrize(
    ("lang", "version", "survives"),
    [
        ("go", "1.38.0", True),
        ("go", "1.53.1", True),
        ("go", "2.0", True),
        ("go", "1.37.9", False),
        ("go", "1.٣٨", False),
        ("go", "9" * 3000 + ".0", False),
        ("go", "", False),
        ("go", None, False),
        ("go", {}, False),
        ("python3", "2.12.0", False),
        (["go"], "1.53.1", False),
    ],
)
def test_too_many_consumers_of_clients_in_go(desk: Desk, lang: object, version: object, survives: bool) -> None:
    """Go's client has an error for nats-server's own words, since 1.38. Others close for good on them."""
    desk.node.limits = Limits(consumers_per_connection=1)
    said = desk.connect(lang=lang, version=version).asks("SUB a 1\r\nSUB b 2\r\n")
    assert (said == b"-ERR 'maximum subscriptions exceeded'\r\n") is survives
    assert said.endswith(b"maximum subscriptions exceeded'\r\n")


def test_payload_too_large(hot_path: HotPath) -> None:
    client = Desk(hot_path, Limits(payload=5)).connect()
    assert client.asks("PUB a 5\r\nhello\r\nPUB a 6\r\n") == b"-ERR 'Maximum Payload Violation'\r\n"
    assert client.session.close_expected()


def test_closing_leaves_nothing(desk: Desk) -> None:
    client, other = desk.connect(user="lab"), desk.connect(user="lab")
    client.say("SUB a 1\r\nSUB b.> g 2\r\n")
    assert desk.counters("lab")["consumers"] == 2
    client.session.close()
    client.session.close()
    assert desk.counters("lab")["consumers"] == 0
    other.say("PUB a 1\r\nx\r\n")
    assert client.hears() == b""
    other.session.receive_eof()
    assert [exchange.name for exchange in desk.node.namespaces] == ["default"]


def test_very_many_consumers_leave_a_part_at_a_time(desk: Desk) -> None:
    """Those still there get nothing, are passed over by groups, and are counted."""
    client, other = desk.connect(), desk.connect()
    client.say("".join(f"SUB a g {number}\r\n" for number in range(2500)))
    client.session.close()
    assert desk.counters()["consumers"] == 1500
    other.say("SUB a g 1\r\nPUB a 1\r\nx\r\n")
    assert other.hears() == b"MSG a 1 1\r\nx\r\n"
    other.say("UNSUB 1\r\nPUB a 1\r\nx\r\n")
    assert client.hears() == b""
    assert desk.counters()["dropped"]["outbox full"] == 1
    assert not client.session.remove_consumers()
    assert client.session.remove_consumers()
    assert desk.counters()["consumers"] == 0
    assert desk.counters()["connections"] == 1


def test_signs_of_life(hot_path: HotPath) -> None:
    desk = Desk(hot_path, Limits(idle=10))
    client = desk.connect()
    tick = client.session.tick
    tick(1000)
    tick(1009)
    assert client.hears() == b""
    tick(1011)
    assert client.hears() == b"PING\r\n"
    client.say("PONG\r\n")
    tick(1012)
    tick(1021)
    assert client.hears() == b""
    tick(1023)
    tick(1034)
    assert client.hears() == b"PING\r\nPING\r\n"
    tick(1045)
    assert client.hears() == b"-ERR 'Stale Connection'\r\n"
    assert client.session.close_expected()


def test_the_handshake_has_a_deadline(hot_path: HotPath) -> None:
    desk = Desk(hot_path, Limits(handshake=2))
    client = Client(desk)
    client.hears()
    client.say("PING\r\nCONN")
    client.session.tick(1001.9)
    assert client.hears() == b"PONG\r\n"
    client.session.tick(1002.1)
    assert client.hears() == b"-ERR 'Authentication Timeout'\r\n"
    assert client.session.close_expected()


def test_a_slow_consumer_gets_the_freshest(hot_path: HotPath) -> None:
    """D6, L3: the oldest go, whole, and are counted."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=100)})
    slow, sender = desk.connect(), desk.connect()
    slow.say("SUB a 1\r\n")
    for number in range(100):
        sender.say(f"PUB a 4\r\n{number:04}\r\n")
    heard = slow.hears()
    assert heard == b"".join(b"MSG a 1 4\r\n%04d\r\n" % number for number in range(95, 100))
    assert desk.counters()["dropped"]["outbox full"] == 95
    assert desk.counters()["delivered"] == 5


def test_a_capture_has_eight_times_the_outbox(hot_path: HotPath) -> None:
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=100)})
    slow, sender = desk.connect(), desk.connect()
    for says_so, held in (("true", 47), ("false", 5)):
        slow.say(f'CONNECT {{"verbose":false,"headers":true,"capture":{says_so}}}\r\nSUB a 1\r\n')
        slow.session.regulate()
        for _ in range(100):
            sender.say("PUB a 4\r\nxxxx\r\n")
        assert slow.hears() == b"MSG a 1 4\r\nxxxx\r\n" * held


def test_a_slow_consumer_may_be_cut_off(hot_path: HotPath) -> None:
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=100, overflow=Overflow.DISCONNECT)})
    slow, sender = desk.connect(), desk.connect()
    slow.say("SUB a 1\r\n")
    sender.say("PUB a 4\r\nxxxx\r\n" * 10)
    assert slow.session.outbox.overflowed
    assert slow in desk.node.ready


def test_a_group_passes_its_full_members_over(hot_path: HotPath) -> None:
    """G3."""
    desk = Desk(hot_path, rules={"default": NamespaceRules(outbox=1000)})
    full, well, sender = desk.connect(), desk.connect(), desk.connect()
    for client in (full, well):
        client.say("SUB a g 1\r\n")
    full.say("SUB fill 2\r\n")
    sender.say("PUB fill 900\r\n" + "x" * 900 + "\r\n")
    for _ in range(50):
        sender.say("PUB a 1\r\nx\r\n")
        assert well.hears() == b"MSG a 1 1\r\nx\r\n"
    assert desk.counters()["dropped"]["outbox full"] == 0


def ways_to_be_looked_at() -> dict[str, tuple[str, str]]:
    """What one client subscribes to, and what another says, again and again, each time with another number."""
    globs = "".join(f"SUB *all-alike-{n}* {n}\r\n" for n in range(8000))
    branches = "".join(f"SUB {'.'.join(words)}.b {n}\r\n" for n, words in enumerate(product("a*", repeat=12)))
    members = "".join(f"SUB > g {n}\r\n" for n in range(8000))
    listeners = "".join(f"SUB r.* {n}\r\n" for n in range(8000))
    return {
        "globs that are all alike": (globs, "PUB all-alike-x{} 0\r\n\r\n"),
        "globs, and a header": (globs, "HPUB all-alike-x{} 12 12\r\nNATS/1.0\r\n\r\n\r\n"),
        "patterns that branch": (branches, "PUB " + "a." * 12 + "c{} 0\r\n\r\n"),
        "a group that somebody joins": (members, "SUB > g {}\r\nPUB a 0\r\n\r\n"),
        "requests that nobody hears": (listeners, "PUB x r.{} 0\r\n\r\n"),
    }


@pytest.mark.parametrize("way", ways_to_be_looked_at())
def test_to_find_out_who_gets_it_is_work_too(desk: Desk, way: str) -> None:
    """L1: a client with ever new topics, or that changes what was known, has no more of a turn than others."""
    patterns, said = ways_to_be_looked_at()[way]
    consumer = desk.connect()
    publisher = consumer if way.startswith("requests") else desk.connect()
    consumer.say('CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n' + patterns)
    (exchange,) = desk.node.namespaces
    index = exchange.index
    publisher.reader.receive_data("".join([said.format(n) for n in range(100)]).encode())
    turns = [index.looked_at]
    while publisher.reader.unfinished:
        publisher.reader.go_on()
        turns.append(index.looked_at)
        consumer.hears()
    assert len(turns) > 5
    assert max(after - before for before, after in pairwise(turns)) < 80_000
    assert desk.counters()["received"] == 100
