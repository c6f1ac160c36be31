from fumarole.pipeline.warm.java import heap_megabytes, warm_settings


def test_all_of_a_session_stays_below_an_eighth_of_memory() -> None:
    assert heap_megabytes(64 << 30) + 512 == 64 * 1024 // 8
    assert heap_megabytes(2 << 30) == 512


def test_settings_of_the_command_have_the_last_word() -> None:
    made = warm_settings("local[2]", {"spark.driver.memory": "3g"})
    assert made["spark.driver.memory"] == "3g"
    assert made["spark.master"] == "local[2]"
    assert "spark.driver.memory" not in warm_settings("spark://a:7077", {})
