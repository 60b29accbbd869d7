"""All CUDA texts that fastdist can make a GPU run, by name; test_compile.py compiles them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fastdist.core.scalar import Body, Call, Name, parse, walk
from fastdist.dispatch.op import OPS
from fastdist.dispatch.pointwise import PointwiseOp
from fastdist.kernels.cuda import launch
from fastdist.kernels.cuda.batch_norm import source_of_channels
from fastdist.kernels.cuda.convolution import source_of_convolution
from fastdist.kernels.cuda.ctc import source_of_ctc
from fastdist.kernels.cuda.launch import C_TYPES
from fastdist.kernels.cuda.patches import source_of_patches
from fastdist.kernels.cuda.pointwise_source import Operand, source_of
from fastdist.kernels.cuda.recurrent import source_of_recurrent
from fastdist.kernels.cuda.reduce import source_of_sum
from fastdist.kernels.cuda.scan import source_of_extremes, source_of_recurrence, source_of_scan
from fastdist.kernels.cuda.scattering import source_of_reduce
from fastdist.kernels.cuda.softmax import source_of_softmax
from fastdist.kernels.cuda.sparse import source_of as source_of_sparse
from fastdist.kernels.cuda.touched_rows import source_of as source_of_touched_rows
from fastdist.kernels.cuda.weighing import source_of_weigh
from fastdist.kernels.cuda.windows import source_of_windows

KERNELS = Path(launch.__file__).parent
F16, F32, F64, I32, BOOL = map(np.dtype, ("float16", "float32", "float64", "int32", "bool"))
# Beside the ops': every dtype, numbers by value, mixed dtypes.
BODIES = {
    "x * y - x": ("x y", list(C_TYPES)),
    "where(c, x, y)": ("c x y", list(C_TYPES)),
    "min(max(x, y), T(3))": ("x y", list(C_TYPES)),
    "remainder(x, y) + T(-9223372036854775808)": ("x y", [np.dtype(np.int64)]),
    "polygamma(x, y) * T(nan) - T(inf)": ("x y", [F16, F32, F64]),
}


def texts() -> dict[str, str]:
    """Return every text. A kernel with a .cu file of its own adds a function texts_of_... here."""
    makers = [maker for name, maker in globals().items() if name.startswith("texts_of_")]
    return {name: text for maker in makers for name, text in maker()}


def texts_of_ops() -> Iterator[tuple[str, str]]:
    """Yield the forward and backward texts of every pointwise op of the table."""
    import fastdist  # noqa: F401  (fills the table)

    for op in OPS.values():
        if not isinstance(op, PointwiseOp):
            continue
        bodies = {"": op.body} | {f" by {n}": b for n, b in zip(op.tensors, op.gradient_bodies)}
        for what, body in bodies.items():
            if body is not None:
                dtype = I32 if needs_integers(body) else F32
                out = BOOL if op.dtype == "bool" and not what else dtype
                operands = operands_of(body, dtype)
                yield f"{op.name}{what}, contiguous", source_of(body, operands, out)
                if not what:
                    yield f"{op.name}, strided", source_of(body, operands, out, 3, False)


def needs_integers(body: Body) -> bool:
    calls = (node for node in walk(body.tree) if isinstance(node, Call))
    return any(call.primitive.startswith("bitwise") or call.primitive == "gcd" for call in calls)


def texts_of_bodies() -> Iterator[tuple[str, str]]:
    for text, (names, dtypes) in BODIES.items():
        body = parse(text, tuple(names.split()))
        for dtype in dtypes:
            operands = operands_of(body, dtype)
            by_value = (*operands[:-1], Operand(dtype, by_value=True))
            yield f"{text} of {dtype}", source_of(body, operands, dtype)
            yield f"{text} of {dtype}, strided", source_of(body, by_value, dtype, 4, True)
            yield f"{text} of {dtype} into float16", source_of(body, operands, F16)


def texts_of_sums() -> Iterator[tuple[str, str]]:
    for read in C_TYPES:
        for written in (read, F64):
            yield f"sum {read} to {written}", source_of_sum(read, written)
        yield f"sum {read} of many axes", source_of_sum(read, F16, 3, 2, wide=True)


def texts_of_softmax() -> Iterator[tuple[str, str]]:
    for dtype in (F16, F32, F64):
        yield f"softmax {dtype}", source_of_softmax(dtype, logarithm=False)
        yield f"log_softmax {dtype} of many axes", source_of_softmax(dtype, 4, logarithm=True)


def operands_of(body: Body, dtype: np.dtype) -> tuple[Operand, ...]:
    """Return operands of one dtype; bool for names that stand as conditions only."""
    calls = [node for node in walk(body.tree) if isinstance(node, Call)]
    conditions = {node.args[0] for node in calls if node.primitive == "where"}
    used = [name for name in body.names if name in body.used]
    return tuple(Operand(BOOL if Name(name) in conditions else dtype) for name in used)


def texts_of_scans() -> Iterator[tuple[str, str]]:
    """Yield running sums, products and extremes of what they are computed in, and recurrences."""
    for dtype in (np.dtype(np.int64), F16, F32, F64):
        yield f"cumsum {dtype}", source_of_scan(dtype, joined="SUM")
        yield f"cumprod {dtype} of many axes", source_of_scan(dtype, 4, joined="PRODUCT")
        yield f"cummax {dtype}", source_of_extremes(dtype, largest=True)
        yield f"cummin {dtype} of many axes", source_of_extremes(dtype, 4, largest=False)
    yield "cummax bool", source_of_extremes(BOOL, largest=True)
    for dtype in (F16, F32, F64):
        yield f"logcumsumexp {dtype}", source_of_scan(dtype, joined="LOG_SUM")
        yield f"recurrence {dtype}", source_of_recurrence(dtype, backwards=False)
        yield f"recurrence {dtype} back", source_of_recurrence(dtype, 3, backwards=True)


def texts_of_batch_norm() -> Iterator[tuple[str, str]]:
    for dtype in (F16, F32, F64):
        yield f"batch_norm {dtype}", source_of_channels(dtype, dtype, dtype)
    yield "batch_norm of many axes without parameters", source_of_channels(F32, kept=4, wide=True)
    yield "batch_norm of mixed dtypes", source_of_channels(F16, F32, F32)


def texts_of_cells() -> Iterator[tuple[str, str]]:
    """Yield the steps of recurrent cells."""
    for cell in ("lstm", "gru", "tanh", "relu"):
        for real, stored in ((F32, F16), (F32, F32), (F64, F64)):
            text = source_of_recurrent(real, stored, cell, has_bias=cell == "gru")
            yield f"{cell} {real} to {stored}", text


def texts_of_convolutions() -> Iterator[tuple[str, str]]:
    """Yield convolutions without columns, and patches laid out as columns."""
    for dtype in (np.dtype(np.int64), F16, F32, F64):
        yield f"convolution {dtype}", source_of_convolution(dtype)
        yield f"convolution {dtype} of many", source_of_convolution(dtype, wide=True)
        yield f"patches {dtype}", source_of_patches(dtype)
        yield f"patches {dtype} of many", source_of_patches(dtype, wide=True)


def texts_of_planes() -> Iterator[tuple[str, str]]:
    """Yield windows and sums by weight, of all that they are made of."""
    for dtype in (F16, F32, F64, I32, np.dtype(np.uint8), np.dtype(np.int64)):
        yield f"windows {dtype}", source_of_windows(dtype)
    for dtype in (F16, F32, F64, np.dtype(np.int64)):
        yield f"weigh {dtype}", source_of_weigh(dtype)
        yield f"weigh {dtype} of many axes", source_of_weigh(dtype, 3, wide=True)


def texts_of_sparse() -> Iterator[tuple[str, str]]:
    """Yield the sums of entries of sparse tensors."""
    for dtype in (np.dtype(np.int64), F16, F32, F64):
        yield f"sparse {dtype}", source_of_sparse(dtype)
        yield f"sparse {dtype} of two axes", source_of_sparse(dtype, 2)


def texts_of_ctc() -> Iterator[tuple[str, str]]:
    """Yield the walks through texts of connectionist temporal classification."""
    for dtype in (F16, F32, F64):
        yield f"ctc {dtype}", source_of_ctc(dtype)
    for dtype in (F16, F32, F64):
        yield f"steps of touched rows, {dtype}", source_of_touched_rows(dtype)


def texts_of_scattering() -> Iterator[tuple[str, str]]:
    """Yield the reductions of what meets at a place."""
    for dtype in C_TYPES:
        for way in ("sum", "mean", "prod", "amax", "amin"):
            if (dtype, way) != (BOOL, "mean"):
                yield f"{way} of what meets, {dtype}", source_of_reduce(dtype, 2, way=way)
