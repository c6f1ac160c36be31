from functools import partial

from fumarole.exchange.timers import Timers


def test_calls_come_at_their_time_in_their_order() -> None:
    timers = Timers()
    heard: list[str] = []
    arranged: list[float] = []
    timers.arrange = arranged.append
    for name, seconds in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        timers.after(seconds, partial(heard.append, name))
    assert arranged == [2.0, 1.0]
    timers.run(0.5)
    assert heard == []
    timers.run(1.0)
    assert heard == ["first", "second"]
    assert arranged[-1] == 2.0
    timers.after(0.5, lambda: heard.append("between"))
    timers.run(9.0)
    assert heard == ["first", "second", "between", "late"]


def test_a_call_may_ask_for_another() -> None:
    timers = Timers()
    heard: list[float] = []
    timers.after(1.0, lambda: timers.after(1.0, lambda: heard.append(timers.now())))
    timers.run(1.0)
    assert heard == []
    timers.run(2.0)
    assert heard == [2.0]
