"""Long work a step at a time."""

from collections.abc import Iterator

from fumarole.exchange.slices import Slices


def counting(name: str, steps: int, done: list[str]) -> Iterator[None]:
    for step in range(steps):
        if step:
            yield
        done.append(f"{name}{step}")


def test_without_anybody_who_goes_on_all_is_done_at_once() -> None:
    done: list[str] = []
    slices = Slices()
    slices.begin(counting("a", 3, done))
    assert done == ["a0", "a1", "a2"]
    assert not slices.step()


def test_jobs_take_turns() -> None:
    done: list[str] = []
    put_off: list[int] = []
    slices = Slices()
    slices.put_off = lambda: put_off.append(len(done))
    slices.begin(counting("short", 1, done))
    slices.begin(counting("a", 3, done))
    slices.begin(counting("b", 2, done))
    assert done == ["short0", "a0", "b0"]
    assert put_off == [2, 3], "who is finished by its first step is not put off"
    assert [slices.step() for _ in range(4)] == [True, True, False, False]
    assert done[3:] == ["a1", "b1", "a2"]


def test_one_may_begin_another() -> None:
    done: list[str] = []
    slices = Slices()
    slices.put_off = lambda: None

    def parent() -> Iterator[None]:
        yield
        slices.begin(counting("child", 2, done))

    slices.begin(parent())
    assert slices.step()
    assert not slices.step()
    assert done == ["child0", "child1"]
