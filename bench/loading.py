"""DataLoader: how soon two workers deliver batches, and how many samples per second."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, Stopwatch, compare, peer_torch, stopwatch

BATCH = 20
FEW, MANY = 200, 2000
SERVER = "2 workers of a server, 200 items"


class Pictures:
    """Small images with their labels, as tensors of one library."""

    def __init__(self, library: str, count: int) -> None:
        self.library, self.count = library, count

    def __getitem__(self, index: int) -> Any:
        return importlib.import_module(self.library).full((3, 32, 32), float(index)), index % 10

    def __len__(self) -> int:
        return self.count


def run(rounds: int) -> list[Row]:
    """Compare whole epochs; in the epochs of 200 items, workers start and stop."""
    import fastdist

    torch = peer_torch()
    ours, peer = ways(fastdist), ways(torch) if torch else {}
    # torch is not timed with a fork server: each worker would import torch, which takes seconds.
    peer.pop(SERVER, None)
    cases = [
        Case(name, watch, peer.get(name), 1.0 if name.startswith("here") else 1.5, number=1)
        for name, watch in ours.items()
    ]
    return compare(cases, min(rounds, 11))


def ways(library: Any) -> dict[str, Stopwatch]:
    """Return a stopwatch for each way of iterating over the data."""
    importlib.import_module(f"{library.__name__}.utils.data")
    lasting = epoch(library, MANY, 2, persistent_workers=True)
    lasting()
    return {
        "first batch of 2 workers": stopwatch(epoch(library, FEW, 2, stop=1)),
        "2 workers, 200 items": stopwatch(epoch(library, FEW, 2)),
        SERVER: stopwatch(epoch(library, FEW, 2, multiprocessing_context="forkserver")),
        "2 lasting workers, 2,000 items": stopwatch(lasting),
        "here, 2,000 items": stopwatch(epoch(library, MANY, 0)),
    }


def epoch(
    library: Any, count: int, workers: int, stop: int = 0, **options: Any
) -> Callable[[], None]:
    """Return a function that iterates over one epoch, or over its first `stop` batches."""
    data = Pictures(library.__name__, count)
    loader = library.utils.data.DataLoader(data, BATCH, num_workers=workers, **options)

    def go() -> None:
        for number, _ in enumerate(loader, 1):
            if number == stop:
                break

    return go
