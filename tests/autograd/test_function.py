"""User-defined Functions: gradients, tangents and errors."""

from __future__ import annotations

import gc
from typing import Any, ClassVar
from weakref import ref

import numpy as np
import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.autograd import Function, backward, grad, gradcheck, gradgradcheck
from fastdist.autograd.forward_ad import dual_level, make_dual, unpack_dual
from fastdist.autograd.function import once_differentiable
from fastdist.ops.shape.basic_index import basic_index


def leaf(*values: float) -> Tensor:
    return fd.tensor(values or (1.0, 2.0, 3.0), dtype=fd.float64, requires_grad=True)


class Exp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return g * y


class TwoOutputs(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
        ctx.factor = factor
        return x * factor, x + 1.0

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> tuple[Tensor, None]:
        return g * ctx.factor + h, None


def function(backward: Any, forward: Any = lambda ctx, *xs: xs[0] * 1.0) -> type[Function]:
    """Return a Function with the given forward and backward."""
    body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (Function,), body)


def test_backward_gets_the_gradient_and_returns_the_inputs() -> None:
    x = leaf()
    Exp.apply(x).sum().backward()
    assert np.allclose(x.grad.numpy(), np.exp([1.0, 2.0, 3.0]))


def test_saved_output_knows_its_node_so_second_derivatives_follow() -> None:
    assert gradgradcheck(Exp.apply, leaf(0.5, 1.0))


def test_saved_output_makes_no_cycle() -> None:
    gc.collect()
    gc.disable()
    try:
        y = Exp.apply(leaf())
        watched = ref(y)
        del y
        assert watched() is None
    finally:
        gc.enable()


def test_several_outputs_have_numbers_and_one_node() -> None:
    a, b = TwoOutputs.apply(leaf(), 3.0)
    assert a.grad_fn is b.grad_fn
    assert (a.output_nr, b.output_nr, a.grad_fn.name()) == (0, 1, "TwoOutputsBackward")


@pytest.mark.parametrize(("use", "expected"), [((1, 0), 3.0), ((0, 1), 1.0), ((1, 1), 4.0)])
def test_undefined_gradients_of_outputs_arrive_as_zeros(
    use: tuple[int, int], expected: float
) -> None:
    x = leaf()
    outputs = [y.sum() for y, used in zip(TwoOutputs.apply(x, 3.0), use, strict=True) if used]
    backward(outputs)
    assert x.grad.tolist() == [expected] * 3


def test_undefined_gradients_stay_none_when_not_materialized() -> None:
    seen = []

    class Seen(TwoOutputs):
        @staticmethod
        def forward(ctx: Any, x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
            ctx.set_materialize_grads(False)
            return TwoOutputs.forward(ctx, x, factor)

        @staticmethod
        def backward(ctx: Any, g: Tensor, h: Tensor) -> tuple[Tensor, None]:
            seen.append((g is None, h is None))
            return h, None

    Seen.apply(leaf(), 3.0)[1].sum().backward()
    assert seen == [(True, False)]


def test_needs_input_grad_says_which_gradients_are_wanted() -> None:
    seen = []

    def forward(ctx: Any, *xs: Any) -> Tensor:
        seen.append(ctx.needs_input_grad)
        return xs[0] * 1.0

    function(None, forward).apply(leaf(), fd.ones(3), 2)
    assert seen == [(True, False, False)]


def test_setup_context_receives_inputs_and_output() -> None:
    class Cube(Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x * x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return g * x * x * 3.0

    assert gradgradcheck(Cube.apply, leaf())


def test_non_differentiable_output_has_no_edge() -> None:
    class Split(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
            y, sign = x * 2.0, x * 0.0 + 1.0
            ctx.mark_non_differentiable(sign)
            return y, sign

        @staticmethod
        def backward(ctx: Any, g: Tensor, unused: Tensor) -> Tensor:
            return g * 2.0

    y, sign = Split.apply(leaf())
    assert (y.requires_grad, sign.requires_grad) == (True, False)


class Double(Function):
    """Doubles its input in place."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.mul_(2.0)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2.0


def test_dirty_input_is_returned_with_the_new_history() -> None:
    x = leaf()
    y = x * 1.0
    assert Double.apply(y) is y
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([2.0, 4.0, 6.0], [2.0] * 3)


def test_dirty_view_changes_its_base() -> None:
    x = leaf()
    y = x * 1.0
    Double.apply(basic_index.public(y, (slice(0, 2),)))
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 1.0]


def test_dirty_leaf_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"^a leaf Variable that requires grad is being used in"):
        Double.apply(leaf())


def test_input_that_comes_out_unchanged_keeps_its_own_history() -> None:
    x = leaf()
    y = function(lambda ctx, g: g * 7.0, lambda ctx, x: x).apply(x)
    y.sum().backward()
    assert y is not x and x.grad_fn is None and x.grad.tolist() == [7.0] * 3


def test_saved_tensor_changed_in_place_is_found() -> None:
    x = leaf()
    y = Exp.apply(x)
    y.mul_(2.0)
    with pytest.raises(
        RuntimeError, match=r"^one of the variables needed for gradient computation"
    ):
        y.sum().backward()


def test_second_pass_without_retain_graph_is_refused() -> None:
    y = Exp.apply(leaf()).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"^Trying to backward through the graph a second time"):
        y.backward()


@pytest.mark.parametrize(
    ("backward", "error"),
    [
        (
            lambda ctx, g: (g, g, g),
            "function MadeBackward returned an incorrect number of gradients ",
        ),
        (lambda ctx, g: (), "function MadeBackward returned an incorrect number of gradients "),
        (
            lambda ctx, g: fd.ones(2),
            "Function MadeBackward returned an invalid gradient at index 0",
        ),
    ],
)
def test_wrong_gradients_are_refused(backward: Any, error: str) -> None:
    with pytest.raises(RuntimeError, match=f"^{error}"):
        function(backward).apply(leaf()).sum().backward()


def test_gradient_for_what_was_no_tensor_is_refused() -> None:
    with pytest.raises(RuntimeError, match="returned a gradient different from None at position 2"):
        function(lambda ctx, g: (g, g)).apply(leaf(), 2.0).sum().backward()


def test_trailing_nones_are_taken() -> None:
    x = leaf()
    function(lambda ctx, g: (g, None, None)).apply(x).sum().backward()
    assert x.grad.tolist() == [1.0] * 3


def test_gradient_of_a_broadcast_input_is_summed() -> None:
    x = leaf(2.0)
    function(lambda ctx, g: g, lambda ctx, x: x.expand(3) * 1.0).apply(x).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_error_in_backward_reaches_the_caller_with_its_traceback() -> None:
    def fail(ctx: Any, g: Tensor) -> Tensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        function(fail).apply(leaf()).sum().backward()
    assert caught.traceback[-1].name == "fail"


def test_none_from_backward_leaves_the_leaf_without_gradient() -> None:
    x = leaf()
    function(lambda ctx, g: None).apply(x * 2.0).sum().backward()
    assert x.grad is None


def test_once_differentiable_refuses_the_second_derivative() -> None:
    class Once(Exp):
        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * ctx.saved_tensors[0]

    x = leaf()
    (g,) = grad(Once.apply(x), x, leaf(), create_graph=True)
    with pytest.raises(RuntimeError, match=r"^trying to differentiate twice a function that was"):
        g.sum().backward()


def test_forward_without_recording_keeps_nothing() -> None:
    with fd.no_grad():
        y = Exp.apply(leaf())
    assert y.grad_fn is None


def test_function_is_not_called_as_an_object() -> None:
    with pytest.raises(RuntimeError, match=r"^Legacy autograd function"):
        Exp()(leaf())


class Scaled(Function):
    """x * y; `jvp` reads the tensor saved for it, and uses only the tangent of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.save_for_forward(y)
        return x * y

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[None, Tensor]:
        (x,) = ctx.saved_tensors
        return None, g * x

    @staticmethod
    def jvp(ctx: Any, x_t: Tensor, y_t: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return x_t * y


def test_jvp_sees_what_was_saved_for_it_and_backward_what_was_saved_for_that() -> None:
    y = fd.tensor([3.0, 4.0], requires_grad=True)
    with dual_level():
        out = Scaled.apply(make_dual(fd.tensor([1.0, 2.0]), fd.ones(2)), y)
        assert unpack_dual(out).tangent.tolist() == [3.0, 4.0]
        out.sum().backward()
    assert y.grad.tolist() == [1.0, 2.0]


class Weighed(Function):
    """x * w * k; `jvp` records the tangents that it receives."""

    seen: ClassVar[list[Any]] = []

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, k: int, materialize: bool = True) -> Tensor:
        ctx.set_materialize_grads(materialize)
        ctx.save_for_backward(x, w)
        ctx.k = k
        return x * w * k

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, None]:
        x, w = ctx.saved_tensors
        return g * w * ctx.k, g * x * ctx.k, None

    @staticmethod
    def jvp(ctx: Any, x_t: Tensor, w_t: Tensor | None, *others: Any) -> Tensor:
        Weighed.seen = [w_t, *others]
        x, w = ctx.saved_tensors
        tangent = x_t * w * ctx.k
        return tangent if w_t is None else tangent + x * w_t * ctx.k


def test_gradcheck_passes_a_right_jvp_of_two_inputs() -> None:
    x, w = (fd.tensor(n, dtype=fd.float64, requires_grad=True) for n in ([1.0, 2.0], [3.0, -1.0]))
    assert gradcheck(lambda x, w: Weighed.apply(x, w, 3), (x, w), check_forward_ad=True)


def test_jvp_sees_zeros_for_a_floating_tensor_without_tangent_and_none_for_a_number() -> None:
    with dual_level():
        Weighed.apply(make_dual(fd.ones(2), fd.ones(2)), fd.ones(1), 3)
    w_t, *others = Weighed.seen
    assert (w_t.tolist(), w_t.dtype, others) == ([0.0], fd.float32, [None])


def test_jvp_sees_none_for_a_tensor_of_integers() -> None:
    with dual_level():
        out = Weighed.apply(make_dual(fd.ones(2), fd.ones(2)), fd.tensor([1, 2]), 3)
        assert unpack_dual(out).tangent.tolist() == [3.0, 6.0]
    assert Weighed.seen == [None, None]


def test_jvp_sees_none_for_a_missing_tangent_if_grads_are_not_materialized() -> None:
    with dual_level():
        Weighed.apply(make_dual(fd.ones(2), fd.ones(2)), fd.ones(2), 3, False)
    assert Weighed.seen == [None, None, None]


class Keeps(Function):
    """Doubles x, sets an attribute on ctx, and copies that attribute to `found` in backward."""

    name: ClassVar[str] = "mask"
    found: ClassVar[Any] = None

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        setattr(ctx, Keeps.name, "the user's")
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        Keeps.found = getattr(ctx, Keeps.name)
        assert ctx.saved_tensors[0].shape == g.shape
        return g * 2


NAMES_OF_THE_NODE = sorted(
    name
    for name in {*dir(Keeps.apply(fd.ones(1, requires_grad=True)).grad_fn), "name", "mask"}
    if not name.startswith("__") and name != "saved_tensors"
)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", NAMES_OF_THE_NODE)
def test_each_name_on_ctx_is_the_users(name: str) -> None:
    Keeps.name, Keeps.found = name, None
    x = fd.ones(2, requires_grad=True)
    y = Keeps.apply(x)
    y.register_hook(lambda g: g * 3)
    (y * y).sum().backward(retain_graph=True)
    assert Keeps.found == "the user's"
    assert x.grad is not None
    assert x.grad.tolist() == [24.0, 24.0]
    assert y.grad_fn.next_functions[0][0].variable is x
    assert repr(y.grad_fn).startswith("<KeepsBackward object")


def test_names_that_users_did_not_set_are_missing_on_ctx() -> None:
    class Asks(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            assert [hasattr(ctx, name) for name in ("hooks", "layout", "edges")] == [False] * 3
            assert ctx.name() == "AsksBackward"
            ctx.factor = 3
            return x * 3

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * ctx.factor

    y = Asks.apply(fd.ones(2, requires_grad=True))
    y.sum().backward()
    assert y.grad_fn.factor == 3
    with pytest.raises(AttributeError, match="AsksBackward has no attribute 'fctor'"):
        _ = y.grad_fn.fctor
