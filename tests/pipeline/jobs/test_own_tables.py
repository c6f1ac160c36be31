from pathlib import Path

import pytest

from fumarole.pipeline.errors import PipelineError
from fumarole.pipeline.jobs.own_tables import own_tables, table

TABLE = """
from fumarole import pipeline

@pipeline.table({name!r}, key=["time"])
def made(readings):
    return readings
"""


def test_a_modules_tables(tmp_path: Path) -> None:
    file = tmp_path / "my_tables.py"
    file.write_text(TABLE.format(name="mine") + TABLE.format(name="other").replace("made", "second"))
    assert [(each.name, each.key) for each in own_tables(file)] == [("mine", ("time",)), ("other", ("time",))]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "has no table; write @pipeline.table"),
        ("x = ", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError"),
        (TABLE.format(name="readings"), "no table of one's own can be called 'readings'"),
        (TABLE.format(name="rollup_1m"), "can be called 'rollup_1m'"),
        (TABLE.format(name="../x"), "can be called"),
        (TABLE.format(name="a") + TABLE.format(name="a").replace("made", "second"), "two tables have one name"),
    ],
)
def test_mistakes_in_it(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "my_tables.py"
    file.write_text(text)
    with pytest.raises(PipelineError, match=said):
        own_tables(file)


def test_no_module_and_no_key(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is no module"):
        own_tables(tmp_path / "nowhere.py")
    with pytest.raises(PipelineError, match="is a list of columns"):
        table("mine", key="time")
