"""User-defined Functions in vmap: nested batches, gradients and tangents."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import pytest

import fastdist as torch
from fastdist import func
from fastdist.autograd import Function
from fastdist.autograd.function import once_differentiable
from fastdist.core.errors import GraphError, TransformError

F64 = torch.float64


class KeepsNothing(Function):
    """A base of Functions that have a generated vmap rule and save nothing for backward."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass


class Cubes(Function):
    """x**3, with a wrong backward (7 x**2) and jvp (5 x**2): tests see which of them ran."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(output, *inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 7 * ctx.saved_tensors[0] ** 2

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent * 5 * ctx.saved_tensors[1] ** 2


class Weighted(Function):
    """Returns the sum of x * w, and exp(x) * k. The second result is saved for backward."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, w: Any, k: float) -> Any:
        return (x * w).sum(-1), x.exp() * k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.k = inputs[2]
        ctx.save_for_backward(inputs[0], inputs[1], output[1])

    @staticmethod
    def backward(ctx: Any, g_sum: Any, g_exp: Any) -> Any:
        x, w, exps = ctx.saved_tensors
        assert len(ctx.needs_input_grad) == 3 and ctx.k == 2.0
        return g_sum.unsqueeze(-1) * w + g_exp * exps, g_sum.unsqueeze(-1) * x, None


class Sines(Function):
    """sin, with its own vmap rule."""

    asked: ClassVar[list[Any]] = []

    @staticmethod
    def forward(x: Any) -> Any:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos()

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        Sines.asked.append((info.batch_size, info.randomness, in_dims, x.shape))
        return x.sin().t(), 1  # out_dims may be any axis


def rows() -> Any:
    return torch.arange(6.0, dtype=F64).view(2, 3)


def weights() -> Any:
    return torch.tensor([1.0, 2.0, 3.0], dtype=F64)


def both(x: Any, w: Any) -> Any:
    a, b = Weighted.apply(x, w, 2.0)
    return a.sum() + b.sum()


def test_gradients_in_vmap_are_those_of_the_users_backward() -> None:
    found = func.vmap(func.grad(lambda x: Cubes.apply(x).sum()))(rows())
    assert found.tolist() == (7 * rows() ** 2).tolist()


def test_gradients_of_vmap_are_those_of_the_users_backward() -> None:
    found = func.grad(lambda x: func.vmap(Cubes.apply)(x).sum())(rows())
    assert found.tolist() == (7 * rows() ** 2).tolist()


def test_a_pass_after_vmap_has_closed_goes_through_the_function() -> None:
    x = rows().requires_grad_()
    func.vmap(Cubes.apply)(x).sum().backward()
    assert x.grad.tolist() == (7 * rows() ** 2).tolist()
    assert func.vmap(Cubes.apply)(x).grad_fn is not None


def test_a_batch_along_another_axis_comes_out_along_another() -> None:
    found = func.vmap(Cubes.apply, in_dims=1, out_dims=1)(rows())
    assert found.tolist() == (rows() ** 3).tolist()


def test_second_derivatives_are_those_of_the_backward() -> None:
    found = func.vmap(func.hessian(lambda x: Cubes.apply(x).sum()))(rows())
    assert found.tolist() == torch.diag_embed(14 * rows()).tolist()


def test_levels_of_vmap_may_be_nested() -> None:
    one = func.grad(func.grad(Cubes.apply))
    assert func.vmap(func.vmap(one))(rows()).tolist() == (14 * rows()).tolist()


def test_tangents_in_vmap_are_those_of_the_users_jvp() -> None:
    found = func.vmap(lambda x, t: func.jvp(Cubes.apply, (x,), (t,))[1])(
        rows(), torch.ones_like(rows())
    )
    assert found.tolist() == (5 * rows() ** 2).tolist()


def test_a_function_without_jvp_says_so_in_vmap() -> None:
    with pytest.raises(NotImplementedError, match="You must implement the jvp function"):
        func.vmap(lambda x: func.jvp(Sines.apply, (x,), (x,))[1])(rows())


def test_arguments_that_all_calls_share_get_the_sum_of_their_gradients() -> None:
    x, w = func.grad(lambda x, w: func.vmap(lambda row: both(row, w))(x).sum(), argnums=(0, 1))(
        rows(), weights()
    )
    torch.testing.assert_close(x, weights() + 2 * rows().exp())
    assert w.tolist() == rows().sum(0).tolist()


def test_each_call_has_its_own_gradient_of_what_all_share() -> None:
    x, w = func.vmap(func.grad(both, argnums=(0, 1)), in_dims=(0, None))(rows(), weights())
    torch.testing.assert_close(x, weights() + 2 * rows().exp())
    assert w.tolist() == rows().tolist()


def test_a_saved_output_is_differentiated_again() -> None:
    second = func.jacrev(func.grad(lambda y: both(y, weights())))
    found = func.vmap(second)(rows())
    torch.testing.assert_close(found, torch.diag_embed(2 * rows().exp()))


def test_a_gradient_that_is_no_batch_counts_once_for_each_call() -> None:
    class Constant(KeepsNothing):
        @staticmethod
        def forward(x: Any, w: Any) -> Any:
            return x + w

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, torch.ones(3, dtype=F64)

    found = func.grad(lambda w: func.vmap(lambda x: Constant.apply(x, w))(rows()).sum())(weights())
    assert found.tolist() == [2.0, 2.0, 2.0]


def test_a_gradient_of_a_broadcast_argument_is_summed_in_each_call() -> None:
    class Added(KeepsNothing):
        @staticmethod
        def forward(x: Any, w: Any) -> Any:
            return x + w

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g  # g has the result's shape, which is larger than w's

    found = func.vmap(func.grad(lambda w, x: Added.apply(x, w).sum()))(
        torch.zeros(2, 1, dtype=F64), rows()
    )
    assert found.tolist() == [[3.0], [3.0]]


def test_a_rule_of_the_users_runs_the_forward_of_a_batch() -> None:
    Sines.asked.clear()
    found = func.vmap(Sines.apply, randomness="same")(rows())
    assert found.tolist() == rows().sin().tolist()
    assert Sines.asked == [(2, "same", (0,), (2, 3))]


def test_gradients_beside_a_rule_of_the_users_are_those_of_backward() -> None:
    one = func.grad(lambda x: Sines.apply(x).sum())
    expected = rows().cos().tolist()
    assert func.vmap(one)(rows()).tolist() == expected
    found = func.grad(lambda x: func.vmap(Sines.apply)(x).sum())(rows())
    assert found.tolist() == expected


def test_what_forward_changes_in_place_comes_back_as_itself() -> None:
    class Doubles(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x.mul_(2)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_dirty(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    same: list[bool] = []

    def one(x: Any) -> Any:
        y = x * 1
        same.append(Doubles.apply(y) is y)
        return y.sum()

    assert func.vmap(func.grad(one))(rows()).tolist() == [[3.0] * 3] * 2
    assert same == [True]


def test_an_output_may_have_no_gradient() -> None:
    class WithPlaces(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2, x.argsort(-1)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output[1])
            ctx.set_materialize_grads(False)

        @staticmethod
        def backward(ctx: Any, g: Any, of_places: Any) -> Any:
            assert of_places is None
            return g * 2

    x = rows().requires_grad_()
    doubled, places = func.vmap(WithPlaces.apply)(x)
    assert places.tolist() == [[0, 1, 2]] * 2 and not places.requires_grad
    assert torch.autograd.grad(doubled.sum(), x)[0].tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize("name", ["neither", "both", "takes ctx"])
def test_a_function_that_cannot_run_on_batches_is_refused(name: str) -> None:
    class Odd(Function):
        @staticmethod
        def forward(*args: Any) -> Any:
            return args[-1] * 2

    if name != "takes ctx":
        Odd.setup_context = staticmethod(lambda ctx, inputs, output: None)  # type: ignore[method-assign]
    Odd.generate_vmap_rule = name != "neither"
    if name == "both":
        Odd.vmap = staticmethod(lambda info, in_dims, x: (x, 0))  # type: ignore[method-assign]
    words = {
        "neither": "You tried to vmap over Odd, but it does not have vmap support",
        "both": "has both generate_vmap_rule=True and an overriden vmap",
        "takes ctx": "must override the setup_context staticmethod: Odd.forward takes ctx",
    }
    with pytest.raises(TransformError, match=words[name]):
        func.vmap(Odd.apply)(rows())
    assert Odd.apply(weights()).tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda x: x, "Got <class .*Tensor.*> instead"),
        (lambda x: (x, 0, 1), "Got a tuple of 3 instead"),
        (lambda x: ((x, x), (0,)), "returned 2 outputs and 1 out_dims"),
    ],
)
def test_a_rule_that_returns_anything_else_is_refused(returned: Any, words: str) -> None:
    class Odd(Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return returned(x)

    with pytest.raises(TransformError, match=words):
        func.vmap(Odd.apply)(rows())


def test_a_batch_by_keyword_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="as a keyword argument"):
        func.vmap(lambda x: Cubes.apply(x, other=x))(rows())


def test_too_few_gradients_are_refused() -> None:
    class Odd(Weighted):
        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    with pytest.raises(GraphError, match="returned an incorrect number of gradients"):
        func.vmap(func.grad(lambda x: Odd.apply(x, weights(), 2.0)[0]))(rows())


def test_a_backward_that_is_differentiable_once_refuses_a_second_pass_in_vmap() -> None:
    class Once(Cubes):
        @staticmethod
        @once_differentiable
        def backward(ctx: Any, g: Any) -> Any:
            return g * 7 * ctx.saved_tensors[0] ** 2

    one = func.grad(lambda x: (Once.apply(x) ** 2).sum())
    assert func.vmap(one)(rows()).tolist() == (14 * rows() ** 5).tolist()
    with pytest.raises(GraphError, match="once_differentiable"):
        func.vmap(func.grad(lambda x: one(x).sum()))(rows())


def test_names_of_a_ctx_are_each_calls_own() -> None:
    class Scaled(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, k: Any) -> Any:
            return x * k

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.k, ctx.call = inputs[1], "mine"

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            assert ctx.call == "mine"
            return g * ctx.k, None

    def one(x: Any) -> Any:
        return func.grad(lambda y: Scaled.apply(Scaled.apply(y, 2.0), 5.0))(x)

    found = func.vmap(func.vmap(one))(rows())
    assert found.tolist() == [[10.0] * 3] * 2


def test_backward_hooks_of_a_module_see_the_batch() -> None:
    layer = torch.nn.Linear(3, 2, dtype=F64)
    seen: list[Any] = []
    layer.register_full_backward_hook(lambda _, gin, gout: seen.append(tuple(gout[0].shape)))
    found = func.vmap(func.grad(lambda x: layer(x).sum()))(rows())
    torch.testing.assert_close(found, layer.weight.sum(0).detach().expand(2, 3))
    assert seen == [(2,)]


def test_draws_in_forward_are_each_calls_own() -> None:
    class Noisy(KeepsNothing):
        @staticmethod
        def forward(x: Any) -> Any:
            return x + torch.rand(3, dtype=F64)

    x = torch.zeros(2, 3, dtype=F64)
    different = func.vmap(Noisy.apply, randomness="different")(x)
    same = func.vmap(Noisy.apply, randomness="same")(x)
    assert not math.isclose(different[0, 0].item(), different[1, 0].item())
    assert same[0].tolist() == same[1].tolist()
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(Noisy.apply)(x)
