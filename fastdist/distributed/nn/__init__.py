"""Modules on other workers, and differentiable collectives.

api/remote_module.py  RemoteModule, whose forward runs on the worker that owns its parameters
functional.py         the public collectives, which return their results
collective.py         the op that implements all collectives; its derivatives are collectives too
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...core.missing import load_later
from .api.remote_module import RemoteModule

if TYPE_CHECKING:
    from .functional import all_gather as all_gather
    from .functional import all_reduce as all_reduce
    from .functional import all_to_all as all_to_all
    from .functional import all_to_all_single as all_to_all_single
    from .functional import broadcast as broadcast
    from .functional import gather as gather
    from .functional import recv as recv
    from .functional import reduce as reduce
    from .functional import reduce_scatter as reduce_scatter
    from .functional import scatter as scatter
    from .functional import send as send

_COLLECTIVES: Final = (
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "recv",
    "reduce", "reduce_scatter", "scatter", "send",
)  # fmt: skip
__all__ = ["RemoteModule", *_COLLECTIVES]  # noqa: PLE0604

# `functional` imports the package of process groups, which a worker that only uses RPC does not
# need.
load_later(__name__, {"functional": "", **dict.fromkeys(_COLLECTIVES, "functional")})
