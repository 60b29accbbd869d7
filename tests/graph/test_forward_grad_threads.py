"""Levels and tangents are consistent for a thread, wherever another thread is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from fastdist.core.errors import GraphError
from fastdist.graph.forward_grad import ForwardADLevel, ForwardGrad, adopt
from fastdist.graph.modes import modes
from tests.disturbances.interleaving import Step, each_interleaving

WITHIN = ("graph/forward_grad.py", "_weakrefset.py")
Level = ForwardADLevel


@pytest.fixture(autouse=True)
def no_level_is_left() -> Iterator[None]:
    before = modes.special
    yield
    while Level.count():
        Level.release_idx(Level.count() - 1)
    assert modes.special == before


def opened() -> ForwardADLevel:
    return Level.get_by_idx(Level.get_next_idx())


def outcome(step: Callable[[], object], found: list[object]) -> Step:
    """Return a step that records the result of another step, or the class of its exception."""

    def run() -> None:
        try:
            found.append(step())
        except (GraphError, AssertionError) as error:
            found.append(type(error))

    return run


@pytest.mark.seed("F3", "F10")
def test_of_two_that_set_a_tangent_one_sets_it() -> None:
    grads: list[ForwardGrad] = []
    level = opened()

    def prepare() -> tuple[Step, Step]:
        grad = ForwardGrad()
        grads[:] = [grad]
        return lambda: grad.set_value("first", level), lambda: grad.set_value("second", level)

    for _ in each_interleaving(prepare, *WITHIN):
        assert grads[0].value(level) in ("first", "second") and len(level) == 1


@pytest.mark.seed("F3", "F12", "F15")
@pytest.mark.parametrize("sets_first", [False, True])
def test_a_level_knows_whoever_has_a_tangent_and_nobody_else(sets_first: bool) -> None:
    grads: list[ForwardGrad] = []
    level = opened()

    def prepare() -> tuple[Step, Step]:
        grad = ForwardGrad()
        grads[:] = [grad]
        steps = (lambda: grad.set_value("tangent", level), grad.clear)
        return steps if sets_first else steps[::-1]

    for _ in each_interleaving(prepare, *WITHIN):
        assert len(level) == (0 if grads[0].empty() else 1)


@pytest.mark.seed("F3", "F11")
def test_of_two_that_take_a_tangent_away_one_finds_it() -> None:
    found: list[object] = []
    level = opened()

    def prepare() -> tuple[Step, Step]:
        grad = ForwardGrad()
        grad.set_value("tangent", level)
        found.clear()
        return tuple(outcome(lambda: grad.reset(level), found) for _ in range(2))  # type: ignore[return-value]

    for _ in each_interleaving(prepare, *WITHIN):
        assert sorted(map(str, found)) == sorted(map(str, [None, AssertionError]))


@pytest.mark.seed("F3", "F7", "F8")
@pytest.mark.parametrize("ends_first", [False, True])
def test_a_level_that_ends_while_a_tangent_is_set_ends_once_and_keeps_none(
    ends_first: bool,
) -> None:
    kept: list[tuple[ForwardGrad, ForwardADLevel]] = []
    before = modes.special

    def prepare() -> tuple[Step, Step]:
        grad, level = ForwardGrad(), opened()
        kept[:] = [(grad, level)]
        steps = (
            outcome(lambda: grad.set_value("tangent", level), []),
            lambda: Level.release_idx(0),
        )
        return steps[::-1] if ends_first else steps

    for _ in each_interleaving(prepare, *WITHIN):
        ((grad, level),) = kept
        assert grad.empty() and len(level) == 0 and modes.special == before


@pytest.mark.seed("F3", "F12")
@pytest.mark.parametrize("ends_first", [False, True])
def test_tensors_may_go_while_their_level_ends(ends_first: bool) -> None:
    before = modes.special

    def prepare() -> tuple[Step, Step]:
        level = opened()
        grads = [ForwardGrad() for _ in range(3)]
        for grad in grads:
            grad.set_value("tangent", level)
        steps = (grads[1].clear, lambda: (Level.release_idx(0), grads))
        return steps[::-1] if ends_first else steps

    for _ in each_interleaving(prepare, *WITHIN):
        assert modes.special == before


@pytest.mark.seed("F3", "F15")
def test_a_level_is_counted_while_a_tangent_goes() -> None:
    def prepare() -> tuple[Step, Step]:
        level, grad = opened(), ForwardGrad()
        grad.set_value("tangent", level)
        return lambda: (len(level), grad.contains(level)), grad.clear

    for _ in each_interleaving(prepare, *WITHIN):
        Level.release_idx(0)


@pytest.mark.seed("F3", "F4")
def test_levels_that_are_opened_at_once_have_each_an_index() -> None:
    found: list[object] = []

    def prepare() -> tuple[Step, Step]:
        found.clear()
        return outcome(Level.get_next_idx, found), outcome(Level.get_next_idx, found)

    for _ in each_interleaving(prepare, *WITHIN):
        assert sorted(map(str, found)) == ["0", "1"]
        Level.release_idx(1), Level.release_idx(0)


@pytest.mark.one_in(3)
@pytest.mark.seed("F3", "F5")
def test_a_level_that_two_leave_is_left_once() -> None:
    found: list[object] = []

    def prepare() -> tuple[Step, Step]:
        found.clear(), opened()
        return tuple(outcome(lambda: Level.release_idx(0), found) for _ in range(2))  # type: ignore[return-value]

    for _ in each_interleaving(prepare, *WITHIN):
        assert sorted(map(str, found)) == sorted(map(str, [None, GraphError]))


@pytest.mark.seed("F3", "F6")
def test_a_level_may_be_looked_up_while_it_ends() -> None:
    found: list[object] = []

    def look() -> None:
        found.extend([Level.try_get_by_idx(0), Level.current()])

    def prepare() -> tuple[Step, Step]:
        found[:] = [opened()]
        return look, lambda: Level.release_idx(0)

    for _ in each_interleaving(prepare, *WITHIN):
        level, *seen = found
        assert seen in ([level, level], [level, None], [None, None])


@pytest.mark.seed("F2", "F3")
def test_a_thread_of_a_remote_caller_may_look_while_levels_end() -> None:
    found: list[object] = []

    def look(outer: ForwardADLevel) -> None:
        with adopt(outer):
            found.append(Level.current())

    def prepare() -> tuple[Step, Step]:
        outer, _ = opened(), opened()
        found[:] = [outer]
        return lambda: look(outer), lambda: (Level.release_idx(1), Level.release_idx(0))

    for _ in each_interleaving(prepare, *WITHIN):
        assert found[1] is found[0]


# ---- global ids ---------------------------------------------------------------------------------


@pytest.mark.seed("F3")
def test_a_level_is_given_one_global_id() -> None:
    found: list[object] = []

    def prepare() -> tuple[Step, Step]:
        found.clear()
        level, ids = opened(), iter((5, 6))
        return tuple(
            outcome(lambda: level.get_or_assign_global_id(lambda: next(ids)), found)
            for _ in range(2)
        )  # type: ignore[return-value]

    for _ in each_interleaving(prepare, *WITHIN):
        level = Level.get_by_idx(0)
        assert found == [level.global_id] * 2
        assert [Level.try_get_by_global_id(i) for i in (5, 6) if i != level.global_id] == [None]
        Level.release_idx(0)


@pytest.mark.one_in(3)
@pytest.mark.seed("F3")
def test_a_mirror_is_made_once_and_ends_once() -> None:
    found: list[object] = []
    before = modes.special

    def make() -> tuple[Step, Step]:
        found.clear()
        return tuple(outcome(lambda: Level.get_or_create_mirror(7), found) for _ in range(2))  # type: ignore[return-value]

    for _ in each_interleaving(make, *WITHIN):
        assert found[0] is found[1] and modes.special == before + 1
        assert Level.release_mirror(7) and modes.special == before

    def end() -> tuple[Step, Step]:
        found.clear(), Level.get_or_create_mirror(7)
        return tuple(outcome(lambda: Level.release_mirror(7), found) for _ in range(2))  # type: ignore[return-value]

    for _ in each_interleaving(end, *WITHIN):
        assert sorted(map(str, found)) == ["False", "True"] and modes.special == before


@pytest.mark.seed("F3")
def test_levels_may_end_while_their_global_ids_are_forgotten() -> None:
    def prepare() -> tuple[Step, Step]:
        for number in (5, 6):
            opened().get_or_assign_global_id(lambda number=number: number)
        return (
            Level.forget_global_ids,
            lambda: (Level.release_idx(1), Level.release_idx(0)),
        )

    for _ in each_interleaving(prepare, *WITHIN):
        assert Level.count() == 0
        assert [Level.try_get_by_global_id(number) for number in (5, 6)] == [None, None]
