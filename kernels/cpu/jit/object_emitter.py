"""Object code of compiled functions, with a wrapper for callers from Python or C, in LLVM IR.

The wrapper replaces Numba's own wrappers. It does not need Numba at run time, so a later process
can load the code without Numba.
"""

# Note [What a wrapper checks] A wrapper takes the types of one signature. Like Numba's wrapper, it
# accepts as a number any object that Python's int() or float() converts, and raises the errors of
# int() and float(). "Exact" wrappers are for callers that choose a wrapper by types. They return
# NotImplemented for an argument of any other type, also for a number, and do not convert numbers.
# An array must be of NumPy's class or a subclass, with the dtype, number of axes and order of the
# signature, in native byte order. An exact wrapper also compares whether the array is writable and
# aligned. A wrapper raises the exceptions of its kernel: see kernel_errors.py.

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils, compiler, compiler_lock, typed_passes
from numba.core.compiler_machinery import register_pass
from numba.np import arrayobj

from .kernel_cache import ENTRY
from .machine_code import known_symbols
from .numba_passes import KernelLibrary, PassesOfKernels, passes_with
from .object_file import BrokenObjectError, read_object

# Typed as Any, because different versions of Numba annotate different parts.
_Lowering: Any = typed_passes.NativeLowering
_registered: Any = register_pass
_cgutils: Any = cgutils
_types: Any = types
_locked: Any = compiler_lock.global_compiler_lock
_compiler: Any = compiler
_arrays: Any = arrayobj

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_OBJECT: Final = _I8.as_pointer()
_OBJECTS: Final = _OBJECT.as_pointer()
_DOUBLE: Final = ir.DoubleType()
# Offsets in bytes of fields of CPython's and NumPy's objects: see Note [Reading array objects].
_TYPE, _VALUE, _DATA, _NDIM, _SHAPE, _STRIDES, _DTYPE, _FLAGS = 8, 16, 16, 24, 32, 40, 56, 64
_BYTE_ORDER, _TYPE_NUMBER = 26, 28
_IN_C_ORDER, _IN_F_ORDER, _ALIGNED, _WRITABLE = 0x1, 0x2, 0x100, 0x400
# NumPy's type numbers of dtypes; some dtypes have two.
_NUMBERS_OF_DTYPES: Final = {
    "bool": (0,), "int8": (1,), "uint8": (2,), "int16": (3,), "uint16": (4,), "int32": (5,),
    "uint32": (6,), "int64": (7, 9), "uint64": (8, 10), "float32": (11,), "float64": (12,),
    "complex64": (14,), "complex128": (15,),
}  # fmt: skip
_SIGNED: Final = (_types.int8, _types.int16, _types.int32, _types.int64)
_UNSIGNED: Final = (_types.uint8, _types.uint16, _types.uint32, _types.uint64)
_FLOATING: Final = (_types.float32, _types.float64)
# The prefix of the symbols of pickled exceptions that compiled code may raise.
_PICKLED: Final = ".const.picklebuf."


class NotForObjectsError(Exception):
    """A function needs Numba at run time, so Numba's own cache must store it."""


class _Library(KernelLibrary):
    """Code that is optimized as a whole, but not loaded."""

    def _finalize_final_module(self) -> None:
        self._finalized = True

    def _optimize_final_module(self) -> None:
        # Only the entry is visible outside: the functions that it calls are inlined or dropped.
        for function in self._final_module.functions:
            if not function.is_declaration and function.name != ENTRY:
                function.linkage = "internal"
        super()._optimize_final_module()


@_registered(mutates_CFG=True, analysis_only=False)
class _ObjectLowering(_Lowering):  # type: ignore[misc]
    _name = "object_lowering"

    def run_pass(self, state: Any) -> bool:
        """Do the same as Numba's pass, without its wrappers, and do not load the code."""
        state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.flags.no_compile = True
        state.flags.no_cpython_wrapper = True
        state.flags.no_cfunc_wrapper = True
        return bool(super().run_pass(state))


class _ObjectCompiler(PassesOfKernels):
    def define_pipelines(self) -> list[Any]:
        return [passes_with(self.state, _ObjectLowering)]


@_locked  # type: ignore[untyped-decorator]
def object_of_entry(dispatcher: Any, signature: tuple[Any, ...], *, exact: bool) -> bytes:
    """Return the object code of a compiled function for one signature. The function ENTRY in this
    code has the form METH_FASTCALL. See Note [What a wrapper checks].

    Raises  NotForObjectsError if the function needs Numba at run time
    """
    made = _compile(dispatcher, signature, None)
    data, _ = _emit(made, lambda module: _Wrapper(module, made, exact=exact).build())
    return data


@_locked  # type: ignore[untyped-decorator]
def object_of_callback(dispatcher: Any, signature: Any) -> bytes:
    """Return the object code of a compiled function for one signature, with a function ENTRY for
    callers in C.

    Raises  NotForObjectsError if the function needs Numba at run time, or may raise an exception
    """
    made = _compile(dispatcher, signature.args, signature.return_type)
    context, nothing = made.target_context, signature.return_type == _types.none

    def build(module: Any) -> None:
        given = [context.get_value_type(one) for one in signature.args]
        result = ir.VoidType() if nothing else context.get_value_type(signature.return_type)
        function = ir.Function(module, ir.FunctionType(result, given), ENTRY)
        builder = ir.IRBuilder(function.append_basic_block())
        _, out = _called(made, module, builder, function.args)
        if nothing:
            builder.ret_void()
        else:
            builder.ret(out)

    data, text = _emit(made, build)
    if _PICKLED in text:
        raise NotForObjectsError("it may raise, and C has no way to report that")
    return data


def _compile(dispatcher: Any, given: tuple[Any, ...], result: Any) -> Any:
    its = dispatcher._compiler
    flags = _compiler.Flags()
    its.targetdescr.options.parse_as_flags(flags, its.targetoptions)
    return _compiler.compile_extra(
        its.targetdescr.typing_context,
        its.targetdescr.target_context,
        its.py_func,
        args=tuple(given),
        return_type=result,
        flags=its._customize_flags(flags),
        locals={},
        pipeline_class=_ObjectCompiler,
    )


def _emit(made: Any, build: Callable[[Any], None]) -> tuple[bytes, str]:
    """Add an entry to a compiled function: `build` writes the entry into a module. Return the
    object code and the optimized LLVM IR of both together.
    """
    library = made.library
    module = library.create_ir_module("entry")
    build(module)
    _add_memory(module)
    library.add_ir_module(module)
    library.finalize()
    data: bytes = library._codegen._tm.emit_object(library._final_module)
    try:
        needed = read_object(data).undefined()
    except BrokenObjectError as error:
        raise NotForObjectsError(str(error)) from error
    unknown = sorted(needed - known_symbols())
    if unknown:
        raise NotForObjectsError(f"it needs {', '.join(unknown)}")
    return data, str(library._final_module)


# Note [Arrays of kernels] An array that a kernel allocates is owned by Numba's MemInfo: a reference
# count, two pointers of a destructor, the address and the size of the data, and one more pointer.
# Compiled code counts references. It calls NRT_MemInfo_alloc_aligned or
# NRT_MemInfo_alloc_safe_aligned for a new array, and NRT_MemInfo_call_dtor when the count reaches
# 0. _add_memory defines these functions with C's malloc and free: no destructor is needed.
_HOLDER_BYTES, _COUNT, _ADDRESS, _SIZE = 48, 0, 24, 32


def _add_memory(module: Any) -> None:
    for name in ("NRT_MemInfo_alloc_aligned", "NRT_MemInfo_alloc_safe_aligned"):
        _add_allocation(module, name)
    kind = ir.FunctionType(ir.VoidType(), [_OBJECT])
    function = ir.Function(module, kind, "NRT_MemInfo_call_dtor")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.call(_cgutils.get_or_insert_function(module, kind, "free"), function.args)
    builder.ret_void()


def _add_allocation(module: Any, name: str) -> None:
    function = ir.Function(module, ir.FunctionType(_OBJECT, [_I64, _I32]), name)
    size, alignment = function.args
    builder = ir.IRBuilder(function.append_basic_block())
    kind = ir.FunctionType(_OBJECT, [_I64])
    malloc = _cgutils.get_or_insert_function(module, kind, "malloc")
    step = builder.zext(alignment, _I64)
    whole = builder.add(builder.add(size, step), _I64(_HOLDER_BYTES))
    holder = builder.call(malloc, [whole])
    with builder.if_then(_cgutils.is_not_null(builder, holder), likely=True):
        begin = builder.ptrtoint(holder, _I64)
        last = builder.add(begin, builder.add(_I64(_HOLDER_BYTES - 1), step))
        data = builder.sub(last, builder.urem(last, step))
        for at in range(0, _HOLDER_BYTES, 8):
            value = {_COUNT: _I64(1), _ADDRESS: data, _SIZE: size}.get(at, _I64(0))
            place = builder.gep(holder, [_I64(at)])
            builder.store(value, builder.bitcast(place, _I64.as_pointer()))
    builder.ret(holder)


def _called(made: Any, module: Any, builder: Any, values: Sequence[Any]) -> tuple[Any, Any]:
    """Emit a call of the compiled function; return its status and its result."""
    context, described = made.target_context, made.fndesc
    function = context.declare_function(module, described)
    status, out = context.call_conv.call_function(
        builder, function, described.restype, described.argtypes, values
    )
    return status, out


class _Wrapper:
    """Builds the METH_FASTCALL function for one signature."""

    def __init__(self, module: Any, made: Any, *, exact: bool) -> None:
        self._module, self._made, self._exact = module, made, exact
        self._context = made.target_context
        kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECTS, _I64])
        self._function = ir.Function(module, kind, ENTRY)
        self._builder = ir.IRBuilder(self._function.append_basic_block("begin"))
        self._mismatch = self._function.append_basic_block("mismatch")
        self._failed = self._function.append_basic_block("failed")

    def build(self) -> None:
        builder, given = self._builder, self._made.signature.args
        _, objects, count = self._function.args
        self._require(builder.icmp_signed("==", count, _I64(len(given))))
        found = [builder.load(builder.gep(objects, [_I64(i)])) for i in range(len(given))]
        values = [self._value(one, kind) for one, kind in zip(found, given, strict=True)]
        thread = self._python("PyEval_SaveThread", _OBJECT)
        status, out = _called(self._made, self._module, builder, values)
        self._python("PyEval_RestoreThread", ir.VoidType(), thread)
        with builder.if_then(status.is_error, likely=False):
            self._raise(status)
        builder.ret(self._object(out, self._made.signature.return_type))
        builder.position_at_end(self._failed)
        builder.ret(_OBJECT(None))
        builder.position_at_end(self._mismatch)
        self._answer_mismatch()

    def _python(self, name: str, result: Any, *values: Any) -> Any:
        """Emit a call, with `values`, of a function of Python's C API or of the C library."""
        kind = ir.FunctionType(result, [one.type for one in values])
        function = _cgutils.get_or_insert_function(self._module, kind, name)
        return self._builder.call(function, values)

    def _data(self, name: str) -> Any:
        """Return the address of a data symbol."""
        found = self._module.globals.get(name)
        if found is None:
            found = ir.GlobalVariable(self._module, _I8, name)
        return found

    def _require(self, condition: Any, otherwise: Any = None) -> None:
        """Emit code that continues if a condition holds, and else jumps to `otherwise`, by default
        the block for mismatches.
        """
        on = self._builder.append_basic_block("on")
        branch = self._builder.cbranch(condition, on, otherwise or self._mismatch)
        branch.set_weights([99, 1])
        self._builder.position_at_end(on)

    def _field(self, thing: Any, at: int, kind: Any) -> Any:
        place = self._builder.gep(thing, [_I64(at)])
        return self._builder.load(self._builder.bitcast(place, kind.as_pointer()))

    def _is_of(self, thing: Any, *names: str) -> Any:
        """Return whether an object's type is one of the types with these symbols."""
        builder, of = self._builder, self._field(thing, _TYPE, _OBJECT)
        found = [builder.icmp_unsigned("==", of, self._data(name)) for name in names]
        return functools.reduce(builder.or_, found)

    def _value(self, thing: Any, kind: Any) -> Any:
        """Return the value of an object in the form that compiled code takes."""
        if isinstance(kind, _types.Array):
            return self._array(thing, kind)
        if isinstance(kind, _types.BaseTuple):
            return self._tuple(thing, kind)
        if kind == _types.boolean:
            return self._boolean(thing)
        if kind in _SIGNED or kind in _UNSIGNED or kind in _FLOATING:
            return self._exact_number(thing, kind) if self._exact else self._number(thing, kind)
        raise NotForObjectsError(f"it takes {kind}")

    def _boolean(self, thing: Any) -> Any:
        builder = self._builder
        if self._exact:
            self._require(self._is_of(thing, "PyBool_Type", "fastdist_numpy_bool_"))
        found = self._python("PyObject_IsTrue", _I32, thing)
        self._require(builder.icmp_signed(">=", found, _I32(0)), self._failed)
        return builder.icmp_signed("!=", found, _I32(0))

    def _number(self, thing: Any, kind: Any) -> Any:
        """Return an object converted by int() or float(), as Numba's wrapper does."""
        is_floating = kind in _FLOATING
        builder, memory = self._builder, self._context.get_value_type(kind)
        quick = "PyFloat_Type" if is_floating else "PyLong_Type"
        convert = "PyNumber_Float" if is_floating else "PyNumber_Long"
        is_quick = self._is_of(thing, quick)
        slot = _cgutils.alloca_once_value(builder, thing)
        with builder.if_then(builder.not_(is_quick), likely=False):
            made = self._python(convert, _OBJECT, thing)
            builder.store(made, slot)
        number = builder.load(slot)
        self._require(_cgutils.is_not_null(builder, number), self._failed)
        value = self._read(number, kind)
        with builder.if_then(builder.not_(is_quick), likely=False):
            self._python("Py_DecRef", ir.VoidType(), number)
        if is_floating:
            return value if memory == _DOUBLE else builder.fptrunc(value, memory)
        return value if memory == _I64 else builder.trunc(value, memory)

    def _read(self, number: Any, kind: Any) -> Any:
        """Return a Python int or float in 64 bits; if it does not fit, jump to the failure
        block.
        """
        builder = self._builder
        if kind in _FLOATING:
            return self._python("PyFloat_AsDouble", _DOUBLE, number)
        reader = "PyLong_AsLongLong" if kind in _SIGNED else "PyLong_AsUnsignedLongLong"
        value = self._python(reader, _I64, number)
        fits = _cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(1), 1))
        with builder.if_then(builder.icmp_signed("==", value, _I64(-1)), likely=False):
            error = self._python("PyErr_Occurred", _OBJECT)
            builder.store(_cgutils.is_null(builder, error), fits)
        self._require(builder.load(fits), self._failed)
        return value

    def _exact_number(self, thing: Any, kind: Any) -> Any:
        """Return the value of a NumPy scalar of the type `kind`; Python's int and float count as
        int64 and float64.
        """
        builder, memory = self._builder, self._context.get_value_type(kind)
        python = {_types.int64: "PyLong_Type", _types.float64: "PyFloat_Type"}.get(kind)
        of_numpy = f"fastdist_numpy_{kind}"
        if python is None:
            self._require(self._is_of(thing, of_numpy))
            return self._field(thing, _VALUE, memory)
        self._require(self._is_of(thing, python, of_numpy))
        slot = _cgutils.alloca_once(builder, memory)
        is_pythons = self._is_of(thing, python)
        with builder.if_else(is_pythons) as (then, otherwise):
            with then:
                builder.store(self._read(thing, kind), slot)
            with otherwise:
                builder.store(self._field(thing, _VALUE, memory), slot)
        return builder.load(slot)

    def _tuple(self, thing: Any, kind: Any) -> Any:
        builder = self._builder
        self._require_kind_of(thing, "PyTuple_Type")
        count = self._field(thing, _VALUE, _I64)
        self._require(builder.icmp_signed("==", count, _I64(len(kind))))
        values = [
            self._value(self._field(thing, _VALUE + 8 * (i + 1), _OBJECT), one)
            for i, one in enumerate(kind)
        ]
        return self._context.make_tuple(builder, kind, values)

    def _array(self, thing: Any, kind: Any) -> Any:
        """Return a NumPy array in Numba's form, without owner: the caller keeps the array alive."""
        builder, context = self._builder, self._context
        numbers = _NUMBERS_OF_DTYPES.get(str(kind.dtype))
        if numbers is None:
            raise NotForObjectsError(f"it takes {kind}")
        self._require_kind_of(thing, "fastdist_numpy_ndarray")
        ndim = self._field(thing, _NDIM, _I32)
        self._require(builder.icmp_signed("==", ndim, _I32(kind.ndim)))
        described = self._field(thing, _DTYPE, _OBJECT)
        number = self._field(described, _TYPE_NUMBER, _I32)
        same = [builder.icmp_signed("==", number, _I32(one)) for one in numbers]
        self._require(functools.reduce(builder.or_, same))
        order = self._field(described, _BYTE_ORDER, _I8)
        self._require(builder.icmp_signed("!=", order, _I8(ord(">"))))
        self._require_flags(thing, kind)
        made = context.make_array(kind)(context, builder)
        words = _I64.as_pointer()
        shape, strides = (self._field(thing, at, words) for at in (_SHAPE, _STRIDES))
        along = [
            [builder.load(builder.gep(places, [_I64(i)])) for i in range(kind.ndim)]
            for places in (shape, strides)
        ]
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        data = builder.bitcast(self._field(thing, _DATA, _OBJECT), made.data.type)
        _arrays.populate_array(made, data, *along, size, None)
        return made._getvalue()

    def _require_kind_of(self, thing: Any, name: str) -> None:
        """Emit code that continues if an object is of the type with this symbol or of a subclass,
        and else jumps to the block for mismatches.
        """
        builder = self._builder
        derived, on = builder.append_basic_block("derived"), builder.append_basic_block("on")
        builder.cbranch(self._is_of(thing, name), on, derived)
        builder.position_at_end(derived)
        of = self._field(thing, _TYPE, _OBJECT)
        found = self._python("PyType_IsSubtype", _I32, of, self._data(name))
        builder.cbranch(builder.icmp_signed("!=", found, _I32(0)), on, self._mismatch)
        builder.position_at_end(on)

    def _require_flags(self, thing: Any, kind: Any) -> None:
        builder, flags = self._builder, self._field(thing, _FLAGS, _I32)
        needed = {"C": _IN_C_ORDER, "F": _IN_F_ORDER}.get(kind.layout, 0)
        looked = needed
        if self._exact:
            needed |= _ALIGNED * bool(kind.aligned) | _WRITABLE * bool(kind.mutable)
            looked = _ALIGNED | _WRITABLE | _IN_C_ORDER
            looked |= 0 if kind.layout == "C" else _IN_F_ORDER
        found = builder.and_(flags, _I32(looked))
        self._require(builder.icmp_signed("==", found, _I32(needed)))

    def _object(self, value: Any, kind: Any) -> Any:
        """Return a new object for the result of compiled code."""
        builder, number = self._builder, getattr(kind, "literal_type", kind)
        if kind == _types.none:
            none = self._data("_Py_NoneStruct")
            self._python("Py_IncRef", ir.VoidType(), none)
            return none
        if number in _SIGNED:
            wide = value if number == _types.int64 else builder.sext(value, _I64)
            return self._python("PyLong_FromLongLong", _OBJECT, wide)
        if number in _UNSIGNED:
            wide = value if number == _types.uint64 else builder.zext(value, _I64)
            return self._python("PyLong_FromUnsignedLongLong", _OBJECT, wide)
        if number in _FLOATING:
            wide = value if number == _types.float64 else builder.fpext(value, _DOUBLE)
            return self._python("PyFloat_FromDouble", _OBJECT, wide)
        if number == _types.boolean:
            return self._python("PyBool_FromLong", _OBJECT, builder.zext(value, _I64))
        if isinstance(kind, _types.BaseTuple):
            return self._tuple_of(value, kind)
        raise NotForObjectsError(f"it returns {kind}")

    def _tuple_of(self, value: Any, kind: Any) -> Any:
        builder = self._builder
        made = self._python("PyTuple_New", _OBJECT, _I64(len(kind)))
        self._require(_cgutils.is_not_null(builder, made), self._failed)
        for i, one in enumerate(kind):
            item = self._object(builder.extract_value(value, i), one)
            # If there was no memory for an item, creating it has raised; the tuple is not built.
            self._require(_cgutils.is_not_null(builder, item), self._failed)
            self._python("PyTuple_SetItem", _I32, made, _I64(i), item)
        return made

    def _raise(self, status: Any) -> None:
        """Raise the exception of compiled code, which was pickled when the code was compiled."""
        builder = self._builder
        name = self._text("fastdist.kernels.cpu.jit.kernel_errors")
        module = self._python("PyImport_ImportModule", _OBJECT, name)
        self._require(_cgutils.is_not_null(builder, module), self._failed)
        pickled, length = (
            builder.extract_value(builder.load(status.excinfoptr), i) for i in (0, 1)
        )
        data = self._python(
            "PyBytes_FromStringAndSize", _OBJECT, pickled, builder.sext(length, _I64)
        )
        self._require(_cgutils.is_not_null(builder, data), self._failed)
        kind = ir.FunctionType(_OBJECT, [_OBJECT] * 3, var_arg=True)
        call = _cgutils.get_or_insert_function(self._module, kind, "PyObject_CallMethod")
        given = [module, self._text("raise_pickled"), self._text("N"), data]
        builder.call(call, given)
        builder.branch(self._failed)
        builder.position_at_end(builder.append_basic_block("unreached"))

    def _answer_mismatch(self) -> None:
        if self._exact:
            other = self._data("_Py_NotImplementedStruct")
            self._python("Py_IncRef", ir.VoidType(), other)
            self._builder.ret(other)
            return
        words = self._text(
            f"a compiled kernel takes ({', '.join(map(str, self._made.signature.args))}), and was "
            "given arguments of other types"
        )
        error = self._builder.load(self._builder.bitcast(self._data("PyExc_TypeError"), _OBJECTS))
        self._python("PyErr_SetString", ir.VoidType(), error, words)
        self._builder.ret(_OBJECT(None))

    def _text(self, words: str) -> Any:
        return self._context.insert_const_string(self._module, words)
