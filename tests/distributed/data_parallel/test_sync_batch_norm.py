"""Synchronized batch norm when all members together have one value per channel, or no value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.distributed.data_parallel.sync_batch_norm import sync_batch_norm
from tests.distributed.process_group.thread_members import run_members


@pytest.mark.parametrize("rows", [(0, 0), (1, 0), (1, 1), (3, 0), (2, 3)])
@pytest.mark.parametrize(("eps", "momentum"), [(1e-5, 0.1), (0.5, 0.25)])
def test_moments_are_those_of_all_rows_and_running_numbers_move(
    rows: tuple[int, int], eps: float, momentum: float
) -> None:
    whole = np.random.default_rng(2).standard_normal((sum(rows), 3, 2)) * 2 + 1

    def member(rank: int) -> list[Any]:
        begin = rank * rows[0]
        x = fd.tensor(whole[begin : begin + rows[rank]].reshape(rows[rank], 3, 2))
        weight, bias = fd.tensor([1.0, 2.0, 3.0]).double(), fd.tensor([0.0, 1.0, 2.0]).double()
        running = fd.full((3,), 5.0).double(), fd.full((3,), 7.0).double()
        group: Any = dist.group.WORLD
        y = sync_batch_norm(x, weight, bias, running, eps, momentum, group)
        plain = sync_batch_norm(x, None, None, (None, None), eps, momentum, group)
        return [y.tolist(), plain.tolist(), *(one.tolist() for one in running)]

    first, second = run_members(2, member)
    assert first[2:] == second[2:]
    if not sum(rows):
        assert first == [[], [], [5.0] * 3, [7.0] * 3]
        return
    mean, variance, count = whole.mean((0, 2)), whole.var((0, 2)), whole.size // 3
    plain = (whole - mean[:, None]) / np.sqrt(variance + eps)[:, None]
    scaled = plain * np.array([1, 2, 3])[:, None] + np.array([0, 1, 2])[:, None]
    np.testing.assert_allclose(np.array(first[1] + second[1]), plain, 1e-10)
    np.testing.assert_allclose(np.array(first[0] + second[0]), scaled, 1e-10, 1e-12)
    np.testing.assert_allclose(first[2], 5 * (1 - momentum) + mean * momentum, 1e-10)
    unbiased = variance * count / (count - 1)
    np.testing.assert_allclose(first[3], 7 * (1 - momentum) + unbiased * momentum, 1e-10)


def test_one_number_in_all_has_no_unbiased_variance() -> None:
    def member(rank: int) -> list[float]:
        running = fd.zeros(1), fd.ones(1)
        x = fd.full((1 - rank, 1), 3.0)
        sync_batch_norm(x, None, None, running, 1e-5, 0.5, dist.group.WORLD)  # type: ignore[arg-type]
        return [one.item() for one in running]

    assert run_members(2, member) == [[1.5, 0.5]] * 2


def test_one_number_in_all_and_none_at_all_have_gradients() -> None:
    def member(rank: int) -> list[Any]:
        found: list[Any] = []
        for rows in (1 - rank, 0):
            x = fd.full((rows, 1), 3.0).requires_grad_()
            weight, bias = fd.ones(1, requires_grad=True), fd.zeros(1, requires_grad=True)
            y = sync_batch_norm(x, weight, bias, (None, None), 1e-5, 0.5, dist.group.WORLD)  # type: ignore[arg-type]
            (y * 5).sum().backward()
            found.append([one.grad.tolist() for one in (x, weight, bias)])
        return found

    # The mean equals the only value, so the gradients of x and of the weight are 0.
    none = [[], [0.0], [0.0]]
    assert run_members(2, member) == [[[[[0.0]], [0.0], [5.0]], none], [none, none]]
