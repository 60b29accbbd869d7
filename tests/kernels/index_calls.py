"""Calls of every kernel that takes indices, with out-of-range indices.

The kernel gets the index without a check, as if it had changed after the check. The calls are made
on CPU kernels and, where `twins` are given, on CUDA kernels.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.house.test_twins import KERNELS, kernels_in

Array = np.ndarray[Any, Any]
# Values outside of every axis in these tests: far away, in other mapped memory, or negative.
BAD = (10**9, 12345, -5, -(10**9), 2**62, -(2**63))

# Names of parameters of kernels: some hold indices, others do not. Add each new name to one list.
_INDEX_NAMES = """
index indices letters order pivots places sizes starts table target upto
"""
_OTHER_NAMES = """
a accumulate alpha atol axes axis b backwards batch_sizes before bias by_bias by_key by_mask
by_value by_weight cell concentration correction count cx d_cx d_hx descending deviation
diagonal dilation dim1 dim2 doubled dropout end eps factor fill first forward full g gates grid
groups halved hermitian high hx ignored include_self info is_causal k keep keep_square kept
kernel key largest last_c last_h length lengths log_probs log_sum low mask mean mode n norm
num_groups offset onesided out over padding prob query rate reduction result reverse right rows
rtol saved scale scales seed shifts sign size square src start step stride sums taps total
totals unitriangular upper value values variance vectors way weight weights whole wide window
windows x y zero_infinity
"""
INDEX_NAMES, OTHER_NAMES = frozenset(_INDEX_NAMES.split()), frozenset(_OTHER_NAMES.split())
# Kernels in which a parameter with such a name is a result or a number, not an index.
NO_INDEX = {
    "shape.copying.place": "index holds Python's integers and slices, which nobody changes",
    "reduce.sorting.sort": "indices are a result",
    "reduce.sorting.topk": "indices are a result",
    "reduce.reductions.max_along": "indices are a result",
    "reduce.reductions.min_along": "indices are a result",
    "reduce.reductions.norm": "order is a number, that of the norm",
    "reduce.scan.cummax": "indices are a result",
    "reduce.scan.cummin": "indices are a result",
    "linalg.dense.ldl": "pivots are a result",
    "linalg.dense.ldl_solve": "checks a copy of pivots and gives NaN, see tests/core/test_ldl.py",
    "linalg.dense.lu": "pivots are a result",
    "nn.windows.largest": "places are a result",
    "index.searching.hits": "the CPU counts itself; upto is for CUDA, see test_indices there",
}


def kernels_with_indices() -> dict[str, list[str]]:
    """Return the parameters of each kernel that takes indices."""
    return {
        name: parameters
        for name, parameters in kernels_in("cpu").items()
        if INDEX_NAMES.intersection(parameters) and name not in NO_INDEX
    }


class Room:
    """Arrays surrounded by canaries. `foreign` is true after a write outside of an array."""

    def __init__(self) -> None:
        self._arrays: list[tuple[Array, int, int]] = []

    def array(self, values: Any, dtype: Any = None) -> Any:
        """Return an array of these values in C order, with wide canaries around it."""
        given = np.ascontiguousarray(values, dtype)
        before = 1 << 19
        whole = np.full(2 * before + given.nbytes, 0xA5, np.uint8)
        inside = whole[before : before + given.nbytes].view(given.dtype).reshape(given.shape)
        inside[...] = given
        self._arrays.append((whole, before, given.nbytes))
        return inside

    def spread(self, values: Array, shape: tuple[int, ...]) -> Any:
        """Return an array of these values, repeated along axes."""
        return np.broadcast_to(self.array(values), shape)

    @property
    def foreign(self) -> bool:
        """Whether memory around an array was written."""
        return any(
            (whole[:begin] != 0xA5).any() or (whole[begin + size :] != 0xA5).any()
            for whole, begin, size in self._arrays
        )


def _spoilt(index: Array, bad: int) -> Array:
    """Return a copy of the index with its middle element replaced by `bad`."""
    found = np.array(index)
    found.reshape(-1)[found.size // 2] = bad
    return found


Calls = Iterator[Callable[[], None]]
Call = Callable[[Any, Room, bool, int], Calls]
CALLS: dict[str, Call] = {}


def _call(name: str) -> Callable[[Call], Call]:
    def keep(call: Call) -> Call:
        CALLS[name] = call
        return call

    return keep


def _matrices(large: bool) -> tuple[int, int]:
    # Compiled loops are used from 4096 elements on.
    return (96, 64) if large else (4, 5)


def _along(name: str) -> None:
    @_call(f"index.indexing.{name}")
    def _(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
        n, m = _matrices(large)
        index = room.array(_spoilt(np.arange(n * m).reshape(n, m) % m, bad))
        x, src, out = (room.array(np.ones((n, m), np.float32)) for _ in range(3))
        given = {
            "gather": (x, index, out, 1),
            "scatter": (x, index, src, out, 1),
            "scatter_add": (x, index, src, out, 1),
            "scatter_zeros": (x, index, out, 1),
        }[name]
        yield partial(getattr(kernels, name), *given)


for _name in ("gather", "scatter", "scatter_add", "scatter_zeros"):
    _along(_name)


@_call("index.indexing.select")
def _select(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    x, out = (room.array(np.ones((n, m), np.float32)) for _ in range(2))
    yield partial(kernels.select, x, room.array(_spoilt(np.arange(n), bad)), out, 0)


@_call("index.indexing.add")
def _add(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    for axis, length in enumerate((n, m)):
        x, src, out = (room.array(np.ones((n, m), np.float32)) for _ in range(3))
        index = room.array(_spoilt(np.arange(length), bad))
        yield partial(kernels.add, x, index, src, out, axis, np.float32(1))


def _at_places(name: str) -> None:
    @_call(f"index.indexing.{name}")
    def _(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
        lengths, count = (6, 7, 8), 4200 if large else 5
        right = [np.arange(count) % n - n // 2 for n in lengths]
        for places, wrong in itertools.product((1, 2, 3), range(3)):
            if wrong >= places:
                continue
            n = lengths[wrong]
            numbers = right[:places]
            numbers[wrong] = _spoilt(numbers[wrong], max(bad if bad >= 0 else bad - n, -(2**63)))
            vectors = [room.array(one) for one in numbers]
            x, whole = (room.array(np.ones(lengths, np.float32)) for _ in range(2))
            some = room.array(np.ones((count, *lengths[places:]), np.float32))
            given: Any = {
                "take": [(x, some, tuple(vectors))],
                "put": [(some, whole, tuple(vectors), adds) for adds in (False, True)],
                "put_zeros": [(some, whole, tuple(vectors))],
                "replace": [(x, some, whole, tuple(vectors), adds) for adds in (False, True)],
            }[name]
            for one in given:
                yield partial(getattr(kernels, name), *one)


for _name in ("take", "put", "put_zeros", "replace"):
    _at_places(_name)


@_call("index.scattering.reduce")
def _reduce(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    index = room.array(_spoilt(np.arange(n * m).reshape(n, m) % m, bad))
    column = room.spread(_spoilt(np.arange(n), bad)[:, None], (n, m))
    for way in ("sum", "mean", "amax"):
        for which, axis in ((index, 1), (column, 0)):
            x, src, out = (room.array(np.ones((n, m), np.float32)) for _ in range(3))
            yield partial(kernels.reduce, x, which, src, out, axis, way, True)


@_call("nn.windows.pick")
def _pick(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    side = 64 if large else 6
    places = room.array(_spoilt(np.zeros((2, side // 2, side // 2), np.int64), bad))
    x = room.array(np.ones((2, side, side), np.float32))
    out = room.array(np.ones((2, side // 2, side // 2), np.float32))
    yield partial(kernels.pick, x, places, out, ((2, 2, 0, 1),) * 2)


@_call("nn.windows.spread")
def _spread(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    side = 64 if large else 6
    places = room.array(_spoilt(np.zeros((2, side // 2, side // 2), np.int64), bad))
    g = room.array(np.ones((2, side // 2, side // 2), np.float32))
    out = room.array(np.ones((2, side, side), np.float32))
    yield partial(kernels.spread, g, places, out, ((2, 2, 0, 1),) * 2)


@_call("sparse.coordinates.add_entries")
def _add_entries(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    for axes in (1, 2):
        indices = _spoilt(np.zeros((axes, n), np.int64), bad)
        values = room.array(np.ones((n, m) if axes == 1 else (n,), np.float32))
        yield partial(
            kernels.add_entries,
            values,
            room.array(indices),
            room.array(np.ones((n, m), np.float32)),
        )


@_call("sparse.coordinates.flat_places")
def _flat_places(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    indices = room.array(_spoilt(np.zeros((2, n), np.int64), bad))
    yield partial(kernels.flat_places, indices, room.array(np.zeros(n, np.int64)), (n, m))


@_call("sparse.coordinates.gather_add")
def _gather_add(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    for wrong in ("places", "starts"):
        given = {"starts": np.arange(n + 1), "places": np.arange(n)}
        given[wrong] = _spoilt(given[wrong], bad)
        x, out = (room.array(np.ones((n, m), np.float32)) for _ in range(2))
        weights = room.array(np.ones(n, np.float32))
        yield partial(kernels.gather_add, x, *map(room.array, given.values()), weights, out)


def _step(name: str) -> None:
    @_call(f"sparse.touched_rows.{name}")
    def _(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
        n, m = _matrices(large)
        more = (0.1, 1e-8) if name == "adagrad" else (0.1, 0.9, 0.99, 1e-8)
        for wrong, dtype in itertools.product(("places", "order"), (np.float32, np.float16)):
            given = {"places": np.arange(n), "order": np.arange(n)}
            given[wrong] = _spoilt(given[wrong], bad)
            rows = [room.array(np.ones((n, m), dtype)) for _ in range(len(more) // 2 + 1)]
            numbers = [room.array(given[one]) for one in ("places", "order")]
            values = room.array(np.ones((n, m), dtype))
            yield partial(getattr(kernels, name), values, *numbers, *rows, *more)


for _name in ("adagrad", "sparse_adam"):
    _step(_name)


@_call("nn.cross_entropy.rows")
def _cross_entropy(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    x, weights = (room.array(np.ones((n, m), np.float32)) for _ in range(2))
    out, totals = (room.array(np.ones(n, np.float32)) for _ in range(2))
    yield partial(
        kernels.rows, x, room.array(_spoilt(np.zeros(n, np.int64), bad)), out, weights, totals, 0
    )


@_call("nn.cross_entropy.losses")
def _losses(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    x, out = room.array(np.ones((n, m), np.float32)), room.array(np.ones(n, np.float32))
    yield partial(kernels.losses, x, room.array(_spoilt(np.zeros(n, np.int64), bad)), out, 0)


@_call("nn.cross_entropy.rows_gradient")
def _rows_gradient(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    weights, out = (room.array(np.ones((n, m), np.float32)) for _ in range(2))
    g, totals = (room.array(np.ones(n, np.float32)) for _ in range(2))
    yield partial(
        kernels.rows_gradient,
        g,
        room.array(_spoilt(np.zeros(n, np.int64), bad)),
        weights,
        totals,
        out,
        0,
    )


@_call("nn.cross_entropy.slope")
def _slope(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    weights, out, x = (room.array(np.ones((n, m), np.float32)) for _ in range(3))
    g, totals = (room.array(np.ones(n, np.float32)) for _ in range(2))
    target = room.array(_spoilt(np.zeros(n, np.int64), bad))
    yield partial(kernels.slope, g, x, target, weights, totals, out, 0)


@_call("nn.loss.nll")
def _nll(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    target = room.array(_spoilt(np.zeros(n, np.int64), bad))
    for weight in (None, room.array(np.ones(m, np.float32))):
        out, total = room.array(np.ones(n, np.float32)), room.array(np.ones((), np.float32))
        x = room.array(np.ones((n, m), np.float32))
        yield partial(kernels.nll, x, target, weight, out, total, -100, 0)


@_call("nn.loss.nll_gradient")
def _nll_gradient(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    target = room.array(_spoilt(np.zeros(n, np.int64), bad))
    for weight in (None, room.array(np.ones(m, np.float32))):
        g, total = room.array(np.ones(n, np.float32)), room.array(np.ones((), np.float32))
        out = room.array(np.ones((n, m), np.float32))
        yield partial(kernels.nll_gradient, g, target, weight, total, out, -100, 0)


def _ctc(name: str) -> None:
    @_call(f"nn.ctc.{name}")
    def _(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
        steps, n, classes, most = (30, 4, 20, 9) if large else (5, 2, 4, 3)
        for wrong in ("letters", "steps", "width"):
            letters, sizes = np.zeros((n, most), np.int64), np.tile([steps, most], (n, 1))
            if wrong == "letters":
                letters = _spoilt(letters, bad)
            else:
                sizes[1, int(wrong == "width")] = bad
            x = room.array(np.full((steps, n, classes), -1.0, np.float32))
            given = x, room.array(letters), room.array(sizes)
            alpha = room.array(np.zeros((n, steps, most)))
            g = room.array(np.ones(n, np.float32))
            if name == "losses":
                yield partial(kernels.losses, *given, g, alpha, False)
            else:
                out = room.array(np.ones((steps, n, classes), np.float32))
                yield partial(kernels.gradient, g, *given, alpha, out, False)


for _name in ("losses", "gradient"):
    _ctc(_name)


@_call("nn.weighted_neighbours.weigh")
def _weigh(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n = 64 if large else 6
    for place in (n // 2, n + 1 + n // 2):  # an index in the starts, and one in the positions
        table = np.concatenate([np.arange(n + 1), np.arange(n)])
        table[place] = bad
        x, out = (room.array(np.ones((3, n), np.float32)) for _ in range(2))
        # Use three axes, of which the first two have one element.
        whole = np.concatenate([[0, 1], [0], [0, 1], [0], table]).astype(np.int64)
        weights = np.ones(2 + n, np.float32)
        yield partial(kernels.weigh, x, room.array(whole), room.array(weights), out, (n,))


@_call("reduce.sorting.nth")
def _nth(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    n, m = _matrices(large)
    places = room.array(_spoilt(np.zeros((n, 1), np.int64), bad))
    out, indices = room.array(np.ones((n, 1), np.float32)), room.array(np.zeros((n, 1), np.int64))
    yield partial(kernels.nth, room.array(np.ones((n, m), np.float32)), places, out, indices, 1)


@_call("linalg.dense.permutation")
def _permutation(kernels: Any, room: Room, large: bool, bad: int) -> Calls:
    pivots = np.clip(_spoilt(np.arange(1, 5), bad), -(2**31), 2**31 - 1)
    yield partial(
        kernels.permutation, room.array(pivots, np.int32), room.array(np.zeros(4, np.int64))
    )


def names_of_parameters() -> set[str]:
    """Return the names of all parameters of kernels."""
    return {one for parameters in kernels_in("cpu").values() for one in parameters}


def compiled_functions() -> dict[str, ast.FunctionDef]:
    """Return the functions of kernels/cpu that Numba compiles, by file and name."""
    found = {}
    for path in sorted((KERNELS / "cpu").rglob("*.py")):
        for node in ast.walk(ast.parse(Path(path).read_text())):
            if isinstance(node, ast.FunctionDef) and any(map(_compiles, node.decorator_list)):
                parts = path.relative_to(KERNELS / "cpu").with_suffix("").parts
                found[".".join((*parts, node.name))] = node
    return found


def _compiles(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return isinstance(called, ast.Name) and called.id in ("compiled", "_part")
