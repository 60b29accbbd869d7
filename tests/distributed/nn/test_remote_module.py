"""A RemoteModule is called, trained and sent like a module, but lives on another worker."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as torch
import fastdist.distributed.autograd as da
from fastdist import Tensor, nn, optim
from fastdist.core.errors import ForbiddenFunctionError
from fastdist.distributed import rpc
from fastdist.distributed.nn import RemoteModule
from fastdist.distributed.nn.api.remote_module import _NOT_HERE, _RemoteModule
from fastdist.distributed.optim import DistributedOptimizer
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.members import members
from tests.distributed.workers import Group, run_group


@pytest.fixture(scope="module")
def group() -> Iterator[Group]:
    with members(__file__, 2, rpc_timeout=30, init_timeout=30) as group:
        yield group


# ---- what workers run for others ----------------------------------------------------------------


class Scaled(nn.Module):
    """A module with a parameter, a child with a parameter, a training mode and a keyword."""

    def __init__(self, size: int, scale: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), scale, dtype=torch.float64))
        self.bias = nn.Linear(1, 1, bias=False).double()

    def forward(self, x: Tensor, *, more: Tensor | None = None) -> dict[str, Any]:
        y = x * self.weight
        return {"y": y if more is None else y + more, "training": self.training}


class Refuses(nn.Module):
    def __init__(self) -> None:
        raise ArithmeticError("on purpose")


def count_calls(rref: Any) -> None:
    def hook(module: Any, args: Any, result: Any) -> None:
        result["calls"] = module.calls = getattr(module, "calls", 0) + 1

    rref.local_value().register_forward_hook(hook)


def value_of(rref: Any) -> Any:
    return rref.local_value().detach().numpy().copy()


def call(module: RemoteModule, x: Tensor) -> Any:
    return str(module.get_module_rref().owner_name()), module(x)["y"]


def ones(n: int = 3) -> Tensor:
    return torch.ones(n, dtype=torch.float64)


# ---- tests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["w1/cpu", "w1", "rank:1/cpu", "rank:1", "w0/cpu", "cpu"])
@on_worker(0)
def test_forward_runs_where_the_module_is(where: str) -> None:
    module = RemoteModule(where, Scaled, args=(3,), kwargs={"scale": 2.0})
    owner = "w1" if "1" in where else "w0"
    assert module.get_module_rref().owner_name() == owner
    assert module(ones(), more=ones())["y"].tolist() == [3.0, 3.0, 3.0]
    assert module.forward(ones())["y"].tolist() == [2.0, 2.0, 2.0]
    assert module.forward_async(ones()).wait()["y"].tolist() == [2.0, 2.0, 2.0]


@on_worker(0)
def test_what_it_is_made_of_is_told() -> None:
    module = RemoteModule("rank:1", Scaled, (3,))
    assert (module.on, module.device, module.is_scriptable) == (1, "cpu", False)
    assert not module.is_device_map_set
    assert isinstance(module, _RemoteModule) and isinstance(module, nn.Module)
    assert repr(module) == "RemoteModule(rank:1/cpu)"
    assert repr(nn.Sequential(module)) == "Sequential(\n  (0): RemoteModule(rank:1/cpu)\n)"


@on_worker(0)
def test_training_it_over_two_workers_is_that_of_one_process() -> None:
    there = RemoteModule("w1/cpu", Scaled, (3, 2.0))
    here = Scaled(3, 2.0)
    optimizer = DistributedOptimizer(optim.Adam, there.remote_parameters(), lr=0.1)
    local = optim.Adam(here.parameters(), lr=0.1)
    for _ in range(3):
        with da.context() as context_id:
            loss = there(ones())["y"].square().sum()
            da.backward(context_id, [loss])
            optimizer.step(context_id)
        local.zero_grad()
        here(ones())["y"].square().sum().backward()
        local.step()
    (weight,) = there.remote_parameters(recurse=False)
    found = rpc.rpc_sync("w1", value_of, (weight,))
    np.testing.assert_allclose(found, here.weight.detach().numpy(), rtol=1e-12)


@on_worker(0)
def test_remote_parameters_are_those_below_as_well_unless_told_otherwise() -> None:
    module = RemoteModule("w1", Scaled, (3,))
    assert [len(module.remote_parameters(recurse=r)) for r in (True, False)] == [2, 1]
    assert len(module.remote_parameters()) == 2


@on_worker(0)
def test_train_and_eval_reach_the_module_from_a_parent_as_well() -> None:
    module = RemoteModule("w1", Scaled, (3,))
    model = nn.Sequential(module)
    assert module.eval() is module
    assert module(ones())["training"] is False is module.training
    model.train()
    assert module(ones())["training"] is True is module.training
    model.eval()
    assert module(ones())["training"] is False


@on_worker(0)
def test_hooks_of_the_module_run_where_it_is() -> None:
    module = RemoteModule("w1", Scaled, (3,))
    rpc.rpc_sync("w1", count_calls, (module.get_module_rref(),))
    assert [module(ones())["calls"] for _ in range(2)] == [1, 2]


@on_worker(0)
def test_it_is_the_same_module_to_who_gets_it() -> None:
    module = RemoteModule("w0", Scaled, (3, 5.0))
    assert rpc.rpc_sync("w1", call, (module, ones()))[0] == "w0"
    with torch.no_grad():
        module.get_module_rref().local_value().weight.fill_(7.0)
    assert rpc.rpc_sync("w1", call, (module, ones()))[1].tolist() == [7.0, 7.0, 7.0]


@on_worker(0)
def test_several_are_made_of_one_module() -> None:
    rref = rpc.remote("w1", Scaled, (3, 4.0))
    one, other = (RemoteModule.init_from_module_rref(at, rref) for at in ("w1/cpu", "rank:1"))
    one.eval()
    assert other(ones())["training"] is False
    assert other(ones())["y"].tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(ValueError, match=r"lives on 'w1', and remote_device is 'w0'; say 'w1/cpu'"):
        RemoteModule.init_from_module_rref("w0", rref)


@on_worker(0)
def test_a_module_of_another_device_takes_and_gives_tensors_of_the_cpu() -> None:
    module = RemoteModule("w1/sim:0", Scaled, (3, 2.0))
    assert module.device == "sim:0"
    found = module(ones(), more=ones())["y"]
    assert str(found.device) == "cpu" and found.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("name", _NOT_HERE)
@on_worker(0)
def test_what_is_at_the_other_end_is_not_answered_here(name: str) -> None:
    module = RemoteModule("w1", Scaled, (3,))
    with pytest.raises(ValueError, match=f"^Method ``{name}`` not supported for RemoteModule[.:] "):
        getattr(module, name)()


@on_worker(0)
def test_a_parent_does_not_pass_over_parameters_that_it_has_not() -> None:
    model = nn.Sequential(nn.Linear(1, 1), RemoteModule("w1", Scaled, (3,)))
    for gather in (lambda: list(model.parameters()), model.state_dict, model.double):
        with pytest.raises(ValueError, match="not supported for RemoteModule"):
            gather()


@on_worker(0)
def test_parameters_says_what_to_call() -> None:
    module = RemoteModule("w1", Scaled, (3,))
    text = (
        r"^Method ``parameters`` not supported for RemoteModule\. "
        r"Please use ``remote_parameters`` instead\.$"
    )
    with pytest.raises(ValueError, match=text):
        module.parameters()


@on_worker(0)
def test_pickle_alone_does_not_take_it() -> None:
    with pytest.raises(RuntimeError, match=r"^Cannot pickle RemoteModule in python pickler"):
        pickle.dumps(RemoteModule("w1", Scaled, (3,)))


class Own(RemoteModule):
    pass


@on_worker(0)
def test_a_class_made_of_it_says_how_to_send_it() -> None:
    with pytest.raises(RuntimeError, match="send get_module_rref"):
        rpc.rpc_sync("w1", call, (Own("w1", Scaled, (3,)), ones()))


@on_worker(0)
def test_what_cannot_be_made_raises_at_the_first_call() -> None:
    with pytest.raises(ArithmeticError, match="on purpose"):
        RemoteModule("w1", Refuses)(ones())
    with pytest.raises(ValueError, match=r"but it returns an instance of <class 'dict'>"):
        RemoteModule("w1", dict)(ones())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected an RRef of a Module, got int"):
        RemoteModule.init_from_module_rref("w1", rpc.remote("w1", len, ("abc",)))(ones())


@on_worker(0)
def test_wrong_arguments_are_refused_here() -> None:
    with pytest.raises(TypeError, match="args must be a tuple"):
        RemoteModule("w1", Scaled, 3)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="no TorchScript here"):
        _RemoteModule("w1", Scaled, (3,), _module_interface_cls=object)
    with pytest.raises(NotImplementedError, match="no TorchScript here"):
        RemoteModule.init_from_module_rref("w1", rpc.remote("w1", Scaled, (3,)), object)
    with pytest.raises(ValueError, match="Could not parse remote_device: w1/cpu/0"):
        RemoteModule("w1/cpu/0", Scaled, (3,))


def test_it_needs_rpc() -> None:
    with pytest.raises(AssertionError, match=r"^RemoteModule only works in RPC\. "):
        RemoteModule("w1", Scaled, (3,))


# ---- strict mode --------------------------------------------------------------------------------


@rpc.export
class Exported(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1


class Forbidden(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


def live_strictly() -> None:
    rank = rpc_join(strict=True)
    if rank == 0:
        module = RemoteModule("w1", Exported)
        assert module(ones()).tolist() == [2.0, 2.0, 2.0]
        assert module.eval().remote_parameters() == []
        with pytest.raises(ForbiddenFunctionError, match="Forbidden may not be used"):
            RemoteModule("w1", Forbidden)(ones())
    rpc.shutdown()


def rpc_join(**options: Any) -> int:
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"w{rank}", rpc_backend_options=rpc.TensorPipeRpcBackendOptions(**options))
    return rank


@pytest.mark.one_in(3)
def test_in_strict_mode_it_makes_what_was_exported_alone() -> None:
    run_group(live_strictly, 2)


# ---- device maps --------------------------------------------------------------------------------


def live_with_a_map() -> None:
    maps = {"w1": {"sim:0": "sim:1"}} if os.environ["RANK"] == "0" else None
    if rpc_join(device_maps=maps) == 0:
        module = RemoteModule("w1/sim:1", Scaled, (3, 2.0))
        assert module.is_device_map_set
        found = module(ones().to("sim:0"))["y"]
        assert str(found.device) == "sim:0" and found.cpu().tolist() == [2.0, 2.0, 2.0]
    rpc.shutdown()


@pytest.mark.one_in(3)
def test_with_a_device_map_what_it_returns_stays_on_devices() -> None:
    run_group(live_with_a_map, 2)
