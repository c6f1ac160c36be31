from fumarole.exchange.hybrid_clock import MICROSECONDS, HybridClock


def test_times_never_go_back_whatever_the_wall_clock_does() -> None:
    seconds = iter([10.0, 10.0, 9.0, 11.0, 5.0])
    clock = HybridClock(lambda: next(seconds))
    given = [clock.now() for _ in range(5)]
    assert given == sorted(set(given))
    assert given[0] == 10 * MICROSECONDS
    assert given[3] == 11 * MICROSECONDS


def test_a_time_that_was_seen_is_passed_and_one_far_ahead_is_refused() -> None:
    clock = HybridClock(lambda: 10.0)
    assert clock.see(70 * MICROSECONDS)
    assert clock.now() == 70 * MICROSECONDS + 1
    assert not clock.see(70 * MICROSECONDS + 1)
    assert clock.age(4 * MICROSECONDS) == 6.0
    assert clock.age(70 * MICROSECONDS) == 0.0
