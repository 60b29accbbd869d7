"""Indices that change between a call and its gradient, or inside a sparse tensor.

However the indices change, a function that reads them raises or gives a right result, and accesses
no other memory. If a Node has saved a tensor that changes in place, PyTorch's error is raised.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

import fastdist as fd
import fastdist.nn.functional as F
from fastdist.core.errors import VersionError
from fastdist.kernels.cpu.jit import background
from tests.forked import outcomes
from tests.kernels.index_calls import BAD


class Case(NamedTuple):
    """The result of a call on leaves, and the indices that the gradient of the call reads."""

    result: Any
    index: Any
    leaves: tuple[Any, ...]


def numbers(*shape: int) -> Any:
    return fd.randn(*shape, requires_grad=True)


def places(most: int, *shape: int) -> Any:
    return fd.arange(fd.tensor(shape).prod().item()).reshape(shape) % most


def returned(call: Callable[[Any], Any], *shape: int) -> Case:
    """Return the case of a call that returns values and indices; the gradient reads the indices."""
    x = numbers(*shape)
    values, indices = call(x)
    return Case(values, indices, (x,))


def given(call: Callable[..., Any], index: Any, *shapes: tuple[int, ...]) -> Case:
    """Return the case of a call on leaves of the given shapes and an index."""
    leaves = tuple([numbers(*shape) for shape in shapes])
    return Case(call(*leaves, index), index, leaves)


# A small size, and a size for which compiled loops are used.
SIDES = {"small": 6, "large": 72}


def cases(n: int) -> dict[str, Callable[[], Case]]:
    """Return functions that make cases of n x n numbers, by name."""
    return {**cases_of_results(n), **cases_of_movement(n), **cases_of_losses(n)}


def cases_of_results(n: int) -> dict[str, Callable[[], Case]]:
    """Return the cases in which the call itself returns the indices."""
    square, image, line, space = (n, n), (2, 3, n, n), (2, 3, 8 * n), (1, 2, n, n, 2)
    pool: Any = {"return_indices": True}
    return {
        **{
            name: partial(returned, partial(getattr(fd, name), dim=1), *square)
            for name in ("max", "min", "median", "nanmedian", "mode", "sort", "cummax", "cummin")
        },
        "topk": lambda: returned(lambda x: x.topk(3, 1), *square),
        "kthvalue": lambda: returned(lambda x: x.kthvalue(3, 1), *square),
        "lu_factor": lambda: returned(fd.linalg.lu_factor, *square),
        "max_pool1d": lambda: returned(lambda x: F.max_pool1d(x, 2, **pool), *line),
        "max_pool2d": lambda: returned(lambda x: F.max_pool2d(x, 2, **pool), *image),
        "max_pool3d": lambda: returned(lambda x: F.max_pool3d(x, 2, **pool), *space),
        "adaptive_max_pool1d": lambda: returned(
            lambda x: F.adaptive_max_pool1d(x, 4, **pool), *line
        ),
        "adaptive_max_pool2d": lambda: returned(
            lambda x: F.adaptive_max_pool2d(x, 4, **pool), *image
        ),
        "fractional_max_pool2d": lambda: returned(
            lambda x: F.fractional_max_pool2d(x, 2, output_size=3, **pool), *image
        ),
    }


def cases_of_movement(n: int) -> dict[str, Callable[[], Case]]:
    """Return the cases of ops that read or write at indices."""
    square, row, grid = (n, n), partial(places, n, n), partial(places, n, n, n)
    image = (2, 3, n, n)
    return {
        "max_unpool2d": lambda: given(
            lambda x, i: F.max_unpool2d(x, i, 2), places(4 * n * n, 2, 3, n, n), image
        ),
        "gather": lambda: given(lambda x, i: x.gather(1, i), grid(), square),
        "take": lambda: given(lambda x, i: x.take(i), grid(), square),
        "take_along_dim": lambda: given(lambda x, i: fd.take_along_dim(x, i, 1), grid(), square),
        "scatter": lambda: given(lambda x, y, i: x.scatter(1, i, y), grid(), square, square),
        "scatter of a number": lambda: given(lambda x, i: x.scatter(1, i, 0.5), grid(), square),
        "scatter_add": lambda: given(
            lambda x, y, i: x.scatter_add(1, i, y), grid(), square, square
        ),
        "scatter_reduce": lambda: given(
            lambda x, y, i: x.scatter_reduce(1, i, y, "amax"), grid(), square, square
        ),
        "index_select": lambda: given(lambda x, i: x.index_select(0, i), row(), square),
        "index_add": lambda: given(lambda x, y, i: x.index_add(0, i, y), row(), square, square),
        "index_copy": lambda: given(lambda x, y, i: x.index_copy(0, i, y), row(), square, square),
        "index_fill": lambda: given(lambda x, i: x.index_fill(0, i, 1.0), row(), square),
        "index_reduce": lambda: given(
            lambda x, y, i: x.index_reduce(0, i, y, "amax"), row(), square, square
        ),
        "x[i]": lambda: given(lambda x, i: x[i], row(), square),
        "x[i, j]": lambda: given(lambda x, i: x[i, row()], row(), square),
        "index_put": lambda: given(lambda x, y, i: x.index_put((i,), y), row(), square, square),
        "put": lambda: given(lambda x, y, i: x.put(i, y), places(n * n, n), square, (n,)),
    }


def cases_of_losses(n: int) -> dict[str, Callable[[], Case]]:
    """Return the cases of embeddings and losses."""
    square, row, grid = (n, n), partial(places, n, n), partial(places, n, n, n)
    image = (2, 3, n, n)
    return {
        "embedding": lambda: given(lambda w, i: F.embedding(i, w), row(), square),
        "sparse embedding": lambda: given(
            lambda w, i: F.embedding(i, w, sparse=True), row(), square
        ),
        **{
            f"embedding_bag {mode}": lambda mode=mode: given(  # type: ignore[misc]
                lambda w, i: F.embedding_bag(i, w, fd.tensor([0, 2]), mode=mode), row(), square
            )
            for mode in ("sum", "mean", "max")
        },
        "embedding_bag's offsets": lambda: given(
            lambda w, i: F.embedding_bag(row(), w, i), fd.tensor([0, 2, 3]), square
        ),
        "cross_entropy": lambda: given(F.cross_entropy, row(), square),
        "nll_loss": lambda: given(F.nll_loss, row(), square),
        "nll_loss of images": lambda: given(F.nll_loss, places(3, 2, n, n), image),
        "multi_margin_loss": lambda: given(F.multi_margin_loss, row(), square),
        "multilabel_margin_loss": lambda: given(F.multilabel_margin_loss, grid(), square),
        "ctc_loss": lambda: given(
            lambda x, i: F.ctc_loss(x.log_softmax(2), i, [n, n], [3, 3]),
            places(n - 1, 2, 3) + 1,
            (n, 2, n),
        ),
        "segment_reduce": lambda: given(
            lambda x, i: fd.segment_reduce(x, "sum", lengths=i), fd.tensor([2, n - 2]), square
        ),
    }


WAYS: dict[str, Callable[[Any, int], Any]] = {
    "in place": lambda index, bad: index.view(-1)[1:2].fill_(bad),
    "data": lambda index, bad: index.data.view(-1)[1:2].fill_(bad),
    "numpy": lambda index, bad: index.detach().numpy().reshape(-1).__setitem__(1, bad),
}


def passed(make: Callable[[], Case], change: Callable[[Any, int], Any]) -> str:
    """Return "fine" if, after each change, the gradient raises an error or is still right."""
    found = set()
    fd.manual_seed(0)
    expected = gradients(make())
    for bad in (10**9, 12345, -5, -(10**9)):
        fd.manual_seed(0)
        case = make()
        change(case.index, bad)
        try:
            ours = gradients(case)
        except VersionError:
            found.add("VersionError")
        except (IndexError, RuntimeError):
            found.add("fine")
        else:
            right = all(fd.equal(a, b) for a, b in zip(ours, expected, strict=True))
            # -5 may be valid, because it counts from the end; then the gradient may differ.
            found.add("fine" if right or bad == -5 else f"{bad} is believed")
    return ", ".join(sorted(found))


def gradients(case: Case) -> list[Any]:
    result = case.result if case.result.requires_grad else case.result.values()
    found = fd.autograd.grad(result.sum(), case.leaves)
    return [one.to_dense() for one in found]


def forked(names: list[str], change: str) -> dict[str, str]:
    def run(name: str) -> str:
        size, _, called = name.partition(" ")
        return passed(cases(SIDES[size])[called], WAYS[change])

    return outcomes(names, run)


NAMES = [f"{size} {name}" for size, side in SIDES.items() for name in cases(side)]


def test_a_gradient_refuses_indices_that_were_changed_in_place() -> None:
    assert forked(NAMES, "in place") == dict.fromkeys(NAMES, "VersionError")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("way", "serves"), [("data", "compiled"), ("numpy", "numpy")])
def test_a_gradient_by_indices_that_changed_unseen_raises_or_is_right(
    monkeypatch: pytest.MonkeyPatch, way: str, serves: str
) -> None:
    if serves == "numpy":
        monkeypatch.setattr(background, "numpy_serves", lambda: True)
        monkeypatch.setattr(background, "compile_later", lambda *given: None)
    assert forked(NAMES, way) == dict.fromkeys(NAMES, "fine")


def sparse(axes: int, **more: Any) -> Any:
    """Return a sparse tensor, and its indices."""
    indices = fd.arange(4).repeat(axes, 1)
    values = fd.ones(4, 3) if axes == 1 else fd.ones(4)
    return fd.sparse_coo_tensor(indices, values, (4, 3 + axes - 1)[:2], **more), indices


def stepped(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def step(s: Any) -> Any:
        weight = fd.nn.Parameter(fd.ones(s.shape))
        weight.grad = s
        make([weight]).step()
        return weight.sum()

    return step


USES: dict[str, Callable[[Any], Any]] = {
    "to_dense": lambda s: s.to_dense().sum(),
    "coalesce": lambda s: s.coalesce().to_dense().sum(),
    "dense add": lambda s: (fd.zeros(s.shape) + s).sum(),
    "dense add_": lambda s: fd.zeros(s.shape).add_(s).sum(),
    "add": lambda s: (s + s).to_dense().sum(),
    "mul": lambda s: (s * s).to_dense().sum(),
    "sum along": lambda s: s.sum(2 - s.sparse_dim()).to_dense().sum(),
    "t": lambda s: s.t().to_dense().sum() if s.sparse_dim() == 2 else s.to_dense().sum(),
    "mm": lambda s: (
        fd.sparse.mm(s, fd.ones(s.shape[1], 2)).sum() if s.sparse_dim() == 2 else s.to_dense().sum()
    ),
    "sparse mm": lambda s: (
        fd.sparse.mm(s, s.t()).to_dense().sum() if s.sparse_dim() == 2 else s.to_dense().sum()
    ),
    "softmax": lambda s: fd.sparse.softmax(s, 0).to_dense().sum(),
    "sparse_mask": lambda s: fd.ones(s.shape).sparse_mask(s).to_dense().sum(),
    "SGD": stepped(lambda given: fd.optim.SGD(given, lr=0.1)),
    "SGD with momentum": stepped(lambda given: fd.optim.SGD(given, lr=0.1, momentum=0.9)),
    "SparseAdam": stepped(lambda given: fd.optim.SparseAdam(given, lr=0.1)),
    "Adagrad": stepped(lambda given: fd.optim.Adagrad(given, lr=0.1)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("serves", ["compiled", "numpy"])
@pytest.mark.parametrize("is_coalesced", [False, True])
@pytest.mark.parametrize("axes", [1, 2])
def test_a_sparse_tensor_refuses_indices_that_changed_since_it_was_made(
    monkeypatch: pytest.MonkeyPatch, axes: int, is_coalesced: bool, serves: str
) -> None:
    if serves == "numpy":
        monkeypatch.setattr(background, "numpy_serves", lambda: True)
        monkeypatch.setattr(background, "compile_later", lambda *given: None)

    def run(name: str) -> str:
        found = set()
        for bad in BAD:
            for row in range(axes):
                s, indices = sparse(axes, is_coalesced=is_coalesced)
                indices[row, 1] = bad
                try:
                    USES[name](s)
                except IndexError:
                    found.add("raises")
                else:
                    found.add(f"{bad} in row {row} passes")
        return ", ".join(sorted(found))

    assert outcomes(USES, run) == dict.fromkeys(USES, "raises")


def test_a_step_by_a_sparse_gradient_refuses_indices_that_changed_since() -> None:
    def run(_: str) -> str:
        table = fd.nn.Embedding(50, 8, sparse=True)
        index = fd.arange(20)
        table(index).sum().backward()
        index.add_(10**9)
        with pytest.raises(IndexError, match="for dim 0, size is 50 but found index 1000000000"):
            fd.optim.SGD(table.parameters(), lr=0.1).step()
        return "raises"

    assert outcomes(["step"], run) == {"step": "raises"}


def race(rounds: int) -> str:
    """Call functions that read indices while a thread writes wrong and right indices."""
    n = 96
    index, grid = fd.arange(n), fd.arange(n).repeat(n, 1)
    x, over = fd.nn.Parameter(fd.ones(n, n)), threading.Event()
    image, many = fd.arange(64 * 64).reshape(1, 1, 64, 64) // 4, fd.arange(1 << 14) % n
    calls = [
        lambda: x.gather(1, grid),
        lambda: x.scatter_add(1, grid, x),
        lambda: x.index_select(0, index),
        lambda: x.index_add(0, index, x),
        lambda: x[index],
        lambda: x.index_put((index,), x),
        lambda: x[grid, grid],
        lambda: x.index_put((grid, grid), x),
        lambda: x.index_put((grid, grid), x, True),
        lambda: F.cross_entropy(x, index),
        lambda: F.nll_loss(x, index),
        lambda: F.embedding(index, x, sparse=True),
        lambda: fd.sparse_coo_tensor(index[None], x.detach(), (n, n)).to_dense(),
        lambda: fd.sparse.mm(fd.sparse_coo_tensor(grid[:2], x.detach()[0], (n, n)), x.detach()),
        lambda: F.max_unpool2d(fd.ones(1, 1, 64, 64), image, 2),
        lambda: fd.bincount(index),
        lambda: fd.bincount(many),
        lambda: fd.bincount(many, many),
        lambda: x.repeat_interleave(index.clamp(max=3), 0),
    ]

    def spoil() -> None:
        arrays = [one.numpy().reshape(-1) for one in (index, grid, image, many)]
        while not over.is_set():
            for array in arrays:
                kept = int(array[7])
                for bad in (10**9, -(10**9), 12345):
                    array[7] = bad
                array[7] = kept

    thread, interval = threading.Thread(target=spoil), sys.getswitchinterval()
    # A thread can run for 5 ms by default, and the other one would mostly wait.
    sys.setswitchinterval(1e-4)
    thread.start()
    try:
        for _ in range(rounds):
            for call in calls:
                try:
                    found: Any = call()
                    if found.requires_grad:
                        found.sum().backward()
                except (IndexError, RuntimeError):
                    pass  # the expected error for a wrong index
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)
    return "lives"


@pytest.mark.parametrize("rounds", [3, pytest.param(2000, marks=pytest.mark.slow)])
def test_calls_outlive_a_thread_that_writes_wrong_indices(rounds: int) -> None:
    assert outcomes(["race"], lambda _: race(rounds)) == {"race": "lives"}
