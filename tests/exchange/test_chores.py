"""Long work a step at a time."""

from collections.abc import Iterator

from fumarole.exchange.chores import Chores


def counting(name: str, steps: int, done: list[str]) -> Iterator[None]:
    for step in range(steps):
        if step:
            yield
        done.append(f"{name}{step}")


def test_without_anybody_who_goes_on_all_is_done_at_once() -> None:
    done: list[str] = []
    chores = Chores()
    chores.begin(counting("a", 3, done))
    assert done == ["a0", "a1", "a2"]
    assert not chores.step()


def test_chores_take_turns() -> None:
    done: list[str] = []
    put_off: list[int] = []
    chores = Chores()
    chores.put_off = lambda: put_off.append(len(done))
    chores.begin(counting("short", 1, done))
    chores.begin(counting("a", 3, done))
    chores.begin(counting("b", 2, done))
    assert done == ["short0", "a0", "b0"]
    assert put_off == [2, 3], "who is finished by its first step is not put off"
    assert [chores.step() for _ in range(4)] == [True, True, False, False]
    assert done[3:] == ["a1", "b1", "a2"]


def test_one_may_begin_another() -> None:
    done: list[str] = []
    chores = Chores()
    chores.put_off = lambda: None

    def parent() -> Iterator[None]:
        yield
        chores.begin(counting("child", 2, done))

    chores.begin(parent())
    assert chores.step()
    assert not chores.step()
    assert done == ["child0", "child1"]
