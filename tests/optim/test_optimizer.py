"""Common parts of all optimisers: groups, state dicts, gradients and copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fastdist
from fastdist import Tensor, nn, optim


def leaf(*values: float) -> Tensor:
    return fastdist.tensor(list(values), requires_grad=True)


def test_step_changes_only_parameters_with_gradients() -> None:
    first, second = leaf(1.0), leaf(1.0)
    optimizer = optim.SGD([first, second], lr=0.5)
    first.grad = fastdist.tensor([1.0])
    optimizer.step()
    assert (first.item(), second.item()) == (0.5, 1.0)


def test_a_step_counts_as_a_change_in_place_and_leaves_no_graph() -> None:
    parameter = leaf(1.0)
    parameter.grad = fastdist.tensor([1.0])
    version = parameter._version
    optim.SGD([parameter], lr=0.5).step()
    assert parameter._version == version + 1
    assert parameter.grad_fn is None


def test_a_step_between_forward_and_backward_is_found_out() -> None:
    parameter = leaf(1.0)
    loss = (parameter * parameter).sum()
    parameter.grad = fastdist.tensor([1.0])
    optim.SGD([parameter], lr=0.5).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_the_closure_runs_with_grad_mode_on_and_its_result_is_returned() -> None:
    parameter = leaf(2.0)
    optimizer = optim.SGD([parameter], lr=0.5)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (parameter * parameter).sum()
        loss.backward()
        return loss

    with fastdist.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert parameter.item() == 0.0


def test_zero_grad_forgets_or_zeroes() -> None:
    parameter = leaf(2.0)
    optimizer = optim.SGD([parameter])
    parameter.grad = fastdist.tensor([1.0])
    optimizer.zero_grad(set_to_none=False)
    assert parameter.grad.tolist() == [0.0]
    optimizer.zero_grad()
    assert parameter.grad is None


def test_groups_have_options_of_their_own() -> None:
    first, second = leaf(1.0), leaf(1.0)
    optimizer = optim.SGD([{"params": [first]}, {"params": second, "lr": 1.0}], lr=0.5)
    for parameter in (first, second):
        parameter.grad = fastdist.tensor([1.0])
    optimizer.step()
    assert (first.item(), second.item()) == (0.5, 0.0)


def test_named_parameters_keep_their_names() -> None:
    optimizer = optim.SGD(nn.Linear(1, 1).named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (optim.SGD, TypeError, "params argument given to the optimizer should be"),
        (lambda p: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
        (lambda p: optim.SGD([1]), TypeError, "optimizer can only optimize Tensors"),
        (lambda p: optim.SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
        (
            lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]),
            ValueError,
            "some parameters appear in more than one parameter group",
        ),
        (lambda p: optim.SGD([{"params": {p}}]), TypeError, "optimizer parameters need to be"),
        (lambda p: optim.SGD([p], lr=-1.0), ValueError, "Invalid learning rate: -1.0"),
        (lambda p: optim.SGD([p], momentum=-1.0), ValueError, "Invalid momentum value: -1.0"),
        (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda p: optim.Adam([p], betas=(1.0, 0.5)), ValueError, "Invalid beta parameter at"),
        (
            lambda p: optim.Adam([p], differentiable=True, fused=True),
            RuntimeError,
            "`fused` does not support `differentiable`",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(leaf(1.0))


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
def test_a_parameter_twice_in_a_group_is_warned_of_where_the_optimiser_is_made(make: Any) -> None:
    parameter = leaf(1.0)
    text = "^optimizer contains a parameter group with duplicate parameters; in future, this will"
    with pytest.warns(UserWarning, match=text) as made:
        optimizer = make([parameter, parameter], lr=0.5)
    others = {"params": [leaf(1.0)] * 2}
    with pytest.warns(UserWarning, match=text) as added:
        optimizer.add_param_group(others)
    assert [warning.filename for warning in (*made, *added)] == [__file__, __file__]


def test_a_parameter_twice_in_a_group_is_stepped_twice() -> None:
    parameter = leaf(1.0)
    parameter.grad = fastdist.tensor([1.0])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([parameter, parameter], lr=0.25)
    optimizer.step()
    assert parameter.item() == 0.5


def test_a_state_dict_of_a_parameter_twice_in_a_group_loads() -> None:
    parameter = leaf(1.0)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([parameter, parameter], lr=0.25, momentum=0.5)
    optimizer.step_with({parameter: fastdist.tensor([4.0])})
    before = optimizer.state[parameter]["momentum_buffer"].item()
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state[parameter]["momentum_buffer"].item() == before


def test_step_with_uses_the_given_gradients_and_leaves_grad_alone() -> None:
    first, second = leaf(1.0), leaf(1.0)
    first.grad = fastdist.tensor([100.0])
    optimizer = optim.SGD([first, second], lr=0.5)
    optimizer.step_with({second: fastdist.tensor([1.0])})
    assert (first.item(), second.item()) == (1.0, 0.5)
    assert first.grad.item() == 100.0
    assert second.grad is None


def test_step_with_reaches_an_optimiser_whose_step_is_wrapped() -> None:
    class Counting(optim.SGD):
        steps = 0

        def step(self, closure: Any = None) -> Any:
            self.steps += 1
            return super().step(closure)

    parameter = leaf(1.0)
    optimizer = Counting([parameter], lr=0.5)
    optimizer.step_with({parameter: fastdist.tensor([1.0])})
    assert (optimizer.steps, parameter.item()) == (1, 0.5)


def test_step_with_reaches_an_optimiser_that_reads_grad_itself() -> None:
    class Sign(optim.Optimizer):
        def step(self, closure: Any = None) -> Any:
            with fastdist.no_grad():
                for parameter in self.param_groups[0]["params"]:
                    if parameter.grad is not None:
                        parameter.sub_(parameter.grad.sign())

    first, second = leaf(1.0), leaf(1.0)
    first.grad = fastdist.tensor([-7.0])
    Sign([first, second], {}).step_with({second: fastdist.tensor([3.0])})
    assert (first.item(), second.item()) == (1.0, 0.0)
    assert first.grad.item() == -7.0


def test_gradients_that_do_not_fit_are_refused() -> None:
    parameter = leaf(1.0, 2.0)
    optimizer = optim.SGD([parameter])
    with pytest.raises(ValueError, match=r"a gradient is \(1,\) of float32 on cpu"):
        optimizer.step_with({parameter: fastdist.tensor([1.0])})


def test_step_hooks_are_called_before_and_after() -> None:
    parameter = leaf(1.0)
    parameter.grad = fastdist.tensor([1.0])
    optimizer = optim.SGD([parameter], lr=0.5)
    seen: list[float] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append(parameter.item()))
    optimizer.register_step_post_hook(lambda *_: seen.append(parameter.item()))
    optimizer.step()
    assert seen == [1.0, 0.5]


def train(optimizer: optim.Optimizer, parameter: Tensor, steps: int) -> list[float]:
    for _ in range(steps):
        optimizer.zero_grad()
        (parameter * parameter).sum().backward()
        optimizer.step()
    return parameter.tolist()  # type: ignore[no-any-return]


def test_a_state_dict_lets_another_optimiser_go_on() -> None:
    whole, first = leaf(1.0, -2.0), leaf(1.0, -2.0)
    expected = train(optim.Adam([whole], lr=0.1), whole, 6)
    before = optim.Adam([first], lr=0.1)
    train(before, first, 3)
    after = optim.Adam([first], lr=7.0)
    after.load_state_dict(pickle.loads(pickle.dumps(before.state_dict())))
    assert train(after, first, 3) == expected


def test_a_state_dict_names_parameters_by_number() -> None:
    parameter = leaf(1.0)
    optimizer = optim.SGD([parameter], lr=0.1, momentum=0.9)
    train(optimizer, parameter, 1)
    state = optimizer.state_dict()
    assert state["param_groups"][0]["params"] == [0]
    assert state["state"][0]["momentum_buffer"].tolist() == [2.0]


def test_loading_copies_and_follows_the_dtype() -> None:
    parameter, other = leaf(1.0), fastdist.zeros(1, dtype=fastdist.float64, requires_grad=True)
    optimizer = optim.SGD([parameter], lr=0.1, momentum=0.9)
    train(optimizer, parameter, 1)
    twin = optim.SGD([other], lr=0.1, momentum=0.9)
    twin.load_state_dict(optimizer.state_dict())
    train(optimizer, parameter, 1)
    buffer = twin.state[other]["momentum_buffer"]
    assert buffer.dtype is fastdist.float64
    assert buffer.tolist() == [2.0]


def test_a_state_dict_of_other_groups_is_refused() -> None:
    one, two = optim.SGD([leaf(1.0)]), optim.SGD([leaf(1.0), leaf(1.0)])
    with pytest.raises(ValueError, match="doesn't match the size of optimizer's group"):
        two.load_state_dict(one.state_dict())
    two.add_param_group({"params": leaf(1.0)})
    with pytest.raises(ValueError, match="different number of parameter groups"):
        two.load_state_dict(one.state_dict())


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_an_optimiser_travels_with_its_model(twin_of: Any) -> None:
    model = nn.Linear(1, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    twin_model, twin = twin_of((model, optimizer))
    twin_model(fastdist.ones(1, 1)).sum().backward()
    before = twin_model.bias.item()
    twin.step()
    assert twin_model.bias.item() == pytest.approx(before - 0.1)


def test_an_optimiser_prints_its_options() -> None:
    text = repr(optim.SGD([leaf(1.0)], lr=0.1))
    assert text.startswith(
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n"
    )
    assert "    lr: 0.1\n" in text
    groups = [{"params": [leaf(1.0)]}, {"params": [leaf(1.0)], "lr": 0.2}]
    assert "\n\nParameter Group 1\n" in repr(optim.SGD(groups, lr=0.1))
