"""Which connections begin, and which wait: shared out between addresses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kube_fairlead_apiserver.http.unidentified import (
    PATIENCE_SECONDS,
    WAITING,
    UnidentifiedConnection,
    UnidentifiedConnections,
)


class Door:
    """Unidentified connections, with a record of which began and which were cut."""

    def __init__(self, limit: int, most_waiting: int = WAITING) -> None:
        self.all = UnidentifiedConnections(limit, most_waiting)
        self.begun: list[UnidentifiedConnection] = []
        self.cut: list[UnidentifiedConnection] = []
        self.now = 0.0

    def knock(self, address: str) -> UnidentifiedConnection:
        def cut() -> None:
            self.cut.append(connection)
            self.all.leave(connection, self.now)

        connection = UnidentifiedConnection(address, begin=lambda: self.begun.append(connection), cut=cut)
        self.all.arrive(connection, self.now)
        return connection


def test_one_address_leaves_room_for_others() -> None:
    door = Door(8)
    flood = [door.knock("a") for _ in range(100)]
    assert door.begun == flood[:4]
    other = door.knock("b")
    assert other in door.begun


def test_when_too_many_wait_the_newest_of_the_largest_crowd_goes() -> None:
    door = Door(4, most_waiting=10)
    crowd = [door.knock("a") for _ in range(12)]
    assert door.cut == []
    few = [door.knock("b") for _ in range(4)]
    begun = [one for one in few if one in door.begun]
    assert begun == few[: len(begun)]
    assert begun
    waiting = len(few) - len(begun)
    assert door.cut == crowd[::-1][:waiting]
    assert door.all.waiting == 10


def test_the_next_one_begins_when_one_is_known() -> None:
    door = Door(2)
    first, second, third = (door.knock("a") for _ in range(3))
    door.all.leave(first, 0.0)
    door.all.leave(first, 0.0)  # again
    assert door.begun == [first, second]
    door.all.leave(second, 0.0)
    assert door.begun == [first, second, third]


def test_one_that_hangs_up_while_it_waits_is_passed_over() -> None:
    door = Door(2)
    first, second, third = (door.knock("a") for _ in range(3))
    door.all.leave(second, 0.0)
    door.all.leave(first, 0.0)
    assert door.begun == [first, third]


def test_one_that_stays_unknown_for_long_makes_room_for_one_that_waits() -> None:
    door = Door(4)
    first, second, third = (door.knock("a") for _ in range(3))
    door.now = PATIENCE_SECONDS / 2
    door.all.make_room(door.now)
    assert door.begun == [first, second]
    door.now = PATIENCE_SECONDS + 1
    door.all.make_room(door.now)
    assert door.begun == [first, second, third]
    assert list(door.all.present) == [second, third], "one for one"


def test_nothing_is_cut_while_none_waits() -> None:
    door = Door(4)
    door.knock("a")
    door.all.make_room(1000.0)
    assert len(door.all.present) == 1


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "leave"]), st.integers(0, 30)), max_size=100))
def test_any_order_of_events(events: list[tuple[str, int]]) -> None:
    """Invariants 1 and 3; and in the end each has begun."""
    door = Door(6)
    alive: list[UnidentifiedConnection] = []
    for what, which in events:
        if what == "leave":
            if alive:
                door.all.leave(alive.pop(which % len(alive)), 0.0)
        else:
            alive.append(door.knock(what))
        assert len(door.all.present) <= 6
        assert len(door.all.present) + door.all.waiting == len(alive)
    while alive:
        present = [one for one in alive if one in door.all.present]
        assert present, "none waits for ever"
        door.all.leave(present[0], 0.0)
        alive.remove(present[0])
    assert not door.all.present
