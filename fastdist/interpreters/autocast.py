"""Mixed precision: the dtype in which an op of PyTorch's lists computes while autocast is on.

While autocast is on in some thread, `modes.tracers` is not zero. The short path then casts the
operands of calls on plain tensors (`cast_plain` in dispatch/call.py); other calls are offered to
this module. While autocast is off in all threads, nothing is checked. The arguments of a composite
whose name is in the lists are cast before it runs; its ops are offered as well, but their operands
have the right dtype already.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ..core.dtypes import DType, float32, float64, promote
from ..core.interpreter import NOT_TAKEN, Interpreter, list_open, resumed
from ..graph.modes import count_tracers, tls
from ..tensor.tensor import Tensor


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CONVOLUTIONS = """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc convolution
"""
_MATRICES = """
    cholesky cholesky_inverse cholesky_solve geqrf inverse linalg.cholesky linalg.cholesky_ex
    linalg.cond linalg.eigh linalg.eigvalsh linalg.householder_product linalg.inv linalg.inv_ex
    linalg.lstsq linalg.matrix_rank linalg.qr linalg.solve linalg.svd linalg.svdvals
    linalg.tensorinv linalg.tensorsolve lu lu_solve orgqr ormqr pinverse qr svd triangular_solve
"""
_TRANSFORMS = """
    fft.fft fft.fft2 fft.fftn fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.irfft fft.irfft2
    fft.irfftn fft.rfft fft.rfft2 fft.rfftn stft
"""
_LOSSES = """
    cosine_embedding_loss cross_entropy ctc_loss hinge_embedding_loss kl_div l1_loss
    margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss poisson_nll_loss
    smooth_l1_loss soft_margin_loss triplet_margin_loss
    binary_cross_entropy_with_logits multilabel_soft_margin_loss
"""
# Three dicts from device type to ops: the ops of `_LOWER` compute in autocast's dtype, the ops of
# `_FLOAT32` in float32, and the ops of `_WIDEST` in the widest dtype of their inputs. Source:
# PyTorch, aten/src/ATen/autocast_mode.h.
_LOWER = {
    "cpu": _words(
        f"""{_CONVOLUTIONS} addbmm addmm baddbmm bmm linear matmul mm prelu
        scaled_dot_product_attention"""
    ),
    "cuda": _words(
        f"""{_CONVOLUTIONS} addbmm addmm addmv addr baddbmm bmm chain_matmul einsum linear
        linalg.multi_dot matmul mm mv prelu
        scaled_dot_product_attention"""
    ),
}
_FLOAT32 = {
    "cpu": _words(
        f"""{_LOSSES} {_MATRICES} {_TRANSFORMS} adaptive_avg_pool3d avg_pool3d
        binary_cross_entropy cdist grid_sample huber_loss max_pool3d max_unpool2d max_unpool3d
        nanquantile prod quantile trace"""
    ),
    "cuda": _words(
        f"""{_LOSSES} acos asin cdist cosh cosine_similarity cumprod cumsum dist erfinv exp expm1
        group_norm layer_norm log log10 log1p log2 log_softmax norm normalize
        pairwise_distance pow prod reciprocal renorm rsqrt sinh softmax softmin softplus sum tan"""
    ),
}
_WIDEST = {
    "cpu": _words("cat stack index_copy"),
    "cuda": _words(
        """addcdiv addcmul atan2 bilinear cat cross dot grid_sample index_put scatter_add stack
        tensordot"""
    ),
}
NAMES = frozenset[str]().union(*[s for by in (_LOWER, _FLOAT32, _WIDEST) for s in by.values()])


class _ThreadCasts(threading.local):
    # Device type -> the dtype of the innermost open block; None for a block with enabled=False.
    dtypes: dict[str, DType | None]
    depth = 0
    # Casts of parameters within the outermost block, with the version of each parameter at its
    # cast, so that each parameter is cast once.
    cache: dict[tuple[int, bool, DType], tuple[Tensor, int, Tensor]]
    is_cached = True
    # The dtype for blocks without dtype=, if set_autocast_dtype has set it.
    chosen: dict[str, DType]
    # Whether modes.tracers counts this thread because autocast was switched on without a block.
    is_counted = False

    def __init__(self) -> None:
        self.dtypes = {}
        self.cache = {}
        self.chosen = {}


casts = _ThreadCasts()


class _Autocast(Interpreter):
    """Casts the operands of calls."""

    order = 3
    sees_plain = False
    needs_general_path = False

    def call(self, op: Any, args: Any, target: Any, rest: Any) -> Any:
        """Run a call on cast operands, if PyTorch's lists require a cast."""
        given, more = args
        if op.kind == "composite":
            wanted = wanted_dtype(op.cast_as, (*given, *more.values()))
        else:
            wanted = wanted_dtype(op.name, given)
        if wanted is None or not any(is_to_cast(one, wanted) for one in _flat(_values(args))):
            return NOT_TAKEN
        cast = tuple([_cast(one, wanted) for one in given])
        if op.kind == "composite":
            more = {name: _cast(one, wanted) for name, one in more.items()}
        return resumed(op, rest, op.general, cast, more, target)


autocast: Final = _Autocast()


def _is_on() -> bool:
    return any(one is not None for one in casts.dtypes.values())


def enter(device_type: str, dtype: DType | None, is_cached: bool) -> None:
    """Let this thread cast to `dtype` on a device type from now on; None switches casting off."""
    _enter(({**casts.dtypes, device_type: dtype}, is_cached))


def leave(before: tuple[Any, bool], depth: int) -> None:
    """Restore `before`, the state that `casting_now` returned before `enter`; `depth` is the number
    of blocks that remain open.

    Note    a KeyboardInterrupt may be raised before the first line. Code that must not lose the
            assignments makes them itself before it calls `leave`, see Note [Ctrl-C and grad mode]
    """
    casts.dtypes, casts.is_cached = before
    casts.depth = depth
    if depth == 0:
        casts.cache.clear()
    list_open(autocast, _is_on())
    count_tracers(-1)


@contextmanager
def casting_as(before: tuple[Any, bool]) -> Iterator[None]:
    """Inside this block, cast as the thread that called `casting_now` did when it called it."""
    outside = casting_now()
    if not before[0] and not outside[0]:  # the usual case; ops keep their short path
        yield
        return
    depth = casts.depth
    _enter(before)
    try:
        yield
    finally:
        casts.dtypes, casts.is_cached = outside
        leave(outside, depth)


def casting_now() -> tuple[Any, bool]:
    """Return the dtypes to which this thread casts, by device type, and whether it caches cast
    parameters.
    """
    return casts.dtypes, casts.is_cached


def _enter(state: tuple[Any, bool]) -> None:
    count_tracers(1)
    list_open(autocast, True)
    # These assignments come last: a Ctrl-C before them leaves the dtypes as they were.
    casts.depth += 1
    casts.dtypes, casts.is_cached = state


def switch(device_type: str, dtype: DType | None) -> None:
    """Cast to dtype on a device type in this thread, until the next switch or the end of the
    enclosing block; None switches casting off.
    """
    list_open(autocast, True)
    casts.dtypes = {**casts.dtypes, device_type: dtype}
    is_on = _is_on()
    list_open(autocast, is_on)
    if is_on is not casts.is_counted:
        casts.is_counted = is_on
        count_tracers(1 if is_on else -1)


def dtype_on(device_type: str) -> DType | None:
    """Return the dtype to which this thread casts on a device type now, or None."""
    return casts.dtypes.get(device_type)


def cast_operands(name: str, operands: Sequence[Any]) -> tuple[Any, ...]:
    """Return the operands of an op, or arguments of a composite, cast as the lists demand.

    Note    called only while modes.tracers is not zero
    """
    wanted = wanted_dtype(name, operands)
    return tuple(operands if wanted is None else [_cast(one, wanted) for one in operands])


def wanted_dtype(name: str, operands: Sequence[Any]) -> DType | None:
    """Return the dtype to which this thread casts the operands of an op or a composite; None for no
    cast.
    """
    dtypes = casts.dtypes
    if not dtypes or name not in NAMES:
        return None
    tensors = [one for one in _flat(operands) if isinstance(one, Tensor)]
    if not tensors:
        return None
    place = tensors[0]._layout.device.type
    lower = dtypes.get(place)
    if lower is None:
        return None
    if name in _LOWER[place]:
        return lower
    if name in _FLOAT32[place]:
        return float32
    if name in _WIDEST[place]:
        eligible = [one._layout.dtype for one in tensors if _is_eligible(one)]
        return functools.reduce(promote, eligible, lower)
    return None


def _values(args: Any) -> list[Any]:
    given, more = args
    return [*given, *more.values()] if isinstance(more, dict) else [*given]


def _flat(operands: Sequence[Any]) -> list[Any]:
    return [
        one
        for operand in operands
        for one in (operand if operand.__class__ in (tuple, list) else (operand,))
    ]


def _is_eligible(tensor: Tensor) -> bool:
    dtype = tensor._layout.dtype
    return dtype.is_floating_point and dtype is not float64


def _cast(value: Any, wanted: DType) -> Any:
    if value.__class__ in (tuple, list):
        return type(value)([_cast(one, wanted) for one in value])
    return cast_one(value, wanted) if is_to_cast(value, wanted) else value


def is_to_cast(value: Any, wanted: DType | None) -> bool:
    """Return whether a value is a tensor that must be cast to get the wanted dtype."""
    return (
        wanted is not None
        and isinstance(value, Tensor)
        and _is_eligible(value)
        and value._layout.dtype is not wanted
    )


def cast_one(value: Tensor, wanted: DType) -> Tensor:
    """Return a tensor cast to `wanted`. In an outermost block, a parameter is cast only once."""
    edge = value._edge
    if edge is None or not edge.is_accumulate or wanted is float32 or not casts.is_cached:
        return value.to(wanted)
    # The key includes grad mode, because a cast made in no_grad is not in the graph.
    cache, key, storage = casts.cache, (id(value), tls.grad, wanted), value._storage
    version = 0 if storage is None else storage.version
    found = cache.get(key)
    if found is None or found[0] is not value or found[1] != version:
        found = cache[key] = (value, version, value.to(wanted))
    return found[2]
