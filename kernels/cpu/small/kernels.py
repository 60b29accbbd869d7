"""All kernels for small arrays, by the names of the ordinary kernels that they replace."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from . import reductions, rows
from .call_facts import GRADIENTS, KERNELS, CallFacts, Run

__all__ = ["reductions", "rows", "small_gradients", "small_kernel"]

# Modules (0.7 MB) that few programs use. A module is loaded when a kernel's name contains its key.
LATER: Final = {
    "slope": "small.second_gradients", "fft.": "fft.transforms", "windows.": "small.windows",
    "weighted_": "small.windows",
    "sorting.": "small.sorting", "loss.": "small.losses",
    "convolution.": "small.convolution",
    "channel_norms.": "small.channel_norms", "batch_norm.": "small.channel_norms",
    "indexing.": "small.indexing", "copying.": "small.indexing",
}  # fmt: skip
_PACKAGE: Final = __package__.rpartition(".")[0]


def _load_family(name: str) -> None:
    for text, module in LATER.items():
        if text in name:
            import_module(f"{_PACKAGE}.{module}")


def small_kernel(name: str, facts: CallFacts) -> Run | None:
    """Return the function that computes a new result, or a tuple of results, from raw arrays."""
    _load_family(name)
    maker = KERNELS.get(name)
    return None if maker is None else maker(facts)


def small_gradients(name: str, facts: CallFacts) -> tuple[Run | None, ...] | None:
    """Return the functions that compute the gradients; None if the op's vjps must be used."""
    _load_family(name)
    maker = GRADIENTS.get(name)
    return None if maker is None else maker(facts)
