"""Policies that choose which modules of a model are wrapped."""

from __future__ import annotations

import functools
from typing import Any

import fastdist.nn as nn
from fastdist.distributed.fsdp import MixedPrecision, ShardingStrategy, StateDictType, api
from fastdist.distributed.fsdp.wrap import (
    ModuleWrapPolicy,
    _or_policy,
    always_wrap_policy,
    enable_wrap,
    lambda_auto_wrap_policy,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
    wrap_below,
)


class Wrapper(nn.Module):
    def __init__(self, module: nn.Module, **options: Any) -> None:
        super().__init__()
        self.module = module
        self.options = options


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(10, 10), nn.Sequential(nn.Linear(2, 2), nn.Tanh()))


def wrapped(policy: Any) -> list[str]:
    whole, _ = wrap_below(model(), policy, Wrapper, set())
    return [name for name, module in whole.named_modules() if isinstance(module, Wrapper)]


def test_policies_by_class_wrap_modules_of_the_class() -> None:
    by_class = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.Linear})
    assert wrapped(by_class) == wrapped(ModuleWrapPolicy({nn.Linear})) == ["0", "1.0"]
    by_function = functools.partial(
        lambda_auto_wrap_policy, lambda_fn=lambda module: isinstance(module, nn.Tanh)
    )
    assert wrapped(by_function) == ["1.1"]
    either = functools.partial(_or_policy, policies=[by_class, by_function])
    assert wrapped(either) == ["0", "1.0", "1.1"]
    assert wrapped(always_wrap_policy) == ["", "module.0", "module.1", "module.1.module.0",
                                           "module.1.module.1"]  # fmt: skip


def test_the_policy_by_size_counts_parameters_that_are_not_wrapped_yet() -> None:
    def policy(count: int, **more: Any) -> Any:
        return functools.partial(size_based_auto_wrap_policy, min_num_params=count, **more)

    assert wrapped(policy(110)) == ["0"]  # the remaining parameters have 6 elements
    assert wrapped(policy(111)) == [""]
    assert wrapped(policy(117)) == []
    assert wrapped(policy(6, exclude_wrap_modules={nn.Linear})) == ["", "module.1"]
    assert wrapped(policy(6, force_leaf_modules={nn.Sequential})) == []


def test_wrap_wraps_within_enable_wrap_alone() -> None:
    linear = nn.Linear(1, 1)
    assert wrap(linear) is linear
    with enable_wrap(wrapper_cls=Wrapper, kind="outer", size=1):
        found = wrap(linear, size=2)
    assert isinstance(found, Wrapper) and found.module is linear
    assert found.options == {"kind": "outer", "size": 2}
    assert wrap(linear) is linear


def test_options_have_pytorch_defaults() -> None:
    assert MixedPrecision().cast_root_forward_inputs and not MixedPrecision().cast_forward_inputs
    assert MixedPrecision()._module_classes_to_ignore == (nn.BatchNorm1d.__mro__[1],)
    assert [one.value for one in ShardingStrategy] == [1, 2, 3, 4, 5]
    assert StateDictType.SHARDED_STATE_DICT.value == 3
    assert api.FullOptimStateDictConfig().offload_to_cpu
    assert not api.FullStateDictConfig().offload_to_cpu
