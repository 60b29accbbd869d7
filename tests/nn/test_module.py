"""Modules: attributes, traversal, modes, hooks, moving, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fastdist
from fastdist import nn


class Scaled(nn.Module):
    """A linear layer times a factor, with a buffer that counts calls."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.factor = nn.Parameter(fastdist.tensor(3.0))
        self.register_buffer("seen", fastdist.zeros(1))
        self.register_buffer("scratch", fastdist.zeros(1), persistent=False)

    def forward(self, x: fastdist.Tensor) -> fastdist.Tensor:
        return self.linear(x) * self.factor


def test_parameters_come_in_order_of_assignment_parents_first() -> None:
    model = nn.Sequential(Scaled(), nn.Linear(2, 1))
    names = [name for name, _ in model.named_parameters()]
    assert names == ["0.factor", "0.linear.weight", "0.linear.bias", "1.weight", "1.bias"]


def test_a_shared_parameter_is_walked_over_once() -> None:
    first = nn.Linear(2, 2)
    assert len(list(nn.Sequential(first, first).parameters())) == 2


def test_a_shared_parameter_is_walked_over_twice_if_duplicates_stay() -> None:
    first = nn.Linear(2, 2)
    named = nn.Sequential(first, first).named_parameters(remove_duplicate=False)
    assert [name for name, _ in named] == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_walks_name_modules_and_buffers() -> None:
    model = nn.Sequential(Scaled())
    assert [name for name, _ in model.named_modules()] == ["", "0", "0.linear"]
    assert [name for name, _ in model.named_buffers()] == ["0.seen", "0.scratch"]
    assert [name for name, _ in model.named_children()] == ["0"]


def test_assigning_a_parameter_replaces_a_plain_attribute() -> None:
    module = nn.Module()
    module.x = 1
    module.x = nn.Parameter(fastdist.zeros(2))
    assert [name for name, _ in module.named_parameters()] == ["x"]


def test_a_parameter_may_become_none_but_no_plain_tensor() -> None:
    module = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="cannot assign 'Tensor' as parameter 'bias'"):
        module.bias = fastdist.zeros(2)
    module.bias = None
    assert [name for name, _ in module.named_parameters()] == ["weight"]


def test_a_parameter_before_init_is_refused() -> None:
    class Hasty(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(fastdist.zeros(2))

    with pytest.raises(AttributeError, match="cannot assign parameters before Module"):
        Hasty()


@pytest.mark.parametrize(
    ("name", "message"),
    [("a.b", "parameter name can't contain"), ("", "can't be empty"), ("training", "already")],
)
def test_names_that_could_not_be_found_again_are_refused(name: str, message: str) -> None:
    with pytest.raises(KeyError) as caught:
        nn.Module().register_parameter(name, None)
    assert message in caught.value.args[0]


def test_a_non_leaf_is_no_parameter() -> None:
    module = nn.Linear(2, 2)
    result = nn.Parameter(fastdist.zeros(2))
    with pytest.raises(TypeError, match="to parameter 'x'"):
        module.register_parameter("x", result * 2)  # type: ignore[arg-type]


def test_a_missing_attribute_names_the_class() -> None:
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'wieght'"):
        _ = nn.Linear(2, 2).wieght


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Module \[Module\] is missing the required"):
        nn.Module()(1)


def test_submodules_and_parameters_are_found_by_path() -> None:
    model = nn.Sequential(Scaled())
    assert model.get_submodule("0.linear") is model[0].linear
    assert model.get_parameter("0.linear.bias") is model[0].linear.bias
    assert model.get_buffer("0.seen") is model[0].seen
    with pytest.raises(AttributeError, match="Scaled has no attribute `conv`"):
        model.get_submodule("0.conv")


def test_train_and_eval_reach_every_module() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    assert not any(module.training for module in model.eval().modules())
    assert all(module.training for module in model.train().modules())


def test_apply_calls_children_before_their_parents() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    seen: list[str] = []
    model.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "ReLU", "Sequential"]


def test_zero_grad_forgets_or_zeroes() -> None:
    module = nn.Linear(2, 1)
    module(fastdist.ones(1, 2)).sum().backward()
    module.zero_grad(set_to_none=False)
    assert module.weight.grad.tolist() == [[0.0, 0.0]]
    module.zero_grad()
    assert module.weight.grad is None


def test_requires_grad_freezes_all_parameters() -> None:
    module = nn.Linear(2, 1).requires_grad_(False)
    assert not module(fastdist.ones(1, 2)).requires_grad


def test_double_converts_parameters_gradients_and_buffers_in_place() -> None:
    model = Scaled()
    weight = model.linear.weight
    model(fastdist.ones(1, 2)).sum().backward()
    model.double()
    assert model.linear.weight is weight
    assert weight.dtype is fastdist.float64
    assert weight.grad.dtype is fastdist.float64
    assert model.seen.dtype is fastdist.float64


def test_gradients_flow_into_a_converted_parameter() -> None:
    model = nn.Linear(2, 1).double()
    model(fastdist.ones(1, 2, dtype=fastdist.float64)).sum().backward()
    assert model.weight.grad.tolist() == [[1.0, 1.0]]


def test_to_leaves_integers_alone() -> None:
    module = nn.Module()
    module.register_buffer("count", fastdist.tensor([1]))
    assert module.to(fastdist.float64).count.dtype is fastdist.int64
    with pytest.raises(TypeError, match=r"nn\.Module\.to only accepts floating point"):
        module.to(fastdist.int32)


def test_a_model_moves_to_another_device_and_computes_there() -> None:
    model = nn.Linear(2, 1).to("sim:0")
    out = model(fastdist.ones(1, 2, device="sim:0"))
    assert str(out.device) == "sim:0"
    out.sum().backward()
    assert model.weight.grad.cpu().tolist() == [[1.0, 1.0]]


def test_forward_hooks_see_and_replace() -> None:
    model = nn.Identity()
    model.register_forward_pre_hook(lambda module, args: args[0] + 1)
    handle = model.register_forward_hook(lambda module, args, out: out * 10)
    assert model(fastdist.tensor(1.0)).item() == 20.0
    handle.remove()
    assert model(fastdist.tensor(1.0)).item() == 2.0


def test_forward_hooks_run_in_order_and_prepended_ones_first() -> None:
    model = nn.Identity()
    seen: list[str] = []
    model.register_forward_hook(lambda *_: seen.append("second"))
    model.register_forward_hook(lambda *_: seen.append("first"), prepend=True)
    model(1)
    assert seen == ["first", "second"]


def test_hooks_with_kwargs_see_and_replace_them() -> None:
    class Power(nn.Module):
        def forward(self, x: float, *, to: int) -> float:
            return x**to

    model = Power()
    model.register_forward_pre_hook(lambda m, args, kwargs: (args, {"to": 3}), with_kwargs=True)
    model.register_forward_hook(lambda m, args, kwargs, out: (kwargs, out), with_kwargs=True)
    assert model(2, to=2) == ({"to": 3}, 8)


def test_a_hook_may_insist_on_being_called_when_forward_raises() -> None:
    model = nn.Module()
    seen: list[object] = []
    model.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with pytest.raises(NotImplementedError):
        model(1)
    assert seen == [None]


def test_a_hook_that_fails_after_forward_did_does_not_hide_its_error() -> None:
    model = nn.Module()
    seen: list[object] = []
    model.register_forward_hook(lambda m, args, out: 1 / 0, always_call=True)
    model.register_forward_hook(lambda m, args, out: seen.append(out), always_call=True)
    with (
        pytest.warns(
            UserWarning, match="silenced as another error was raised in forward: division"
        ),
        pytest.raises(NotImplementedError),
    ):
        model(1)
    assert seen == [None]


def test_a_copy_shares_nothing_with_its_original() -> None:
    model = Scaled()
    twin = copy.deepcopy(model)
    with fastdist.no_grad():
        model.factor.fill_(7.0)
    assert twin.factor.item() == 3.0
    assert isinstance(twin.factor, nn.Parameter)


def test_a_model_travels_through_pickle() -> None:
    model = Scaled()
    twin = pickle.loads(pickle.dumps(model))
    x = fastdist.ones(1, 2)
    assert twin(x).tolist() == model(x).tolist()
    assert [n for n, _ in twin.named_parameters()] == [n for n, _ in model.named_parameters()]


def test_a_shared_layer_stays_shared_in_copies() -> None:
    layer = nn.Linear(2, 2)
    for twin in (
        copy.deepcopy(nn.Sequential(layer, layer)),
        pickle.loads(pickle.dumps(nn.Sequential(layer, layer))),
    ):
        assert twin[0].weight is twin[1].weight


def test_a_deleted_attribute_is_gone() -> None:
    model = Scaled()
    del model.linear
    assert [name for name, _ in model.named_parameters()] == ["factor"]


def test_dir_lists_what_was_registered() -> None:
    assert {"linear", "factor", "seen", "forward"} <= set(dir(Scaled()))


def test_parameter_is_found_where_pytorch_has_it_too() -> None:
    from fastdist.nn.parameter import Parameter

    assert Parameter is fastdist.nn.Parameter is fastdist.nn.parameter.Parameter


def test_to_may_be_overridden_by_the_methods_that_convert() -> None:
    class Own(nn.Linear):
        def to(self, device: Any) -> Any:  # type: ignore[override]
            return self.cpu() if str(device) == "cpu" else self.double()

    model = Own(2, 2)
    assert model.to("cpu") is model and model.to("other").weight.dtype is fastdist.float64
    assert model.half().bfloat16().float().weight.dtype is fastdist.float32


def test_names_of_a_subclass_s_own_methods_do_not_meet_those_of_module() -> None:
    """A subclass may define any method that PyTorch's Module does not have."""
    names = [
        *("_load", "_at", "_forget", "_members", "_own_entries", "_require_name", "_state_hooks"),
        *("_add_state_hook", "_has_extra_state", "_require_other"),
    ]
    own = {name: lambda self, path: f"from {path}" for name in names}
    model = type("Model", (nn.Linear,), own)(2, 2)
    other = nn.Linear(2, 2)
    model.register_load_state_dict_post_hook(lambda module, keys: None)
    assert model.load_state_dict(other.state_dict()).missing_keys == []
    assert fastdist.equal(model.get_parameter("weight"), other.weight)
    model.register_buffer("scale", fastdist.ones(1))
    model.scale = None
    assert len(list(model.parameters())) == 2 and model._load("here") == "from here"
