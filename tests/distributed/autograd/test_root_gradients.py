"""A pass starts with a gradient that fits the root, and restores the streams afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import GraphError
from fastdist.devices.backend import backend_of
from fastdist.devices.sim import SimBackend
from fastdist.engine.engine import queue_callback
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.tasks import leaf


def here(root: Tensor) -> None:
    root.backward()


def everywhere(root: Tensor) -> None:
    with da.context() as context_id:
        da.backward(context_id, [root])


both = pytest.mark.parametrize("run", [here, everywhere])
Run = Callable[[Tensor], None]


@pytest.mark.seed("E10")
@both
@pytest.mark.parametrize(
    "data",
    [fastdist.ones(1, 1, dtype=fastdist.float64), fastdist.ones(()), fastdist.ones(1)],
    ids=["a shape that fits", "a dtype", "both"],
)
def test_the_gradient_of_a_root_whose_data_was_set_is_made_to_fit(
    agent: FakeAgent, run: Run, data: Tensor
) -> None:
    seen: list[Tensor] = []
    loss = leaf().sum()
    loss.grad_fn.register_prehook(lambda grads: seen.append(grads[0]))
    loss.data = data
    run(loss)
    ((shape, dtype, value),) = [(grad.shape, grad.dtype, grad.item()) for grad in seen]
    assert (shape, dtype, value) == ((), fastdist.float64, 1.0)


@pytest.mark.seed("E10")
@both
@pytest.mark.parametrize(
    ("make", "data", "expected"),
    [
        (lambda: leaf() * 1, fastdist.ones(1), r"got \[1\] but expected .* compatible with \[2\]"),
        (
            lambda: leaf().sum().reshape(1, 1),
            fastdist.ones(1),
            r"got \[1\] but expected shape compatible with \[1, 1\]",
        ),
        (
            lambda: leaf().sum(),
            fastdist.ones((), device="sim:0"),
            r"expected device cpu but got sim:0",
        ),
    ],
    ids=["of more elements", "of more dimensions", "on another device"],
)
def test_a_root_whose_gradient_cannot_fit_is_an_error(
    agent: FakeAgent, run: Run, make: Callable[[], Tensor], data: Tensor, expected: str
) -> None:
    loss = make()
    loss.data = data
    with pytest.raises(GraphError, match=rf"^invalid gradient at index 0 - {expected}"):
        run(loss)
    assert da._get_debug_info()["num_current_backward_passes"] == 0


@pytest.mark.seed("E10")
@both
def test_a_root_that_is_one_of_several_outputs_is_held_against_its_own(
    agent: FakeAgent, run: Run
) -> None:
    seen: list[Tensor] = []
    _, last = fastdist.split(fastdist.ones(3, requires_grad=True) * 2, [2, 1])
    last.register_hook(seen.append)
    last.data = fastdist.ones(1, 1)
    run(last)
    assert [grad.tolist() for grad in seen] == [[1.0]]


@both
def test_what_requires_no_grad_is_no_part_of_a_pass(agent: FakeAgent, run: Run) -> None:
    seen: list[Tensor] = []
    x = leaf()
    x.register_hook(seen.append)
    plain = fastdist.full((2,), 5.0, dtype=fastdist.float64)
    y = plain * x
    assert [node is None for node, _ in y.grad_fn.next_functions].count(True) == 1
    run(y.sum())
    assert [grad.tolist() for grad in seen] == [[5.0, 5.0]]


@pytest.fixture
def lazy_sim() -> Iterator[SimBackend]:
    """Yield a device that defers its work until a wait, so that a missing wait is detected."""
    sim = cast(SimBackend, backend_of("sim"))
    sim.behaviour.lazy = True
    yield sim
    sim.set_device_count(2)


class Stop(fastdist.autograd.Function):
    """Its backward returns no gradient, so that no later stream waits for the backward's stream."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 3.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


@pytest.mark.seed("E16")
@both
@pytest.mark.parametrize("fails", [False, True])
def test_who_asked_for_a_pass_sees_what_it_did_on_other_streams(
    agent: FakeAgent, lazy_sim: SimBackend, run: Run, fails: bool
) -> None:
    x = fastdist.ones(100, device="sim:0", requires_grad=True)
    lazy_sim.synchronize(0)
    with lazy_sim.stream(0):
        y = Stop.apply(x)
        loss = (y * y).sum()
    y.retain_grad()
    if fails:
        y.grad_fn.register_prehook(lambda grads: 1 / 0)
    try:
        run(loss)
    except ZeroDivisionError:
        assert fails
    # The gradient was computed on another stream than the current one.
    assert y.grad is not None and y.grad.to("cpu").tolist() == [6.0] * 100


@pytest.mark.seed("E18", "E26")
def test_final_callbacks_on_a_device_see_the_context_of_their_pass(agent: FakeAgent) -> None:
    seen: list[tuple[int, str]] = []

    def note() -> None:
        seen.append((da.current_context_id(), threading.current_thread().name))

    x = fastdist.ones(2, device="sim:0", requires_grad=True)
    y = x * 3.0
    y.register_hook(lambda grad: queue_callback(note))
    with da.context() as context_id:
        da.backward(context_id, [y.sum()])
    assert seen == [(context_id, "fastdist-engine-sim:0")]
