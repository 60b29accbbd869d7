"""Dual tensors through the public API: rows F1 to F16 of tests/seed_rows.py."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable, Iterator
from weakref import ref

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import forward_ad as fwad
from fastdist.autograd import grad
from fastdist.graph.forward_grad import ForwardADLevel, adopt
from fastdist.graph.modes import modes
from fastdist.ops.shape.basic_index import basic_index

X = [1.0, 2.0, 3.0]
T = [0.5, -1.0, 2.0]


@pytest.fixture
def level() -> Iterator[int]:
    with fwad.dual_level() as index:
        yield index


def tensor(values: object, **options: object) -> Tensor:
    return fd.tensor(values, dtype=fd.float64, **options)


def tangent(x: Tensor, level: int | None = None) -> list[float] | None:
    found = fwad.unpack_dual(x, level=level).tangent
    return None if found is None else found.detach().numpy().tolist()


def head(x: Tensor) -> Tensor:
    return basic_index.public(x, (slice(0, 2),))


CASES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray], np.ndarray]]] = {
    "pointwise": (lambda x: (x * x + x).exp(), lambda x: (2 * x + 1) * np.exp(x * x + x)),
    "saved output": (lambda x: x.tanh(), lambda x: 1 - np.tanh(x) ** 2),
    "number": (lambda x: 3.0 / x, lambda x: -3.0 / x**2),
    "view": (lambda x: x.view(3, 1).transpose(0, 1).reshape(3) * 2.0, lambda x: 2.0 + 0 * x),
    "in place": (lambda x: x.exp().mul_(x), lambda x: np.exp(x) * (1 + x)),
    "copied": (lambda x: fd.zeros(3, dtype=fd.float64).copy_(x * x), lambda x: 2 * x),
    "filled": (lambda x: x.exp().fill_(1.0), lambda x: 0 * x),
}


@pytest.mark.parametrize("name", CASES)
def test_tangent_of_a_result_is_the_directional_derivative(level: int, name: str) -> None:
    function, derivative = CASES[name]
    y = function(fwad.make_dual(tensor(X), tensor(T)))
    assert np.allclose(tangent(y), derivative(np.array(X)) * np.array(T))


def test_structured_ops_carry_tangents(level: int) -> None:
    a = fwad.make_dual(tensor([[1.0, 2.0]]), tensor([[1.0, 0.0]]))
    b = fwad.make_dual(tensor([[3.0], [4.0]]), tensor([[0.0], [1.0]]))
    assert tangent((a @ b).sum()) == 3.0 + 2.0


@pytest.mark.seed("F1", "F15")
def test_tangent_dies_with_the_dual_tensor_inside_the_level(level: int) -> None:
    t = tensor(T)
    dual = fwad.make_dual(tensor(X), t)
    y = dual * 2.0
    watched = ref(t)
    assert len(ForwardADLevel.get_by_idx(level)) == 2
    del dual, t, y
    gc.collect()
    assert (watched(), len(ForwardADLevel.get_by_idx(level))) == (None, 0)


@pytest.mark.seed("F2")
def test_dual_tensor_made_in_one_thread_is_used_in_another(level: int) -> None:
    dual = fwad.make_dual(tensor(X), tensor(T))
    found = []
    thread = threading.Thread(target=lambda: found.append(tangent(dual * 2.0)))
    thread.start()
    thread.join(10.0)
    assert found == [[1.0, -2.0, 4.0]]


@pytest.mark.seed("F3")
def test_dual_tensors_are_made_in_many_threads_at_once(level: int) -> None:
    found: list[object] = []

    def make(k: int) -> None:
        duals = [fwad.make_dual(tensor(X), tensor(T)) for _ in range(50)]
        found.append(all(tangent(dual * k) == [k * t for t in T] for dual in duals))

    threads = [threading.Thread(target=make, args=(k,)) for k in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert found == [True] * 8


@pytest.mark.seed("F4")
def test_nested_levels_give_the_second_derivative(level: int) -> None:
    x, one = tensor([2.0]), tensor([1.0])
    outer = fwad.make_dual(x, one)
    with fwad.dual_level():
        inner = fwad.make_dual(outer, one)
        first = fwad.unpack_dual((inner * inner * inner).exp().log()).tangent
    assert first is not None
    assert (first.numpy().tolist(), tangent(first)) == (
        pytest.approx([12.0]),
        pytest.approx([12.0]),
    )


@pytest.mark.seed("F4")
def test_third_derivative_by_three_levels() -> None:
    one = tensor([1.0])
    with fwad.dual_level():
        a = fwad.make_dual(tensor([2.0]), one)
        with fwad.dual_level():
            b = fwad.make_dual(a, one)
            with fwad.dual_level():
                c = fwad.make_dual(b, one)
                first = fwad.unpack_dual(c * c * c * c).tangent
            second = fwad.unpack_dual(first).tangent
        third = fwad.unpack_dual(second).tangent
    assert third is not None and third.tolist() == [48.0]


@pytest.mark.seed("F4")
def test_inner_tangent_of_an_outer_variable_alone_is_none(level: int) -> None:
    outer = fwad.make_dual(tensor(X), tensor(T))
    with fwad.dual_level() as inner:
        assert (tangent(outer * outer, inner), tangent(outer, level)) == (None, T)


@pytest.mark.seed("F4")
def test_in_place_op_keeps_mixed_tangents(level: int) -> None:
    one = tensor([1.0])
    outer = fwad.make_dual(tensor([2.0]), one)
    with fwad.dual_level():
        y = fwad.make_dual(outer, one).exp()
        y.mul_(y)
        first = fwad.unpack_dual(y).tangent
    assert tangent(first) == pytest.approx([4 * np.exp(4.0)])


@pytest.mark.seed("F5")
def test_exit_of_another_level_than_the_last_is_refused(level: int) -> None:
    with pytest.raises(
        RuntimeError,
        match=r"^Trying to exit a forward AD level that was not the last one that was created\. "
        r"This is not supported\.",
    ):
        fwad.exit_dual_level(level=level + 1)


@pytest.mark.seed("F5")
def test_exit_without_a_level_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"^Dual level must be a positive number\."):
        fwad.exit_dual_level()


@pytest.mark.seed("F6")
def test_make_dual_without_a_level_is_refused() -> None:
    with pytest.raises(
        RuntimeError,
        match=r"^Trying to create a dual Tensor for forward AD but no level exists, make sure to "
        r"enter_dual_level\(\) first\.",
    ):
        fwad.make_dual(tensor(X), tensor(T))


@pytest.mark.seed("F6")
def test_level_that_is_gone_cannot_be_used(level: int) -> None:
    with pytest.raises(
        RuntimeError, match=r"^Trying to access a forward AD level with an invalid index"
    ):
        fwad.make_dual(tensor(X), tensor(T), level=level + 3)


@pytest.mark.seed("F7")
def test_end_of_the_level_takes_the_tangents() -> None:
    with fwad.dual_level():
        dual = fwad.make_dual(tensor(X), tensor(T))
        y = dual * 2.0
    assert (tangent(dual), tangent(y), modes.special) == (None, None, 0)


@pytest.mark.seed("F8", "F14")
def test_threads_that_compute_while_the_level_ends_get_an_error_or_a_tangent() -> None:
    strange: list[BaseException] = []
    index = fwad.enter_dual_level()
    started = threading.Barrier(5)

    def compute() -> None:
        started.wait(10.0)
        try:
            for _ in range(200):
                fwad.make_dual(tensor(X), tensor(T)) * 2.0
        except RuntimeError as error:
            if "level" not in str(error):
                strange.append(error)

    threads = [threading.Thread(target=compute) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait(10.0)
    fwad.exit_dual_level(level=index)
    for thread in threads:
        thread.join(60.0)
    assert (strange, modes.special) == ([], 0)


@pytest.mark.seed("F9", "F12")
def test_duals_of_nested_levels_die_in_any_order_while_another_thread_leaves() -> None:
    duals = []
    with fwad.dual_level() as outside, fwad.dual_level():
        for _ in range(100):
            outer = fwad.make_dual(tensor(X), tensor(T), level=outside)
            duals.append(fwad.make_dual(tensor(X), outer * 1.0) * outer)
        dropping = threading.Thread(target=duals.clear)
        dropping.start()
    dropping.join(10.0)
    gc.collect()
    assert modes.special == 0


@pytest.mark.seed("F10")
def test_dual_of_a_dual_at_one_level_is_refused(level: int) -> None:
    dual = fwad.make_dual(tensor(X), tensor(T))
    with pytest.raises(
        RuntimeError,
        match=r"^Making a dual Tensor based on a Tensor that already has a forward gradient at the "
        r"same level 0 is not supported\.",
    ):
        fwad.make_dual(dual, tensor(T))


@pytest.mark.seed("F11", "F13")
def test_tensor_without_a_tangent_unpacks_to_itself_and_none(level: int) -> None:
    x = tensor(X)
    primal, found = fwad.unpack_dual(x)
    assert primal is x and found is None


@pytest.mark.seed("F13")
def test_primal_has_no_tangent_any_more(level: int) -> None:
    primal = fwad.unpack_dual(fwad.make_dual(tensor(X), tensor(T))).primal
    assert (primal.tolist(), tangent(primal), tangent(primal * 2.0)) == (X, None, None)


@pytest.mark.seed("F16")
def test_tangent_of_another_size_is_refused(level: int) -> None:
    with pytest.raises(
        RuntimeError,
        match=r"^Trying to set a forward gradient that has a different size than that of the "
        "original Tensor, ",
    ):
        fwad.make_dual(tensor(X), tensor([1.0]))


@pytest.mark.seed("F16")
def test_tangent_of_integers_is_refused(level: int) -> None:
    with pytest.raises(
        ValueError, match=r"^Expected tangent to be floating point or complex, but got: "
    ):
        fwad.make_dual(tensor(X), fd.tensor([1, 2, 3]))


@pytest.mark.seed("F16")
def test_tangent_that_has_a_tangent_of_the_level_is_refused(level: int) -> None:
    t = fwad.make_dual(tensor(T), tensor(X))
    with pytest.raises(RuntimeError, match=r"^Setting a forward grad that itself has a forward"):
        fwad.make_dual(tensor(X), t)


@pytest.mark.seed("F16")
def test_tangent_in_another_order_of_memory_is_copied(level: int) -> None:
    t = tensor([[1.0, 2.0], [3.0, 4.0]]).t()
    dual = fwad.make_dual(fd.zeros(2, 2, dtype=fd.float64), t)
    assert tangent(dual.view(4)) == [1.0, 3.0, 2.0, 4.0]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_tangent_allows_the_views_of_a_permuted_tensor(
    order: tuple[int, ...], level: int
) -> None:
    back = [order.index(axis) for axis in range(3)]
    whole, gaps, repeated = fd.randn(2, 3, 4), fd.randn(2, 3, 5)[..., 1:], fd.randn(2, 1, 4)
    seen: list[tuple[Tensor, Callable[[Tensor], Tensor]]] = [
        (whole, lambda x: x.permute(back).view(24)),
        (gaps, lambda x: x.permute(back).view(6, 4)),
        (repeated.expand(2, 3, 4), lambda x: x.permute(back).transpose(0, 1).view(3, 8)),
    ]
    for x, look in seen:
        permuted = x.permute(order)
        t = fd.randn(permuted.shape)
        found = fwad.unpack_dual(look(fwad.make_dual(permuted, t))).tangent
        assert found is not None
        wanted = t.permute(back) if x is not seen[2][0] else t.permute(back).transpose(0, 1)
        assert fd.equal(found, wanted.reshape(found.shape))


@pytest.mark.seed("F16")
def test_view_of_a_dual_has_a_view_of_its_tangent(level: int) -> None:
    dual = fwad.make_dual(tensor(X), tensor(T))
    of_base, of_view = fwad.unpack_dual(dual).tangent, fwad.unpack_dual(head(dual)).tangent
    assert of_view is not None and of_view._is_view() and of_view._base is of_base


@pytest.mark.seed("F16")
def test_in_place_on_a_view_reaches_base_and_sibling_views(level: int) -> None:
    base = fd.zeros(3, dtype=fd.float64)
    first, sibling = head(base), base.view(3, 1)
    first.add_(head(fwad.make_dual(tensor(X), tensor(T))))
    assert (tangent(base), tangent(sibling)) == ([0.5, -1.0, 0.0], [[0.5], [-1.0], [0.0]])


@pytest.mark.seed("F16")
def test_in_place_on_the_base_reaches_views_made_before(level: int) -> None:
    base = fd.ones(3, dtype=fd.float64)
    before = head(base)
    base.mul_(fwad.make_dual(tensor(X), tensor(T)))
    base.mul_(2.0)
    assert tangent(before) == [1.0, -2.0]


@pytest.mark.seed("F16")
def test_in_place_on_a_dual_leaves_the_plain_tensor_without_tangent(level: int) -> None:
    x = tensor(X)
    dual = fwad.make_dual(x, tensor(T))
    head(dual).mul_(2.0)
    assert (x.tolist(), tangent(x)) == ([2.0, 4.0, 3.0], None)
    assert tangent(dual) == [1.0, -2.0, 2.0]


@pytest.mark.seed("F16")
def test_in_place_on_a_result_leaves_the_tangents_of_its_inputs(level: int) -> None:
    dual = fwad.make_dual(tensor(X), tensor(T))
    (dual + 1.0).mul_(5.0)
    assert tangent(dual) == T


@pytest.mark.seed("F16")
def test_overwriting_with_a_constant_clears_the_tangent(level: int) -> None:
    y = fwad.make_dual(tensor(X), tensor(T)) * 1.0
    head(y).copy_(tensor([7.0, 8.0]))
    assert tangent(y) == [0.0, 0.0, 2.0]


def test_detached_dual_has_no_tangent(level: int) -> None:
    assert tangent(fwad.make_dual(tensor(X), tensor(T)).detach()) is None


@pytest.mark.seed("F16")
def test_make_dual_passes_gradients_to_primal_and_tangent(level: int) -> None:
    x, t = tensor(X, requires_grad=True), tensor(T, requires_grad=True)
    y = fwad.unpack_dual(fwad.make_dual(x, t).exp()).tangent
    dx, dt = grad(y.sum(), (x, t))
    assert np.allclose(dx.numpy(), np.exp(X) * np.array(T)) and np.allclose(dt.numpy(), np.exp(X))


def test_gradient_of_a_dual_loss_carries_the_hessian_vector_product(level: int) -> None:
    x = tensor(X, requires_grad=True)
    loss = fwad.make_dual(x, tensor(T)).tanh().sum()
    loss.backward()
    y = np.tanh(X)
    assert np.allclose(tangent(x.grad), -2 * y * (1 - y**2) * np.array(T))


def test_op_without_forward_mode_says_so(level: int) -> None:
    from fastdist.dispatch.structured import Plan, StructuredOp

    def reversible(input: Tensor) -> Tensor:
        """Return a copy."""

    op = StructuredOp(reversible, "shape.copying.cast", linear=False)
    op.plan(lambda input: Plan(input._layout.shape, input._layout.dtype))
    op.vjp("input")(lambda g: g)
    with pytest.raises(
        NotImplementedError, match=r"^Trying to use forward AD with reversible that"
    ):
        op(fwad.make_dual(tensor(X), tensor(T)))


def test_plain_tensors_have_no_tangent_work_while_a_level_is_open(level: int) -> None:
    y = (tensor(X, requires_grad=True) * 2.0).exp()
    assert y._extra is None


def test_mirror_of_a_remote_level_carries_tangents_like_any_level() -> None:
    mirror = ForwardADLevel.get_or_create_mirror(7 << 48)
    try:
        with adopt(mirror):
            y = fwad.make_dual(tensor(X), tensor(T)) * 2.0
            assert tangent(y) == [1.0, -2.0, 4.0]
        assert fwad.unpack_dual(y, level=mirror).tangent.tolist() == [1.0, -2.0, 4.0]
        assert tangent(y) is None
    finally:
        ForwardADLevel.release_mirror(7 << 48)
    assert fwad.unpack_dual(y, level=mirror).tangent is None


def test_level_inside_a_mirror_gives_mixed_derivatives() -> None:
    mirror = ForwardADLevel.get_or_create_mirror(7 << 48)
    try:
        with adopt(mirror):
            outer = fwad.make_dual(tensor([2.0]), tensor([1.0]))
            with fwad.dual_level():
                inner = fwad.make_dual(outer, tensor([1.0]))
                first = fwad.unpack_dual(inner * inner * inner).tangent
            assert (tangent(first), tangent(outer * outer)) == ([12.0], [4.0])
    finally:
        ForwardADLevel.release_mirror(7 << 48)
