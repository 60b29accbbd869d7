"""PyTorch's collectives with gradients, which are not here: their names say what to do instead."""

from __future__ import annotations

from ...core.missing import NO_COLLECTIVES, explain_missing, refusing

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce",
    "reduce_scatter", "scatter",
]  # fmt: skip

all_gather = refusing(__name__, "all_gather", NO_COLLECTIVES)
all_reduce = refusing(__name__, "all_reduce", NO_COLLECTIVES)
all_to_all = refusing(__name__, "all_to_all", NO_COLLECTIVES)
all_to_all_single = refusing(__name__, "all_to_all_single", NO_COLLECTIVES)
broadcast = refusing(__name__, "broadcast", NO_COLLECTIVES)
gather = refusing(__name__, "gather", NO_COLLECTIVES)
reduce = refusing(__name__, "reduce", NO_COLLECTIVES)
reduce_scatter = refusing(__name__, "reduce_scatter", NO_COLLECTIVES)
scatter = refusing(__name__, "scatter", NO_COLLECTIVES)

explain_missing(__name__)
