"""What `make dist` made, installed as a user installs it: the client alone, the broker, each extra."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, TAG, Environment, Running, built
from tests.packaging.test_client_alone import DEVICE, PRINTED

pytestmark = [pytest.mark.dist, pytest.mark.timeout(1200)]

MOST_PACKAGES = 20
EXTRAS = ("fast", "nkeys", "kubemq", "bridge", "pipeline", "all")


@pytest.fixture(scope="module")
def compiled_wheel() -> Path:
    return built(f"fumarole-*-{TAG}-{TAG}-*.whl")


@pytest.fixture(scope="module")
def plain_wheel() -> Path:
    return built("fumarole-*-py3-none-any.whl")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, compiled_wheel: Path) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("base"))
    environment.pip(str(compiled_wheel))
    return environment


def with_extra(folder: Path, extra: str, wheel: Path) -> Environment:
    environment = Environment(folder)
    environment.install(f"fumarole[{extra}] @ {wheel.as_uri()}")
    return environment


# The files.


def test_the_compiled_wheel_has_every_module_and_no_source_of_it(compiled_wheel: Path, plain_wheel: Path) -> None:
    names, plain = zipfile.ZipFile(compiled_wheel).namelist(), zipfile.ZipFile(plain_wheel).namelist()
    modules = {Path(name).name.partition(".")[0] for name in names if name.endswith(".so")}
    assert modules == {*(source.stem for source in (ROOT / "src/fumarole/fastpath").glob("*.pyx")), "index"}
    assert not [name for name in [*names, *plain] if name.endswith((".pyx", ".pxd", ".c", ".proto"))]
    assert not [name for name in plain if name.endswith(".so")]


def test_the_compiled_wheel_is_for_other_machines_too(compiled_wheel: Path) -> None:
    """What it needs of the C library, by auditwheel; not what its name says."""
    command = [sys.executable, "-m", "auditwheel", "show", str(compiled_wheel)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert '"manylinux_2_17_' in shown.stdout
    assert "manylinux_2_17_" in compiled_wheel.name


def test_the_sdist_has_the_messages_and_neither_tests_nor_binaries() -> None:
    with tarfile.open(built("fumarole-*.tar.gz")) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"src/fumarole/protocols/kubemq_pb2.py", "src/fumarole/protocols/kubemq_pb2.pyi"} <= names
    assert {"src/fumarole/fastpath/nats.pyx", "scripts/build_backend.py", "PKG-INFO"} <= names
    assert not [name for name in names if name.startswith(("tests", "build")) or name.endswith((".so", ".c"))]


@pytest.fixture
def builder(tmp_path: Path) -> Environment:
    """setuptools and Cython, no protoc, and no compiler that works."""
    environment = Environment(tmp_path / "builder")
    environment.install("-r", str(ROOT / "build/dist" / TAG / "requirements.txt"))
    assert "grpcio-tools" not in environment.packages()
    return environment


def build(builder: Environment, kind: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A wheel from the sdist, with a compiler that fails."""
    code = "import sys; sys.path.insert(0, 'scripts'); from build_backend import *; build_wheel(sys.argv[1])"
    sources = folder / "sources"
    shutil.rmtree(sources, ignore_errors=True)
    with tarfile.open(built("fumarole-*.tar.gz")) as sdist:
        sdist.extractall(sources, filter="data")
    variables = {**builder.variables(os.environ), "BUILD_FUMAROLE": kind, "CC": "/bin/false"}
    command = [str(builder.bin / "python"), "-c", code, str(folder)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=next(sources.iterdir()), env=variables
    )


def test_without_a_compiler_the_sdist_builds_unless_it_must_compile(tmp_path: Path, builder: Environment) -> None:
    ended = build(builder, "", tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "Plain Python takes its place" in ended.stdout
    assert build(builder, "pure", tmp_path).returncode == 0
    assert sorted(file.name for file in tmp_path.glob("*none-any.whl")) == [built("fumarole-*-any.whl").name]
    ended = build(builder, "compiled", tmp_path)
    assert ended.returncode != 0
    assert "/bin/false" in ended.stderr


# The client alone.


@pytest.mark.parametrize("wheel", ["compiled_wheel", "plain_wheel"])
def test_the_client_with_no_package_at_all(
    tmp_path: Path, base: Environment, wheel: str, request: pytest.FixtureRequest
) -> None:
    device = Environment(tmp_path / "device")
    device.pip("--no-deps", str(request.getfixturevalue(wheel)))
    assert device.packages() == {"fumarole"}
    with base.running("serve", "--nats", "127.0.0.1:0", folder=tmp_path / "broker") as broker:
        assert device.run("python", "-I", str(DEVICE), broker.url).stdout == PRINTED
    ended = device.run("fumarole", "serve", code=2)
    assert ended.stderr == "Fumarole beyond its client needs typer, which is not installed: pip install fumarole\n"


# The base install.


def roundtrip(environment: Environment, broker: Running) -> None:
    """A message, by the commands `sub`, `stats` and `pub`."""
    command = [str(environment.bin / "fumarole"), "sub", "a.>", "--raw", "--count", "1", "--servers", broker.url]
    sub = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment.variables(os.environ))
    try:
        while consumers(environment, broker) == 0:
            assert sub.poll() is None
        environment.run("fumarole", "pub", "a.b", "21.5", "--servers", broker.url)
        assert (sub.communicate(timeout=30)[0], sub.returncode) == (b"21.5\n", 0)
    finally:
        sub.kill()
        sub.wait()


def consumers(environment: Environment, broker: Running) -> int:
    """Without the one that waits for the answer."""
    shown = environment.run("fumarole", "stats", "--json", "--servers", broker.url).stdout
    count: int = json.loads(shown)["consumers"]
    return count - 1


def test_the_base_install_is_small(base: Environment) -> None:
    packages = base.packages() - {"fumarole"}
    assert len(packages) <= MOST_PACKAGES, sorted(packages)
    assert not packages & {"h2", "protobuf", "uvloop", "aio-pika", "pyzmq", "msgpack", "numpy", "pyspark"}


def test_the_base_install_serves(tmp_path: Path, base: Environment) -> None:
    """Each door on its standard port would meet what else runs here, so ports are named, and KubeMQ is left out."""
    ports = ("--nats", "127.0.0.1:0", "--msgpack", "127.0.0.1:0")
    with base.running("serve", *ports, folder=tmp_path) as broker:
        assert list(broker.addresses) == ["nats", "msgpack"]
        assert "hot path: compiled" in broker.said()
        roundtrip(base, broker)
    ended = base.run("fumarole", "serve", "--kubemq", "127.0.0.1:0", code=2)
    sentence = "the KubeMQ door needs h2, which is not installed: pip install 'fumarole[kubemq]'\n"
    assert ended.stderr == sentence
    assert "Room" in base.run("fumarole", "query", "explain", "Room like '4%' and Kind matches '^t'").stdout


def test_the_plain_wheel_serves(tmp_path: Path, plain_wheel: Path) -> None:
    environment = Environment(tmp_path / "plain")
    environment.pip(str(plain_wheel))
    with environment.running("serve", "--nats", "127.0.0.1:0", folder=tmp_path) as broker:
        assert "hot path: plain" in broker.said()
        roundtrip(environment, broker)


# Each extra, by its first command.


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra(tmp_path: Path, compiled_wheel: Path, extra: str) -> None:
    environment = with_extra(tmp_path / "environment", extra, compiled_wheel)
    for name, first_command in FIRST_COMMANDS.items():
        if extra in (name, "all"):
            first_command(environment, tmp_path)
    shutil.rmtree(environment.folder)  # it may have a gigabyte


def fast(environment: Environment, folder: Path) -> None:
    assert "uvloop" in environment.packages()
    with environment.running("serve", "--nats", "127.0.0.1:0", folder=folder / "fast") as broker:
        maps = Path(f"/proc/{broker.pid}/maps")
        assert not maps.exists() or "/uvloop/" in maps.read_text()
        roundtrip(environment, broker)


def kubemq(environment: Environment, folder: Path) -> None:
    ports = ("--nats", "127.0.0.1:0", "--kubemq", "127.0.0.1:0")
    with environment.running("serve", *ports, folder=folder / "kubemq") as broker:
        assert list(broker.addresses) == ["nats", "kubemq"]
        roundtrip(environment, broker)


def bridge(environment: Environment, folder: Path) -> None:
    """It starts before its broker (B5)."""
    ports = ("--amqp", "amqp://127.0.0.1:9", "--router", "tcp://127.0.0.1:*")
    with environment.running("bridge", *ports, folder=folder / "bridge") as running:
        router = f"tcp://{running.addresses['tcp']}"
        shown = json.loads(environment.run("fumarole", "bridge", "status", "--router", router, "--json").stdout)
        assert shown["bindings"] == {"topic": [], "direct": []}


def pipeline(environment: Environment, folder: Path) -> None:
    """Recorded and verified without Java; Spark Connect and spark-pipelines find their packages."""
    archive = folder / "archive"
    with environment.running("serve", "--nats", "127.0.0.1:0", folder=folder / "pipeline") as broker:
        command = [str(environment.bin / "fumarole"), "record", "--archive", str(archive), "--servers", broker.url]
        recorder = subprocess.Popen([*command, "--roll-seconds", "0.1"], env=environment.variables(os.environ))
        try:
            while not list(archive.rglob("*.parquet")):
                assert recorder.poll() is None
                environment.run("fumarole", "pub", "a.b", "21.5", "--servers", broker.url)
        finally:
            recorder.terminate()
            assert recorder.wait(30) == 0
    environment.run("fumarole", "pipeline", "verify", "--archive", str(archive))
    code = "import pyspark.sql.connect.session, pyspark.pipelines.cli, matplotlib, fumarole.pipeline as p; p.rollup"
    environment.run("python", "-I", "-c", code)


FIRST_COMMANDS = {"fast": fast, "kubemq": kubemq, "bridge": bridge, "pipeline": pipeline}
