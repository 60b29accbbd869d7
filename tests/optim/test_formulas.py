"""By each method, the final parameters equal PyTorch's for every combination of options."""

from __future__ import annotations

import inspect
import json
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import Tensor, optim
from tests.optim.make_trajectories import PLACE, last_places
from tests.optim.option_rows import OPTIONS, combinations, gradient, start

PLACES: dict[str, list[list[float]]] = json.loads(PLACE.read_text())
WITH_GRAPHS = [name for name in OPTIONS if name != "Adafactor"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OPTIONS)
def test_fifty_steps_end_where_pytorchs_do(name: str) -> None:
    found = last_places(fastdist, optim, name, fastdist.float64)
    assert len(found) == len(PLACES[name])
    np.testing.assert_allclose(found, PLACES[name], rtol=1e-12, atol=1e-13)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OPTIONS)
def test_fifty_steps_in_float32_end_there_to_its_precision(name: str) -> None:
    found = last_places(fastdist, optim, name, fastdist.float32)
    np.testing.assert_allclose(found, PLACES[name], rtol=3e-5, atol=3e-6)


def stepped(name: str, options: dict[str, Any], parameter: Tensor, steps: int = 3) -> Tensor:
    optimizer = getattr(optim, name)([parameter], **options)
    for step in range(steps):
        parameter.grad = fastdist.tensor(gradient(step), dtype=parameter.dtype)
        optimizer.step()
    return parameter


def leaf() -> Tensor:
    return fastdist.tensor(start(), dtype=fastdist.float64, requires_grad=True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", WITH_GRAPHS)
def test_a_differentiable_step_has_the_same_values_and_a_graph(name: str) -> None:
    for options in combinations(name):
        expected = stepped(name, options, leaf())
        first = leaf()
        found = stepped(name, {**options, "differentiable": True}, first.clone())
        # As in PyTorch, Adam and NAdam use the step count as a float32 Tensor, which costs digits.
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=3e-4)
        found.sum().backward()
        assert first.grad is not None and np.isfinite(first.grad.numpy()).all()


# The rate has no gradient in Rprop, where it only sets the first step sizes, and in ASGD, which
# keeps it as a number.
@pytest.mark.parametrize("name", [name for name in WITH_GRAPHS if name not in ("Rprop", "ASGD")])
def test_a_differentiable_step_tells_what_the_rate_changed(name: str) -> None:
    options = {"weight_decay": 0.1}
    lr, eps = 0.03, 1e-6

    def end(at: float | Tensor) -> Tensor:
        # The rate is a Tensor, because Adam rounds divisors to float32 if they are numbers.
        rate = at if isinstance(at, Tensor) else fastdist.tensor(at, dtype=fastdist.float64)
        return stepped(name, {**options, "lr": rate, "differentiable": True}, leaf().clone()).sum()

    rate = fastdist.tensor(lr, dtype=fastdist.float64, requires_grad=True)
    end(rate).backward()
    assert rate.grad is not None
    difference = (end(lr + eps) - end(lr - eps)).item() / (2 * eps)
    assert rate.grad.item() == pytest.approx(difference, rel=1e-5)


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "Adafactor"])
def test_a_rate_in_a_tensor_steps_as_a_number_does(name: str) -> None:
    expected = stepped(name, {"lr": 0.03}, leaf())
    rate = fastdist.tensor(0.03, dtype=fastdist.float64)
    found = stepped(name, {"lr": rate}, leaf())
    np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-12)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("way", ["foreach", "fused"])
def test_ways_to_compute_a_step_change_nothing(name: str, way: str) -> None:
    made = getattr(optim, name)
    if way not in inspect.signature(made).parameters:
        with pytest.raises(TypeError, match=way):
            made([leaf()], **{way: True})
        return
    expected = stepped(name, {}, leaf())
    found = stepped(name, {way: True}, leaf())
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("name", OPTIONS)
def test_parameters_on_another_device_are_changed_there(name: str) -> None:
    parameter = leaf().detach().to("sim:0").requires_grad_()
    optimizer = getattr(optim, name)([parameter])
    for step in range(3):
        parameter.grad = fastdist.tensor(gradient(step), dtype=parameter.dtype).to("sim:0")
        optimizer.step()
    assert str(parameter.device) == "sim:0"
    np.testing.assert_allclose(
        parameter.detach().cpu(), stepped(name, {}, leaf()).detach(), rtol=1e-12
    )


CAPTURABLE = ["Adadelta", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"]


@pytest.mark.parametrize("name", CAPTURABLE)
def test_capturable_is_for_parameters_on_a_device(name: str) -> None:
    with pytest.raises(
        AssertionError, match=r"^If capturable=True, params(, m.*)? and state_steps"
    ):
        stepped(name, {"capturable": True}, leaf())
    parameter = leaf().detach().to("sim:0").requires_grad_()
    optimizer = getattr(optim, name)([parameter], capturable=True)
    for step in range(3):
        parameter.grad = fastdist.tensor(gradient(step), dtype=parameter.dtype).to("sim:0")
        optimizer.step()
    assert str(optimizer.state[parameter]["step"].device) == "sim:0"
    np.testing.assert_allclose(
        parameter.detach().cpu(), stepped(name, {}, leaf()).detach(), rtol=1e-4
    )


@pytest.mark.parametrize("name", WITH_GRAPHS)
def test_foreach_refuses_to_be_differentiable(name: str) -> None:
    if name == "SGD":
        # As in PyTorch, SGD accepts both options, because its foreach updates are differentiable.
        stepped(name, {"foreach": True, "differentiable": True}, leaf().clone())
        return
    with pytest.raises(AssertionError, match="_foreach ops don't support autograd"):
        stepped(name, {"foreach": True, "differentiable": True}, leaf().clone())


BAD: list[tuple[str, dict[str, Any], str]] = [
    *((name, {"lr": -1.0}, "Invalid learning rate: -1.0") for name in [*WITH_GRAPHS, "LBFGS"]),
    *(
        (name, {"lr": fastdist.tensor([0.1, 0.2])}, "Tensor lr must be 1-element")
        for name in OPTIONS
    ),
    *(
        (name, {"weight_decay": -1}, "Invalid weight_decay value: -1")
        for name in WITH_GRAPHS
        if name != "Rprop"
    ),
    ("Adadelta", {"rho": 1.5}, "Invalid rho value: 1.5"),
    ("Adadelta", {"eps": -1}, "Invalid epsilon value: -1"),
    ("Adagrad", {"lr_decay": -1}, "Invalid lr_decay value: -1"),
    ("Adagrad", {"initial_accumulator_value": -1}, "Invalid initial_accumulator_value value: -1"),
    ("Adam", {"betas": (0.9, fastdist.tensor(0.9))}, "betas must be either both floats or both"),
    ("Adam", {"lr": fastdist.tensor(0.1), "foreach": True}, "lr as a Tensor is not supported for"),
    ("Adamax", {"betas": (1.0, 0.9)}, "Invalid beta parameter at index 0: 1.0"),
    ("NAdam", {"momentum_decay": -1}, "Invalid momentum_decay value: -1"),
    ("RAdam", {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
    ("RMSprop", {"alpha": -1}, "Invalid alpha value: -1"),
    ("RMSprop", {"momentum": -1}, "Invalid momentum value: -1"),
    ("Rprop", {"etas": (1.2, 0.5)}, "Invalid eta values: 1.2, 0.5"),
    ("SparseAdam", {"lr": 0.0}, "Invalid learning rate: 0.0"),
    ("SparseAdam", {"eps": 0.0}, "Invalid epsilon value: 0.0"),
    ("Adafactor", {"lr": -1.0}, "Learning rate should be >= 0 but is: -1.0"),
    ("Adafactor", {"beta2_decay": 0.1}, "beta2_decay should be <= 0 but is: 0.1"),
    ("Adafactor", {"eps": (-1, 1)}, "epsilon1 should be >= 0 but is: -1"),
    ("Adafactor", {"eps": (None, -1)}, "epsilon2 should be >= 0 but is: -1"),
    ("Adafactor", {"d": 0.5}, "Clipping threshold d should be >= 1 but is: 0.5"),
    ("Muon", {"momentum": -1}, "momentum should be >= 0 but is: -1"),
    ("Muon", {"weight_decay": -1}, "weight decay should be >= 0 but is: -1"),
    ("Muon", {"adjust_lr_fn": "no"}, "Adjust learning rate function no is not supported"),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "options", "message"), BAD)
def test_options_out_of_range_are_refused_in_pytorchs_words(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        getattr(optim, name)([leaf()], **options)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_refuses_what_pytorchs_refuses(name: str) -> None:
    made = getattr(optim, name)
    with pytest.raises(RuntimeError, match=r"^`fused` does not support `differentiable`"):
        made([leaf()], fused=True, differentiable=True)
    with pytest.raises(RuntimeError, match=r"^`fused` and `foreach` cannot be `True` together"):
        made([leaf()], fused=True, foreach=True)


def test_sparse_adam_refuses_dense_gradients() -> None:
    with pytest.raises(RuntimeError, match=r"^SparseAdam does not support dense gradients, please"):
        stepped("SparseAdam", {}, leaf())


@pytest.mark.parametrize("name", ["Adafactor", "Adagrad", "RMSprop"])
def test_large_parameters_follow_the_same_formula(name: str) -> None:
    # NumPy computes a step of 6 numbers, and Numba computes a step of 9,000.
    one = stepped(name, {}, leaf())
    large = fastdist.tensor(np.tile(start(), (1500, 1, 1))).requires_grad_()
    optimizer = getattr(optim, name)([large])
    for step in range(3):
        large.grad = fastdist.tensor(np.tile(gradient(step), (1500, 1, 1)))
        optimizer.step()
    np.testing.assert_allclose(
        large.detach(), np.tile(one.detach().numpy(), (1500, 1, 1)), rtol=1e-12
    )
