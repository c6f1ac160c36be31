"""deploy/: the container's configuration is one, and the compose file names settings that there are."""

import re
from pathlib import Path

import yaml

from fumarole.config.load import load

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
NODES = {name: service for name, service in COMPOSE["services"].items() if "command" in service}


def test_the_configuration_of_the_container() -> None:
    settings = load(DEPLOY / "container.toml", {}, {})
    assert str(settings.data) == "/var/lib/fumarole"
    exposed = set(re.findall(r"\d+", re.findall(r"(?m)^EXPOSE (.+)$", (DEPLOY / "Containerfile").read_text())[0]))
    assert {str(address.port) for _, address in settings.doors.addresses()} | {"6222"} == exposed


def test_three_nodes_that_name_each_other(tmp_path: Path) -> None:
    """Each is started with the configuration of the image and its own flags, and asks another to let it in."""
    secret = tmp_path / "secret"
    secret.write_text("no secret of anybody\n")
    peers = {}
    for name, service in NODES.items():
        command, _, _, *flags = service["command"]
        assert command == "serve"
        given = dict(zip(flags[::2], flags[1::2], strict=True))
        settings = load(DEPLOY / "container.toml", {}, {**given, "--links-secret-file": str(secret)})
        assert settings.node == name
        assert str(settings.links.address) == f"{name}:6222"
        peers[name] = [str(peer) for peer in settings.peer]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert peers == {"a": ["b:6222"], "b": ["c:6222"], "c": ["a:6222"]}
    assert COMPOSE["volumes"].keys() == COMPOSE["services"].keys() == {*peers, "prometheus"}


def test_every_door_of_each_node_is_published_once_on_loopback() -> None:
    settings = load(DEPLOY / "container.toml", {}, {})
    doors = {str(address.port) for _, address in settings.doors.addresses()}
    ports = [port for service in COMPOSE["services"].values() for port in service["ports"]]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports)
    for service in NODES.values():
        assert {port.split(":")[2] for port in service["ports"]} == doors


def test_prometheus_scrapes_the_web_door_of_each_node() -> None:
    mounted = dict(volume.split(":")[:2] for volume in COMPOSE["services"]["prometheus"]["volumes"])
    files = [path for path in mounted if path.startswith("./")]
    assert all((DEPLOY / path).is_file() for path in files)
    config = yaml.safe_load((DEPLOY / "prometheus" / "compose.yml").read_text())
    ((job,),) = (config["scrape_configs"],)
    assert job["static_configs"] == [{"targets": [f"{name}:8222" for name in NODES]}]
    assert config["rule_files"] == ["rules.yml"]
