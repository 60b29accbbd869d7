"""isinstance and issubclass give PyTorch's results: no two of its classes are one class here."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fastdist as fd
from fastdist import jit, multiprocessing, nn
from fastdist.distributions import constraints

NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d")
# (a class, another class, whether the first is a subclass of the second)
SUBCLASSES: list[tuple[Any, Any, bool]] = [
    (nn.Linear, jit.ScriptModule, False),
    (jit.ScriptModule, nn.Module, True),
    (jit.RecursiveScriptModule, jit.ScriptModule, True),
    (nn.Module, jit.ScriptModule, False),
    (jit.TracerWarning, Warning, True),
    (multiprocessing.SpawnContext, multiprocessing.ProcessContext, True),
    (multiprocessing.ProcessContext, multiprocessing.SpawnContext, False),
    (fd.FloatStorage, fd.TypedStorage, True),
    (fd.cuda.HalfStorage, fd.TypedStorage, True),
    (fd.FloatStorage, fd.DoubleStorage, False),
    (constraints._CorrCholesky, constraints._LowerCholesky, False),
    (constraints._LowerCholesky, constraints._LowerTriangular, False),
    *[(getattr(nn, f"Lazy{name}"), getattr(nn, name), False) for name in NORMS],
    (nn.LazyLinear, nn.Linear, True),
    (nn.LazyBatchNorm1d, nn.modules.lazy.LazyModuleMixin, True),
]


@pytest.mark.parametrize(("one", "other", "is_one"), SUBCLASSES)
def test_subclasses_are_pytorch_s(one: Any, other: Any, is_one: bool) -> None:
    assert issubclass(one, other) is is_one


@pytest.mark.filterwarnings("ignore:jit.script returns its argument")
def test_no_ordinary_module_or_function_is_compiled() -> None:
    kinds = jit.ScriptModule | jit.RecursiveScriptModule | jit.ScriptFunction
    assert not isinstance(nn.Linear(1, 1), kinds) and not isinstance(jit.script(len), kinds)
    scripted = jit.script(nn.ReLU())
    assert isinstance(scripted, jit.ScriptModule) and isinstance(
        scripted, jit.RecursiveScriptModule
    )
    assert not isinstance(nn.ReLU(), kinds)


def test_a_module_of_the_compiled_kind_runs_and_saves() -> None:
    class Doubled(jit.ScriptModule):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(1, 1)

        @jit.script_method
        def forward(self, x: fd.Tensor) -> fd.Tensor:
            return self.inner(x) * 2

    module = Doubled()
    assert isinstance(module, jit.ScriptModule) and isinstance(module, nn.Module)
    assert list(module.state_dict()) == ["inner.weight", "inner.bias"]
    assert module(fd.ones(1)).shape == (1,)
    assert jit.Attribute(3, int).value == 3


def test_storages_are_of_their_dtype_alone() -> None:
    storage = fd.ones(2).storage()
    assert isinstance(storage, fd.FloatStorage) and isinstance(storage, fd.TypedStorage)
    assert not isinstance(storage, fd.DoubleStorage) and not isinstance(storage, fd.UntypedStorage)
    assert isinstance(fd.FloatStorage(2), fd.FloatStorage)
    assert fd.FloatStorage([1.5]).tolist() == [1.5]


def test_typed_tensors_are_dense_or_sparse() -> None:
    dense, sparse = fd.eye(2), fd.eye(2).to_sparse()
    assert isinstance(dense, fd.FloatTensor) and not isinstance(dense, fd.sparse.FloatTensor)
    assert isinstance(sparse, fd.sparse.FloatTensor) and not isinstance(sparse, fd.FloatTensor)
    assert not isinstance(sparse, fd.sparse.DoubleTensor)


def test_a_buffer_without_a_shape_is_a_buffer() -> None:
    made = nn.parameter.UninitializedBuffer(persistent=False)
    for again in (made, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert isinstance(again, nn.Buffer) and not isinstance(again, nn.Parameter)
        assert again.persistent is False


@pytest.mark.parametrize("name", NORMS)
def test_lazy_norms_become_what_they_stand_for(name: str) -> None:
    lazy = getattr(nn, f"Lazy{name}")()
    assert list(lazy.state_dict())[-3:] == ["running_mean", "running_var", "num_batches_tracked"]
    shape = (2, 3, *(4,) * int(name[-2]))
    found = lazy(fd.randn(shape))
    assert type(lazy) is getattr(nn, name) and found.shape == shape and lazy.num_features == 3


def test_cholesky_constraints_check_all_that_they_name() -> None:
    factor = fd.tensor([[1.0, 0.0], [0.6, 0.8]])
    for constraint in (
        constraints.lower_triangular,
        constraints.lower_cholesky,
        constraints.corr_cholesky,
    ):
        assert constraint.event_dim == 2 and constraint.check(factor).item()
        assert not constraint.check(factor.t()).item()
    assert not constraints.lower_cholesky.check(-factor).item()
    assert not constraints.corr_cholesky.check(factor * 2).item()
