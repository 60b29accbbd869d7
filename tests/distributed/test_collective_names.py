"""Names of collectives: constants have values, and functions that would communicate raise."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import fastdist as fd
import fastdist.distributed as dist
from fastdist.core import errors
from fastdist.core.refused import refused_in
from fastdist.core.refusing import refusing_class, rows_of_modules
from fastdist.distributed.distributed_c10d import REAL

COLLECTIVES = [module for module in rows_of_modules() if module.startswith("fastdist.distributed.")]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("module", COLLECTIVES)
def test_every_name_of_the_table_can_be_imported_and_refuses_in_use(module: str) -> None:
    found = importlib.import_module(module)
    for name in refused_in(module):
        thing = getattr(found, name)
        assert thing.__name__ == name and thing.__doc__
        with pytest.raises(
            NotImplementedError,
            match=rf"{name}: (fastdist does not have it|fastdist's|a job saves)",
        ):
            thing(fd.ones(2))


def test_a_refusing_class_can_be_subclassed_and_tested_for() -> None:
    base = refusing_class("some.module", "Base", "it is not here", "make")

    class Mine(base[int]):  # type: ignore[misc]
        pass

    assert not isinstance(3, base) and issubclass(Mine, base)
    with pytest.raises(NotImplementedError, match=r"^some\.module\.Base: it is not here$"):
        Mine()
    with pytest.raises(NotImplementedError, match=r"^some\.module\.Base\.make: it is not here$"):
        Mine.make(1, two=2)


def test_a_name_has_one_class_under_all_modules() -> None:
    from fastdist.distributed import _tensor, device_mesh, tensor
    from fastdist.distributed.fsdp import fully_sharded_data_parallel

    assert _tensor.DTensor is tensor.DTensor
    assert dist.fsdp.FullyShardedDataParallel is (
        fully_sharded_data_parallel.FullyShardedDataParallel
    )
    assert dist.DeviceMesh is device_mesh.DeviceMesh
    assert dist.ReduceOp is dist.distributed_c10d.ReduceOp
    assert dist.algorithms.join.Join is dist.algorithms.Join


def test_modules_are_there_without_an_import_and_others_say_so() -> None:
    assert callable(dist.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook)
    assert callable(dist._functional_collectives.all_reduce)
    for module in (dist, dist.pipelining, dist.tensor, dist.elastic, dist.elastic.multiprocessing):
        with pytest.raises(AttributeError, match="has no attribute 'qwyx'"):
            _ = module.qwyx
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fastdist.distributed.pipelining.qwyx")


def test_real_names_are_offered_at_the_top() -> None:
    missing = {name for name in REAL if not hasattr(dist, name)}
    assert missing == set()
    assert {"ReduceOp", "all_reduce", "tensor", "fsdp"} <= {*dir(dist)}


def test_reductions_have_pytorch_names_and_numbers() -> None:
    op = dist.ReduceOp
    assert [int(value) for value in op.RedOpType] == list(range(9))
    assert isinstance(op.SUM, op) and not isinstance(3, op)
    assert repr(op.AVG) == "<RedOpType.AVG: 1>" and str(op.MAX) == "RedOpType.MAX"
    assert op(op.SUM) == op.SUM == op.RedOpType.SUM and op(op.SUM) != op.MAX
    assert hash(op(op.SUM)) == hash(op(op.SUM))
    assert dist.reduce_op.SUM is op.SUM
    complex_ones = [value.name for value in op.RedOpType if dist.supports_complex(value)]
    assert complex_ones == ["SUM", "AVG", "PREMUL_SUM"]


def test_backends_are_names_in_lower_case() -> None:
    assert dist.Backend("GLOO") == "gloo" == dist.Backend.GLOO
    assert type(dist.Backend("GLOO")) is str
    with pytest.raises(ValueError, match="must be string-ish"):
        dist.Backend(3)  # type: ignore[arg-type]
    assert dist.get_default_backend_for_device(fd.device("cpu")) == "gloo"
    assert dist.get_default_backend_for_device("cuda:1") == "nccl"
    with pytest.raises(ValueError, match="Default backend not registered for device : qwyx"):
        dist.get_default_backend_for_device("qwyx")


def test_there_is_no_group_and_which_backends_there_are() -> None:
    assert dist.group.WORLD is dist.GroupMember.WORLD is None
    assert dist.GroupMember.NON_GROUP_MEMBER == -100
    assert dist.is_available() and not dist.is_initialized() and dist.get_pg_count() == 0
    assert not dist.is_nccl_available() and not dist.is_mpi_available()
    assert dist.is_gloo_available() and dist.is_backend_available("zmq")
    assert not dist.is_backend_available("nccl")


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    assert not dist.is_torchelastic_launched()
    assert dist.get_node_local_rank(fallback_rank=3) == 3
    with pytest.raises(RuntimeError, match="LOCAL_RANK is not in the environment"):
        dist.get_node_local_rank()
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    assert dist.get_node_local_rank() == 2 and dist.is_torchelastic_launched()
    try:
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "detail")
        dist.set_debug_level_from_env()
        assert dist.get_debug_level() == dist.DebugLevel.DETAIL
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "much")
        # PyTorch raises ValueError, but programs for its earlier versions catch RuntimeError.
        for kind in (ValueError, RuntimeError):
            with pytest.raises(kind, match="The value of TORCH_DISTRIBUTED_DEBUG must be OFF"):
                dist.set_debug_level_from_env()
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)
    assert dist.default_pg_timeout.total_seconds() == 1800


def test_errors_are_pytorch_kinds() -> None:
    kinds: list[Any] = [dist.DistBackendError, dist.DistNetworkError, dist.DistStoreError]
    assert all(issubclass(kind, dist.DistError) for kind in kinds)
    assert issubclass(dist.DistError, RuntimeError)
    assert issubclass(dist.QueueEmptyError, dist.DistStoreError)
    assert issubclass(errors.CollectiveError, dist.DistBackendError)
    assert issubclass(errors.CollectiveLostError, dist.DistNetworkError)
    assert issubclass(errors.CollectiveTimeoutError, dist.DistBackendError)
    assert issubclass(errors.StoreTimeoutError, dist.DistStoreError)
    assert issubclass(errors.StoreLostError, dist.DistNetworkError)
    assert issubclass(errors.StoreAddressError, dist.DistNetworkError)
