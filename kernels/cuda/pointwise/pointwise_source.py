"""Generates CUDA C++ source from a scalar body."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from fastdist.core.dtypes import FLOAT8, WIDE
from fastdist.language.scalar import PRIMITIVES, Body, Call, Literal, Name, Node, render, walk

from ..launch import C_TYPES, THREADS, headers_for, is_float8, text_of

DType = np.dtype[Any]
_BOOL: Final[DType] = np.dtype(np.bool_)
_IN_SPECIAL: Final = {"digamma", "polygamma", "zeta", "igamma", "igammac", "gamma_slope"} | {
    *("erfcx", "ndtri", "i0e", "i1e")
}
_IN_BESSEL: Final = {
    *("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"),
    *("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "airy_ai"),
}
_ORTHOGONAL: Final = {name for name in PRIMITIVES if "polynomial_" in name}
_LOGICAL: Final = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not"})
# Primitives that give bool for bool operands, whatever T is.
_STAY_BOOL: Final = frozenset(
    ["where", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"]
)
_COMPLEX_FUNCTIONS: Final = {
    *(
        "sqrt",
        "rsqrt",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
    ),
    *("asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "pow"),
}
# The most calls in a body for which a thread computes several packs at a time.
_MOST_CALLS: Final = 16
# Literal exponent -> the expression for pow of a real number, without the general function.
_POWERS: Final = {
    1: "{}",
    2: "scalar::square({})",
    -1: "scalar::reciprocal({})",
    -2: "scalar::square(scalar::reciprocal({}))",
}


class Operand(NamedTuple):
    """One input of a source: its dtype, and whether it is a number passed by value. For an input in
    memory, `one_row` says that all rows read the same values, and `one_column` that all elements of
    a row read one value.
    """

    dtype: DType
    by_value: bool = False
    one_row: bool = False
    one_column: bool = False


@functools.lru_cache(maxsize=4096)
def source_of(
    body: Body,
    operands: tuple[Operand, ...],
    out: DType,
    dims: int = 0,
    wide: bool = True,
    pack: int = 1,
    *,
    side: int = 0,
) -> str:
    """Return the source of one kernel: `contiguous` if dims is 0; `strided` over one axis; `rows`
    of packs of elements over several axes; or, if `side` is given, `tiled` in squares of this side,
    for one input in memory that is transposed.

    `operands` are the inputs that the body uses, in order. If `wide` is false, elements are counted
    with 32-bit integers, whose division is faster.
    """
    compute = compute_dtype(operands, out)
    values = tuple(value_dtype(operand.dtype, compute) for operand in operands)
    text = _Text(operands, values, out, packs_at_once(body, operands, out))
    if side:
        kernel = text.tiled(dims, side, pack)
    elif dims == 0:
        kernel = text.contiguous()
    else:
        kernel = text.strided(wide) if dims == 1 else text.rows(dims, wide, pack)
    return "\n".join(
        (
            f"// {body.text}",
            preamble([body], [out, *(operand.dtype for operand in operands)], compute, out),
            body_function("body", body, values, compute),
            kernel,
        )
    )


def packs_at_once(body: Body, operands: Sequence[Operand], out: DType) -> int:
    """Return how many packs of each input a thread loads before it computes. Few inputs allow more
    packs; a long body allows one, because its code would be repeated for each pack.
    """
    calls = [node for node in walk(body.tree) if isinstance(node, Call)]
    if len(calls) > _MOST_CALLS or any(
        call.primitive in _IN_SPECIAL | _IN_BESSEL for call in calls
    ):
        return 1
    fetched = [operand for operand in operands if not operand.by_value]
    return max(1, min(4 if len(fetched) < 2 else 2, 16 // pack_size(operands, out)))


def preamble(bodies: Sequence[Body], stored: Sequence[DType], compute: DType, out: DType) -> str:
    """Return the source before the functions of bodies; `stored` are the dtypes in memory."""
    pieces = [piece for body in bodies for piece in walk(body.tree)]
    called = {piece.primitive for piece in pieces if isinstance(piece, Call)}
    files = ["headers/primitives.cuh", *["headers/special.cuh"] * bool(called & _IN_SPECIAL)]
    files += ["headers/bessel.cuh"] * bool(called & _IN_BESSEL)
    files += ["headers/orthogonal.cuh"] * bool(called & _ORTHOGONAL)
    if compute.kind == "c":
        files += ["headers/complex_primitives.cuh"]
        files += ["headers/complex_functions.cuh"] * bool(called & _COMPLEX_FUNCTIONS)
    return "\n".join(
        (
            headers_for(stored),
            text_of(*files),
            f"typedef {C_TYPES[compute]} T;\ntypedef {C_TYPES[out]} Out;",
        )
    )


def compute_dtype(operands: Sequence[Operand], out: DType) -> DType:
    """Return the dtype of T: the promoted dtype of the inputs, or out's if all inputs are bool.

    Half types are computed in float32. A body that reads or writes a float8 type is also computed
    in float32: a float64 is then rounded twice, as on the CPU.
    """
    if FLOAT8 and any(is_float8(dtype) for dtype in (out, *[one.dtype for one in operands])):
        return np.dtype(np.float32)
    dtypes = [operand.dtype for operand in operands if operand.dtype != _BOOL] or [out]
    # Widened first, because NumPy cannot promote bfloat16 with other dtypes.
    return np.result_type(*[WIDE.get(dtype, dtype) for dtype in dtypes])


def value_dtype(dtype: DType, compute: DType) -> DType:
    """Return the dtype of an input in the body: bool stays bool, all other dtypes become T."""
    return _BOOL if dtype == _BOOL else compute


def pack_size(operands: Sequence[Operand], out: DType) -> int:
    """Return how many elements a thread loads at a time: 16 bytes of the widest operand."""
    widths = [operand.dtype.itemsize for operand in operands if not operand.by_value]
    return 16 // max(*widths, out.itemsize, 1)


def body_function(called: str, body: Body, values: Sequence[DType], compute: DType) -> str:
    """Return the C++ function that computes a body from the names that it uses, whose dtypes are
    `values`.
    """
    names = [name for name in body.names if name in body.used]
    boolean = {f"x{i}": dtype == _BOOL for i, dtype in enumerate(values)}
    real = compute.kind == "f"
    lines: list[str] = []

    def emit(node: Node, args: list[str]) -> str:
        if isinstance(node, Name):
            return f"x{names.index(node.id)}"
        result = f"t{len(lines)}"
        if isinstance(node, Literal):
            expression, boolean[result] = _literal(node.value), False
        else:
            assert isinstance(node, Call)
            expression, boolean[result] = _call(node, args, [boolean[arg] for arg in args], real)
        lines.append(f"    const {'bool' if boolean[result] else 'T'} {result} = {expression};")
        return result

    result = render(body.tree, emit)
    parameters = ", ".join(f"{C_TYPES[dtype]} x{i}" for i, dtype in enumerate(values))
    lines.append(f"    return cast<Out>({result});")
    return "\n".join((f"__device__ __forceinline__ Out {called}({parameters}) {{", *lines, "}"))


def _call(node: Call, args: list[str], boolean: list[bool], real: bool) -> tuple[str, bool]:
    """Return the C++ expression of a primitive, and whether it is bool."""
    name = node.primitive
    values = boolean[1:] if name == "where" else boolean
    stays = all(values) and name in _STAY_BOOL
    gives_bool = stays or PRIMITIVES[name].result == "bool"
    exponent = node.args[1] if name == "pow" else None
    if real and isinstance(exponent, Literal) and exponent.value in _POWERS:
        return _POWERS[int(exponent.value)].format(f"T({args[0]})"), False
    wanted = "bool" if stays or name in _LOGICAL else "T"
    typed = [f"{wanted}({arg})" for arg in args]
    if name == "where":
        typed[0] = f"bool({args[0]})"
    return f"scalar::{name}({', '.join(typed)})", gives_bool


def _literal(value: float) -> str:
    if isinstance(value, int):
        # C++ has no literal for the lowest integer, because the minus sign is a separate operator.
        return f"T({value + 1}LL - 1)" if value < 0 else f"T({value}LL)"
    if math.isnan(value):
        return "scalar::not_a_number<T>()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}scalar::infinity<T>()"
    return f"T({value!r})"


class _Text:
    """The kernel around the body: how elements are located, loaded and stored."""

    def __init__(
        self, operands: Sequence[Operand], values: Sequence[DType], out: DType, at_once: int
    ) -> None:
        self._pack, self._at_once = pack_size(operands, out), at_once
        self._operands, self._values = operands, values
        self._in_memory = [i for i, operand in enumerate(operands) if not operand.by_value]

    def contiguous(self) -> str:
        """Return the kernel for contiguous elements. Bound by memory: each thread loads 16 bytes of
        the widest operand at a time, and loads several such packs before it computes. The grid
        covers all elements, so no thread divides.
        """
        ones = [i for i in self._in_memory if self._operands[i].one_column]
        moved = [i for i in self._in_memory if i not in ones]
        first = "".join(f"    const {self._stored(i)} one{i} = *in{i};\n" for i in ones)
        packs = "".join(f"    {self._pack_type(i)} pack{i}[AT_ONCE];\n" for i in moved)
        fetched = "".join(
            f"            pack{i}[u] = reinterpret_cast<const {self._pack_type(i)}*>(in{i})"
            "[first + u * THREADS];\n"
            for i in moved
        )
        element = {i: f"one{i}" for i in ones}
        of_pack = element | {i: f"pack{i}[u].lane[k]" for i in moved}
        of_rest = element | {i: f"in{i}[rest]" for i in moved}
        return f"""
constexpr int PACK = {self._pack}, AT_ONCE = {self._at_once}, THREADS = {THREADS};

extern "C" __global__ void __launch_bounds__(THREADS)
contiguous({self._parameters()}Out* out, long long size) {{
    const long long packs = size / PACK;
    const long long first = (long long)(blockIdx.x) * (AT_ONCE * THREADS) + threadIdx.x;
{first}{packs}#pragma unroll
    for (int u = 0; u < AT_ONCE; ++u)
        if (first + u * THREADS < packs) {{
{fetched}        }}
#pragma unroll
    for (int u = 0; u < AT_ONCE; ++u)
        if (first + u * THREADS < packs) {{
            Pack<Out, PACK> result;
#pragma unroll
            for (int k = 0; k < PACK; ++k) result.lane[k] = body({self._arguments(of_pack)});
            reinterpret_cast<Pack<Out, PACK>*>(out)[first + u * THREADS] = result;
        }}
    const long long rest = packs * PACK + threadIdx.x;
    if (blockIdx.x == 0 && rest < size) out[rest] = body({self._arguments(of_rest)});
}}
"""

    def strided(self, wide: bool) -> str:
        """Return the kernel for one axis along which elements are not contiguous. Bound by the
        number of cache lines that are loaded.
        """
        steps = "".join(f", in{i}" for i in self._in_memory)
        fetched = {i: f"in{i}[(long long)(i) * walk.in{i}]" for i in self._in_memory}
        return f"""
typedef {"unsigned long long" if wide else "unsigned int"} Index;

struct Walk {{
    long long size{steps}, out;
}};

extern "C" __global__ void __launch_bounds__({THREADS})
strided({self._parameters()}Out* out, Walk walk) {{
    const Index step = Index(gridDim.x) * blockDim.x;
    for (Index i = Index(blockIdx.x) * blockDim.x + threadIdx.x; i < Index(walk.size); i += step)
        out[(long long)(i) * walk.out] = body({self._arguments(fetched)});
}}
"""

    def rows(self, dims: int, wide: bool, pack: int) -> str:
        """Return the kernel for rows of packs. Bound by memory: a thread stays in its columns and
        goes from row to row, so it divides only once. It loads once the inputs that all rows share,
        and has several loads of the other inputs in flight.
        """
        once = [i for i in self._in_memory if self._operands[i].one_row]
        moved = [i for i in self._in_memory if i not in once]
        steps = "".join(f", in{i}[OUTER], step{i}" for i in self._in_memory)
        begins = "".join(
            f"    in{i} += (long long)(column) * PACK * walk.step{i};\n" for i in self._in_memory
        )
        first = "".join(
            f"    const {self._piece(i)} piece{i} ="
            f" *reinterpret_cast<const {self._piece(i)}*>(in{i});\n"
            for i in once
        )
        pieces = "".join(f"        {self._piece(i)} piece{i}[AT_ONCE];\n" for i in moved)
        fetched = "".join(
            f"                piece{i}[u] = *reinterpret_cast<const {self._piece(i)}*>("
            f"in{i} + offset_of<Index, OUTER>(at, walk.shape, walk.in{i}));\n"
            for i in moved
        )
        lane = {i: "0" if self._operands[i].one_column else "k" for i in self._in_memory}
        element = {i: f"piece{i}.lane[{lane[i]}]" for i in once}
        element |= {i: f"piece{i}[u].lane[{lane[i]}]" for i in moved}
        return f"""
constexpr int PACK = {pack}, AT_ONCE = {self._at_once}, OUTER = {dims - 1}, THREADS = {THREADS};
typedef {"unsigned long long" if wide else "unsigned int"} Index;

// Columns are of PACK elements; `together`: how many rows all threads are at at once.
struct Walk {{
    long long rows, columns, together, shape[OUTER]{steps}, out[OUTER], step_out;
}};

extern "C" __global__ void __launch_bounds__(THREADS)
rows({self._parameters()}Out* out, Walk walk) {{
    const Index number = Index(blockIdx.x) * THREADS + threadIdx.x, count = Index(walk.rows);
    const Index first = number / Index(walk.columns), together = Index(walk.together);
    const Index column = number - first * Index(walk.columns);
    if (first >= together) return;
{begins}    out += (long long)(column) * PACK * walk.step_out;
{first}    for (Index row = first; row < count; row += AT_ONCE * together) {{
{pieces}#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u)
            if (const Index at = row + u * together; at < count) {{
{fetched}            }}
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u)
            if (const Index at = row + u * together; at < count) {{
                Pack<Out, PACK> result;
#pragma unroll
                for (int k = 0; k < PACK; ++k) result.lane[k] = body({self._arguments(element)});
                *reinterpret_cast<Pack<Out, PACK>*>(
                    out + offset_of<Index, OUTER>(at, walk.shape, walk.out)) = result;
            }}
    }}
}}
"""

    def tiled(self, dims: int, side: int, pack: int) -> str:
        """Return the kernel for a transposed input. Tiles of side x side elements go through shared
        memory: a warp then both reads and writes adjacent elements, one pack per thread.
        """
        (i,) = self._in_memory
        return f"""
constexpr int OUTER = {dims}, THREADS = {THREADS}, SIDE = {side}, PACK = {pack};
constexpr int LANES = SIDE / PACK, STEP = THREADS / LANES, TIMES = SIDE / STEP;
typedef Pack<{self._stored(i)}, PACK> Some;

// Neighbours of a row lie side by side in out, those of a column in the input.
struct Walk {{
    long long rows, columns, others, in_row, in_column, out_row;
    long long shape[OUTER], in[OUTER], out[OUTER];
}};

extern "C" __global__ void __launch_bounds__(THREADS)
tiled({self._parameters()}Out* out, Walk walk) {{
    // One more: neighbours of a column would be of one bank of shared memory.
    __shared__ {self._stored(i)} tile[SIDE][SIDE + 1];
    const int near = threadIdx.x % LANES * PACK, far = threadIdx.x / LANES;
    const unsigned int across = unsigned((walk.columns + SIDE - 1) / SIDE);
    const long long row = (long long)(blockIdx.x / across) * SIDE;
    const long long column = (long long)(blockIdx.x % across) * SIDE;
    const long long next_in = STEP * walk.in_column, next_out = STEP * walk.out_row / PACK;
    const long long begin_in = (row + near) * walk.in_row + (column + far) * walk.in_column;
    const long long begin_out = (row + far) * walk.out_row + column + near;
    const int rows = walk.rows - row < SIDE ? int(walk.rows - row) : SIDE;
    const int columns = walk.columns - column < SIDE ? int(walk.columns - column) : SIDE;
    for (long long other = blockIdx.y; other < walk.others; other += gridDim.y) {{
        const {self._stored(i)}* from =
            in{i} + offset_of<unsigned long long, OUTER>(other, walk.shape, walk.in) + begin_in;
        // In packs from a parameter: of other pointers the compiler stores elements one by one.
        const long long to =
            (offset_of<unsigned long long, OUTER>(other, walk.shape, walk.out) + begin_out) / PACK;
        // All loads come before the first store: the compiler cannot prove that these are apart.
        Some read[TIMES];
#pragma unroll
        for (int k = 0; k < TIMES; ++k)
            if (near < rows && far + k * STEP < columns)
                read[k] = *reinterpret_cast<const Some*>(from + k * next_in);
#pragma unroll
        for (int k = 0; k < TIMES; ++k)
#pragma unroll
            for (int j = 0; j < PACK; ++j) tile[far + k * STEP][near + j] = read[k].lane[j];
        __syncthreads();
        Pack<Out, PACK> made[TIMES];
#pragma unroll
        for (int k = 0; k < TIMES; ++k)
#pragma unroll
            for (int j = 0; j < PACK; ++j)
                made[k].lane[j] = body({self._arguments({i: "tile[near + j][far + k * STEP]"})});
#pragma unroll
        for (int k = 0; k < TIMES; ++k)
            if (far + k * STEP < rows && near < columns)
                reinterpret_cast<Pack<Out, PACK>*>(out)[to + k * next_out] = made[k];
        __syncthreads();
    }}
}}
"""

    def _pack_type(self, i: int) -> str:
        return f"Pack<{self._stored(i)}, PACK>"

    def _piece(self, i: int) -> str:
        """Return the type in which a thread loads elements of input i."""
        return f"Pack<{self._stored(i)}, {1 if self._operands[i].one_column else 'PACK'}>"

    def _stored(self, i: int) -> str:
        return C_TYPES[self._operands[i].dtype]

    def _parameters(self) -> str:
        return "".join(
            f"{C_TYPES[self._values[i]]} in{i}, "
            if operand.by_value
            else f"const {self._stored(i)}* in{i}, "
            for i, operand in enumerate(self._operands)
        )

    def _arguments(self, element: Mapping[int, str]) -> str:
        """Return the body's arguments; `element` has the expressions for operands in memory."""
        return ", ".join(
            f"in{i}" if operand.by_value else f"cast<{C_TYPES[self._values[i]]}>({element[i]})"
            for i, operand in enumerate(self._operands)
        )
