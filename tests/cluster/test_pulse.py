"""Heartbeats: silence, forgiveness, and how late something is."""

from fumarole.cluster.pulse import USUAL, WINDOW, Lateness, Pulse, Timing


def test_the_times_are_in_order() -> None:
    for timing in (USUAL, Timing(0.5), Timing(30.0)):
        assert 3 * timing.beat < timing.doubt < timing.eviction < timing.silence
    assert USUAL.doubt <= 1.0
    assert 1.0 + 2 * USUAL.beat < USUAL.eviction  # a pause of a second is forgiven (C4)
    assert USUAL.oldest + 2 * USUAL.beat < 5.0


def test_silence_is_the_age_of_the_latest_beat_that_came_back() -> None:
    pulse = Pulse(100.0)
    assert pulse.silence(100.5) == 0.5
    pulse.echo(100.4, 100.6)
    assert (round(pulse.silence(101.0), 6), round(pulse.round_trip, 6)) == (0.6, 0.2)
    pulse.echo(100.2, 101.0)  # an older one, which came by another way
    assert round(pulse.silence(101.0), 6) == 0.6


def test_a_beat_of_the_future_is_not_ours() -> None:
    pulse = Pulse(100.0)
    pulse.echo(1e9, 101.0)
    assert pulse.silence(101.0) == 1.0


def test_what_we_slept_through_is_forgiven() -> None:
    pulse = Pulse(100.0)
    pulse.forgive(3.0)
    assert pulse.silence(103.5) == 0.5


def test_lateness_is_beyond_the_least_delay_whatever_the_clocks_say() -> None:
    for difference in (-5000.0, 0.0, 1e6):
        lateness = Lateness()
        assert lateness.of(1.0, 50.0) == 0.0  # nothing is known yet
        for beat in range(10):
            lateness.beat(beat + difference, beat + 0.01 * (beat % 3 + 1))
        assert abs(lateness.of(20.0 + difference, 26.01) - 6.0) < 1e-6


def test_clocks_may_drift_apart() -> None:
    lateness = Lateness()
    for second in range(100_000):
        lateness.beat(second * 1.0001, float(second))
    assert lateness.of(100_000 * 1.0001, 100_000.0) < WINDOW * 2 * 0.0001 + 0.001
