"""Process groups and their collectives: the names that packages import.

The constants are real. Functions and classes that would communicate refuse when they
are called; core/refused_names.py lists them.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ..core.missing import load_later
from ..core.refused import refused_in
from .constants import default_pg_timeout as default_pg_timeout

if TYPE_CHECKING:
    from .rendezvous import rendezvous as rendezvous
    from .store import FileStore as FileStore
    from .store import HashStore as HashStore
    from .store import PrefixStore as PrefixStore
    from .store import Store as Store
    from .store import TCPStore as TCPStore

REAL: Final = (
    "Backend", "DebugLevel", "DistBackendError", "DistError", "DistNetworkError", "DistStoreError",
    "GroupMember", "GroupName", "QueueEmptyError", "RankType", "ReduceOp", "default_pg_timeout",
    "get_debug_level", "get_default_backend_for_device", "get_node_local_rank", "get_pg_count",
    "group", "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "reduce_op", "set_debug_level", "set_debug_level_from_env", "supports_complex",
)  # fmt: skip
REFUSED: Final = refused_in(__name__)
globals().update(REFUSED)
__all__ = [*REAL, *(name for name in REFUSED if not name.startswith("_"))]  # noqa: PLE0604
# What `distributed` offers as well: all but the backends that only some builds of PyTorch have,
# and some private names.
_PRIVATE_ABOVE = (
    "_all_gather_base", "_broadcast_coalesced", "_coalescing_manager",
    "_create_process_group_wrapper", "_get_process_group_name", "_rank_not_in_group",
    "_reduce_scatter_base",
)  # fmt: skip
OFFERED_ABOVE: Final = frozenset({*__all__, *_PRIVATE_ABOVE}) - {
    "ProcessGroupMPI",
    "ProcessGroupNCCL",
}


class DistError(RuntimeError):
    """The base class of errors of process groups."""


class DistBackendError(DistError):
    """A backend failed."""


class DistNetworkError(DistError):
    """A connection failed."""


class DistStoreError(DistError):
    """A store failed."""


class QueueEmptyError(DistStoreError):
    """A queue of a store was empty."""


GroupName = str
RankType = int


class _Operation(enum.IntEnum):
    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __repr__(self) -> str:
        return f"<{self}: {self.value}>"


class _ReduceOpMeta(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _Operation) or super().__instancecheck__(value)


class ReduceOp(metaclass=_ReduceOpMeta):
    """How a reduction combines the values of the workers, such as `ReduceOp.SUM`."""

    RedOpType = _Operation
    SUM = _Operation.SUM
    AVG = _Operation.AVG
    PRODUCT = _Operation.PRODUCT
    MIN = _Operation.MIN
    MAX = _Operation.MAX
    BAND = _Operation.BAND
    BOR = _Operation.BOR
    BXOR = _Operation.BXOR
    PREMUL_SUM = _Operation.PREMUL_SUM

    def __init__(self, op: _Operation) -> None:
        self.op = _Operation(op)

    def __eq__(self, other: object) -> bool:
        return self.op == getattr(other, "op", other)

    def __hash__(self) -> int:
        return hash(self.op)


# Its name before there was ReduceOp.
reduce_op = ReduceOp


class Backend(str):
    """The name of what carries collectives, in lower case: `Backend("GLOO") == "gloo"`."""

    __slots__ = ()
    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    XCCL = "xccl"
    UCC = "ucc"
    MPI = "mpi"
    FAKE = "fake"
    backend_list: Final = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: Final = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        """Return the name in lower case.

        Raises:
            ValueError: The name is not a string.
        """
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        return name.lower()

    @classmethod
    def register_backend(cls, name: str, func: Callable[..., Any], *args: Any, **more: Any) -> None:
        """Refuse: there are no process groups that a backend could serve."""
        REFUSED["init_process_group"]()


class GroupMember:
    """The places of a process in the default group; without such a group there are none."""

    WORLD = None
    NON_GROUP_MEMBER = -100


# The name that most programs use for the default group: `group.WORLD`.
group = GroupMember


class DebugLevel(enum.IntEnum):
    """How much PyTorch checks of collectives: with TORCH_DISTRIBUTED_DEBUG."""

    OFF = 0
    INFO = 1
    DETAIL = 2


_debug_level = DebugLevel.OFF


def get_debug_level() -> DebugLevel:
    """Return the level that was set, OFF at first."""
    return _debug_level


def set_debug_level(level: DebugLevel) -> None:
    """Set the level; no collective reads it yet."""
    global _debug_level
    _debug_level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """Set the level from TORCH_DISTRIBUTED_DEBUG.

    Raises:
        RuntimeError: The variable has another value than OFF, INFO and DETAIL.
    """
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if text not in DebugLevel.__members__:
        raise RuntimeError(f"TORCH_DISTRIBUTED_DEBUG is {text!r}; it can be OFF, INFO or DETAIL")
    set_debug_level(DebugLevel[text])


def is_initialized() -> bool:
    """Return False: there is no default process group; workers of RPC meet by rpc.init_rpc."""
    return False


def is_nccl_available() -> bool:
    """Return False."""
    return False


is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Return False: no backend carries collectives yet."""
    return False


def is_torchelastic_launched() -> bool:
    """Return whether PyTorch's elastic agent started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_pg_count() -> int:
    """Return 0: the number of process groups."""
    return 0


def get_default_backend_for_device(device: Any) -> str:
    """Return the backend that PyTorch uses for a device, such as "gloo" for "cpu".

    Raises:
        ValueError: There is none for this type of device.
    """
    kind = str(getattr(device, "type", device)).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return this process's rank on its machine, from LOCAL_RANK.

    Raises:
        RuntimeError: LOCAL_RANK is not set and there is no fallback.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError(
            "LOCAL_RANK is not in the environment. Start the program with a launcher, or pass "
            "fallback_rank to get_node_local_rank()."
        )
    return int(fallback_rank)


def supports_complex(reduceOp: Any) -> bool:
    """Return whether a reduction is defined for complex numbers, which have no order or bits."""
    kind = getattr(reduceOp, "op", reduceOp)
    return kind not in (
        *(ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT),
        *(ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR),
    )


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    # Loading them loads ZeroMQ.
    _STORES = ("FileStore", "HashStore", "PrefixStore", "Store", "TCPStore")
    load_later(__name__, {"rendezvous": ".rendezvous", **dict.fromkeys(_STORES, ".store")})
