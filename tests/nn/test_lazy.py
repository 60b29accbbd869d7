"""Modules that infer the sizes of their inputs at the first call."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fastdist
from fastdist import nn
from fastdist.nn.lazy import LazyModuleMixin

CALLS = [
    (nn.LazyLinear, {"out_features": 3}, (2, 5), nn.Linear(5, 3)),
    (nn.LazyBatchNorm1d, {"bias": False}, (2, 5), nn.BatchNorm1d(5, bias=False)),
    (nn.LazyBatchNorm2d, {"affine": False}, (2, 5, 2, 2), nn.BatchNorm2d(5, affine=False)),
    (
        nn.LazyBatchNorm3d,
        {"track_running_stats": False},
        (2, 5, 2, 2, 2),
        nn.BatchNorm3d(5, track_running_stats=False),
    ),
    (
        nn.LazyInstanceNorm1d,
        {},
        (2, 5, 4),
        nn.InstanceNorm1d(5, affine=True, track_running_stats=True),
    ),
]


@pytest.mark.parametrize(("kind", "given", "shape", "same"), CALLS)
def test_the_first_call_makes_an_ordinary_module(
    kind: Any, given: dict[str, Any], shape: tuple[int, ...], same: nn.Module
) -> None:
    layer = kind(**given)
    assert layer.has_uninitialized_params()
    assert layer(fastdist.ones(shape)).shape[0] == 2
    assert repr(layer) == repr(same) and type(layer) is type(same)
    assert list(layer.state_dict()) == list(same.state_dict())
    assert not layer._forward_pre_hooks and not hasattr(layer, "_load_hook")
    assert all(type(p) is nn.Parameter and p.requires_grad for p in layer.parameters())
    assert all(type(b) is fastdist.Tensor for b in layer.buffers())


def test_a_lazy_linear_draws_what_a_linear_draws() -> None:
    fastdist.manual_seed(0)
    lazy = nn.LazyLinear(3)
    lazy(fastdist.ones(1, 4))
    fastdist.manual_seed(0)
    assert lazy.weight.equal(nn.Linear(4, 3).weight)


def test_what_has_no_shape_says_so() -> None:
    layer = nn.LazyLinear(3)
    assert repr(layer.weight) == "<UninitializedParameter>"
    assert repr(nn.LazyBatchNorm1d().running_mean) == "<UninitializedBuffer>"
    for member in (layer.weight, nn.LazyBatchNorm1d().running_mean):
        with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
            _ = member.shape
        with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized"):
            member.share_memory_()


def test_a_state_dict_gives_shapes_too() -> None:
    layer, given = nn.LazyLinear(3), nn.Linear(2, 3)
    layer.load_state_dict(given.state_dict())
    x = fastdist.ones(1, 2)
    assert layer(x).equal(given(x)) and type(layer) is nn.Linear and layer.in_features == 2


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))]
)
def test_a_copy_learns_its_sizes_by_itself(copied: Any) -> None:
    first = nn.LazyBatchNorm1d(dtype=fastdist.float64)
    second = copied(first)
    second(fastdist.ones(2, 3).double())
    assert first.has_uninitialized_params() and second.running_mean.dtype is fastdist.float64


def test_dtypes_change_before_there_are_shapes() -> None:
    layer = nn.LazyLinear(3).double()
    assert layer(fastdist.ones(1, 2).double()).dtype is fastdist.float64


def test_a_buffer_without_a_shape_is_converted_and_still_waits() -> None:
    layer = nn.LazyBatchNorm1d().double()
    assert isinstance(layer.running_mean, nn.UninitializedBuffer)
    layer(fastdist.ones(3, 2).double())
    assert layer.running_mean.shape == (2,) and layer.running_var.dtype is fastdist.float64


def test_an_uninitialized_buffer_takes_a_shape_and_becomes_a_tensor() -> None:
    buffer = nn.UninitializedBuffer(dtype=fastdist.float64)
    buffer.materialize((2, 3))
    assert type(buffer) is fastdist.Tensor
    assert buffer.shape == (2, 3) and buffer.dtype is fastdist.float64


def test_a_module_that_leaves_something_without_a_shape_is_told() -> None:
    class Half(LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, input: fastdist.Tensor) -> None:
            pass

    with pytest.raises(RuntimeError, match="module Half has not been fully initialized"):
        Half()(fastdist.ones(1))
    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for"):
        type("Bare", (LazyModuleMixin, nn.Module), {})()(fastdist.ones(1))


def test_hooks_around_state_dicts_are_called_in_their_places() -> None:
    model = nn.Sequential(nn.Linear(1, 2))
    log: list[Any] = []
    model.register_state_dict_pre_hook(lambda module, prefix, keep: log.append((prefix, keep)))
    model[0].register_state_dict_post_hook(
        lambda module, entries, prefix, meta: entries.update({f"{prefix}extra": fastdist.ones(1)})
    )
    handle = model[0].register_load_state_dict_pre_hook(
        lambda module, entries, prefix, *more: entries.pop(f"{prefix}extra") and None
    )
    model.register_load_state_dict_post_hook(lambda module, keys: log.append(list(keys[1])))
    entries = model.state_dict()
    model.load_state_dict(entries)
    assert list(entries) == ["0.weight", "0.bias", "0.extra"]
    handle.remove()
    with pytest.raises(RuntimeError, match=r'Unexpected key\(s\) in state_dict: "0.extra"'):
        model.load_state_dict(entries)
    assert log == [("", False), [], ["0.extra"]]


def test_a_hook_after_loading_may_forgive_keys() -> None:
    layer = nn.Linear(1, 2)
    layer.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    layer.load_state_dict({"weight": fastdist.ones(2, 1)})
    layer.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="are not expected to return new values"):
        layer.load_state_dict({})


def test_set_submodule_puts_a_module_at_a_path() -> None:
    model = nn.Sequential(nn.Sequential())
    model.set_submodule("0.act", nn.ReLU())
    assert isinstance(model[0].act, nn.ReLU)
    with pytest.raises(ValueError, match="Cannot set the submodule without a target name"):
        model.set_submodule("", nn.ReLU())
    with pytest.raises(AttributeError, match="Sequential has no attribute `a`"):
        model.set_submodule("a", nn.ReLU(), strict=True)
    with pytest.raises(AttributeError, match=r"`weight` is not an nn\.Module"):
        nn.Linear(1, 1).set_submodule("weight", nn.ReLU())


def test_to_empty_keeps_shapes_and_forgets_numbers() -> None:
    layer = nn.BatchNorm1d(3)
    weight = layer.weight
    assert layer.to_empty(device="sim:0") is layer and layer.weight is weight
    assert str(weight.device) == "sim:0" and weight.shape == (3,)
    assert str(layer.running_mean.device) == "sim:0"


@pytest.mark.parametrize("transposed", ["", "Transpose"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_a_lazy_convolution_takes_its_channels_from_the_first_input(
    transposed: str, axes: int
) -> None:
    kind = getattr(nn, f"LazyConv{transposed}{axes}d")
    layer = kind(4, 3, groups=2, padding=1)
    assert isinstance(layer.weight, nn.UninitializedParameter)
    x = fastdist.ones(2, 6, *[5] * axes)
    y = layer(x)
    assert type(layer) is getattr(nn, f"Conv{transposed}{axes}d") and layer.in_channels == 6
    assert layer.weight.shape[:2] == ((6, 2) if transposed else (4, 3)) and y.shape[1] == 4
    loaded = kind(4, 3, groups=2, padding=1)
    loaded.load_state_dict(layer.state_dict())
    assert (loaded(x) == y).all() and loaded.in_channels == 6
    with pytest.raises(RuntimeError, match=rf"Expected {axes + 1}D \(unbatched\) or"):
        kind(4, 3)(fastdist.ones(2, *[5] * (axes + 2)))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        kind(4, 3, groups=4)(x)


def test_what_has_no_shape_takes_part_in_nothing() -> None:
    layer = nn.LazyLinear(3)
    weight: Any = layer.weight
    for ask in (
        lambda: weight + 1,
        lambda: fastdist.ones(2, 2) @ weight,
        weight.sum,
        weight.numel,
        weight.detach,
        lambda: weight[0],
        lambda: nn.init.ones_(weight),
        lambda: nn.Parameter(weight),
        nn.LazyBatchNorm1d().running_mean.mean,
    ):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
            ask()
    with pytest.raises(RuntimeError, match="Can't share memory on an uninitialized parameter"):
        layer.share_memory()
    assert layer.double().weight.dtype is fastdist.float64 and layer.weight.is_floating_point()
    layer(fastdist.ones(1, 2, dtype=fastdist.float64))
    assert layer.weight.sum().isfinite() and layer.share_memory() is layer
