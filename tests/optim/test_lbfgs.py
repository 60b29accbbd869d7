"""LBFGS on Rosenbrock's function; the expected numbers are results of PyTorch 2.13."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist
from fastdist import Tensor, optim

# (line search, rate, history size, iterations), then (loss, parameters, evaluations, iterations).
ROWS: list[tuple[str | None, float, int, int, float, list[float], int, int]] = [
    (None, 1.0, 100, 20, 3.93083943, [-0.96205113, 0.93573951, 0.88071376], 36, 36),
    (None, 1.0, 100, 4, 4.30471786, [-0.8712322, 0.75229416, 0.56518575], 12, 12),
    (None, 1.0, 100, 1, 18.9409451, [-0.8290485, 0.70721519, 0.49648654], 3, 3),
    (None, 1.0, 2, 20, 3.93183844, [-0.96212454, 0.93587986, 0.88097431], 58, 58),
    (None, 1.0, 2, 4, 4.29932229, [-0.97071137, 0.93843278, 0.82394831], 12, 12),
    (None, 1.0, 2, 1, 18.9409451, [-0.8290485, 0.70721519, 0.49648654], 3, 3),
    (None, 0.01, 100, 20, 56.1358248, [-1.091226, 0.93437633, 0.57316454], 60, 60),
    (None, 0.01, 100, 4, 98.8461053, [-1.1719632, 0.9819158, 0.51522585], 12, 12),
    (None, 0.01, 100, 1, 109.641146, [-1.1920506, 0.99521003, 0.50396134], 3, 3),
    (None, 0.01, 2, 20, 53.1487031, [-1.0904728, 0.93996889, 0.58962226], 60, 60),
    (None, 0.01, 2, 4, 98.4539998, [-1.172487, 0.98227337, 0.51588827], 12, 12),
    (None, 0.01, 2, 1, 109.641146, [-1.1920506, 0.99521003, 0.50396134], 3, 3),
    ("strong_wolfe", 1.0, 100, 20, 3.93083943, [-0.96204993, 0.93573752, 0.88071156], 33, 31),
    ("strong_wolfe", 1.0, 100, 4, 4.30471786, [-0.8712322, 0.75229416, 0.56518575], 15, 12),
    ("strong_wolfe", 1.0, 100, 1, 18.9409451, [-0.8290485, 0.70721519, 0.49648654], 6, 3),
    ("strong_wolfe", 1.0, 2, 20, 3.93083943, [-0.9620516, 0.9357409, 0.88071671], 43, 37),
    ("strong_wolfe", 1.0, 2, 4, 4.30085067, [-0.86126779, 0.75412789, 0.58968762], 16, 11),
    ("strong_wolfe", 1.0, 2, 1, 18.9409451, [-0.8290485, 0.70721519, 0.49648654], 6, 3),
    ("strong_wolfe", 0.01, 100, 20, 4.00763807, [-0.96078923, 0.93378873, 0.8773662], 78, 27),
    ("strong_wolfe", 0.01, 100, 4, 9.53104766, [-0.81830952, 0.69825409, 0.49423558], 18, 6),
    ("strong_wolfe", 0.01, 100, 1, 109.641146, [-1.1920506, 0.99521003, 0.50396134], 6, 3),
    ("strong_wolfe", 0.01, 2, 20, 4.32251664, [-0.90440787, 0.82915354, 0.69312479], 76, 33),
    ("strong_wolfe", 0.01, 2, 4, 9.37905827, [-0.83897691, 0.77009722, 0.55173888], 17, 6),
    ("strong_wolfe", 0.01, 2, 1, 109.641146, [-1.1920506, 0.99521003, 0.50396134], 6, 3),
]


def valley(x: Tensor) -> Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def after_three_steps(**options: Any) -> tuple[float, list[float], int, int]:
    first = fastdist.tensor([-1.2, 1.0, 0.5], dtype=fastdist.float64, requires_grad=True)
    second = fastdist.tensor([[0.3, -0.7]], dtype=fastdist.float64, requires_grad=True)
    optimizer = optim.LBFGS([first, second], **options)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = valley(fastdist.cat([first, second.reshape(-1)]))
        loss.backward()
        return loss

    for _ in range(3):
        loss = optimizer.step(closure)
    state = optimizer.state[first]
    return loss.item(), first.tolist(), state["func_evals"], state["n_iter"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("search", "lr", "history", "iterations", "loss", "place", "evaluations", "done"), ROWS
)
def test_three_steps_go_as_pytorchs(
    search: str | None,
    lr: float,
    history: int,
    iterations: int,
    loss: float,
    place: list[float],
    evaluations: int,
    done: int,
) -> None:
    found = after_three_steps(
        line_search_fn=search, lr=lr, history_size=history, max_iter=iterations
    )
    assert found[0] == pytest.approx(loss, rel=1e-7)
    assert found[1] == pytest.approx(place, rel=1e-6)
    assert found[2:] == (evaluations, done)


def test_a_minimum_is_where_it_stops() -> None:
    x = fastdist.tensor([3.0, -2.0], dtype=fastdist.float64, requires_grad=True)
    optimizer = optim.LBFGS([x], line_search_fn="strong_wolfe")
    calls = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        calls.append(loss.item())
        return loss

    optimizer.step(closure)
    assert x.tolist() == pytest.approx([0.0, 0.0], abs=1e-9)
    count = len(calls)
    optimizer.step(closure)
    assert len(calls) == count + 1


def test_a_state_dict_goes_on_as_the_run_that_never_stopped() -> None:
    def run(stop: bool) -> list[float]:
        x = fastdist.tensor([-1.2, 1.0, 0.5], dtype=fastdist.float64, requires_grad=True)
        optimizer = optim.LBFGS([x], lr=0.01, max_iter=3)

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = valley(x)
            loss.backward()
            return loss

        optimizer.step(closure)
        if stop:
            saved = optimizer.state_dict()
            optimizer = optim.LBFGS([x], lr=0.01, max_iter=3)
            optimizer.load_state_dict(saved)
        optimizer.step(closure)
        return x.tolist()  # type: ignore[no-any-return]

    assert run(stop=True) == run(stop=False)


def test_what_it_cannot_do_is_refused() -> None:
    x, y = (fastdist.zeros(1, requires_grad=True) for _ in range(2))
    with pytest.raises(ValueError, match=r"^LBFGS doesn't support per-parameter options"):
        optim.LBFGS([{"params": [x]}, {"params": [y]}])
    with pytest.raises(RuntimeError, match=r"^only 'strong_wolfe' is supported"):
        optim.LBFGS([x], line_search_fn="armijo").step(x.sum)
