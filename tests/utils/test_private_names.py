"""PyTorch's private files below utils can be imported by their names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
from fastdist.utils import _contextlib, _foreach_utils, _python_dispatch, deterministic, hooks


class Counting(_contextlib._DecoratorContextManager):
    opened = 0

    def __enter__(self) -> None:
        type(self).opened += 1

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        type(self).opened -= 1


def test_a_context_manager_decorates_functions_and_generators() -> None:
    @Counting()
    def inside() -> int:
        return Counting.opened

    @Counting()
    def steps() -> Iterator[int]:
        got = yield Counting.opened
        yield got + Counting.opened

    walk: Any = steps()
    assert inside() == 1
    assert (next(walk), Counting.opened) == (1, 0)
    assert walk.send(10) == 11
    with pytest.raises(KeyError):
        walk.throw(KeyError)
    assert Counting.opened == 0


def test_a_hook_that_is_not_marked_is_warned_of() -> None:
    class Holder:
        _backward_hooks = {1: hooks.unserializable_hook(lambda g: g)}  # noqa: RUF012

    hooks.warn_if_has_hooks(Holder())
    Holder._backward_hooks[2] = print
    with pytest.warns(UserWarning, match="will not be serialized"):
        hooks.warn_if_has_hooks(Holder())


def test_a_wrapper_of_tensors_is_recognised_and_a_dispatch_mode_refuses_to_open() -> None:
    class Wrapper(fastdist.Tensor):
        __slots__ = ()

        def __tensor_flatten__(self) -> Any:
            return [], None

        __tensor_unflatten__ = __tensor_flatten__

    assert not _python_dispatch.is_traceable_wrapper_subclass(fastdist.ones(1))
    assert _python_dispatch.is_traceable_wrapper_subclass(fastdist.ones(1).as_subclass(Wrapper))
    with pytest.raises(NotImplementedError, match="TorchFunctionMode"):
        _python_dispatch.TorchDispatchMode().__enter__()


def test_plain_tensors_may_be_stepped_together() -> None:
    cpu = fastdist.device("cpu")
    assert _foreach_utils._has_foreach_support([fastdist.ones(1), None], cpu)
    assert not _foreach_utils._has_foreach_support([fastdist.nn.UninitializedBuffer()], cpu)


def test_the_switch_for_new_memory_takes_bools_only() -> None:
    assert deterministic.fill_uninitialized_memory is True
    deterministic.fill_uninitialized_memory = False
    assert deterministic.fill_uninitialized_memory is False
    deterministic.fill_uninitialized_memory = True
    with pytest.raises(TypeError, match="expected a bool"):
        deterministic.fill_uninitialized_memory = 1  # type: ignore[assignment]


def test_private_names_of_checkpoints() -> None:
    from fastdist.utils import checkpoint

    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint.check_backward_validity([fastdist.ones(1)])
    assert checkpoint._infer_device_type(fastdist.ones(1, device="sim:0")) == "sim"
    assert checkpoint._infer_device_type(fastdist.ones(1)) == "cuda"
    assert checkpoint._get_device_module("cpu") is fastdist.cpu
    with fastdist.autocast("cpu", dtype=fastdist.bfloat16):
        assert checkpoint._get_autocast_kwargs("cpu")[1]["dtype"] is fastdist.bfloat16
    assert checkpoint._get_autocast_kwargs("cpu")[1]["enabled"] is False
    assert checkpoint.CheckpointPolicy.MUST_SAVE.name == "MUST_SAVE"


def test_a_callback_runs_after_the_pass() -> None:
    engine = fastdist.autograd.Variable._execution_engine
    order: list[str] = []
    x = fastdist.ones(1, requires_grad=True)
    x.register_hook(lambda g: engine.queue_callback(lambda: order.append("end")))
    y = x * 2
    y.register_hook(lambda g: order.append("hook"))
    y.sum().backward()
    assert order == ["hook", "end"]
    with pytest.raises(RuntimeError, match="during backward pass"):
        engine.queue_callback(print)
