"""LLVM instructions that Numba does not expose: typed memory, select, rounding, bit casts.

Each is a single instruction, so that LLVM gets loops that it can vectorize. Numba compiles Python's
`a if c else b` to a branch, and its `max` to a function that LLVM cannot vectorize.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numba.extending
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils, registry


def intrinsic(function: Callable[..., Any]) -> Any:
    """Return Numba's intrinsic, typed so that mypy does not demand the typing context from
    callers.
    """
    return numba.extending.intrinsic(function)


TYPES: Final[dict[str, Any]] = {
    "bool": types.boolean,
    "uint8": types.uint8,
    "int8": types.int8,
    "int16": types.int16,
    "int32": types.int32,
    "int64": types.int64,
    "float32": types.float32,
    "float64": types.float64,
}
_INT64: Final = ir.IntType(64)
_cgutils: Any = cgutils  # untyped
_registry: Any = registry


# Note [Loops that read before they write]
# Code that LLVM vectorizes checks at run time whether input and output memory overlap. If they do,
# as for an in-place op, the code runs a scalar loop instead of vectors. A pointwise loop needs no
# check: each iteration writes only places that the same iteration has read, and no other iteration
# reads or writes these places. So the result is the same in every order in which each iteration
# computes before it writes. Therefore the reads are put into an alias scope, and the writes are
# declared not to alias this scope. All other loops use LOAD and STORE, because a loop that is
# inlined next to another one would share the scope of the other loop. On one core of an AMD EPYC
# (Zen 4), for 1e6 float32, add_ takes 91 us, or 186 through a copied block; relu_ 46 us, or 159.
def _scope(builder: Any) -> Any:
    module = builder.module
    return module.add_metadata([module.add_metadata(["read", module.add_metadata(["loop"])])])


def _read(builder: Any, pointer: Any, *, apart: bool) -> Any:
    # Alignment 1: arrays made from byte buffers may start anywhere.
    value = builder.load(pointer, align=1)
    if apart:
        value.set_metadata("alias.scope", _scope(builder))
    return value


def _write(builder: Any, value: Any, pointer: Any, *, apart: bool) -> None:
    written = builder.store(value, pointer, align=1)
    if apart:
        written.set_metadata("noalias", _scope(builder))


def _loader(element: Any, *, apart: bool) -> Callable[..., Any]:
    @intrinsic
    def load(typingctx: Any, address: Any, index: Any) -> Any:
        """Return element `index` of the contiguous array at `address`."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            memory = context.get_data_type(element)
            pointer = builder.gep(builder.inttoptr(args[0], memory.as_pointer()), [args[1]])
            value = _read(builder, pointer, apart=apart)
            if element is types.boolean:
                return builder.icmp_unsigned("!=", value, ir.Constant(memory, 0))
            return value

        return element(types.int64, types.int64), codegen

    made: Callable[..., Any] = load
    return made


def _storer(element: Any, *, apart: bool) -> Callable[..., Any]:
    @intrinsic
    def store(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
        """Write `value` to element `index` of the contiguous array at `address`."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            memory = context.get_data_type(element)
            pointer = builder.gep(builder.inttoptr(args[0], memory.as_pointer()), [args[1]])
            given = builder.zext(args[2], memory) if element is types.boolean else args[2]
            _write(builder, given, pointer, apart=apart)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, element), codegen

    made: Callable[..., Any] = store
    return made


# Note [Half types in memory] A loop that computes in float32 may read and write half types. It
# widens numbers when it reads them, and rounds them when it writes them, so one pass over the
# tensor is enough. For float16 each conversion is one instruction if the processor has it (F16C on
# x86). Otherwise LLVM calls a library function that does not exist, so check can_round_float16
# first. bfloat16 is the upper half of float32.
_HALF, _SINGLE = ir.HalfType(), ir.FloatType()
_INT16, _INT32 = ir.IntType(16), ir.IntType(32)


def _widen_float16(builder: Any, bits: Any) -> Any:
    return builder.fpext(builder.bitcast(bits, _HALF), _SINGLE)


def _round_to_float16(builder: Any, value: Any) -> Any:
    return builder.bitcast(builder.fptrunc(value, _HALF), _INT16)


def _widen_bfloat16(builder: Any, bits: Any) -> Any:
    return builder.bitcast(builder.shl(builder.zext(bits, _INT32), _INT32(16)), _SINGLE)


def _round_to_bfloat16(builder: Any, value: Any) -> Any:
    bits = builder.bitcast(value, _INT32)
    last = builder.and_(builder.lshr(bits, _INT32(16)), _INT32(1))
    # Round to nearest even: add 0x7FFF, just below half a unit of the last kept bit, and 1 more if
    # the last kept bit is 1.
    rounded = builder.add(builder.add(bits, last), _INT32(0x7FFF))
    nan = builder.or_(builder.and_(bits, _INT32(0x80000000)), _INT32(0x7FC00000))
    is_nan = builder.fcmp_unordered("uno", value, value)
    return builder.trunc(builder.lshr(builder.select(is_nan, nan, rounded), _INT32(16)), _INT16)


def _half_loader(widen: Callable[[Any, Any], Any], *, apart: bool) -> Callable[..., Any]:
    @intrinsic
    def load(typingctx: Any, address: Any, index: Any) -> Any:
        """Return element `index` of the contiguous array at `address`, as float32."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.gep(builder.inttoptr(args[0], _INT16.as_pointer()), [args[1]])
            return widen(builder, _read(builder, pointer, apart=apart))

        return types.float32(types.int64, types.int64), codegen

    made: Callable[..., Any] = load
    return made


def _half_storer(rounded: Callable[[Any, Any], Any], *, apart: bool) -> Callable[..., Any]:
    @intrinsic
    def store(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
        """Round `value`, a float32, and write it to element `index` of the array at `address`."""

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pointer = builder.gep(builder.inttoptr(args[0], _INT16.as_pointer()), [args[1]])
            _write(builder, rounded(builder, args[2]), pointer, apart=apart)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.float32), codegen

    made: Callable[..., Any] = store
    return made


def _loaders(*, apart: bool) -> dict[str, Callable[..., Any]]:
    return {name: _loader(element, apart=apart) for name, element in TYPES.items()} | {
        "float16": _half_loader(_widen_float16, apart=apart),
        "bfloat16": _half_loader(_widen_bfloat16, apart=apart),
    }


def _storers(*, apart: bool) -> dict[str, Callable[..., Any]]:
    return {name: _storer(element, apart=apart) for name, element in TYPES.items()} | {
        "float16": _half_storer(_round_to_float16, apart=apart),
        "bfloat16": _half_storer(_round_to_bfloat16, apart=apart),
    }


LOAD: Final = _loaders(apart=False)
STORE: Final = _storers(apart=False)
# See Note [Loops that read before they write].
LOAD_APART: Final = _loaders(apart=True)
STORE_APART: Final = _storers(apart=True)


@functools.cache
def has_float16() -> bool:
    """Return whether LLVM has instructions for float16: see Note [Half types in memory]."""
    triple, _, features = _registry.cpu_target.target_context.codegen().magic_tuple()
    return triple.startswith(("aarch64", "arm64")) or "+f16c" in features.split(",")


@intrinsic
def load_word(typingctx: Any, address: Any) -> Any:
    """Return the 64-bit integer at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], _INT64.as_pointer()))

    return types.int64(types.int64), codegen


@intrinsic
def load_int(typingctx: Any, address: Any) -> Any:
    """Return the C int at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(builder.inttoptr(args[0], ir.IntType(32).as_pointer()))
        return builder.sext(value, _INT64)

    return types.int64(types.int64), codegen


@intrinsic
def call_loop(typingctx: Any, function: Any, pointers: Any, count: Any) -> Any:
    """Call the compiled inner loop, a `void (i64, i64)`, at the address `function`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_INT64, _INT64])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def on_threads(part: Any) -> Callable[..., Any]:
    """Return a function on_threads(pool, data, count, threads). It calls the compiled function
    part(first, count, data) for shares of 0 to `count` on `threads` threads. `part` must not raise.

    Note    `pool` is the address of a function like the parallel_for of Numba's pools, which runs
            the loop of a gufunc. This gufunc has one operand, an array of bytes at address 0, so
            that the address of an element is the number of a share
    """

    @intrinsic
    def launch(typingctx: Any, pool: Any, data: Any, count: Any, threads: Any) -> Any:
        part.compile((types.int64,) * 3)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pool, data, count, threads = args
            module, word, byte = builder.module, _INT64.as_pointer(), ir.IntType(8).as_pointer()
            compiled = part.overloads[(types.int64,) * 3]
            context.active_code_library.add_linking_library(compiled.library)
            kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word, word, byte])
            loop = ir.Function(module, kind, module.get_unique_name("share"))
            loop.linkage = "internal"
            inside = ir.IRBuilder(loop.append_basic_block())
            first = inside.ptrtoint(inside.load(loop.args[0]), _INT64)
            given = [first, inside.load(loop.args[1]), inside.ptrtoint(loop.args[3], _INT64)]
            function, described = context.declare_function(module, compiled.fndesc), compiled.fndesc
            context.call_conv.call_function(
                inside, function, described.restype, described.argtypes, given
            )
            inside.ret_void()

            none = builder.inttoptr(ir.Constant(_INT64, 0), byte)
            firsts, counts, steps = [builder.alloca(kind) for kind in (byte, _INT64, _INT64)]
            builder.store(none, firsts)
            builder.store(count, counts)
            builder.store(ir.Constant(_INT64, 1), steps)
            pointers = [builder.bitcast(pointer, byte) for pointer in (loop, firsts, counts, steps)]
            enter = ir.FunctionType(ir.VoidType(), [byte] * 5 + [_INT64] * 3)
            numbers = [ir.Constant(_INT64, 0), ir.Constant(_INT64, 1), threads]
            builder.call(
                builder.inttoptr(pool, enter.as_pointer()),
                [*pointers, builder.inttoptr(data, byte), *numbers],
            )
            return context.get_dummy_value()

        return types.void(*[types.int64] * 4), codegen

    made: Callable[..., Any] = launch
    return made


@intrinsic
def stack_words(typingctx: Any, count: Any) -> Any:
    """Return the address of `count` 64-bit words on the stack, valid until the function returns."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(builder.alloca(_INT64, args[0]), _INT64)

    return types.int64(types.int64), codegen


@intrinsic
def copy_bytes(typingctx: Any, source: Any, target: Any, count: Any) -> Any:
    """Copy `count` bytes between memories that do not overlap."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        memory = ir.IntType(8).as_pointer()
        origin, goal = [builder.inttoptr(address, memory) for address in args[:2]]
        _cgutils.raw_memcpy(builder, goal, origin, args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def select(typingctx: Any, condition: Any, a: Any, b: Any) -> Any:
    """Return `a` if `condition` holds, else `b`; both are computed, and have the same type."""
    if a != b or condition != types.boolean:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(*args)

    return a(condition, a, a), codegen


def _elementary(name: str, arity: int) -> Callable[..., Any]:
    def typed(x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            number = args[0].type
            kind = ir.FunctionType(number, [number] * arity)
            function = builder.module.declare_intrinsic(f"llvm.{name}", [number], kind)
            return builder.call(function, args)

        return x(*[x] * arity), codegen

    if arity == 1:

        @intrinsic
        def unary(typingctx: Any, x: Any) -> Any:
            return typed(x) if isinstance(x, types.Float) else None

        one: Callable[..., Any] = unary
        return one

    @intrinsic
    def binary(typingctx: Any, x: Any, y: Any) -> Any:
        return typed(x) if isinstance(x, types.Float) and x == y else None

    two: Callable[..., Any] = binary
    return two


floor: Final = _elementary("floor", 1)
ceil: Final = _elementary("ceil", 1)
trunc: Final = _elementary("trunc", 1)
rint: Final = _elementary("rint", 1)
sqrt: Final = _elementary("sqrt", 1)
fabs: Final = _elementary("fabs", 1)
copysign: Final = _elementary("copysign", 2)


def _reinterpret(to: Any, source: Any) -> Callable[..., Any]:
    @intrinsic
    def reinterpret(typingctx: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(to))

        return to(source), codegen

    made: Callable[..., Any] = reinterpret
    return made


bits_of_float32: Final = _reinterpret(types.int32, types.float32)
float32_of_bits: Final = _reinterpret(types.float32, types.int32)
bits_of_float64: Final = _reinterpret(types.int64, types.float64)
float64_of_bits: Final = _reinterpret(types.float64, types.int64)


@intrinsic
def fmod(typingctx: Any, x: Any, y: Any) -> Any:
    """Return C's fmod, which Numba does not offer."""
    if not isinstance(x, types.Float) or x != y:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.frem(*args)

    return x(x, y), codegen


@intrinsic
def fma(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once on every machine; slow without an FMA instruction."""
    if not isinstance(a, types.Float) or a != b or a != c:
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number = args[0].type
        kind = ir.FunctionType(number, [number] * 3)
        return builder.call(builder.module.declare_intrinsic("llvm.fma", [number], kind), args)

    return a(a, a, a), codegen
