"""All CUDA texts that fastdist can make a GPU run, by name; test_compile.py compiles them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fastdist.core.scalar import Body, Call, Name, parse, walk
from fastdist.dispatch.op import OPS
from fastdist.dispatch.pointwise import PointwiseOp
from fastdist.kernels.cuda import launch
from fastdist.kernels.cuda.launch import C_TYPES
from fastdist.kernels.cuda.pointwise_source import Operand, source_of
from fastdist.kernels.cuda.reduce import source_of_sum
from fastdist.kernels.cuda.scan import source_of_recurrence, source_of_scan
from fastdist.kernels.cuda.softmax import source_of_softmax

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
    """Return every text. A kernel with a .cu file of its own adds a function here."""
    named = [*texts_of_ops(), *texts_of_bodies(), *texts_of_sums(), *texts_of_softmax()]
    return dict([*named, *texts_of_scans()])


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
    """Yield running sums and products of what they are computed in, and recurrences."""
    for dtype in (np.dtype(np.int64), F16, F32, F64):
        yield f"cumsum {dtype}", source_of_scan(dtype, product=False)
        yield f"cumprod {dtype} of many axes", source_of_scan(dtype, 4, product=True)
    for dtype in (F16, F32, F64):
        yield f"recurrence {dtype}", source_of_recurrence(dtype, backwards=False)
        yield f"recurrence {dtype} back", source_of_recurrence(dtype, 3, backwards=True)
