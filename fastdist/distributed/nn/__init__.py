"""Modules that live on other workers.

api/remote_module.py  RemoteModule, whose forward runs where its parameters are
functional.py         PyTorch's names of collectives, each of which says what to do instead
"""

from __future__ import annotations

from ...core.missing import explain_missing
from .api.remote_module import RemoteModule
from .functional import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = [
    "RemoteModule", "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast",
    "gather", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip

explain_missing(__name__)
