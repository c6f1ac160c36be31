import signal
import subprocess
import sys
from types import SimpleNamespace

from fumarole.pipeline.warm.java import Java, heap_megabytes, warm_settings


def test_all_of_a_session_stays_below_an_eighth_of_memory() -> None:
    assert heap_megabytes(64 << 30) + 512 == 64 * 1024 // 8
    assert heap_megabytes(2 << 30) == 512


def test_settings_of_the_command_have_the_last_word() -> None:
    made = warm_settings("local[2]", {"spark.driver.memory": "3g"})
    assert made["spark.driver.memory"] == "3g"
    assert made["spark.master"] == "local[2]"
    assert "spark.driver.memory" not in warm_settings("spark://a:7077", {})


def test_warnings_of_this_package_are_shown_and_no_others() -> None:
    program = """
import logging
from fumarole.pipeline.warm.java import warn_on_stderr
warn_on_stderr()
logging.getLogger("fumarole.pipeline").warning("pyarrow is slower")
logging.getLogger().warning("interrupted")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr == "pyarrow is slower\n"


def test_java_that_does_not_end_is_killed_and_gone() -> None:
    process = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE)
    java = Java.__new__(Java)
    java._gateway = SimpleNamespace(proc=process)
    java.stop(0.01)
    assert process.returncode == -signal.SIGKILL
