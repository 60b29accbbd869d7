"""save and load: a state dict of 1 GB, and 10,000 small tensors, in a file in the page cache."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from bench.harness import Amount, Case, Row, Stopwatch, compare, peer_torch, stopwatch

LARGE = 16  # the number of tensors of 64 MiB
SMALL = 10_000
_MIB = 1 << 20


def run(rounds: int) -> list[Row]:
    """Compare writing and reading. fastdist also syncs to the disk, and checks what it reads."""
    import fastdist

    torch = peer_torch()
    with tempfile.TemporaryDirectory() as folder:
        large = cases("1 GB", folder, fastdist, torch, big_state, 1.0737)
        small = cases("10,000 tensors", folder, fastdist, torch, small_state)
        return [*compare(large, min(rounds, 5)), *compare(small, min(rounds, 9))]


def big_state(library: Any) -> dict[str, Any]:
    """Return a state dict of 1 GB in 16 tensors."""
    return {f"layer{n}.weight": library.ones(4096, 4096) * n for n in range(LARGE)}


def small_state(library: Any) -> dict[str, Any]:
    """Return a state dict of 10,000 tensors of 10 numbers."""
    return {f"layer{n}.bias": library.ones(10) for n in range(SMALL)}


def cases(
    title: str, folder: str, fastdist: Any, torch: Any, make: Any, gigabytes: float | None = None
) -> list[Case]:
    """Return the cases of saving, loading, and loading with mmap for one state dict."""
    amount = None if gigabytes is None else Amount(gigabytes * 1e9, "GB/s")
    ours, peer = ways(fastdist, folder, make), ways(torch, folder, make) if torch else {}
    return [
        Case(f"{name} {title}", work, peer.get(name), 1.0, number=1, amount=amount)
        for name, work in ours.items()
    ]


def ways(library: Any, folder: str, make: Any) -> dict[str, Stopwatch]:
    """Return a stopwatch for each operation, on an existing file."""
    state = make(library)
    path = os.path.join(folder, f"{library.__name__}-{len(state)}.pt")
    library.save(state, path)
    return {
        "save": stopwatch(lambda: library.save(state, path)),
        "load": stopwatch(lambda: library.load(path)),
        "load mmap": stopwatch(lambda: library.load(path, mmap=True)),
    }
