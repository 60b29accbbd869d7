"""Models as functions of their parameters, and queries about the level and axis of batches."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fastdist as fd
from fastdist import func, nn
from fastdist._C import _functorch as batches
from fastdist._functorch.make_functional import (
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)
from fastdist._functorch.vmap import _get_name, _maybe_remove_batch_dim

X = fd.tensor([[1.0, -2.0], [3.0, 4.0]])


def test_a_module_is_a_function_of_its_parameters() -> None:
    model = nn.Linear(2, 1)
    call, params = make_functional(model)
    assert fd.equal(call(params, X), model(X))
    gradient = func.grad(lambda params: call(params, X).sum())(params)
    assert gradient[0].tolist() == [[4.0, 2.0]] and params[0] is not model.weight
    assert not make_functional(model, disable_autograd_tracking=True)[1][0].requires_grad
    with pytest.raises(RuntimeError, match="`model` has buffers"):
        make_functional(nn.BatchNorm1d(2))


def test_buffers_are_passed_after_parameters() -> None:
    model = nn.BatchNorm1d(2).eval()
    call, params, buffers = make_functional_with_buffers(model)
    moved = (buffers[0] + 1, *buffers[1:])
    assert fd.allclose(call(params, moved, X), model(X - 1))


def test_models_are_stacked_for_vmap() -> None:
    models = [nn.Linear(2, 1) for _ in range(3)]
    call, params, buffers = combine_state_for_ensemble(models)
    every = fd.vmap(call, in_dims=(0, 0, None))(params, buffers, X)
    assert fd.allclose(every, fd.stack([model(X) for model in models]))


def test_batches_are_known_by_level_and_axis() -> None:
    seen = []

    def look(x: fd.Tensor) -> fd.Tensor:
        seen.append((batches.maybe_get_level(x), batches.maybe_get_bdim(x)))
        assert batches.is_batchedtensor(x) and batches.maybe_current_level() == 1
        assert batches.get_unwrapped(x).shape == (2, 2)
        again = batches._add_batch_dim(batches._remove_batch_dim(x, 1, 2, 1), 1, 1)
        return _maybe_remove_batch_dim("look", 2 * again, 1, 2, 0).sum(0)

    assert fd.vmap(look)(X).tolist() == [[8.0, 4.0], [8.0, 4.0]] and seen == [(1, 0)]
    assert (batches.maybe_get_level(X), batches.maybe_get_bdim(X)) == (-1, -1)
    assert batches.maybe_current_level() is None
    with pytest.raises(RuntimeError, match="No wrappers present"):
        batches.get_unwrapped(X)
    with pytest.raises(ValueError, match=r"`f` must only return Tensors, got type <class 'int'>"):
        _maybe_remove_batch_dim("f", 3, 1, 2, 0)
    assert _get_name(nn.ReLU()) == "ReLU()" and _get_name(len) == "len"


def test_functorch_is_there_where_fastdist_is_torch() -> None:
    text = "import torch, functorch; print(functorch.vmap is torch.vmap, functorch.__version__)"
    done = subprocess.run(
        [sys.executable, "-m", "fastdist", "as-torch", "-c", text],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["True", "2.13.0+fastdist"]


def test_a_package_replaces_the_steps_of_vmap(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastdist._functorch import vmap as steps
    from fastdist.namespace.vmap import replaced_steps

    def process(in_dims: object, args: tuple[dict[str, fd.Tensor]], func: object) -> object:
        return len(args[0]["x"]), in_dims, args[0], "spec"

    def create(dims: int, given: dict[str, fd.Tensor], level: int, spec: str) -> object:
        return [{key: steps._add_batch_dim(one, dims, level) for key, one in given.items()}]

    def unwrap(found: fd.Tensor, dims: int, level: int, size: int, func: object) -> object:
        return {"sum": steps._maybe_remove_batch_dim("f", found, level, size, dims)}

    with monkeypatch.context() as patch:
        patch.setattr(steps, "_process_batched_inputs", process, raising=False)
        patch.setattr(steps, "_create_batched_inputs", create, raising=False)
        patch.setattr(steps, "_unwrap_batched", unwrap, raising=False)
        assert fd.vmap(lambda given: given["x"].sum())({"x": X})["sum"].tolist() == [-1.0, 7.0]
        replaced_steps.clear()
    assert not replaced_steps and fd.vmap(fd.sum)(X).tolist() == [-1.0, 7.0]
