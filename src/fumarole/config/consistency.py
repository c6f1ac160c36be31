"""Conditions between settings that are valid one by one.

Works on the tree that `schema` read, so that one wrong value hides no other mistake: what could not be read is absent,
and nothing is said about it twice.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fumarole.cluster.identity import LONGEST_NAME
from fumarole.config.mistakes import KeyPath, Report, key_text, nearest, shown
from fumarole.config.schema import Tree
from fumarole.config.values import HIGHEST_PORT, Address, Secret, worker_count
from fumarole.core.errors import PatternError
from fumarole.core.topic import Grammar, parse_pattern
from fumarole.doors.registry import DOORS
from fumarole.exchange.namespaces import DEFAULT, default_rules
from fumarole.exchange.permissions import Permissions

SHORTEST_SECRET: Final = 16
"""Characters of a cluster's secret: a shorter one could be guessed from one recorded handshake."""


def check_consistency(tree: Tree, report: Report) -> None:
    """Adds settings that do not fit together to the report."""
    _check_data(tree, report)
    _check_doors(tree.get("doors", {}), report)
    _check_links(tree, report)
    _check_workers(tree, report)
    _check_traces(tree.get("traces", {}), report)
    if "tls" in tree:
        _check_tls(tree["tls"], report)
    for name in tree.get("namespaces", {}):
        _check_allowed(name, ("namespaces", name), tree, report)
    for door in DOORS:
        if "namespace" in tree.get(door, {}):
            _check_allowed(tree[door]["namespace"], (door, "namespace"), tree, report)
    _check_users(tree, report)
    _check_bridges(tree, report)


def _check_bridges(tree: Tree, report: Report) -> None:
    taken: dict[tuple[str, object], KeyPath] = {}
    for index, bridge in enumerate(tree.get("bridges", [])):
        for name in ("name", "router", "direct_queue"):
            value = (bridge or {}).get(name)
            default = {"name": "bridge", "router": "tcp://127.0.0.1:5555"}.get(name)
            if bridge is None or (value is None and ("bridges", index, name) in report.origins):
                continue
            path: KeyPath = ("bridges", index, name)
            if (value or default) is None:
                continue
            if (name, value or default) in taken:
                first = key_text(taken[name, value or default])
                report.add(path, f"{shown(value or default)}, which {first} has too", f"a {name} of its own")
            taken.setdefault((name, value or default), path)
        _check_bridge(bridge or {}, ("bridges", index), tree, report)


def _check_bridge(bridge: Tree, path: KeyPath, tree: Tree, report: Report) -> None:
    if "curve_clients" in bridge and (*path, "curve_key") not in report.origins:
        report.add((*path, "curve_clients"), "clients' keys without curve_key", "the bridge's own key as well")
    if "curve_key" in bridge and not _is_readable_file(bridge["curve_key"]):
        report.add((*path, "curve_key"), f"{shown(str(bridge['curve_key']))}, which cannot be read", "a file")
    if "curve_clients" in bridge and not _is_folder(bridge["curve_clients"]):
        report.add((*path, "curve_clients"), f"{shown(str(bridge['curve_clients']))}, which is no folder", "a folder")
    if "exchange" in bridge:
        _check_allowed(bridge["exchange"], (*path, "exchange"), tree, report)


def _check_data(tree: Tree, report: Report) -> None:
    folder = tree.get("data")
    if folder is not None and _is_something_else(folder):
        found = f"{shown(str(folder))}, which is no folder"
        report.add(("data",), found, "a folder, or a path where there is nothing yet")


def _is_something_else(folder: Path) -> bool:
    try:
        return folder.exists() and not folder.is_dir()
    except OSError:
        return True


def _check_doors(doors: Tree, report: Report) -> None:
    taken: dict[Address, KeyPath] = {}
    for door, addresses in doors.items():
        if not addresses:
            report.add(("doors", door), "an empty list", "at least one address; a door that is not named stays closed")
        for index, address in enumerate(addresses):
            path: KeyPath = ("doors", door, index)
            if address is None or address.port == 0:
                continue
            if address in taken:
                report.add(path, f"'{address}', which {key_text(taken[address])} has too", "an address of its own")
            taken.setdefault(address, path)


def _check_links(tree: Tree, report: Report) -> None:
    links = tree.get("links", {})
    files = ("certificate", "key", "authority")
    _check_certificates("links", links, "authority", report)
    if "secret_file" in links:
        _check_secret(links["secret_file"], report)
    given = [name for name in files if ("links", name) in report.origins]
    if given and len(given) < len(files):  # without this check, links would look protected and would not be
        missing = next(name for name in files if name not in given)
        report.add(
            ("links", missing), f"nothing, though there is a links.{given[0]}", "all of certificate, key, authority"
        )
    if tree.get("peer") and "cluster" not in tree and ("cluster",) not in report.origins:
        report.add(("peer",), "nodes to join, but no cluster", "`cluster`: where those nodes reach this one")


def _check_workers(tree: Tree, report: Report) -> None:
    """Each worker is a node of the cluster: its number follows the name, and is added to the port."""
    workers, name = tree.get("workers", 1), tree.get("node", "")
    last = worker_count(workers) - 1
    if workers != 1 and len(f"{name}/{last}") > LONGEST_NAME:
        expected = f"at most {LONGEST_NAME} characters together with `/{last}`, the number of the last worker"
        report.add(("node",), shown(name), expected)
    reached_at: dict[KeyPath, Address | None] = {
        ("cluster",): tree.get("cluster"),
        ("links", "address"): tree.get("links", {}).get("address"),
    }
    for path, address in reached_at.items():
        if last and address is not None and not 1 <= address.port <= HIGHEST_PORT - last:
            expected = f"a port from 1 to {HIGHEST_PORT - last}: {last + 1} workers have it and those that follow"
            report.add(path, f"'{address}'", expected)


def _check_traces(traces: Tree, report: Report) -> None:
    _check_certificates("traces", traces, "authority", report)
    path = traces.get("headers_file")
    if path is not None:
        try:
            header_lines(path)
        except OSError:
            report.add(("traces", "headers_file"), f"{shown(str(path))}, which cannot be read", "a file")
        except ValueError as error:
            # The line may be a secret, so its number has to do.
            report.add(("traces", "headers_file"), f"{shown(str(path))}, {error}", "lines `Name: value`")


def _check_secret(path: Path, report: Report) -> None:
    found = f"{shown(str(path))}, which cannot be read"
    if _is_readable_file(path):
        secret = first_line(path)
        if len(secret) >= SHORTEST_SECRET:
            return
        found = (
            f"{shown(str(path))}, whose first line is {'too short' if secret else 'empty'}"  # empty: no secret at all
        )
    report.add(
        ("links", "secret_file"), found, f"a file with a secret of {SHORTEST_SECRET} characters in its first line"
    )


def _check_tls(tls: Tree, report: Report) -> None:
    _check_certificates("tls", tls, "client_authority", report)
    _check_client_certificates(tls, report)


def _check_certificates(section: str, files: Tree, authority: str, report: Report) -> None:
    """Checks that a certificate, its key and the authority for others' certificates can be loaded."""
    import ssl  # takes longer than all else that reads a configuration

    readable = {}
    for name in ("certificate", "key", authority):
        if name in files and not _is_readable_file(files[name]):
            report.add((section, name), f"{shown(str(files[name]))}, which cannot be read", "a file")
        elif name in files:
            readable[name] = files[name]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if "certificate" in readable and "key" in readable:
        try:
            context.load_cert_chain(readable["certificate"], readable["key"], password=lambda: b"")
        except (ssl.SSLError, OSError, ValueError) as error:
            if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
                report.add((section, "key"), "the key of another certificate", f"the key of {section}.certificate")
            else:
                report.add((section, "certificate"), "what OpenSSL cannot use", "PEM, the key without a password")
    if authority in readable:
        try:
            context.load_verify_locations(readable[authority])
        except (ssl.SSLError, OSError, ValueError):
            report.add((section, authority), "a file that OpenSSL cannot use", "certificates in a PEM file")


def _check_client_certificates(tls: Tree, report: Report) -> None:
    path: KeyPath = ("tls", "client_certificates")
    if "client_certificates" not in tls and path in report.origins:
        return
    wanted = tls.get("client_certificates", "none")
    if wanted != "none" and ("tls", "client_authority") not in report.origins:
        report.add(path, f'"{wanted}" without tls.client_authority', "the authority to check them by")
    # Without this check, the authority would look as if it were used, and would not be.
    if wanted == "none" and "client_authority" in tls:
        report.add(path, '"none", though there is a tls.client_authority', '"optional" or "required"')


def first_line(path: Path) -> bytes:
    """Without the space around it: what a file with a secret holds."""
    return path.read_bytes().partition(b"\n")[0].strip()


def header_lines(path: Path) -> list[tuple[str, str]]:
    """The lines `Name: value` of a file. Raises OSError, or ValueError with the number of the first that is none."""
    found = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        match = _HEADER.fullmatch(line.strip())
        if match is not None:
            found.append((match[1].decode(), match[2].decode()))
        elif line.strip():
            raise ValueError(f"whose line {number} is no header")
    return found


_HEADER: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}): *([ -~]{1,4096})")


def _is_readable_file(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _check_users(tree: Tree, report: Report) -> None:
    names: dict[str, KeyPath] = {}
    tokens: dict[Secret, KeyPath] = {}
    keys: dict[str, KeyPath] = {}
    for index, user in enumerate(tree.get("users", [])):
        if user is None:
            continue
        path: KeyPath = ("users", index)
        if user.get("name") in names:
            first = report.origin(names[user["name"]])
            report.add((*path, "name"), f"{shown(user['name'])} again, first at {first}", "another name")
        elif "name" in user:
            names[user["name"]] = (*path, "name")
        if user.get("token") in tokens:
            report.add((*path, "token"), f"the token of {key_text(tokens[user['token']])}", "a token of its own")
        elif "token" in user:
            tokens[user["token"]] = path
        if user.get("nkey") in keys:
            report.add((*path, "nkey"), f"the key of {key_text(keys[user['nkey']])}", "a key of its own")
        elif "nkey" in user:
            keys[user["nkey"]] = path
        if not any((*path, secret) in report.origins for secret in ("password", "token", "nkey")):
            report.add(path, "neither password nor token nor nkey", "at least one of them")
        if "namespace" in user:
            _check_allowed(user["namespace"], (*path, "namespace"), tree, report)
        _check_permissions(user, path, tree, report)


def _check_allowed(namespace: str, path: KeyPath, tree: Tree, report: Report) -> None:
    allowed = tree.get("allowed_namespaces")
    # An unreadable name in the list may be this one.
    if allowed is None or None in allowed or namespace in (*allowed, DEFAULT):
        return
    known = ", ".join(dict.fromkeys([DEFAULT, *allowed]))
    report.add(path, shown(namespace), f"one of allowed_namespaces ({known})", nearest(namespace, allowed))


def _check_permissions(user: Tree, path: KeyPath, tree: Tree, report: Report) -> None:
    grammar = _grammar(user, path, tree, report)
    if grammar is None:
        return
    for place, pattern in _patterns(user, path):
        try:
            parse_pattern(pattern, grammar)
            Permissions(deny=(pattern,))
        except PatternError as error:
            report.add(place, shown(pattern), f"a pattern: {error}")


def _grammar(user: Tree, path: KeyPath, tree: Tree, report: Report) -> Grammar | None:
    """The grammar of the user's namespace; None where it could not be read."""
    if "grammar" not in tree and ("grammar",) in report.origins:
        return None
    if "namespace" not in user and (*path, "namespace") in report.origins:
        return None
    namespace = user.get("namespace", DEFAULT)
    settings = tree.get("namespaces", {}).get(namespace, {})
    if "grammar" not in settings and ("namespaces", namespace, "grammar") in report.origins:
        return None
    grammar: Grammar = settings.get("grammar", default_rules(namespace, tree.get("grammar", Grammar.STRICT)).grammar)
    return grammar


def _patterns(user: Tree, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    for action in ("publish", "subscribe"):
        for rule, patterns in user.get(action, {}).items():
            for index, pattern in enumerate(patterns):
                if pattern is not None:
                    yield (*path, action, rule, index), pattern
