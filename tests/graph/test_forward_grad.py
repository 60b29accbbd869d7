"""Levels of forward mode and their registered tangents."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Iterator

import pytest

from fastdist.core.errors import GraphError
from fastdist.graph import forward_grad
from fastdist.graph.forward_grad import ForwardADLevel, ForwardGrad, adopt
from fastdist.graph.modes import modes

INVALID = (
    r"^Trying to access a forward AD level with an invalid index\. "
    r"This index was either not created or is already deleted\."
)
NOT_LAST = (
    r"^Exiting a forward AD level that is not the last that was created is not support\. "
    r"Ensure they are released in the reverse order they were created\."
)
MIRROR = (3 << 48) | 1


class Value:
    """A stand-in for a tangent."""

    def __init__(self, tangents: ForwardGrad | None = None) -> None:
        self.tangents = tangents


@pytest.fixture(autouse=True)
def _all_levels_end() -> Iterator[None]:
    before = modes.special
    yield
    while ForwardADLevel.count():
        ForwardADLevel.release_idx(ForwardADLevel.count() - 1)
    ForwardADLevel.release_mirror(MIRROR)
    ForwardADLevel.release_mirror(MIRROR + 1)
    assert modes.special == before


@pytest.fixture
def level() -> int:
    return ForwardADLevel.get_next_idx()


def in_threads(count: int, work: object) -> None:
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads)


@pytest.mark.seed("F1", "F15")
def test_tangent_dies_with_its_owner_inside_the_level(level: int) -> None:
    grad, value = ForwardGrad(), Value()
    grad.set_value(value, level)
    seen = weakref.ref(value)
    del value
    assert len(ForwardADLevel.get_by_idx(level)) == 1
    del grad
    assert seen() is None
    assert len(ForwardADLevel.get_by_idx(level)) == 0


@pytest.mark.seed("F2")
def test_levels_are_shared_by_all_threads(level: int) -> None:
    grad = ForwardGrad()
    in_threads(1, lambda _: grad.set_value("tangent", level))
    assert grad.value(level) == "tangent"


@pytest.mark.seed("F4")
def test_index_of_a_level_is_how_many_were_open(level: int) -> None:
    assert level == 0
    assert ForwardADLevel.get_next_idx() == 1
    ForwardADLevel.release_idx(1)
    assert ForwardADLevel.get_next_idx() == 1


@pytest.mark.seed("F4")
def test_tangents_of_nested_levels_stand_beside_each_other(level: int) -> None:
    inner = ForwardADLevel.get_next_idx()
    grad = ForwardGrad()
    grad.set_value("inner", inner)
    grad.set_value("outer", level)
    assert [known.idx for known in grad.levels()] == [level, inner]
    ForwardADLevel.release_idx(inner)
    assert grad.value(level) == "outer" and grad.value(inner) is None


@pytest.mark.seed("F5")
@pytest.mark.parametrize("index", [0, 2, -1])
def test_release_of_a_level_that_is_not_the_last_is_refused(index: int) -> None:
    ForwardADLevel.get_next_idx(), ForwardADLevel.get_next_idx()
    with pytest.raises(GraphError, match=NOT_LAST):
        ForwardADLevel.release_idx(index)
    assert ForwardADLevel.count() == 2


@pytest.mark.seed("F5")
@pytest.mark.parametrize("index", [0, -1])
def test_release_without_an_open_level_is_refused(index: int) -> None:
    with pytest.raises(GraphError, match=NOT_LAST):
        ForwardADLevel.release_idx(index)


@pytest.mark.seed("F6")
@pytest.mark.parametrize("index", [1, -1, MIRROR])
def test_dead_index_is_refused_and_the_try_variant_returns_none(level: int, index: int) -> None:
    with pytest.raises(GraphError, match=INVALID):
        ForwardADLevel.get_by_idx(index)
    with pytest.raises(GraphError, match=INVALID):
        ForwardGrad().set_value("tangent", index)
    assert ForwardADLevel.try_get_by_idx(index) is None


@pytest.mark.seed("F6")
def test_level_that_is_over_takes_no_tangent() -> None:
    over = ForwardADLevel.get_by_idx(ForwardADLevel.get_next_idx())
    ForwardADLevel.release_idx(0)
    grad = ForwardGrad()
    with pytest.raises(GraphError, match=INVALID):
        grad.set_value("tangent", over)
    assert grad.empty() and grad.value(over) is None


@pytest.mark.seed("F7")
def test_end_of_a_level_takes_its_tangents_from_all_tensors(level: int) -> None:
    grads = [ForwardGrad() for _ in range(5)]
    value = Value()
    for grad in grads:
        grad.set_value(value, level)
    seen = weakref.ref(value)
    del value
    ForwardADLevel.release_idx(level)
    assert all(grad.empty() for grad in grads) and seen() is None


@pytest.mark.seed("F3")
def test_who_registers_keeps_nobody_else_from_it(level: int) -> None:
    held, grads = ForwardADLevel.get_by_idx(level), [ForwardGrad() for _ in range(3)]
    held._hold()
    in_threads(3, lambda number: grads[number].set_value(number, level))
    held._let_go()
    assert [grad.value(level) for grad in grads] == [0, 1, 2] and len(held) == 3


@pytest.mark.seed("F8")
def test_level_ends_only_after_the_last_who_registers_has_let_go(level: int) -> None:
    held = ForwardADLevel.get_by_idx(level)
    grad, before = ForwardGrad(), modes.special
    held._hold()
    ForwardADLevel.release_idx(level)
    held.insert(grad)
    grad._content[held] = "tangent"
    assert modes.special == before
    held._let_go()
    assert grad.empty() and len(held) == 0 and modes.special == before - 1


@pytest.mark.seed("F3", "F8", "F14")
def test_threads_that_register_while_the_level_ends_leave_nothing_behind() -> None:
    for _ in range(50):
        index = ForwardADLevel.get_next_idx()
        level = ForwardADLevel.get_by_idx(index)
        grads = [[ForwardGrad() for _ in range(20)] for _ in range(4)]
        barrier = threading.Barrier(4)

        def work(
            number: int,
            index: int = index,
            grads: list[list[ForwardGrad]] = grads,
            barrier: threading.Barrier = barrier,
        ) -> None:
            barrier.wait(30)
            if number == 3:
                ForwardADLevel.release_idx(index)
                return
            for grad in grads[number]:
                try:
                    grad.set_value(Value(), index)
                except GraphError:
                    return

        in_threads(4, work)
        assert all(grad.empty() for grad in itertools.chain(*grads)) and len(level) == 0


@pytest.mark.seed("F3", "F12", "F14")
def test_threads_may_set_read_reset_and_drop_at_once(level: int) -> None:
    shared = [ForwardGrad() for _ in range(8)]

    def work(number: int) -> None:
        for step in range(300):
            grad = shared[(number + step) % 8]
            grad.set_value(Value(), level)
            grad.value(level)
            grad.contains(level)
            ForwardGrad().set_value(Value(), level)
            if number == 0:
                grad.clear()

    in_threads(4, work)
    at = ForwardADLevel.get_by_idx(level)
    for grad in shared:
        grad.clear()
    assert len(at) == 0


@pytest.mark.seed("F10")
def test_set_value_does_not_overwrite(level: int) -> None:
    grad = ForwardGrad()
    grad.set_value("first", level)
    grad.set_value("second", level)
    assert grad.value(level) == "first"


@pytest.mark.seed("F11", "F15")
def test_reset_unregisters_unless_told_not_to(level: int) -> None:
    at, grad = ForwardADLevel.get_by_idx(level), ForwardGrad()
    grad.set_value("tangent", level)
    grad.reset(level, update_level=False)
    assert grad.empty() and len(at) == 1
    grad.set_value("tangent", level)
    grad.reset(level)
    assert grad.empty() and len(at) == 0


@pytest.mark.seed("F11")
def test_reset_of_a_level_without_tangent_is_our_mistake(level: int) -> None:
    with pytest.raises(AssertionError, match=r"^Resetting a non-existent level\."):
        ForwardGrad().reset(level)


@pytest.mark.seed("F12")
def test_clear_leaves_all_levels_even_one_that_is_over(level: int) -> None:
    grad = ForwardGrad()
    grad.set_value("outer", level)
    inner = ForwardADLevel.get_next_idx()
    grad.set_value("inner", inner)
    ForwardADLevel.release_idx(inner)
    grad.clear()
    assert grad.empty() and len(ForwardADLevel.get_by_idx(level)) == 0


@pytest.mark.seed("F13")
def test_absent_tangent_is_none(level: int) -> None:
    grad = ForwardGrad()
    assert grad.value(level) is None and not grad.contains(level) and grad.empty()
    grad.set_value("tangent", level)
    assert grad.contains(level) and not grad.contains(7) and not grad.empty()


@pytest.mark.seed("F15")
def test_level_shrinks_with_the_tensors_that_die(level: int) -> None:
    at = ForwardADLevel.get_by_idx(level)
    grads = [ForwardGrad() for _ in range(10)]
    for grad in grads:
        grad.set_value(Value(), level)
    assert len(at) == 10
    del grads[3:], grad
    gc.collect()
    assert len(at) == 3
    grads.clear()
    assert len(at) == 0


def test_open_levels_and_mirrors_count_as_special(level: int) -> None:
    before = modes.special
    ForwardADLevel.get_or_create_mirror(MIRROR)
    ForwardADLevel.get_or_create_mirror(MIRROR)
    assert modes.special == before + 1
    assert ForwardADLevel.release_mirror(MIRROR)
    ForwardADLevel.release_idx(level)
    assert modes.special == before - 1


def test_mirrors_stand_in_no_stack_and_leave_in_any_order(level: int) -> None:
    first = ForwardADLevel.get_or_create_mirror(MIRROR)
    second = ForwardADLevel.get_or_create_mirror(MIRROR + 1)
    grad = ForwardGrad()
    grad.set_value("first", first)
    grad.set_value("second", second)
    assert ForwardADLevel.count() == 1 and first.is_mirror
    ForwardADLevel.release_idx(level)
    assert ForwardADLevel.release_mirror(MIRROR) and not ForwardADLevel.release_mirror(MIRROR)
    assert grad.value(first) is None and grad.value(second) == "second"
    assert ForwardADLevel.release_mirror(MIRROR + 1) and grad.empty()


def test_level_opened_inside_a_mirror_comes_after_it_and_one_opened_before_comes_first(
    level: int,
) -> None:
    mirror = ForwardADLevel.get_or_create_mirror(MIRROR)
    inner = ForwardADLevel.get_by_idx(ForwardADLevel.get_next_idx())
    grad = ForwardGrad()
    for at in (inner, mirror, ForwardADLevel.get_by_idx(level)):
        grad.set_value(Value(), at)
    assert list(grad.levels()) == [ForwardADLevel.get_by_idx(level), mirror, inner]


def test_own_level_that_comes_back_by_its_global_id_is_not_mirrored(level: int) -> None:
    own = ForwardADLevel.get_by_idx(level)
    ids = itertools.count(7)
    assert own.get_or_assign_global_id(lambda: next(ids)) == 7
    assert own.get_or_assign_global_id(lambda: next(ids)) == 7
    assert ForwardADLevel.get_or_create_mirror(7) is own
    assert not ForwardADLevel.release_mirror(7)
    ForwardADLevel.release_idx(level)
    assert ForwardADLevel.try_get_by_global_id(7) is None


def test_level_whose_global_id_is_forgotten_gets_another_one(level: int) -> None:
    own = ForwardADLevel.get_by_idx(level)
    assert own.get_or_assign_global_id(lambda: 5) == 5
    without_one = ForwardADLevel.get_next_idx()
    ForwardADLevel.forget_global_ids()
    assert ForwardADLevel.try_get_by_global_id(5) is None
    assert own.get_or_assign_global_id(lambda: 6) == 6
    ForwardADLevel.release_idx(without_one)


def test_current_level_of_a_thread_that_works_for_a_caller_is_the_callers(level: int) -> None:
    mirror = ForwardADLevel.get_or_create_mirror(MIRROR)
    assert ForwardADLevel.current() is ForwardADLevel.get_by_idx(level)
    with adopt(mirror):
        assert ForwardADLevel.current() is mirror
        in_threads(1, lambda _: ForwardADLevel.get_next_idx())
        assert ForwardADLevel.current() is mirror
        mine = ForwardADLevel.get_next_idx()
        assert ForwardADLevel.current() is ForwardADLevel.get_by_idx(mine)
    ForwardADLevel.release_idx(mine)
    assert ForwardADLevel.current() is ForwardADLevel.get_by_idx(1)


def test_current_level_is_none_where_no_level_is_open() -> None:
    assert ForwardADLevel.current() is None


def test_who_keeps_tangents_of_a_level_elsewhere_hears_of_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(forward_grad, "end_callbacks", [ended.append])
    for global_id in (7, None):
        level = ForwardADLevel.get_next_idx()
        ForwardADLevel.get_by_idx(level).global_id = global_id
        ForwardADLevel.release_idx(level)
    assert ended == [7]


def test_the_level_of_another_worker_is_found_by_its_id_until_it_ends() -> None:
    mirror = ForwardADLevel.get_or_create_mirror(7)
    try:
        assert ForwardADLevel.try_get_by_global_id(7) is mirror
        assert ForwardADLevel.try_get_by_global_id(8) is None
    finally:
        assert ForwardADLevel.release_mirror(7)
    assert ForwardADLevel.try_get_by_global_id(7) is None
