"""Data parallelism over several devices of one process, forward and backward, on sim:0..3."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from fastdist.devices.backend import backend_of
from fastdist.devices.sim import SimBackend
from fastdist.nn.parallel import (
    comm,
    data_parallel,
    gather,
    parallel_apply,
    replicate,
    scatter,
)
from fastdist.nn.parallel.scatter_gather import scatter_kwargs
from tests.fibre_shim.installed import cuda_on_fibres

FOUR = [f"sim:{i}" for i in range(4)]


@pytest.fixture(params=["eager", "lazy", "late"])
def sim(request: pytest.FixtureRequest) -> Iterator[SimBackend]:
    """Yield four devices; in three variants they run at once, only when waited for, or late."""
    backend = cast(SimBackend, backend_of("sim"))
    backend.set_device_count(4)
    backend.behaviour.lazy = request.param == "lazy"
    if request.param == "late":
        with backend.behaviour.delays(seed=5, longest_s=0.0005):
            yield backend
    else:
        yield backend
    backend.set_device_count(2)


class Branches(nn.Module):
    """A module with a weight that is used twice and a buffer, whose results are a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.again = self.first
        self.last = nn.Linear(3, 2)
        self.register_buffer("scale", fd.tensor(2.0))
        self.bias = None

    def forward(self, x: Any, *, power: int = 1) -> Any:
        h = self.again(self.first(x).tanh()) * self.scale
        return {"y": self.last(h) ** power, "h": h}


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rows", [8, 5, 2, 1])
def test_a_model_over_four_devices_learns_as_over_one(sim: SimBackend, rows: int) -> None:
    x = numbers(rows, 3)

    def learn(wrap: bool) -> list[np.ndarray]:
        fd.manual_seed(0)
        model = Branches().to("sim:0")
        called: Any = nn.DataParallel(model, FOUR) if wrap else model
        leaf = fd.tensor(x, device="sim:0", requires_grad=True)
        found = called(leaf, power=2)
        assert str(found["y"].device) == "sim:0"
        (found["y"].sum() + found["h"].square().sum()).backward()
        grads = [one.grad for one in (leaf, *model.parameters())]
        return [one.detach().cpu().numpy() for one in (*found.values(), *cast(Any, grads))]

    for ours, expected in zip(learn(True), learn(False), strict=True):
        np.testing.assert_allclose(ours, expected, 1e-5, 1e-5)


def test_copies_are_on_their_devices_and_let_go_of_nothing(sim: SimBackend) -> None:
    model = Branches().to("sim:0").eval()
    copies: Any = replicate(model, FOUR[:3])
    assert [str(one.first.weight.device) for one in copies] == FOUR[:3]
    assert [str(one.scale.device) for one in copies] == FOUR[:3]
    assert all(one.first is one.again and not one.training for one in copies)
    assert [*copies[1].parameters()] == [] and copies[1].bias is None
    assert len([*model.parameters()]) == 4 and model.first.weight.is_leaf
    frozen: Any = replicate(model, FOUR[:2], detach=True)[1]
    frozen.first.weight.sum().backward()
    assert frozen.first.weight.grad is not None and model.first.weight.grad is None


class Pair(NamedTuple):
    x: Any
    words: Any


def test_arguments_are_taken_apart_where_there_are_tensors(sim: SimBackend) -> None:
    x = fd.tensor(numbers(3, 2))
    parts = scatter({"pair": Pair(x, ["a", x]), "none": None}, FOUR[:2])
    assert [one["pair"].x.shape for one in parts] == [(2, 2), (1, 2)]
    assert [str(one["pair"].words[1].device) for one in parts] == FOUR[:2]
    assert parts[0]["pair"].words[0] == "a" and parts[1]["none"] is None
    given, named = scatter_kwargs((x,), {"flag": True}, FOUR)
    assert [len(given), len(named)] == [3, 3] and named[2] == {"flag": True}
    given, named = scatter_kwargs((1,), {"x": x}, FOUR)
    assert given == ((1,),) * 3 and [str(one["x"].device) for one in named] == FOUR[:3]
    assert scatter((), FOUR) == [()] * 4 and scatter_kwargs((), None, FOUR) == ((), ())


def test_results_are_joined_as_they_are_made(sim: SimBackend) -> None:
    outs = [Pair(fd.ones(2, 3, device=one), None) for one in FOUR[:2]]
    joined = gather(outs, "sim:1")
    assert joined.x.shape == (4, 3) and str(joined.x.device) == "sim:1" and joined.words is None
    assert gather([[fd.ones(2, 3)] * 2] * 2, "cpu", dim=1)[0].shape == (2, 6)
    losses = [fd.tensor(float(i), device=one) for i, one in enumerate(FOUR)]
    with pytest.warns(UserWarning, match="will instead unsqueeze and return a vector"):
        assert gather(losses, "cpu").tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(ValueError, match="same number of keys"):
        gather([{"x": losses[0]}, {}], "cpu")


def test_modules_run_in_threads_with_the_modes_of_their_caller(sim: SimBackend) -> None:
    seen: list[Any] = []
    together = threading.Barrier(2)

    def module(x: Any, by: int) -> Any:
        together.wait(30)
        y = x.matmul(x) * by
        seen.append((threading.current_thread().name, y.dtype, y.requires_grad))
        return y

    inputs = [(fd.ones(2, 2, device=one, requires_grad=True),) for one in ("cpu", "cpu")]
    with fd.no_grad(), fd.autocast("cpu", dtype=fd.bfloat16):
        found = parallel_apply([module, module], inputs, [{"by": 1}, {"by": 2}])
    assert [one.dtype for one in found] == [fd.bfloat16] * 2
    assert {name for name, *_ in seen} == {"fastdist-parallel-0", "fastdist-parallel-1"}
    assert [rest for _, *rest in seen] == [[fd.bfloat16, False]] * 2
    assert found[1].tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_an_error_of_a_copy_says_where_it_was_when_all_have_ended(sim: SimBackend) -> None:
    ended = threading.Event()

    def good(x: Any) -> Any:
        ended.set()
        return x

    def bad(x: Any) -> Any:
        assert ended.wait(30)
        raise ZeroDivisionError("by nothing")

    inputs = [fd.ones(1, device=one) for one in FOUR[:2]]
    with pytest.raises(ZeroDivisionError, match="by nothing") as raised:
        parallel_apply([good, bad], inputs)
    assert "the replica on sim:1" in "".join(raised.value.__notes__)
    with pytest.raises(ValueError, match="2 modules need as many inputs, got 1"):
        parallel_apply([good, bad], inputs[:1])


def test_pieces_have_gradients_of_their_own(sim: SimBackend) -> None:
    x = fd.tensor(numbers(4, 2), device="sim:0", requires_grad=True)
    copies = comm.broadcast(x, FOUR)
    parts = comm.scatter(x, FOUR[:2], chunk_sizes=[1, 3])
    assert [one.shape[0] for one in parts] == [1, 3]
    total = comm.reduce_add([one * (i + 1) for i, one in enumerate(copies)], "sim:2")
    whole = comm.gather([one * 2 for one in parts], destination="sim:3")
    (total.to("cpu").sum() + whole.to("cpu").sum()).backward()
    assert x.grad is not None and (x.grad == 1 + 2 + 3 + 4 + 2).all()
    columns = comm.reduce_add_coalesced([copies[:2], copies[2:]], "cpu")
    assert [str(one.device) for one in columns] == ["cpu", "cpu"]
    many = comm.broadcast_coalesced([x.detach(), x.detach() * 2], FOUR[1:3])
    assert [[str(one.device) for one in each] for each in many] == [["sim:1"] * 2, ["sim:2"] * 2]


def test_pieces_write_where_they_are_told_and_refuse_what_contradicts(sim: SimBackend) -> None:
    x = fd.tensor(numbers(4, 2), device="sim:0")
    outs = [fd.zeros(1, 2, device="sim:1"), fd.zeros(3, 2, device="sim:2")]
    comm.scatter(x, out=outs)
    assert fd.equal(outs[1].cpu(), x.cpu()[1:])
    back = fd.zeros(4, 2)
    assert fd.equal(comm.gather(outs, out=back), x.cpu())
    comm.broadcast(x, out=[back])
    for call in (
        lambda: comm.broadcast(x, FOUR, out=[back]),
        lambda: comm.scatter(x, FOUR, out=outs),
        lambda: comm.gather(outs, destination="cpu", out=back),
        lambda: comm.scatter(x, FOUR, chunk_sizes=[4]),
        lambda: comm.scatter(x),
        lambda: comm.reduce_add([x, x[:1]]),
    ):
        with pytest.raises((RuntimeError, ValueError)):
            call()


def test_a_module_elsewhere_is_refused(sim: SimBackend) -> None:
    wrapped = nn.DataParallel(nn.Linear(3, 2), FOUR)
    with pytest.raises(RuntimeError, match=r"on device sim:0 \(device_ids\[0\]\) but found one"):
        wrapped(fd.ones(4, 3))


def test_without_gpus_their_numbers_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    # The package's function data_parallel hides the module of that name, so import it by its path.
    module = importlib.import_module("fastdist.nn.parallel.data_parallel")
    monkeypatch.setattr(module, "device_count", lambda: 0)
    model = nn.Linear(3, 2)
    wrapped = nn.DataParallel(model, device_ids=[0, 1])
    x = fd.ones(4, 3)
    assert wrapped.device_ids == [] and fd.equal(wrapped(x), model(x))


def test_what_is_no_list_of_devices_or_no_module_is_told_so() -> None:
    model: Any = nn.Linear(3, 2)
    for call in (
        lambda: nn.DataParallel(model, "sim:0"),
        lambda: scatter(fd.ones(2), "sim:0"),
        lambda: replicate(model, 3),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=r"expected a list of devices, such as \[0, 1\]"):
            call()
    with pytest.raises(TypeError, match="expected a Module to copy, got 3"):
        nn.DataParallel(3, FOUR)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one device at least, got none"):
        gather([], "cpu")


def test_two_gpus_take_half_a_batch_each(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in cuda_on_fibres(monkeypatch):
        model = nn.Linear(3, 2).to("cuda:0")
        x = fd.tensor(numbers(4, 3), device="cuda:0", requires_grad=True)
        found = data_parallel(model, x, [0, 1])
        found.square().sum().backward()
        y = model(x.detach())
        np.testing.assert_allclose(found.detach().cpu(), y.detach().cpu(), 1e-6, 1e-6)
        expected: Any = (2 * y).cpu().detach().t() @ x.detach().cpu()
        np.testing.assert_allclose(cast(Any, model.weight.grad).cpu(), expected, 1e-5, 1e-5)
        wrapped = nn.DataParallel(model)
        assert wrapped.device_ids == [0, 1] and wrapped.output_device == 0
