"""Warnings have PyTorch's class and first words, and point to the user's line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.core import caller_warning

F, init = fd.nn.functional, fd.nn.init


@pytest.fixture(autouse=True)
def _told_anew() -> Iterator[None]:
    told = set(caller_warning._told)
    caller_warning.forget_what_was_told()
    yield
    caller_warning._told.update(told)


def _scheduled() -> tuple[Any, Any]:
    optimizer = fd.optim.SGD([fd.ones(1, requires_grad=True)], lr=0.1)
    return optimizer, fd.optim.lr_scheduler.StepLR(optimizer, 1)


def _overridden() -> None:
    optimizer, scheduler = _scheduled()
    optimizer.step = lambda: None
    scheduler.step()


def _stepped_first() -> None:
    _, scheduler = _scheduled()
    scheduler.step()


def _read_only() -> np.ndarray:
    array = np.ones(3)
    array.flags.writeable = False
    return array


def _loader(**options: Any) -> Any:
    return fd.data.DataLoader(fd.data.TensorDataset(fd.ones(1)), **options)


WARN: list[tuple[Callable[[], Any], str]] = [
    (_stepped_first, "Detected call of `lr_scheduler.step()` before `optimizer.s"),
    (_overridden, "Seems like `optimizer.step()` has been overridden after learning rate sched"),
    (lambda: (fd.ones(2, requires_grad=True) * 2).grad, "The .grad attribute of a Tensor that is"),
    (lambda: F.softmax(fd.ones(2, 2)), "Implicit dimension choice for softmax has been deprecate"),
    (lambda: F.log_softmax(fd.ones(2, 2)), "Implicit dimension choice for log_softmax has been d"),
    (lambda: F.softmin(fd.ones(2, 2)), "Implicit dimension choice for softmin has been deprecate"),
    (lambda: fd.nn.Softmax()(fd.ones(2, 2)), "Implicit dimension choice for softmax has been dep"),
    (lambda: fd.ones(2, 3, 4).T, "The use of `x.T` on tensors of dimension other than 2 to rever"),
    (lambda: fd.tensor(1.0).T, "Tensor.T is deprecated on 0-D tensors. This function is the iden"),
    (lambda: fd.tensor(1.0).mT, "Tensor.mT is deprecated on 0-D tensors. This function is the id"),
    (lambda: fd.from_numpy(_read_only()), "The given NumPy array is not writable, and PyTorch do"),
    (lambda: fd.as_tensor(_read_only()), "The given NumPy array is not writable, and PyTorch doe"),
    (lambda: fd.tensor(fd.ones(2)), "To copy construct from a tensor, it is recommended to use s"),
    (lambda: fd.range(0, 3), "torch.range is deprecated and will be removed in a future release "),
    (lambda: float(fd.ones(1, requires_grad=True)), "Converting a tensor with requires_grad=True"),
    (lambda: fd.meshgrid(fd.ones(2)), "torch.meshgrid: in an upcoming release, it will be requir"),
    (lambda: F.kl_div(fd.ones(2), fd.ones(2)), "reduction: 'mean' divides the total loss by both"),
    (lambda: fd.nn.MSELoss(reduce=False), "size_average and reduce args will be deprecated, plea"),
    (lambda: _loader(num_workers=999), "This DataLoader will create 999 worker processes in tota"),
]  # fmt: skip
FUTURE: list[tuple[Callable[[], Any], str]] = [
    (lambda: init.xavier_uniform(fd.ones(2, 2)), "`nn.init.xavier_uniform` is now deprecated in "),
    (lambda: init.normal(fd.ones(2), 0.0, 1.0), "`nn.init.normal` is now deprecated in favor of "),
    (lambda: fd.nn.utils.clip_grad_norm([], 1.0), "`torch.nn.utils.clip_grad_norm` is now deprec"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "text"), WARN, ids=lambda value: value[:30] if isinstance(value, str) else "call"
)
def test_what_pytorch_warns_of_is_warned_of_at_the_user_s_line(
    call: Callable[[], Any], text: str
) -> None:
    with pytest.warns(UserWarning, match=re.escape(text)) as told:
        call()
    assert [str(one.message)[: len(text)] for one in told] == [text]
    assert told[0].filename == __file__


@pytest.mark.parametrize(("call", "text"), FUTURE)
def test_older_names_work_and_name_the_newer(call: Callable[[], Any], text: str) -> None:
    with pytest.warns(FutureWarning) as told:
        call()
    assert str(told[0].message).startswith(text) and told[0].filename == __file__


def test_pinned_memory_without_an_accelerator_is_warned_of() -> None:
    if not fd.cuda.is_available():
        with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accel"):
            list(_loader(pin_memory=True))


def test_what_is_as_it_should_be_is_not_warned_of() -> None:
    optimizer, scheduler = _scheduled()
    optimizer.step()
    scheduler.step()
    scheduler.step()
    y = fd.ones(2, requires_grad=True) * 2
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0] and fd.ones(2, 3).T.shape == (3, 2)
    assert fd.ones(1, requires_grad=True).grad is None
    F.kl_div(fd.ones(2, 2), fd.ones(2, 2), reduction="batchmean")
    fd.meshgrid(fd.ones(2), indexing="ij")
    assert fd.tensor(2.0, requires_grad=True).item() == 2.0


def test_some_things_are_told_once() -> None:
    x = fd.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="Converting a tensor") as told:
        _ = [float(x) for _ in range(3)]
    assert len(told) == 1


@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_range_counts_its_end() -> None:
    assert fd.range(1, 4).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert fd.range(1, 4, 0.5).tolist() == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    assert fd.range(3).tolist() == [0.0, 1.0, 2.0, 3.0]
    for step, text in ((0, "step must be nonzero"), (-1, "upper bound and lower bound inconsist")):
        with pytest.raises(RuntimeError, match=text):
            fd.range(1, 4, step)
