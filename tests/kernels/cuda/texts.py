"""All CUDA sources that fastdist can generate, by name; test_compile.py compiles them."""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fastdist.core import dtypes as all_dtypes
from fastdist.core.dtypes import WIDE, bfloat16
from fastdist.dispatch.op import OPS
from fastdist.dispatch.pointwise import PointwiseOp
from fastdist.kernels.cuda import launch
from fastdist.kernels.cuda.create.random import source_of_random
from fastdist.kernels.cuda.create.ranges import source_of_ranges
from fastdist.kernels.cuda.index.indexing import source_of_indexing
from fastdist.kernels.cuda.index.scattering import source_of_reduce as source_of_meeting
from fastdist.kernels.cuda.index.searching import source_of_searching
from fastdist.kernels.cuda.launch import C_TYPES, is_real
from fastdist.kernels.cuda.linalg.swaps import text_of_swaps
from fastdist.kernels.cuda.nn.attention import source_of_attention
from fastdist.kernels.cuda.nn.attention_tiles import BY_KEY, BY_QUERY, TILES, source_of_tiles
from fastdist.kernels.cuda.nn.averages import source_of_averages
from fastdist.kernels.cuda.nn.batch_norm import source_of_channels
from fastdist.kernels.cuda.nn.convolution import source_of_convolution
from fastdist.kernels.cuda.nn.cross_entropy import source_of_cross_entropy
from fastdist.kernels.cuda.nn.loss import source_of_nll
from fastdist.kernels.cuda.nn.normalization import source_of_normalization
from fastdist.kernels.cuda.nn.patches import source_of_patches
from fastdist.kernels.cuda.nn.recurrent import source_of_recurrent
from fastdist.kernels.cuda.nn.softmax import source_of_softmax
from fastdist.kernels.cuda.nn.weighted_neighbours import source_of_weigh
from fastdist.kernels.cuda.nn.windows import source_of_windows
from fastdist.kernels.cuda.pointwise.multi_tensor import source_of_norms, source_of_program
from fastdist.kernels.cuda.pointwise.pointwise_source import Operand, pack_size, source_of
from fastdist.kernels.cuda.reduce.radix import source_of_radix
from fastdist.kernels.cuda.reduce.reductions import source_of_reduce
from fastdist.kernels.cuda.reduce.scan import (
    source_of_extremes,
    source_of_recurrence,
    source_of_scan,
)
from fastdist.kernels.cuda.shape.copying import source_of_move
from fastdist.kernels.cuda.sparse.coordinates import source_of as source_of_sparse
from fastdist.language.program import read_program
from fastdist.language.scalar import Body, Call, Name, parse, walk

KERNELS = Path(launch.__file__).parent
BF16 = bfloat16.numpy
F16, F32, F64 = map(np.dtype, ("float16", "float32", "float64"))
I32, I64, BOOL = map(np.dtype, ("int32", "int64", "bool"))
COMPLEX = [np.dtype(np.complex64), np.dtype(np.complex128)]
REAL = [dtype for dtype in C_TYPES if dtype not in COMPLEX]
# Bodies in addition to those of ops: for every dtype, with scalars, and with mixed dtypes.
BODIES = {
    "x * y - x": ("x y", list(C_TYPES)),
    "where(c, x, y)": ("c x y", list(C_TYPES)),
    "min(max(x, y), T(3))": ("x y", REAL),
    "conj(x) / y == T(2)": ("x y", COMPLEX),
    "remainder(x, y) + T(-9223372036854775808)": ("x y", [np.dtype(np.int64)]),
    "polygamma(x, y) * T(nan) - T(inf)": ("x y", [F16, F32, F64]),
}


@functools.cache
def texts() -> dict[str, str]:
    """Return all sources. For a new kind of source, add a function texts_of_... to this file."""
    makers = [maker for name, maker in globals().items() if name.startswith("texts_of_")]
    return {name: text for maker in makers for name, text in maker()}


def texts_of_ops() -> Iterator[tuple[str, str]]:
    """Yield the forward and backward sources of every pointwise op in the table."""
    import fastdist  # noqa: F401  (fills the table)

    for op in OPS.values():
        if not isinstance(op, PointwiseOp):
            continue
        bodies = {"": op.form.body} | {
            f" by {n}": b for n, b in zip(op.tensors, op.form.gradient_bodies)
        }
        for what, body in bodies.items():
            if body is not None:
                dtype = I32 if needs_integers(body) else F32
                out = BOOL if op.dtype_rule == "bool" and not what else dtype
                operands = operands_of(body, dtype)
                yield f"{op.name}{what}, contiguous", source_of(body, operands, out)
                if not what:
                    yield f"{op.name}, strided", source_of(body, operands, out, 3, False)


def texts_of_tails() -> Iterator[tuple[str, str]]:
    """Yield gradients that keep their tails, in float64, as in Note [Tails] of derive.py."""
    import fastdist  # noqa: F401  (fills the table)

    for op in OPS.values():
        if isinstance(op, PointwiseOp):
            for name, body in zip(op.tensors, op.form.tail_bodies):
                text = source_of(body, operands_of(body, F64), F64)
                yield f"{op.name} by {name}, with its tail", text


def texts_of_dtypes() -> Iterator[tuple[str, str]]:
    """Yield the sources made by functions source_of_* that need only a floating dtype.

    Each source is generated for all values of the function's other arguments.
    """
    for path in sorted(KERNELS.rglob("*.py")):
        parts = path.relative_to(KERNELS).with_suffix("").parts
        module = importlib.import_module(".".join((launch.__package__, *parts)))
        for name, maker in vars(module).items():
            if not name.startswith("source_of") or maker.__module__ != module.__name__:
                continue
            first, *more = inspect.signature(maker).parameters.values()
            if first.name != "dtype" or any(one.default is one.empty for one in more):
                continue
            general: dict[str, Any] = {one.name: 4 for one in more if type(one.default) is int}
            general |= {one.name: True for one in more if one.default is False}
            for dtype in (F16, BF16, F32, F64):
                yield f"{path.stem} {name} {dtype}", maker(dtype)
                if general:
                    yield f"{path.stem} {name} {dtype} of many axes", maker(dtype, **general)


def texts_of_complex_ops() -> Iterator[tuple[str, str]]:
    """Yield the forward and backward sources of every pointwise op of complex numbers."""
    import fastdist  # noqa: F401  (fills the table)

    for op in OPS.values():
        if isinstance(op, PointwiseOp) and op.takes_complex:
            for i, body in enumerate((op.form.body, *op.form.adjoint_bodies)):
                if body is not None:
                    dtype = COMPLEX[i % 2]
                    out = BOOL if op.dtype_rule == "bool" and not i else dtype
                    text = source_of(body, operands_of(body, dtype), out)
                    yield f"{op.name} of {dtype}, body {i}", text


def texts_of_casts() -> Iterator[tuple[str, str]]:
    """Yield copies of complex numbers to every dtype, and of every dtype to complex numbers."""
    body = parse("x", ("x",))
    for dtype in COMPLEX:
        for other in [*C_TYPES, BF16]:
            yield f"{dtype} as {other}", source_of(body, (Operand(dtype),), other)
            yield f"{other} as {dtype}", source_of(body, (Operand(other),), dtype)


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
            packs, shared = pack_size(operands, dtype), operands[-1]._replace(one_row=True)
            rows = source_of(body, (*operands[:-1], shared), dtype, 2, False, packs)
            yield f"{text} of {dtype}, rows of packs", rows
            yield f"{text} of {dtype} into float16", source_of(body, operands, F16)
            yield f"{text} of {dtype} into bfloat16", source_of(body, operands, BF16)


def texts_of_reductions() -> Iterator[tuple[str, str]]:
    """Yield every reduction for each of its dtypes, and the sources that combine chunks."""
    whole = ("Adding", "Multiplying", "Counting", "Holding<true>", "Holding<false>")
    extremes = [f"{fold}<{way}>" for fold in ("Extreme", "Place", "Placing") for way in WAYS]
    orders = ("NONZERO", "ABSOLUTE", "EUCLIDEAN", "POWER", "LARGEST", "SMALLEST")
    real = ["Averaging", "LogSumming", *[f"Deviating<{way}>" for way in WAYS]]
    real += [f"Norming<{order}>" for order in orders]
    for dtype in [*C_TYPES, BF16]:
        folds = [*whole, *extremes, *(real if is_real(dtype) else [])]
        for fold in [*whole, "Averaging"] if dtype in COMPLEX else folds:
            places = fold.startswith("Placing")
            yield f"{fold} of {dtype}", source_of_reduce(fold, dtype, dtype, places=places)
            pack = 16 // dtype.itemsize
            packs = source_of_reduce(fold, dtype, dtype, pack=pack, places=places)
            yield f"{fold} of packs of {dtype}", packs
    for dtype in COMPLEX:
        first = source_of_reduce("Averaging", dtype, None, 3, 2)
        second = source_of_reduce("Averaging", dtype, dtype, joined=True)
        yield f"Averaging of chunks of {dtype}", first
        yield f"Averaging of what chunks of {dtype} gave", second
    for fold in [*whole, *extremes, *real]:
        first = source_of_reduce(fold, F32, None, 3, 2)
        yield f"{fold} of chunks of many axes", first
        yield (
            f"{fold} of what chunks gave",
            source_of_reduce(fold, F32, F64, joined=True, wide=True),
        )


def texts_of_transposes() -> Iterator[tuple[str, str]]:
    """Yield copies through tiles, and of one element to all."""
    body = parse("x", ("x",))
    for dtype in [*C_TYPES, BF16]:
        yield f"across {dtype}", source_of(body, (Operand(dtype),), dtype, 2, side=32)
        if dtype.itemsize <= 4:
            pack = 16 // dtype.itemsize
            for side in (32, 64):
                some = min(pack, side * side // 256)
                text = source_of(body, (Operand(dtype),), dtype, 2, pack=some, side=side)
                yield f"across {dtype}, packs, {side}", text
        one = Operand(dtype, one_column=True)
        yield f"filled with {dtype}", source_of(body, (one,), dtype)


WAYS = ("true", "false")


def texts_of_softmax() -> Iterator[tuple[str, str]]:
    for dtype in (F16, F32, F64):
        yield f"softmax {dtype}", source_of_softmax(dtype, logarithm=False)
        yield f"log_softmax {dtype} of many axes", source_of_softmax(dtype, 4, logarithm=True)


def texts_of_rows() -> Iterator[tuple[str, str]]:
    """Yield norms and losses of rows, with rows in registers and beyond them."""
    for dtype in (F16, BF16, F32, F64):
        for held in (0, 16):
            norms = source_of_normalization(dtype, dtype, dtype, held, 16 // dtype.itemsize)
            entropy = source_of_cross_entropy(dtype, dtype, held, 16 // dtype.itemsize)
            yield f"norms of {dtype}, packs, {held} held", norms
            yield f"entropy of {dtype}, packs, {held} held", entropy
        for held in (0, 4):
            yield f"norms of {dtype}, {held} held", source_of_normalization(dtype, held=held)
            yield f"entropy of {dtype}, {held} held", source_of_cross_entropy(dtype, dtype, held)
        yield f"likelihood of {dtype}", source_of_nll(dtype, F64, I64, 3, weighed=True)
    yield "norms of mixed dtypes", source_of_normalization(F16, F32, F32, 16)
    for held in (0, 16, 32):
        for dtype in (F16, F32):
            text = source_of_softmax(dtype, 1, held, 16 // dtype.itemsize, logarithm=True)
            yield f"softmax of packs of {dtype}, {held} held", text
    yield "softmax of rows apart", source_of_softmax(F32, 2, 16, logarithm=False, apart=True)
    yield "norms of packs of halves", source_of_normalization(F16, F32, F32, 16, 8)


def texts_of_places() -> Iterator[tuple[str, str]]:
    """Yield reads and writes at indices, and moves along axes."""
    for dtype in [*C_TYPES, BF16]:
        yield f"places of {dtype}", source_of_indexing(dtype, 2, I32)
        yield f"places of {dtype} at once", source_of_indexing(dtype, 2, at_once=True)
        yield f"moves of {dtype}", source_of_move(dtype, 3)
        yield f"places in rows of {dtype}", source_of_searching(dtype)
        yield f"numbers in a row, {dtype}", source_of_ranges(dtype)


def texts_of_orders() -> Iterator[tuple[str, str]]:
    """Yield sorts for every dtype, and of integers with few digits."""
    for dtype in [*REAL, BF16]:
        yield f"order of {dtype}", source_of_radix(dtype, max(32, 8 * dtype.itemsize))
        yield (
            f"first of {dtype}",
            source_of_radix(dtype, max(32, 8 * dtype.itemsize), text="index/selection.cu"),
        )
        yield (
            f"n-th of {dtype}",
            source_of_radix(dtype, max(32, 8 * dtype.itemsize), text="reduce/nth.cu"),
        )
    yield "order of few numbers", source_of_radix(I64, 32)


def texts_of_swaps() -> Iterator[tuple[str, str]]:
    """Yield the source that converts swaps to a permutation."""
    yield "swaps of rows", text_of_swaps()


def texts_of_random_numbers() -> Iterator[tuple[str, str]]:
    """Yield random draws for every dtype; complex numbers are drawn part by part."""
    for dtype in [*REAL, BF16]:
        yield f"random {dtype}", source_of_random(dtype, 2, is_long=False)
        yield f"random {dtype} of 64 bits", source_of_random(dtype, is_long=True)


def operands_of(body: Body, dtype: np.dtype) -> tuple[Operand, ...]:
    """Return operands of one dtype; bool for names that only appear as conditions."""
    calls = [node for node in walk(body.tree) if isinstance(node, Call)]
    conditions = {node.args[0] for node in calls if node.primitive == "where"}
    used = [name for name in body.names if name in body.used]
    return tuple(Operand(BOOL if Name(name) in conditions else dtype) for name in used)


def texts_of_scans() -> Iterator[tuple[str, str]]:
    """Yield cumulative sums, products and extremes in their compute dtypes, and recurrences."""
    for dtype in COMPLEX:
        yield f"cumsum {dtype}", source_of_scan(dtype, joined="SUM")
        yield f"cumprod {dtype} of many axes", source_of_scan(dtype, 4, joined="PRODUCT")
        yield f"recurrence {dtype}", source_of_recurrence(dtype, 3, backwards=True)
    for dtype in (np.dtype(np.int64), F16, F32, F64):
        yield f"cumsum {dtype}", source_of_scan(dtype, joined="SUM")
        yield (
            f"cumsum {dtype} of packs",
            source_of_scan(dtype, 1, 16 // dtype.itemsize, joined="SUM"),
        )
        yield f"cumprod {dtype} of many axes", source_of_scan(dtype, 4, joined="PRODUCT")
        yield f"cummax {dtype}", source_of_extremes(dtype, largest=True)
        yield f"cummin {dtype} of many axes", source_of_extremes(dtype, 4, largest=False)
    yield "cummax bool", source_of_extremes(BOOL, largest=True)
    yield "cummax float32 of packs", source_of_extremes(F32, 1, 4, largest=True)
    for dtype in (F16, F32, F64):
        yield f"logcumsumexp {dtype}", source_of_scan(dtype, joined="LOG_SUM")
        yield f"recurrence {dtype}", source_of_recurrence(dtype, backwards=False)
        yield f"recurrence {dtype} back", source_of_recurrence(dtype, 3, backwards=True)


def texts_of_programs() -> Iterator[tuple[str, str]]:
    """Yield the sources of a program with several lines."""
    program = read_program(
        "m = m + new * (g - m)\nv = v * beta + g * g\np = p - rate * m / (sqrt(v) + eps)",
        ("p", "g", "m", "v"),
        ("new", "beta", "rate", "eps"),
    )
    for dtype in (BF16, F16, F32, F64):
        yield f"program of {dtype}", source_of_program(program, dtype, aligned=True)
        watched = source_of_program(program, dtype, aligned=True, watched=True)
        yield f"program of {dtype}, watched", watched
        given = source_of_program(program, dtype, aligned=True, given=(1, 2))
        yield f"program of {dtype} whose numbers are on the device", given
    yield "program, not aligned", source_of_program(program, F32, aligned=False)
    for dtype in (F32, F64):
        for order in (1.0, 2.0, np.inf):
            yield f"norms of order {order} of many {dtype}", source_of_norms(order, dtype)


def texts_of_float8() -> Iterator[tuple[str, str]]:
    """Yield casts from and to float8 types, and moves of float8 elements."""
    same = parse("x", ("x",))
    for name in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu"):
        float8 = getattr(all_dtypes, f"float8_{name}").numpy
        for other in (F16, BF16, F32, F64, I64, BOOL):
            if other == F32 or name == "e4m3fn":
                yield f"{other} to {float8}", source_of(same, (Operand(other),), float8)
                yield f"{float8} to {other}", source_of(same, (Operand(float8),), other)
        yield f"{float8} moved", source_of_move(float8)
    e4m3fn, e5m2 = all_dtypes.float8_e4m3fn.numpy, all_dtypes.float8_e5m2.numpy
    yield "float8_e4m3fn to float8_e5m2", source_of(same, (Operand(e4m3fn),), e5m2)
    yield "float8_e5m2, strided, to float32", source_of(same, (Operand(e5m2),), F32, 3, False)


def texts_of_batch_norm() -> Iterator[tuple[str, str]]:
    for dtype in (BF16, F16, F32, F64):
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
    """Yield convolutions without columns, and patches copied into columns, for integers."""
    yield f"convolution {I64}", source_of_convolution(I64)
    yield f"convolution {I64} of many", source_of_convolution(I64, wide=True)
    yield f"patches {I64}", source_of_patches(I64)
    yield f"patches {I64} of many", source_of_patches(I64, wide=True)


def texts_of_planes() -> Iterator[tuple[str, str]]:
    """Yield windows, their averages and weighted sums, for integers."""
    for dtype in (I32, np.dtype(np.uint8), I64):
        yield f"windows {dtype}", source_of_windows(dtype)
    yield f"averages {I64}", source_of_averages(I64)
    yield f"weigh {I64}", source_of_weigh(I64)
    yield f"weigh {I64} of many axes", source_of_weigh(I64, 3, wide=True)


def texts_of_sparse() -> Iterator[tuple[str, str]]:
    """Yield sums of the entries of sparse tensors, for integers."""
    yield f"sparse {I64}", source_of_sparse(I64)
    yield f"sparse {I64} of two axes", source_of_sparse(I64, 2)


def texts_of_attention() -> Iterator[tuple[str, str]]:
    """Yield attention with long and short rows, with bool masks and numeric masks."""
    for dtype in (F16, BF16, F32, F64):
        for mask in (None, np.dtype(np.bool_), WIDE.get(dtype, dtype)):
            for held in (0, 4):
                name = f"attention {dtype} masked by {mask}, {held} held"
                yield name, source_of_attention(dtype, mask, held)
        thinned = source_of_attention(dtype, None, 4, drops=True)
        yield f"attention {dtype}, thinned out", thinned


def texts_of_attention_in_tiles() -> Iterator[tuple[str, str]]:
    """Yield attention for each shape of tiles, plain and with all options."""
    kernels = {"tiles": TILES, "by_query": BY_QUERY, "by_key": BY_KEY}
    for dtype, (kernel, kinds) in itertools.product((F32, F64), kernels.items()):
        for tiles in kinds[dtype.itemsize]:
            name = f"attention {kernel} {dtype} of {tiles.width}"
            made = functools.partial(source_of_tiles, f"nn/attention_{kernel}.cu", tiles, dtype)
            yield f"{name}, packed", made(None, packed=True, slopes=True)
            yield name, made(None)
            for mask in (BOOL, dtype):
                yield f"{name}, masked by {mask}", made(mask, packed=True, slopes=True)
            yield f"{name}, masked and thinned out", made(dtype, drops=True)


def texts_of_scattering() -> Iterator[tuple[str, str]]:
    """Yield the reductions of elements with equal indices."""
    for dtype in [*REAL, BF16]:
        for way in ("sum", "mean", "prod", "amax", "amin"):
            if (dtype, way) != (BOOL, "mean"):
                yield f"{way} of what meets, {dtype}", source_of_meeting(dtype, 2, way=way)
