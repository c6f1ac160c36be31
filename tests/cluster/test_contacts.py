"""Addresses of other nodes: who is dialed, when again, and when no more (C5)."""

from fumarole.cluster.contacts import FORGET_AFTER, RETRY, SURE, Contacts
from fumarole.cluster.identity import BEATS, DATA, LANES

HERE, THERE = "10.0.0.1:6222", "10.0.0.2:6222"


class Phone:
    """Remembers whom it was asked to dial, and what is open."""

    def __init__(self) -> None:
        self.dialed: list[tuple[str, str]] = []
        self.open: set[tuple[str, str]] = set()
        self.contacts = Contacts(lambda *call: self.dialed.append(call), lambda *lane: lane in self.open)

    def dials(self, now: float) -> list[tuple[str, str]]:
        self.dialed.clear()
        self.contacts.dial(now)
        return list(self.dialed)


def test_both_lanes_are_dialed_once_and_again_when_one_ends() -> None:
    phone = Phone()
    phone.contacts.add(HERE, 0.0)
    phone.contacts.add(HERE, 0.0)
    assert phone.dials(0.0) == [(HERE, lane) for lane in LANES]
    assert phone.dials(1.0) == []
    phone.contacts.fail(HERE, DATA, 1.0)
    assert phone.dials(1.0 + RETRY / 2) == []
    assert phone.dials(1.0 + RETRY) == [(HERE, DATA)]


def test_a_node_with_two_addresses_is_reached_by_one() -> None:
    phone = Phone()
    for address in (HERE, THERE):
        phone.contacts.add(address, 0.0)
    assert len(phone.dials(0.0)) == 4
    assert phone.contacts.is_wanted(HERE, DATA, "a")
    assert not phone.contacts.is_wanted(THERE, DATA, "a")  # the other is about to be open
    phone.contacts.fail(THERE, DATA, 0.1)
    phone.open.add(("a", DATA))
    assert phone.dials(1.0) == []
    phone.open.clear()
    phone.contacts.fail(HERE, DATA, 2.0)
    assert sorted(phone.dials(3.0)) == [(HERE, DATA)]  # and the other waits to see what comes of it


def test_the_own_address_is_dialed_no_more() -> None:
    phone = Phone()
    phone.contacts.add(HERE, 0.0)
    phone.dials(0.0)
    assert not phone.contacts.are_settled()
    phone.contacts.mark_own(HERE)
    for lane in LANES:
        phone.contacts.fail(HERE, lane, 0.1)
    assert phone.dials(9.0) == []
    assert phone.contacts.are_settled()


def test_what_was_only_heard_of_is_forgotten_in_the_end() -> None:
    phone = Phone()
    phone.contacts.add(HERE, 0.0, given=True)
    phone.contacts.add(THERE, 0.0)
    dialed: list[tuple[str, str]] = []
    for now in (0.0, FORGET_AFTER + 1.0, FORGET_AFTER + 2.0):
        dialed = phone.dials(now)
        for address, lane in dialed:
            phone.contacts.fail(address, lane, now)
    assert dialed == [(HERE, lane) for lane in LANES]
    assert len(phone.contacts) == 1


def test_it_is_settled_who_is_there_when_all_were_tried_and_nobody_is_just_coming_back() -> None:
    phone = Phone()
    assert phone.contacts.are_settled()
    phone.contacts.add(HERE, 0.0)
    assert not phone.contacts.are_settled()
    phone.contacts.fail(HERE, DATA, 0.0)
    assert phone.contacts.are_settled()  # no node is there
    phone.contacts.succeed(HERE, 1.0)
    assert phone.contacts.are_settled()
    phone.contacts.fail(HERE, BEATS, 2.0)
    assert not phone.contacts.are_settled()  # there was a node a moment ago
    for _ in range(SURE):
        phone.contacts.fail(HERE, BEATS, 3.0)
    assert phone.contacts.are_settled()
