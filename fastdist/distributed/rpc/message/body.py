"""Encodes Python values, and calls of functions, as the body of a message, and decodes them."""

# Note [Bodies]
# A value is pickled without its Tensors: they are in the message's table, and the pickle refers to
# them by index. The two most frequent kinds of value need no pickle: None, and Tensors alone. In a
# call, the name of the function, "module:name", precedes its arguments. The receiver finds the
# function by two look-ups: the module, and the name in the module. No connection and no life keeps
# any state about such names.

from __future__ import annotations

import copyreg
import io
import logging
import pickle
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

from fastdist.core.errors import MessageError, RpcError
from fastdist.core.unpicklable import Culprit, find_unpicklable
from fastdist.distributed.pipe.frames import Buffer
from fastdist.system.foreign_text import many_lines
from fastdist.tensor.parameter import Parameter
from fastdist.tensor.pickling import parts_of, rebuild_sparse
from fastdist.tensor.tensor import Tensor

from . import gate, numpy_values
from .error_parts import rebuild_error, reduce_error, says_how_it_pickles, set_error_state
from .layout import EMPTY, NAMED, PICKLE, TENSORS
from .pickle_scan import require_sound
from .pickle_uses import ANYTHING, REBUILDS, Use, rebuilder_use

_logger = logging.getLogger(__name__)

_HERE: Final = __name__
_TENSOR_AT: Final = "_tensor_at"
_TENSOR_AT_BYTES: Final = _TENSOR_AT.encode()
_LENGTH: Final = struct.Struct("<H")
_NAME_AT: Final = _LENGTH.size
_LONE: Final = 0xFFFF  # instead of a count: the body is one Tensor, not a tuple of one
_LONE_TENSOR: Final = _LENGTH.pack(_LONE)
_MAX_NAMES: Final = 4096
_TENSOR_CLASSES: Final = frozenset({Tensor, Parameter})

# Reducers that files of this package register: class -> function that returns (rebuild, args).
# The rebuilding functions are found by name in _rebuilders, also in strict mode.
_reducers: dict[type, Callable[[Any], tuple[Any, ...]]] = {}
_rebuilders: dict[tuple[str, str], Callable[..., Any]] = {}
# Reducers of users' picklers (internal.py), and how often these or `_reducers` were changed.
_users_reducers: Mapping[type, Callable[[Any], tuple[Any, ...]]] = {}
_num_changes = 0
# The encoded names of rebuilding functions whose values must be read from every received message.
_must_be_read: list[bytes] = []


def register_reducer(
    kind: type,
    reduce: Callable[[Any], tuple[Any, ...]],
    rebuild: Callable[..., Any],
    *,
    must_be_read: bool = False,
) -> None:
    """Pickle objects of class `kind` as reduce(object), which is (rebuild, arguments).

    With `must_be_read`, a body with such an object is read even if nobody needs the message.
    """
    global _num_changes
    _num_changes += 1
    _reducers[kind] = reduce
    _rebuilders[rebuild.__module__, rebuild.__qualname__] = rebuild
    if must_be_read:
        _must_be_read.append(rebuild.__qualname__.encode())


def use_reducers(reducers: Mapping[type, Callable[[Any], tuple[Any, ...]]]) -> None:
    """Pickle objects of these classes as reducers[class](object) from now on."""
    global _users_reducers, _num_changes
    _users_reducers = dict(reducers)
    _num_changes += 1


for _kind, _pair in numpy_values.reducers().items():
    register_reducer(_kind, *_pair)
for _of_errors in (rebuild_error, set_error_state):
    _rebuilders[_of_errors.__module__, _of_errors.__qualname__] = _of_errors
_rebuilders[rebuild_sparse.__module__, rebuild_sparse.__qualname__] = rebuild_sparse


def _plain_parts(tensor: Tensor) -> tuple[Any, ...]:
    return rebuild_sparse, parts_of(tensor)


_reduce_sparse: Callable[[Tensor], tuple[Any, ...]] = _plain_parts


def let_sparse_travel(
    reduce: Callable[[Tensor], tuple[Any, ...]], rebuild: Callable[..., Any]
) -> None:
    """Pickle sparse tensors as reduce(tensor), with or without an autograd history."""
    global _reduce_sparse
    _reduce_sparse = reduce
    _rebuilders[rebuild.__module__, rebuild.__qualname__] = rebuild


def serialize(value: object, tensors: list[Tensor], name: str = "the value") -> tuple[bytes, int]:
    """Return the body of `value` and its encoding; append the Tensors in it to `tensors`.

    Raises  RpcError with the path, beginning with `name`, of the part that cannot be pickled
    """
    if value is None:
        return b"", EMPTY
    if value.__class__ in _TENSOR_CLASSES and not tensors and not _is_sparse(value):
        tensors.append(value)
        return _LONE_TENSOR, TENSORS
    return _pickle(value, tensors, ((name, value),)), PICKLE


def _is_sparse(value: Any) -> bool:
    # A sparse tensor is sent as coordinates and values: see pickling.py.
    return bool(value._layout.is_sparse)


def serialize_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tensors: list[Tensor],
) -> tuple[bytes, int]:
    """Return the body of a call and its encoding; append the Tensors in it to `tensors`.

    Raises  RpcError naming the part of args or kwargs that cannot be pickled
    """
    name = _name_of(function)
    if name is None:
        parts = (("the function", function), ("args", args), ("kwargs", kwargs))
        return _pickle((function, args, kwargs), tensors, parts), PICKLE
    if not args and not kwargs:
        return name, NAMED | EMPTY
    if not kwargs and not tensors and _are_tensors(args):
        tensors.extend(args)
        return name + _LENGTH.pack(len(args)), NAMED | TENSORS
    body = _pickle((args, kwargs), tensors, (("args", args), ("kwargs", kwargs)))
    return name + body, NAMED | PICKLE


def deserialize(body: Buffer, encoding: int, tensors: Sequence[Tensor]) -> Any:
    """Return the value of a body; its Tensors are taken from `tensors`.

    Raises  MessageError for an invalid body; ForbiddenFunctionError in strict mode; errors of the
            values' classes
    """
    if encoding == EMPTY:
        return None
    if encoding == TENSORS:
        return _take_tensors(body, tensors)
    if encoding == PICKLE:
        return _unpickle(body, tensors)
    raise MessageError(f"unknown body encoding {encoding}")


def deserialize_call(
    body: Buffer, encoding: int, tensors: Sequence[Tensor]
) -> tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]:
    """Return the function, args and kwargs of a call; check that others may call this function.

    Raises  the errors of deserialize, and of gate.find for the function
    """
    if not encoding & NAMED:
        function, args, kwargs = deserialize(body, encoding, tensors)
        gate.require_callable_by_others(function)
        return function, args, kwargs
    size = len(body)
    end = _NAME_AT + body[0] + (body[1] << 8) if size >= _NAME_AT else size + 1
    if end > size:
        raise MessageError(f"the name of a function does not end within the {size} bytes")
    how = encoding ^ NAMED
    try:
        function = gate.find_function(bytes(body[_NAME_AT:end]))
    except Exception:
        _read_what_must_be(body[end:], how)
        raise
    if how == EMPTY:
        return function, (), {}
    if how == TENSORS:
        return function, _take_tensors(body[end:], tensors), {}
    args, kwargs = deserialize(body[end:], how, tensors)
    return function, args, kwargs


def reads_plainly(body: Buffer) -> bool:
    """Return whether reading a pickle runs no users' code; then the progress thread may read it.

    Note    the only global that such a pickle may name is the function that creates Tensors.
            Globals are counted by their opcode byte. If data contains that byte, the answer may be
            False for a harmless pickle
    """
    globals_used = bytes(body).count(b"\x93")
    return globals_used == 0 or (globals_used == 1 and _TENSOR_AT_BYTES in body)


def must_be_read(body: Buffer, encoding: int) -> bool:
    """Return whether a body may hold a value that must be read even if nobody needs the message.

    Note    the body is searched for the names of such values' rebuilding functions. If other data
            contains one of these names, the answer is True for a body without such a value
    """
    return encoding & ~NAMED == PICKLE and any(name in bytes(body) for name in _must_be_read)


# Cache: (module, name) -> the encoded name. It is cleared when it has _MAX_NAMES entries.
_names: dict[tuple[str | None, str], bytes] = {}


def _name_of(function: Any) -> bytes | None:
    """Return the name by which other workers find a function; None to pickle the function."""
    if function.__class__ is not FunctionType and function.__class__ is not BuiltinFunctionType:
        return None
    module, name = function.__module__, function.__qualname__
    # The name is looked up each time, as it may have been bound to another object.
    if getattr(sys.modules.get(module), name, None) is not function:
        return None
    encoded = _names.get((module, name))
    return _encode_name(module, name) if encoded is None else encoded


def _encode_name(module: str, name: str) -> bytes | None:
    encoded = f"{module}:{name}".encode()
    if len(encoded) > 0xFFFF:
        return None
    if len(_names) >= _MAX_NAMES:
        _names.clear()
    named = _names[module, name] = _LENGTH.pack(len(encoded)) + encoded
    return named


def _are_tensors(args: Sequence[Any]) -> bool:
    # A tensor that occurs twice must arrive as one object; a pickle ensures this.
    for value in args:
        if value.__class__ not in _TENSOR_CLASSES or value._layout.is_sparse:
            return False
    return len(set(map(id, args))) == len(args) < _LONE


def _take_tensors(body: Buffer, tensors: Sequence[Tensor]) -> Any:
    if len(body) == _LENGTH.size:
        (count,) = _LENGTH.unpack(body)
        if count == _LONE and tensors:
            return tensors[0]
        if count <= len(tensors):
            return tuple(tensors[:count])
    raise MessageError(f"a body of {bytes(body[:8])!r} for {len(tensors)} tensors")


def _pickle(value: object, tensors: list[Tensor], parts: Sequence[tuple[str, object]]) -> bytes:
    packer = getattr(_packers, "packer", None)
    if packer is None:
        packer = _packers.packer = _Packer()
    elif packer.is_busy:  # while an object is pickled, its own code makes a call
        packer = _Packer()
    try:
        return packer.pack(value, tensors)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise _cannot_send(parts, error) from error


def _cannot_send(parts: Sequence[tuple[str, object]], error: Exception) -> RpcError:
    found = Culprit(*parts[0], error)
    for name, part in parts:
        try:
            _Packer().pack(part, [])
        except Exception as part_error:
            found = find_unpicklable(
                part, name, lambda inner: _Packer().pack(inner, []), part_error
            )
            break
    kind = type(found.value).__name__
    return RpcError(
        f"cannot send {found.path} ({kind}) to another worker: {found.error}; arguments and "
        "results must pickle, and functions and classes must be found by name on the other worker, "
        "at the top level of a module"
    )


class _Table(dict[type, Any]):
    """Class -> its reducer; by default, `reduce_error` for exceptions without pickling methods."""

    def __missing__(self, kind: type) -> Any:
        if issubclass(kind, BaseException) and not says_how_it_pickles(kind):
            return reduce_error
        raise KeyError(kind)


class _Packer:
    """A reusable pickler; creating one costs as much as pickling a small body."""

    def __init__(self) -> None:
        self.is_busy = False
        self._tensors: list[Tensor] = []
        self._stream = io.BytesIO()
        self._pickler = pickle.Pickler(self._stream, protocol=5)
        self._others = 0

    def pack(self, value: object, tensors: list[Tensor]) -> bytes:
        """Return the pickle of `value`; append the Tensors in it to `tensors`."""
        pickler, stream = self._pickler, self._stream
        others = len(copyreg.dispatch_table) + _num_changes
        if others != self._others:
            self._others = others
            known: dict[type, Any] = {Tensor: self._put_tensor, Parameter: self._put_tensor}
            ours = {**_reducers, **_users_reducers, **known}
            pickler.dispatch_table = _Table({**copyreg.dispatch_table, **ours})
        self._tensors = tensors
        self.is_busy = True
        try:
            pickler.dump(value)
            return stream.getvalue()
        finally:
            self.is_busy = False
            self._tensors = []
            # The memo would keep the pickled objects alive, and the next pickle would refer to them
            # instead of containing them.
            pickler.clear_memo()
            stream.seek(0)
            stream.truncate()

    def _put_tensor(self, tensor: Tensor) -> tuple[Any, ...]:
        if tensor._layout.is_sparse:
            return _reduce_sparse(tensor)
        self._tensors.append(tensor)
        return _tensor_at, (len(self._tensors) - 1,)


_packers = threading.local()


def _unpickle(body: Buffer, tensors: Sequence[Tensor]) -> Any:
    # Copy the body first: the sender may still be able to write to the body's memory.
    body = bytes(body)
    try:
        try:
            nesting = gate.max_nesting()
            unpickler = _Unpickler(io.BytesIO(body), tensors)
            if nesting is not None:
                unpickler.found = require_sound(body, nesting, unpickler.examine)
            return unpickler.load()
        except Exception:
            _read_what_must_be(body, PICKLE)
            raise
    except (pickle.UnpicklingError, EOFError, IndexError, UnicodeDecodeError) as error:
        raise MessageError(f"a body that does not unpickle: {error}") from error


class _Unpickler(pickle.Unpickler):
    """Unpickles bodies; in strict mode, gate.py checks all globals before anything is loaded."""

    found: Mapping[tuple[str, str], Any] | None = None

    def __init__(self, stream: io.BytesIO, tensors: Sequence[Tensor]) -> None:
        super().__init__(stream)
        self._tensors = tensors

    def examine(self, module: str, name: str) -> tuple[Any, Use]:
        """Return the object that a name refers to, and the uses that a body may make of it."""
        rebuild = self._rebuilder(module, name)
        if rebuild is None:
            return gate.examine(module, name)
        return rebuild, rebuilder_use(rebuild)

    def find_class(self, module: str, name: str) -> Any:
        if self.found is not None:
            return self.found[module, name]
        rebuild = self._rebuilder(module, name)
        return gate.find(module, name) if rebuild is None else rebuild

    def _rebuilder(self, module: str, name: str) -> Callable[..., Any] | None:
        if module == _HERE and name == _TENSOR_AT:
            return self._tensors.__getitem__
        return _rebuilders.get((module, name))


def _read_what_must_be(body: Buffer, encoding: int) -> None:
    """Read only the values that must be read, if the whole body cannot be read; discard them."""
    if must_be_read(body, encoding):
        try:
            nesting = gate.max_nesting()
            if nesting is not None:
                require_sound(body, nesting, _examine_in_part)
            _PartialUnpickler(io.BytesIO(body)).load()
        except Exception:
            trace = many_lines(traceback.format_exc())
            _logger.info("the mandatory part of a body could not be read either\n%s", trace)


def _examine_in_part(module: str, name: str) -> tuple[Any, Use]:
    found = _find_in_part(module, name)
    return found, ANYTHING if found is _Nothing else REBUILDS


def _find_in_part(module: str, name: str) -> Any:
    is_wanted = name.encode() in _must_be_read
    return _rebuilders.get((module, name), _Nothing) if is_wanted else _Nothing


class _PartialUnpickler(pickle.Unpickler):
    """Creates the values that must be read, and a placeholder for everything else."""

    def find_class(self, module: str, name: str) -> Any:
        return _find_in_part(module, name)


class _Nothing:
    """A placeholder that accepts all operations of a pickle on a class and its objects."""

    def __new__(cls, *_: object, **__: object) -> _Nothing:
        return super().__new__(cls)

    def _take(self, *_: object) -> None:
        """Ignore the arguments."""

    __setitem__ = __setstate__ = append = extend = add = _take


def _tensor_at(index: int) -> Tensor:
    raise RuntimeError("only the Unpickler of a message knows its tensors")
