"""Reads a pickle without running code: plain values, containers, and calls from a fixed list."""

# Note [Reading a stranger's pickle] The reader accepts the opcodes that pickle's protocols 2 to 5
# write for plain values, containers and calls, and rejects all others. The memo is a dict, so that
# a large index in the file does not allocate a large list. A length is checked against the
# remaining bytes. Only objects that `safe_globals.py` allows are called. The result has at most
# _MOST_LEVELS levels of containers, and no container in it contains itself.

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any, Final

from ..core.folded_frames import private_cause
from ..tensor.tensor import Tensor
from .budget import Budget, brief
from .rebuilding import bytes_of_copy, give_attributes, give_state, size_of_state
from .safe_globals import find_safe, is_added, plain_call

_MOST_LEVELS: Final = 500
# A dict's key that is a str of at most this length is not counted in the budget.
_SHORT: Final = 64
_COST_OF_A_SET: Final = 2
_FLOAT: Final = struct.Struct(">d")


class SafeUnpickler:
    """Reads one pickle, or several in a row, from a buffer of bytes.

    `persistent_load` returns the value for a persistent id; `budget` limits the work for one file
    """

    def __init__(
        self,
        data: bytes,
        persistent_load: Callable[[Any], Any],
        budget: Budget,
        encoding: str = "utf-8",
    ) -> None:
        self.at = 0
        self._data = data
        self._persistent_load = persistent_load
        self._budget = budget
        self._encoding = encoding
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """Return the value of the next pickle.

        Raises  UnpicklingError for data that is not a pickle, or for a value that is not allowed
        """
        self._stack, self._below, self._memo = [], [], {}
        data, actions = self._data, _ACTIONS
        try:
            while True:
                code = data[self.at]
                self.at += 1
                if code == _STOP:
                    break
                action = actions[code]
                if action is None:
                    raise UnpicklingError(f"Unsupported operand {code} at byte {self.at - 1}")
                action(self)
            value = self._stack.pop()
        except (IndexError, KeyError, struct.error, UnicodeDecodeError) as error:
            raise UnpicklingError(
                "the pickle takes more than it holds, or is cut off"
            ) from private_cause(error)
        require_shallow(value)
        return value

    def find(self, module: str, name: str) -> Any:
        """Return the class or function that the pickle refers to."""
        return find_safe(module, name)

    def _take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if self.at > len(self._data):
            raise UnpicklingError("the pickle is cut off")
        return self._data[start : self.at]

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "little")

    def _line(self) -> str:
        end = self._data.find(b"\n", self.at)
        if end < 0:
            raise UnpicklingError("the pickle is cut off")
        line = self._data[self.at : end].decode()
        self.at = end + 1
        return line

    def _pop_mark(self) -> list[Any]:
        items = self._stack
        self._stack = self._below.pop()
        return items

    # The handlers of the opcodes. Each has the name that pickle gives to its opcode.

    def _proto(self) -> None:
        protocol = self._number(1)
        if not 2 <= protocol <= 5:
            raise UnpicklingError(f"protocol {protocol} of pickle is not one of 2 to 5")

    def _mark(self) -> None:
        self._below.append(self._stack)
        self._stack = []

    def _int(self, size: int) -> None:
        self._stack.append(int.from_bytes(self._take(size), "little", signed=size == 4))

    def _long(self, size: int) -> None:
        self._stack.append(int.from_bytes(self._take(self._number(size)), "little", signed=True))

    def _binfloat(self) -> None:
        self._stack.append(_FLOAT.unpack(self._take(8))[0])

    def _text(self, size: int) -> None:
        self._stack.append(self._take(self._number(size)).decode("utf-8", "surrogatepass"))

    def _binstring(self, size: int) -> None:
        """Push a str of Python 2, decoded with `encoding`, or as bytes if that is "bytes"."""
        data = self._take(self._number(size))
        if self._encoding == "bytes":
            self._stack.append(data)
            return
        try:
            self._stack.append(data.decode(self._encoding))
        except UnicodeDecodeError as error:
            raise UnpicklingError(
                f"Python 2 wrote text in it that is not {self._encoding} ({brief(data)}); give "
                "load() the encoding, such as encoding='latin1', or encoding='bytes'"
            ) from private_cause(error)

    def _binbytes(self, size: int) -> None:
        self._stack.append(self._take(self._number(size)))

    def _bytearray8(self) -> None:
        self._stack.append(bytearray(self._take(self._number(8))))

    def _tuple(self) -> None:
        items = self._pop_mark()
        self._stack.append(tuple(items))

    def _tuple_of(self, count: int) -> None:
        stack = self._stack
        if len(stack) < count:
            raise UnpicklingError("a tuple of more than there is")
        stack[-count:] = [tuple(stack[-count:])]

    def _frozenset(self) -> None:
        items = self._pop_mark()
        for item in items:
            self._budget.require_key(item)
        self._stack.append(frozenset(items))

    def _append(self) -> None:
        value = self._stack.pop()
        self._holder(list).append(value)

    def _appends(self) -> None:
        items = self._pop_mark()
        holder = self._holder(list)
        extend = getattr(holder, "extend", None)
        if extend is not None:
            extend(items)
            return
        for item in items:
            holder.append(item)

    def _setitem(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set(self._stack[-1], [key, value])

    def _setitems(self) -> None:
        items = self._pop_mark()
        self._set(self._stack[-1], items)

    def _set(self, holder: Any, items: list[Any]) -> None:
        if not isinstance(holder, dict):
            self._allowed(holder)
        for place in range(0, len(items) - 1, 2):
            key = items[place]
            if key.__class__ is not str or len(key) > _SHORT:
                self._budget.require_key(key)
            holder[key] = items[place + 1]

    def _additems(self) -> None:
        items = self._pop_mark()
        holder = self._holder(set)
        for item in items:
            self._budget.require_key(item)
            holder.add(item)

    def _holder(self, kind: type) -> Any:
        holder = self._stack[-1]
        return holder if type(holder) is kind else self._allowed(holder)

    def _allowed(self, value: Any) -> Any:
        """Return `value` if the user has added its class.

        Raises  UnpicklingError otherwise
        """
        if is_added(type(value)):
            return value
        raise UnpicklingError(f"nothing can be put into a value of {type(value).__name__}")

    def _put(self, size: int) -> None:
        self._memo[self._number(size)] = self._stack[-1]

    def _memoize(self) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _get(self, size: int) -> None:
        self._stack.append(self._memo[self._number(size)])

    def _global(self) -> None:
        module, name = self._line(), self._line()
        self._stack.append(self.find(module, name))

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if type(module) is not str or type(name) is not str:
            raise UnpicklingError(f"{brief(module)} and {brief(name)} are not names")
        self._stack.append(self.find(module, name))

    def _binpersid(self) -> None:
        self._stack.append(self._persistent_load(self._stack.pop()))

    def _reduce(self) -> None:
        args, function = self._stack.pop(), self._stack.pop()
        if type(args) is not tuple:
            raise UnpicklingError("arguments that are not a tuple")
        call = plain_call(function)
        if call is not None:
            try:
                value = call(args, self._budget)
            except (TypeError, ValueError, AttributeError, LookupError) as error:
                word = getattr(function, "__name__", function)
                raise UnpicklingError(
                    f"{word} is called with arguments that it does not take: {error}"
                ) from (error)
        elif function is _FROM_TYPE:
            value = self._rebuild_from_type(args)
        elif is_added(function):
            value = function(*args)
        else:
            raise UnpicklingError(f"{brief(function)} is named, but may not be called")
        self._stack.append(value)

    def _rebuild_from_type(self, args: tuple[Any, ...]) -> Any:
        function, kind, arguments, state = args
        call = plain_call(function)
        if call is None or not (kind in (Tensor,) or is_added(kind)):
            raise UnpicklingError(
                f"a tensor may not be rebuilt by {brief(function)} as {brief(kind)}"
            )
        self._budget.take(8 + size_of_state(state))

        def make(*given: Any) -> Any:
            made = call(given, self._budget)
            if kind is not Tensor:
                self._budget.take_data(bytes_of_copy(made))
            return made

        return _FROM_TYPE(make, kind, arguments, state)

    def _newobj(self) -> None:
        args, kind = self._stack.pop(), self._stack.pop()
        if not isinstance(kind, type) or type(args) is not tuple:
            raise UnpicklingError(f"{brief(kind)} is not a class")
        if is_added(kind):
            self._stack.append(kind.__new__(kind, *args))
            return
        self._stack.extend((kind, args))
        self._reduce()

    def _build(self) -> None:
        state, value = self._stack.pop(), self._stack[-1]
        self._budget.take(size_of_state(state))
        try:
            if type(value) is OrderedDict:
                give_attributes(value, state)  # a state_dict() has the attribute _metadata
            else:
                give_state(self._allowed(value), state)
        except (TypeError, ValueError, AttributeError) as error:
            raise UnpicklingError(f"{type(value).__name__} does not take its state: {error}") from (
                error
            )

    def _empty_set(self) -> None:
        self._budget.take(_COST_OF_A_SET)
        self._stack.append(set())

    def _pop(self) -> None:
        self._stack.pop()


def _actions() -> list[Callable[[SafeUnpickler], None] | None]:
    """Return the handler of each opcode, or None for an opcode that is not accepted."""
    table: list[Callable[[SafeUnpickler], None] | None] = [None] * 256

    def enter(codes: bytes, action: Callable[..., None], *given: Any) -> None:
        for code in codes:
            table[code] = (lambda self: action(self, *given)) if given else action

    def constant(code: bytes, make: Callable[[], Any]) -> None:
        enter(code, lambda self: self._stack.append(make()))

    one = SafeUnpickler
    constant(b"N", lambda: None)
    constant(b"\x88", lambda: True)
    constant(b"\x89", lambda: False)
    constant(b")", tuple)
    constant(b"]", list)
    constant(b"}", dict)
    enter(b"\x8f", one._empty_set)
    for codes, size in ((b"K", 1), (b"M", 2), (b"J", 4)):
        enter(codes, one._int, size)
    enter(b"\x8a", one._long, 1)
    enter(b"\x8b", one._long, 4)
    enter(b"G", one._binfloat)
    for codes, size in ((b"\x8c", 1), (b"X", 4), (b"\x8d", 8)):
        enter(codes, one._text, size)
    for codes, size in ((b"U", 1), (b"T", 4)):
        enter(codes, one._binstring, size)
    for codes, size in ((b"C", 1), (b"B", 4), (b"\x8e", 8)):
        enter(codes, one._binbytes, size)
    for codes, count in ((b"\x85", 1), (b"\x86", 2), (b"\x87", 3)):
        enter(codes, one._tuple_of, count)
    for codes, size in ((b"q", 1), (b"r", 4)):
        enter(codes, one._put, size)
    for codes, size in ((b"h", 1), (b"j", 4)):
        enter(codes, one._get, size)
    plain = {
        b"\x80": one._proto, b"(": one._mark, b"t": one._tuple, b"\x91": one._frozenset,
        b"a": one._append, b"e": one._appends, b"s": one._setitem, b"u": one._setitems,
        b"\x90": one._additems, b"\x94": one._memoize, b"c": one._global, b"0": one._pop,
        b"\x93": one._stack_global, b"Q": one._binpersid, b"R": one._reduce,
        b"\x81": one._newobj, b"b": one._build, b"\x96": one._bytearray8,
        b"\x95": lambda self: self._take(8) and None,
    }  # fmt: skip
    for codes, action in plain.items():
        enter(codes, action)
    return table


_ACTIONS: Final = _actions()
_STOP: Final = ord(".")
_FROM_TYPE: Final = find_safe("torch._tensor", "_rebuild_from_type_v2")


def require_shallow(value: Any) -> None:
    """Raise UnpicklingError for containers that are nested too deep, or contain themselves.

    Raises  UnpicklingError
    """
    # Maps the id of each container to 0 while its items are walked, and then to its nesting depth.
    depths: dict[int, int] = {}
    waiting: list[Any] = [value]
    while waiting:
        one = waiting[-1]
        inner = _inner(one)
        if not inner or depths.get(id(one)):
            waiting.pop()
            continue
        if id(one) not in depths:
            depths[id(one)] = 0
            for item in inner:
                if isinstance(item, _HOLDERS) and depths.get(id(item), 1) == 0:
                    raise UnpicklingError("a container contains itself")
            waiting.extend(item for item in inner if isinstance(item, _HOLDERS))
        else:
            deepest = max(
                [depths.get(id(item), 0) for item in inner if isinstance(item, _HOLDERS)], default=0
            )
            depths[id(one)] = deepest + 1
            if deepest >= _MOST_LEVELS:
                raise UnpicklingError(f"containers nest more than {_MOST_LEVELS} deep")
            waiting.pop()


_HOLDERS: Final = (list, tuple, dict, set, frozenset)


def _inner(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, _HOLDERS) else ()
