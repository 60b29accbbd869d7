"""State dicts have PyTorch's keys in PyTorch's order, and load as in PyTorch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fastdist
from fastdist import Tensor, optim

# Made with PyTorch 2.13: (optimiser, options, state, keys of a group). A state entry is
# name:dtype:axes for a tensor, else name:type.
ROWS: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "SGD",
        {"momentum": 0.9},
        "momentum_buffer:float32:2",
        "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused params",
    ),
    (
        "Adam",
        {"amsgrad": True},
        "step:float32:0 exp_avg:float32:2 exp_avg_sq:float32:2 max_exp_avg_sq:float32:2",
        (
            "lr betas eps weight_decay amsgrad maximize foreach capturable "
            "differentiable fused decoupled_weight_decay params"
        ),
    ),
    (
        "AdamW",
        {},
        "step:float32:0 exp_avg:float32:2 exp_avg_sq:float32:2",
        (
            "lr betas eps weight_decay amsgrad maximize foreach capturable "
            "differentiable fused decoupled_weight_decay params"
        ),
    ),
    (
        "Adadelta",
        {},
        "step:float32:0 square_avg:float32:2 acc_delta:float32:2",
        "lr rho eps weight_decay maximize capturable foreach differentiable params",
    ),
    (
        "Adagrad",
        {},
        "step:float32:0 sum:float32:2",
        (
            "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize "
            "differentiable fused params"
        ),
    ),
    (
        "Adamax",
        {},
        "step:float32:0 exp_avg:float32:2 exp_inf:float32:2",
        "lr betas eps weight_decay foreach maximize differentiable capturable params",
    ),
    (
        "ASGD",
        {},
        "step:float32:0 eta:float32:0 mu:float32:0 ax:float32:2",
        "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable params",
    ),
    (
        "NAdam",
        {},
        "step:float32:0 mu_product:float32:0 exp_avg:float32:2 exp_avg_sq:float32:2",
        (
            "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize "
            "foreach capturable differentiable params"
        ),
    ),
    (
        "RAdam",
        {},
        "step:float32:0 exp_avg:float32:2 exp_avg_sq:float32:2",
        (
            "lr betas eps weight_decay maximize foreach capturable "
            "decoupled_weight_decay differentiable params"
        ),
    ),
    (
        "RMSprop",
        {"momentum": 0.9, "centered": True},
        "step:float32:0 square_avg:float32:2 momentum_buffer:float32:2 grad_avg:float32:2",
        (
            "lr momentum alpha eps centered weight_decay capturable foreach maximize "
            "differentiable params"
        ),
    ),
    (
        "Rprop",
        {},
        "step:float32:0 prev:float32:2 step_size:float32:2",
        "lr etas step_sizes foreach maximize differentiable capturable params",
    ),
    (
        "Adafactor",
        {},
        "step:float32:0 row_var:float32:2 col_var:float32:2",
        "lr beta2_decay eps d weight_decay foreach maximize params",
    ),
    (
        "Muon",
        {},
        "momentum_buffer:float32:2",
        "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn params",
    ),
    (
        "SparseAdam",
        {},
        "step:int exp_avg:float32:2 exp_avg_sq:float32:2",
        "lr betas eps maximize params",
    ),
    (
        "LBFGS",
        {},
        # PyTorch has the same keys in another order: d, t and al are between n_iter and old_dirs.
        (
            "func_evals:int n_iter:int old_dirs:list old_stps:list ro:list H_diag:float32:0 "
            "prev_flat_grad:float32:1 prev_loss:float d:float32:1 t:int al:list"
        ),
        ("lr max_iter max_eval tolerance_grad tolerance_change history_size line_search_fn params"),
    ),
]


def leaf(dtype: Any = fastdist.float32, value: float = 1.0) -> Tensor:
    return fastdist.full((2, 2), value, dtype=dtype).requires_grad_()


def stepped(name: str, parameter: Tensor, count: int = 2, **options: Any) -> Any:
    optimizer = getattr(optim, name)([parameter], **options)
    go(optimizer, parameter, count)
    return optimizer


def go(optimizer: optim.Optimizer, parameter: Tensor, count: int, first: int = 0) -> None:
    for number in range(first, first + count):

        def closure(number: int = number) -> Tensor:
            gradient = fastdist.full_like(parameter, 0.5 - number).detach()
            is_sparse = isinstance(optimizer, optim.SparseAdam)
            parameter.grad = gradient.to_sparse(1) if is_sparse else gradient
            return parameter.sum()

        if not isinstance(optimizer, optim.LBFGS):
            closure()
            optimizer.step()
        else:
            optimizer.step(closure)


def shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype.name}:{value.ndim}"
    return type(value).__name__


@pytest.mark.parametrize(("name", "options", "state", "group"), ROWS)
def test_keys_are_pytorchs(name: str, options: dict[str, Any], state: str, group: str) -> None:
    saved = stepped(name, leaf(), **options).state_dict()
    found = [f"{key}:{shown(value)}" for key, value in saved["state"][0].items()]
    assert " ".join(found) == state
    assert " ".join(saved["param_groups"][0]) == group


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "options", "_", "__"), ROWS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_run_goes_on_from_a_state_dict(
    name: str, options: dict[str, Any], _: str, __: str, copied: Any
) -> None:
    whole = leaf()
    stepped(name, whole, 4, **options)
    first = leaf()
    saved = copied(stepped(name, first, 2, **options).state_dict())
    second = first.detach().clone().requires_grad_()
    later = getattr(optim, name)([second])
    later.load_state_dict(saved)
    go(later, second, 2, first=2)
    assert second.tolist() == whole.tolist()


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "options", "_", "__"), ROWS)
def test_loading_follows_the_parameter_but_for_the_count_of_steps(
    name: str, options: dict[str, Any], _: str, __: str
) -> None:
    saved = stepped(name, leaf(), **options).state_dict()
    wide = leaf(fastdist.float64)
    later = getattr(optim, name)([wide])
    later.load_state_dict(saved)
    for key, value in later.state[wide].items():
        if not isinstance(value, Tensor):
            assert shown(value) == shown(saved["state"][0][key]), key
            continue
        assert value.dtype is (fastdist.float32 if key == "step" else fastdist.float64), key
        assert value is not saved["state"][0][key]
    go(later, wide, 1)


@pytest.mark.parametrize("name", ["Adam", "Adagrad"])
def test_what_is_fused_counts_where_the_parameter_is(name: str) -> None:
    saved = stepped(name, leaf(), fused=True).state_dict()
    moved = leaf().detach().to("sim:0").requires_grad_()
    later = getattr(optim, name)([moved])
    later.load_state_dict(saved)
    assert {str(value.device) for value in later.state[moved].values()} == {"sim:0"}
    assert later.param_groups[0]["fused"] is True


@pytest.mark.parametrize("name", ["Adam", "AdamW", "ASGD", "NAdam", "RMSprop", "Rprop", "Adagrad"])
def test_state_dicts_of_old_have_numbers_and_fewer_options(name: str) -> None:
    optimizer = stepped(name, leaf())
    saved = copy.deepcopy(optimizer.state_dict())
    for key, value in saved["state"][0].items():
        if value.ndim == 0:
            saved["state"][0][key] = value.item()
    for option in ("foreach", "maximize", "capturable", "differentiable", "fused", "amsgrad"):
        saved["param_groups"][0].pop(option, None)
    parameter = leaf()
    later = getattr(optim, name)([parameter])
    later.load_state_dict(saved)
    go(later, parameter, 1)
    assert later.param_groups[0].keys() == optimizer.param_groups[0].keys()
    assert isinstance(later.state[parameter]["step"], Tensor)


def test_adamw_decays_apart_whatever_was_saved() -> None:
    saved = stepped("Adam", leaf()).state_dict()
    later = optim.AdamW([leaf()])
    later.load_state_dict(saved)
    assert later.param_groups[0]["decoupled_weight_decay"] is True


def test_names_are_kept_unless_others_are_loaded() -> None:
    named, plain = optim.SGD([("a", leaf())]), optim.SGD([leaf()])
    named.load_state_dict(plain.state_dict())
    assert named.param_groups[0]["param_names"] == ["a"]
    named.load_state_dict(optim.SGD([("z", leaf())]).state_dict())
    assert named.param_groups[0]["param_names"] == ["z"]


def test_groups_are_all_with_or_all_without_names() -> None:
    with pytest.raises(ValueError, match=r"^all optimizer params should be with/without names"):
        optim.SGD([("a", leaf()), leaf()])  # type: ignore[list-item]
    named = optim.SGD([("a", leaf())])
    with pytest.raises(ValueError, match=r"^all optimizer param groups should be with/without"):
        named.add_param_group({"params": [leaf()]})


def test_the_dict_of_a_group_is_the_group() -> None:
    group = {"params": [leaf()]}
    optimizer = optim.SGD([group], lr=0.5)
    assert optimizer.param_groups[0] is group and group["lr"] == 0.5  # type: ignore[comparison-overlap]


def test_an_option_that_each_group_must_say() -> None:
    class Sign(optim.Optimizer):
        def __init__(self, params: Any, lr: Any = optim.optimizer.required) -> None:
            super().__init__(params, {"lr": lr})

    with pytest.raises(
        ValueError, match=r"^parameter group didn't specify a value of required opt"
    ):
        Sign([leaf()])
    assert Sign([{"params": leaf(), "lr": 2.0}]).param_groups[0]["lr"] == 2.0


def test_what_retains_its_gradient_may_be_stepped() -> None:
    made = leaf() * 2
    made.retain_grad()
    optimizer = optim.SGD([made], lr=0.5)
    made.sum().backward()
    with fastdist.no_grad():
        optimizer.step()
    assert made.tolist() == [[1.5, 1.5], [1.5, 1.5]]
