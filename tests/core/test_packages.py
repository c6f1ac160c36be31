import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from fumarole.core.packages import BASE, EXTRAS, MissingPackageError, absence, explained, need

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)


def test_what_is_installed_is_imported() -> None:
    need("kubemq", "json")
    need(BASE, "lark", "re2")
    assert absence("kubemq") == ""


def test_what_is_not_installed_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "zmq")
    sentence = "the bridge needs zmq, which is not installed: pip install 'fumarole[bridge]'"
    with pytest.raises(MissingPackageError) as found:
        need("bridge")
    assert (str(found.value), found.value.name) == (sentence, "zmq")
    assert absence("bridge") == sentence
    assert explained(found.value) == sentence


def test_to_know_what_is_missing_nothing_is_imported() -> None:
    code = "import sys; from fumarole.core.packages import absence; print(absence('kubemq'), 'h2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b" False\n"


def test_a_package_around_it_may_be_missing_too(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "google", "google.protobuf")
    sentence = "the KubeMQ door needs google.protobuf, which is not installed: pip install 'fumarole[kubemq]'"
    assert absence("kubemq") == sentence


def test_a_part_may_need_more_than_all_of_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "pyspark")
    with pytest.raises(MissingPackageError, match="the data pipeline needs pyspark, which is not installed"):
        need("pipeline", "pyspark")


def test_a_package_that_cannot_be_loaded_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "h2.py").write_text("raise ImportError('libz.so.9: cannot open shared object file')")
    (tmp_path / "zmq.py").write_text("import a_package_that_zmq_wants")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "h2", raising=False)
    monkeypatch.delitem(sys.modules, "zmq", raising=False)
    with pytest.raises(MissingPackageError, match=r"h2, which cannot be loaded \(libz.so.9: cannot open shared object"):
        need("kubemq")
    with pytest.raises(MissingPackageError, match=r"zmq, which cannot be loaded \(No module named 'a_package_that_zmq"):
        need("bridge")


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("typer", "Fumarole beyond its client needs typer, which is not installed: pip install fumarole"),
        ("re2", "Fumarole beyond its client needs re2, which is not installed: pip install fumarole"),
        ("h2.connection", "the KubeMQ door needs h2, which is not installed: pip install 'fumarole[kubemq]'"),
        ("pyspark.sql", "the data pipeline needs pyspark, which is not installed: pip install 'fumarole[pipeline]'"),
    ],
)
def test_an_import_that_failed_is_explained(module: str, sentence: str) -> None:
    name = module.partition(".")[0]
    assert explained(ModuleNotFoundError(f"No module named {module!r}", name=name)) == sentence


@pytest.mark.parametrize("error", [ImportError("no name"), ModuleNotFoundError(name="fumarole.nothing")])
def test_an_import_of_anything_else_is_not(error: ImportError) -> None:
    assert explained(error) == ""


def test_each_extra_installs_what_its_part_imports() -> None:
    """The table and pyproject.toml say the same; what comes with another package need not be named twice."""
    brought = {"aiormq", "pamqp", "yarl", "py4j"}
    owners = packages_distributions()
    for extra, row in EXTRAS.items():
        asked = PROJECT["dependencies"] if extra == BASE else PROJECT["optional-dependencies"][extra]
        names = {requirement.partition(">")[0].lower() for requirement in asked}
        for module in {*row.modules, *row.optional} - brought:
            top = "protobuf" if module == "google.protobuf" else owners[module][0]
            assert top.lower() in names, f"{module} of {extra or 'the base install'}"
