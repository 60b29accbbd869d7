"""Sparse gradients of a table of 200,000 rows, local and on another worker; sparse products."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from .distributed.rpc import compare_couples, serve, stand_by, warn_nobody
from .harness import Case, Row, Stopwatch, compare, peer_torch, stopwatch

NEEDS = ("zmq",)
ROWS, WIDTH = 200_000, 64
TOUCHED = (100, 10_000)
WAYS = {"SGD": 2.0, "Adagrad": 1.0, "SparseAdam": 1.0}
# case: (key in `_works`, turns per sample, ratio to reach)
APART: dict[str, tuple[str, int, float | None]] = {
    "100 rows of a table there, sparse": ("rows", 20, 1.0),
    "100 rows of a table there, dense": ("rows, dense", 1, None),
    "a table of 20,000 sent, 100 rows of it there, sparse": ("sent", 5, 1.0),
    "a table of 20,000 sent, 100 rows of it there, dense": ("sent, dense", 5, None),
}


def run(rounds: int) -> list[Row]:
    """Compare forward, backward and step of a table, products, and a table on another worker."""
    import fastdist

    torch = peer_torch()
    cases = []
    for touched in TOUCHED:
        for way, goal in WAYS.items():
            watches = [_step(one, way, touched) for one in (fastdist, torch) if one]
            cases.append(Case(f"{way}, {touched:,} of {ROWS:,} rows", *watches, target=goal))
    for name, work in PRODUCTS.items():
        watches = [_product(one, work) for one in (fastdist, torch) if one]
        cases.append(Case(name, *watches, target=1.0))
    return [*compare(cases, rounds), *compare_couples(__name__, APART, rounds)]


def _step(library: Any, way: str, touched: int) -> Stopwatch:
    """Return a stopwatch of a table's forward, backward and optimizer step."""
    import numpy as np

    table = library.nn.Embedding(ROWS, WIDTH, sparse=True)
    optimizer = getattr(library.optim, way)(list(table.parameters()), lr=0.01)
    places = library.tensor(np.random.default_rng(0).integers(0, ROWS, touched))

    def work() -> None:
        optimizer.zero_grad()
        table(places).sum().backward()
        optimizer.step()

    return stopwatch(work)


PRODUCTS: dict[str, Callable[[Any, Any, Any], object]] = {
    "sparse.mm, 1% of 2,000 x 2,000 by 64": lambda library, a, b: library.sparse.mm(a, b),
    "coalesce 40,000 entries": lambda library, a, b: (a + a.t()).coalesce(),
    "sparse.sum along an axis": lambda library, a, b: library.sparse.sum(a, 0),
}


def _product(library: Any, work: Callable[[Any, Any, Any], object]) -> Stopwatch:
    import numpy as np

    rng = np.random.default_rng(0)
    places = library.tensor(rng.integers(0, 2000, (2, 40_000)))
    values = library.tensor(rng.standard_normal(40_000, dtype=np.float32))
    a = library.sparse_coo_tensor(places, values, (2000, 2000)).coalesce()
    b = library.tensor(rng.standard_normal((2000, WIDTH), dtype=np.float32))
    return stopwatch(lambda: work(library, a, b))


# ---- on the other worker ------------------------------------------------------------------------

_library: Any = None
_tables: dict[int, Any] = {}


def look_up(places: Any, sparse: bool) -> Any:
    """Return rows of this worker's table."""
    table = _tables.get(0)
    if table is None:
        table = _tables[0] = _library.ones(ROWS, WIDTH).requires_grad_()
    return _library.nn.functional.embedding(places, table, sparse=sparse)


def look_up_in(table: Any, places: Any, sparse: bool) -> Any:
    """Return rows of a table that the caller sent."""
    return _library.nn.functional.embedding(places, table, sparse=sparse)


def step(context_id: int) -> None:
    """Update this worker's table with the table's gradient in the context of that id."""
    autograd = importlib.import_module(f"{_library.__name__}.distributed.autograd")
    table = _tables[0]
    with _library.no_grad():
        table.add_(autograd.get_gradients(context_id)[table], alpha=-0.01)


def _works(rpc: Any, autograd: Any) -> dict[str, Callable[[int], None]]:
    places = _library.arange(100) * 97
    table = _library.ones(ROWS // 10, WIDTH).requires_grad_()

    def rows(number: int, sparse: bool) -> None:
        for _ in range(number):
            with autograd.context() as context_id:
                found = rpc.rpc_sync("w1", look_up, (places, sparse))
                autograd.backward(context_id, [found.sum()])
                rpc.rpc_sync("w1", step, (context_id,))

    def sent(number: int, sparse: bool) -> None:
        for _ in range(number):
            with autograd.context() as context_id:
                found = rpc.rpc_sync("w1", look_up_in, (table, places, sparse))
                autograd.backward(context_id, [found.sum()])

    return {
        "rows": lambda number: rows(number, sparse=True),
        "rows, dense": lambda number: rows(number, sparse=False),
        "sent": lambda number: sent(number, sparse=True),
        "sent, dense": lambda number: sent(number, sparse=False),
    }


def _live(library: str, rank: int, connection: Connection) -> None:
    global _library
    _library = importlib.import_module(library)
    if library == "torch":
        _library.set_num_threads(1)
        warn_nobody()
    rpc = importlib.import_module(f"{library}.distributed.rpc")
    autograd = importlib.import_module(f"{library}.distributed.autograd")
    rpc.init_rpc(f"w{rank}", rank=rank, world_size=2)
    if rank == 0:
        serve(_works(rpc, autograd), connection)
    else:
        stand_by()
    rpc.shutdown()


if __name__ == "__main__":
    # Import this module by its name, because other workers cannot find functions of __main__.
    live = importlib.import_module("bench.sparse")._live
    live(sys.argv[1], int(sys.argv[2]), Connection(int(sys.argv[3])))
