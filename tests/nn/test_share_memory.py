"""`Module.share_memory` moves a module into one shared block, which many processes train."""

from __future__ import annotations

import copy
import os
import pickle

import pytest

import fastdist as fd
import fastdist.multiprocessing as mp
from fastdist import nn, optim
from fastdist.core.errors import DeviceError
from fastdist.system.shared_block import block_of


class Counted(nn.Module):
    """A module that holds one layer twice, a view of its weight, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1)
        self.again = self.linear
        self.register_buffer("seen", fd.zeros(1))

    def forward(self, x: fd.Tensor) -> fd.Tensor:
        self.seen.add_(1)
        return self.linear(x)


def train(index: int, model: Counted) -> None:
    assert model.again is model.linear and model.linear.weight.grad is None
    fd.manual_seed(index)
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    for _ in range(200):
        x = fd.randn(16, 1)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), 2 * x + 1).backward()
        optimizer.step()


def test_share_memory_moves_parameters_gradients_and_buffers_into_one_block() -> None:
    model = Counted()
    model(fd.ones(2, 1)).sum().backward()
    values = copy.deepcopy(model.state_dict())
    assert model.share_memory() is model
    weight, bias = model.linear.weight, model.linear.bias
    assert weight.grad is not None and bias.grad is not None
    tensors = [weight, bias, model.seen, weight.grad, bias.grad]
    assert len({block_of(one._array) for one in tensors}) == 1 and weight.is_shared()
    assert isinstance(weight, nn.Parameter) and weight.requires_grad
    assert all(one.equal(values[name]) for name, one in model.state_dict().items())


def test_a_copy_of_a_shared_module_is_not_shared() -> None:
    model = Counted().share_memory()
    state = model.state_dict()
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    assert not any(one.is_shared() for twin in twins for one in twin.parameters())
    # The entries of a module's state_dict share its memory, as they do for any module.
    assert all(one.is_shared() for one in state.values())
    assert not any(one.is_shared() for one in pickle.loads(pickle.dumps(state)).values())


def test_a_module_that_is_not_all_on_the_cpu_is_refused_whole() -> None:
    model = Counted()
    model.seen = model.seen.to("sim")
    with pytest.raises(DeviceError, match="only memory of the CPU can be shared"):
        model.share_memory()
    assert not model.linear.weight.is_shared()


def test_two_processes_train_one_module() -> None:
    model = Counted().share_memory()
    with fd.no_grad():
        model.linear.weight.fill_(-3.0)
    mp.spawn(train, args=(model,), nprocs=2)
    assert model.linear.weight.item() == pytest.approx(2.0, abs=0.05)
    assert model.linear.bias.item() == pytest.approx(1.0, abs=0.05)
    # Both processes add to a shared counter; of two additions at the same time, one may be lost.
    assert 200 <= model.seen.item() <= 400
    assert model.linear.weight.grad is None


def test_a_large_module_takes_few_descriptors() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(300)))
    before = len(os.listdir("/proc/self/fd"))
    model.share_memory()
    assert len(os.listdir("/proc/self/fd")) - before <= 2
