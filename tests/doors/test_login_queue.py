"""A2: right credentials get their turn whatever others try."""

import random

from fumarole.doors.login_queue import (
    FIRST_PAUSE,
    FORGIVEN,
    LONGEST_PAUSE,
    MOST_ADDRESSES,
    MOST_WAITING_PER_ADDRESS,
    PATIENCE,
    REST,
    Entry,
    LoginQueue,
)

HERE, THERE = "10.0.0.1", "10.0.0.2"


def entry(user: str, address: str = HERE, since: float = 0.0) -> Entry:
    return Entry(user.encode(), user, address, since)


def order(queue: LoginQueue, now: float = 0.0) -> list[str]:
    found = []
    while one := queue.next(now):
        found.append(one.user)
    return found


def test_turns_go_by_address() -> None:
    queue = LoginQueue()
    for one in (entry("a"), entry("b"), entry("c"), entry("d", THERE)):
        assert queue.put(one)
    assert order(queue) == ["a", "d", "b", "c"]
    assert len(queue) == 0


def test_equal_credentials_wait_once() -> None:
    queue = LoginQueue()
    assert queue.put(entry("a"))
    assert queue.put(entry("a", THERE))
    assert order(queue) == ["a"]
    assert queue.put(entry("a"))
    assert order(queue) == ["a"]


def test_one_wrong_password_on_a_slow_machine_does_not_make_the_right_one_too_late() -> None:
    queue = LoginQueue()
    queue.failed(entry("ann"), 0.0, took=PATIENCE)
    queue.put(entry("bob"))
    assert queue.too_late(REST * PATIENCE) == []
    assert order(queue, REST * PATIENCE) == ["bob"]


def test_equal_credentials_wait_where_no_wrong_ones_come_from() -> None:
    queue = LoginQueue()
    queue.failed(entry("eve"), 0.0)
    assert queue.put(entry("a", HERE, 0.0))
    assert order(queue) == []
    assert queue.put(entry("a", THERE, 0.05))
    assert len(queue) == 1
    assert order(queue, 0.05) == ["a"]
    assert queue.too_late(FIRST_PAUSE + PATIENCE) == []
    assert order(queue, FIRST_PAUSE) == []
    queue.put(entry("b", THERE, 1.0))
    queue.put(entry("b", HERE, 1.0))  # not the other way
    assert order(queue, 1.0) == ["b"]


def test_a_wrong_password_slows_its_address_only() -> None:
    queue = LoginQueue()
    queue.failed(entry("a"), 0.0)
    queue.put(entry("b"))
    queue.put(entry("c", THERE))
    assert order(queue) == ["c"]
    assert queue.wakes_at(0.0) == FIRST_PAUSE
    assert order(queue, FIRST_PAUSE) == ["b"]


def test_wrong_passwords_take_a_small_part_of_a_slow_machine() -> None:
    """Each verification takes a second of one thread: at most a fifth are wrong ones, and the others get the rest."""
    queue, now, wrong, right = LoginQueue(), 0.0, 0, 0
    while now < 100.0:
        queue.put(entry(f"eve-{now}", HERE, now))
        queue.put(entry(f"ann-{now}", THERE, now))
        one = queue.next(now)
        assert one is not None
        now += 1.0
        if one.address == HERE:
            wrong += 1
            queue.failed(one, now, 1.0)
        else:
            right += 1
    assert 10 <= wrong <= 20
    assert wrong + right == 100


def test_pauses_double_and_are_forgiven() -> None:
    queue = LoginQueue()
    now = 0.0
    pauses = []
    for _ in range(8):
        queue.failed(entry("a"), now)
        queue.put(entry("b"))
        wakes = queue.wakes_at(now)
        assert wakes is not None
        pauses.append(wakes - now)
        now = wakes
        queue.next(now)
    assert [round(pause, 6) for pause in pauses] == [0.1, 0.2, 0.4, 0.8, *[LONGEST_PAUSE] * 4]
    now += FORGIVEN + 1
    queue.put(entry("b"))
    assert queue.wakes_at(now) == now


def test_at_an_address_with_failures_other_users_go_first() -> None:
    queue = LoginQueue()
    queue.failed(entry("a"), 0.0)
    for user in ("a", "b"):
        queue.put(entry(user))
    one = queue.next(FIRST_PAUSE)
    assert one is not None
    assert one.user == "b"
    assert queue.next(FIRST_PAUSE) is None
    assert order(queue, 2 * FIRST_PAUSE) == ["a"]


def test_at_a_slowed_address_a_login_that_waited_too_long_is_given_up() -> None:
    queue = LoginQueue()
    queue.failed(entry("x", THERE), 0.0)
    late, soon, elsewhere = entry("a", THERE), entry("b", THERE, 1.0), entry("c")
    for one in (late, soon, elsewhere):
        queue.put(one)
    assert queue.too_late(PATIENCE) == []
    assert queue.too_late(PATIENCE + 0.5) == [late]
    assert len(queue) == 2
    assert queue.put(late)
    assert sorted(order(queue, FORGIVEN + 1)) == ["a", "b", "c"]


def test_what_waits_is_bounded() -> None:
    queue = LoginQueue()
    assert all(queue.put(entry(str(number))) for number in range(MOST_WAITING_PER_ADDRESS))
    assert not queue.put(entry("one more"))
    assert queue.put(entry("another address", THERE))


def test_addresses_that_are_remembered_are_bounded() -> None:
    queue = LoginQueue()
    for number in range(MOST_ADDRESSES + 10):
        queue.failed(entry("a", str(number)), 0.0)
    queue.put(entry("a", "0"))
    assert queue.wakes_at(0.0) == 0.0


def test_every_entry_is_served_once_under_random_failures() -> None:
    chance = random.Random(7)
    queue = LoginQueue()
    users = [entry(str(number), f"10.0.0.{number % 5}") for number in range(500)]
    for one in users:
        assert queue.put(one)
    now, served = 0.0, []
    while len(queue):
        turn = queue.next(now)
        if turn is None:
            wakes = queue.wakes_at(now)
            assert wakes is not None
            assert wakes > now
            now = wakes
            continue
        served.append(turn)
        if chance.random() < 0.1:
            queue.failed(turn, now)
    assert sorted(served) == sorted(users)
    assert queue.wakes_at(now) is None
