"""Activation checkpointing: recomputed values, random numbers, autocast, and errors."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from fastdist.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    get_device_states,
    set_checkpoint_early_stop,
    set_device_states,
)
from tests.device_kinds import KINDS, backend_on

both_kinds = pytest.mark.parametrize("use_reentrant", [False, True])


def model() -> nn.Sequential:
    fd.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Dropout(0.3)) for _ in range(4)]
    return nn.Sequential(*layers)


def gradients(run: Any, network: nn.Module) -> list[np.ndarray]:
    fd.manual_seed(1)
    x = fd.randn(3, 6, requires_grad=True)
    network.zero_grad()
    run(network, x).square().sum().backward()
    return [p.grad.numpy() for p in [x, *network.parameters()]]


@both_kinds
def test_gradients_are_those_without_it_dropout_included(use_reentrant: bool) -> None:
    network = model()

    def checkpointed(network: Any, x: fd.Tensor) -> fd.Tensor:
        for layer in network:
            x = checkpoint(layer, x, use_reentrant=use_reentrant)
        return x

    expected = gradients(lambda network, x: network(x), network)
    for one, other in zip(gradients(checkpointed, network), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for _ in backend_on(request.param, monkeypatch):
        yield request.param


@both_kinds
def test_dropout_of_a_device_is_the_same_both_times(kind: str, use_reentrant: bool) -> None:
    places = [fd.device(kind, index) for index in (0, 1)]
    x = fd.ones(64, device=places[0], requires_grad=True)

    def function(x: fd.Tensor) -> fd.Tensor:
        # No argument is on this device, and this process has not drawn random numbers on it.
        dropped = fd.dropout(x.sin(), 0.5, True).to(places[1])
        return fd.dropout(dropped * dropped, 0.5, True)

    def found(run: Any) -> list[np.ndarray]:
        fd.manual_seed(5)
        x.grad = None
        y = run(x)
        between = [fd.rand(2, device=place).cpu().numpy() for place in places]
        y.sum().backward()
        after = [fd.rand(2, device=place).cpu().numpy() for place in places]
        return [y.detach().cpu().numpy(), x.grad.cpu().numpy(), *between, *after]

    ours = found(lambda x: checkpoint(function, x, use_reentrant=use_reentrant))
    for one, other in zip(ours, found(function), strict=True):
        np.testing.assert_array_equal(one, other)


def test_draws_are_others_if_the_program_says_that_they_may_be(kind: str) -> None:
    x = fd.ones(64, device=kind, requires_grad=True)
    y = checkpoint(
        lambda x: fd.dropout(x, 0.5, True) * x, x, use_reentrant=False, preserve_rng_state=False
    )
    y.sum().backward()
    assert not np.array_equal(y.detach().cpu().numpy() * 2, x.grad.cpu().numpy())


@both_kinds
@pytest.mark.parametrize("segments", [1, 2, 3, 4])
def test_a_sequence_in_segments_has_the_same_gradients(segments: int, use_reentrant: bool) -> None:
    network = model()
    expected = gradients(lambda network, x: network(x), network)
    found = gradients(
        lambda network, x: checkpoint_sequential(network, segments, x, use_reentrant=use_reentrant),
        network,
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_more_segments_than_functions_are_refused() -> None:
    with pytest.raises(ValueError, match="5 segments of 4 functions"):
        checkpoint_sequential(model(), 5, fd.ones(1, 6), use_reentrant=False)


@both_kinds
def test_random_numbers_after_it_go_on_as_without_it(use_reentrant: bool) -> None:
    x = fd.ones(4, requires_grad=True)
    fd.manual_seed(3)
    y = checkpoint(fd.dropout, x, 0.5, True, use_reentrant=use_reentrant)
    fd.rand(2)
    y.sum().backward()
    found = fd.rand(3)
    fd.manual_seed(3)
    fd.dropout(x, 0.5, True)
    fd.rand(2)
    np.testing.assert_array_equal(found.numpy(), fd.rand(3).numpy())


def test_nothing_that_the_function_made_is_kept() -> None:
    made: list[weakref.ref[fd.Tensor]] = []

    def function(x: fd.Tensor) -> fd.Tensor:
        hidden = x.exp()
        made.append(weakref.ref(hidden))
        return hidden.sin().sum()

    x = fd.ones(8, requires_grad=True)
    y = checkpoint(function, x, use_reentrant=False)
    gc.collect()
    assert made[0]() is None
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(np.e) * np.e, rtol=1e-6)


def test_second_order_is_that_without_it() -> None:
    def function(x: fd.Tensor) -> fd.Tensor:
        return (x.exp() * x).sin().sum()

    def second(run: Any) -> np.ndarray:
        x = fd.tensor([0.3, -0.7], dtype=fd.float64, requires_grad=True)
        (g,) = fd.autograd.grad(run(x), x, create_graph=True)
        (h,) = fd.autograd.grad(g.square().sum(), x)
        return h.numpy()

    found = second(lambda x: checkpoint(function, x, use_reentrant=False))
    np.testing.assert_allclose(found, second(function), rtol=1e-14)


def test_a_kept_graph_can_be_played_twice() -> None:
    calls = []

    def function(x: fd.Tensor) -> fd.Tensor:
        calls.append(1)
        return x.exp().sin().sum()

    x = fd.ones(3, requires_grad=True)
    y = checkpoint(function, x, use_reentrant=False)
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * once.numpy())
    assert len(calls) == 3


def test_autograd_grad_and_keyword_arguments_work_without_reentrance() -> None:
    x = fd.ones(3, requires_grad=True)
    y = checkpoint(lambda x, scale: (x * scale).exp(), x, scale=2.0, use_reentrant=False)
    (g,) = fd.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(g.numpy(), 2 * np.exp(2.0), rtol=1e-6)


def test_one_inside_another_has_the_same_gradient() -> None:
    def inner(x: fd.Tensor) -> fd.Tensor:
        return x.exp().sin()

    def outer(x: fd.Tensor) -> fd.Tensor:
        return checkpoint(inner, x.cos(), use_reentrant=False).exp()

    x = fd.tensor([0.2, 1.4], dtype=fd.float64, requires_grad=True)
    (found,) = fd.autograd.grad(checkpoint(outer, x, use_reentrant=False).sum(), x)
    (expected,) = fd.autograd.grad(inner(x.cos()).exp().sum(), x)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-14)


def test_the_second_computation_ends_when_all_is_there() -> None:
    reached = []

    def function(x: fd.Tensor) -> fd.Tensor:
        y = x.exp()
        reached.append("end")
        return y

    for early_stop, expected in ((True, 1), (False, 2)):
        reached.clear()
        with set_checkpoint_early_stop(early_stop):
            y = checkpoint(function, fd.ones(2, requires_grad=True), use_reentrant=False)
        y.sum().backward()
        assert len(reached) == expected


def test_what_saves_other_tensors_the_second_time_is_named() -> None:
    calls = []

    def function(x: fd.Tensor) -> fd.Tensor:
        calls.append(1)
        return x.exp().sin() if len(calls) == 1 else x.exp()

    y = checkpoint(function, fd.ones(2, requires_grad=True), use_reentrant=False, debug=True)
    with pytest.raises(
        CheckpointError, match=r"(?s)A different number.*differ from number \d.*in fun"
    ):
        y.sum().backward()


def test_other_shapes_the_second_time_are_refused() -> None:
    sizes = iter([2, 3])

    def function(x: fd.Tensor) -> fd.Tensor:
        return x.expand(next(sizes)).exp().sum()

    y = checkpoint(function, fd.ones(1, requires_grad=True), use_reentrant=False)
    with pytest.raises(
        CheckpointError, match=r"different metadata.*\n.*\nsaved metadata: shape \("
    ):
        y.backward()


def test_an_argument_that_was_changed_meanwhile_is_refused() -> None:
    x = fd.ones(2)
    w = fd.ones(2, requires_grad=True)
    y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=False)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_second_computation_has_its_own_context() -> None:
    opened = []

    @contextmanager
    def context(name: str) -> Iterator[None]:
        opened.append(name)
        yield

    y = checkpoint(
        lambda x: x.exp(),
        fd.ones(2, requires_grad=True),
        use_reentrant=False,
        context_fn=lambda: (context("first"), context("second")),
    )
    assert opened == ["first"]
    y.sum().backward()
    assert opened == ["first", "second"]


def test_reentrance_refuses_what_it_cannot_do() -> None:
    x = fd.ones(2, requires_grad=True)
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad\(\)"):
        fd.autograd.grad(y.sum(), x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(lambda x, scale: x, x, scale=2, use_reentrant=True)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(lambda x: x, x, debug=True, use_reentrant=True)


def test_a_kind_that_is_not_said_warns() -> None:
    with pytest.warns(
        UserWarning, match=r"use_reentrant parameter of checkpoint\(\) should be passed explicitly"
    ):
        y = checkpoint(lambda x: x.exp(), fd.ones(2, requires_grad=True))
    y.sum().backward()


def test_reentrance_warns_where_no_input_has_a_gradient() -> None:
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(lambda x: x.exp(), fd.ones(2), use_reentrant=True)


def test_several_results_and_plain_ones_pass_through() -> None:
    x = fd.tensor([1.0, 2.0], requires_grad=True)
    for use_reentrant in (False, True):
        a, b, word = checkpoint(
            lambda x: (x.exp(), x.detach(), "word"), x, use_reentrant=use_reentrant
        )
        # With `use_reentrant`, a Function makes every result require grad.
        assert (word, b.requires_grad) == ("word", use_reentrant)
        x.grad = None
        a.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp([1.0, 2.0]), rtol=1e-6)


@both_kinds
@pytest.mark.parametrize("is_on", [True, False])
def test_autocast_is_in_both_computations_what_it_was_in_the_first(
    use_reentrant: bool, is_on: bool
) -> None:
    layer = nn.Linear(3, 2)
    dtypes: list[Any] = []

    def compute(x: fd.Tensor) -> fd.Tensor:
        y = layer(x)
        dtypes.append(y.dtype)
        return y.float().exp()

    def grads(run: Any) -> list[Any]:
        layer.zero_grad()
        x = fd.ones(4, 3, requires_grad=True)
        with fd.autocast("cpu", dtype=fd.float16, enabled=is_on):
            y = run(x)
        # Outside of the checkpointed call, autocast has the opposite setting.
        with fd.autocast("cpu", dtype=fd.float16, enabled=not is_on):
            y.sum().backward()
        assert x.grad is not None and layer.weight.grad is not None
        return [x.grad.tolist(), layer.weight.grad.tolist()]

    plain = grads(compute)
    assert grads(lambda x: checkpoint(compute, x, use_reentrant=use_reentrant)) == plain
    assert dtypes == [fd.float16 if is_on else fd.float32] * 3
    with fd.autocast("cpu", dtype=fd.float16):
        assert layer(fd.ones(1, 3)).dtype is fd.float16
    assert layer(fd.ones(1, 3)).dtype is fd.float32


def test_device_states_are_those_of_the_devices_on_which_arguments_lie() -> None:
    x = fd.ones(2, device="sim")
    devices, states = get_device_states({"x": [x, 3]}, fd.ones(2))
    first = fd.rand(2, device="sim")
    set_device_states(devices, states, device_type="sim")
    assert devices == [0]
    assert fd.equal(fd.rand(2, device="sim"), first)


def test_device_states_of_the_cpu_are_none() -> None:
    assert get_device_states(fd.ones(2), [fd.ones(1)]) == ([], [])


WEIGHT = fd.randn(3, 3, generator=fd.Generator().manual_seed(7))


def energy(x: Any) -> Any:
    return (x @ WEIGHT).sin().pow(3).sum()


def energy_again(x: Any) -> Any:
    return checkpoint(energy, x, use_reentrant=False)


def energy_twice_again(x: Any) -> Any:
    return checkpoint(energy_again, x, use_reentrant=False)


def gradient_of_batch(function: Any, xs: Any) -> Any:
    xs = xs.clone().requires_grad_()
    fd.vmap(function)(xs).sum().backward()
    return xs.grad


TRANSFORMS: dict[str, Any] = {
    "each gradient": lambda f, xs: fd.vmap(fd.func.grad(f))(xs),
    "each of two levels": lambda f, xs: fd.vmap(fd.vmap(fd.func.grad(f)))(xs[None]),
    "each gradient's gradient": lambda f, xs: fd.vmap(
        fd.func.grad(lambda x: fd.func.grad(f)(x).sum())
    )(xs),
    "the gradient of all": lambda f, xs: fd.func.grad(lambda x: fd.vmap(f)(x).sum())(xs),
    "backward from outside": gradient_of_batch,
}


@pytest.mark.parametrize("function", [energy_again, energy_twice_again])
@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_batch_of_checkpoints_has_the_gradients_without_them(
    transform: Any, function: Any
) -> None:
    xs = fd.randn(2, 3, generator=fd.Generator().manual_seed(3))
    found, expected = transform(function, xs), transform(energy, xs)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_a_batch_of_checkpoints_draws_the_same_numbers_again() -> None:
    def noisy(x: Any) -> Any:
        return energy(x * fd.randn_like(x))

    def noisy_again(x: Any) -> Any:
        return checkpoint(noisy, x, use_reentrant=False)

    found = []
    for function in (noisy, noisy_again):
        xs = fd.ones(2, 3, requires_grad=True)
        fd.manual_seed(4)
        fd.vmap(function, randomness="different")(xs).sum().backward()
        found.append(xs.grad.tolist())
    assert found[0] == found[1]


def test_selective_checkpoints_are_named_and_refuse() -> None:
    module = fd.utils.checkpoint
    assert module.CheckpointPolicy.MUST_RECOMPUTE.value == 2
    with pytest.raises(NotImplementedError, match=r"checkpoint\(\) the parts of the model"):
        module.create_selective_checkpoint_contexts([])
