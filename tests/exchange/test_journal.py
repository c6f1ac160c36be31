from fumarole.exchange.journal import LONGEST, Event, Journal, Kind


def test_the_newest_events_stay_and_numbers_go_on() -> None:
    journal = Journal(kept=3)
    for number in range(5):
        journal.note(float(number), "join", "default", f"{number}")
    told = journal.report(10.0)
    assert told["total"] == 5
    assert [(each["number"], each["client"], each["age"]) for each in told["events"]] == [
        (5, "4", 6.0),
        (4, "3", 7.0),
        (3, "2", 8.0),
    ]


def test_a_reader_gets_what_is_new() -> None:
    journal = Journal()
    journal.note(1.0, "join", "default", "1 sensor")
    journal.note(2.0, "refusal", "", "2", "Authorization Violation")
    assert [each["kind"] for each in journal.report(2.0, after=1)["events"]] == ["refusal"]
    assert journal.report(2.0, after=2)["events"] == []
    assert journal.report(1.5, after=1)["events"][0]["age"] == 0.0  # a session's clock may be behind


def test_what_a_client_says_of_itself_is_kept_in_part() -> None:
    journal = Journal()
    journal.note(1.0, "leave", "default", "x" * 10_000, "y" * 10_000)
    (event,) = journal.report(1.0)["events"]
    assert (len(event["client"]), len(event["text"])) == (LONGEST, LONGEST)


def test_refusals_are_counted_and_told() -> None:
    """O2."""
    journal = Journal(kept=1)
    told: list[Event] = []
    kinds: list[Kind] = ["join", "refusal", "leave", "refusal"]
    journal.hear = told.append
    for kind in kinds:
        journal.note(1.0, kind, "default", "1", kind)
    assert journal.refusals == 2
    assert [each.number for each in told] == [2, 4]
