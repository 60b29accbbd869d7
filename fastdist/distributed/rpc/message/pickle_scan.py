"""Checks a pickle before it is loaded: only what our own Pickler writes, with limited nesting."""

# Note [What a pickle can do to its reader]
# The Unpickler trusts its input:
# - For a memo index of 2^32, the Unpickler fills a table of that size.
# - For a length, the Unpickler allocates memory before it checks that so many bytes exist.
# - If a frame ends within an argument, the Unpickler drops bytes, and then reads other opcodes than
#   those in the body.
# - Tuples nested 200,000 deep, as a key of a dictionary, overflow the C stack when they are hashed.
#   A tuple that holds the same tuple twice, and so on for 60 levels, takes years to hash.
# - A pickle may name a class and set a state into it, which changes the class for all its users. It
#   may also set a state into an array, and NumPy trusts that state.
# In open mode the sender of a body may run any function on this worker anyway; in strict mode it
# may not. So in strict mode every opcode is checked against the output of protocol 5, and every
# number against the bytes that arrived. Every call and change is checked against the permitted uses
# of the named object (pickle_uses.py).
#
# A pickle contains an object once, and refers to it with five bytes each further time. So the sizes
# of all copies, hashes and states of objects have one common limit, _TIMES the body's size. One
# byte creates a list, a dict or a set, so the memory for them has another limit, _ROOM_TIMES.

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.frames import Buffer

from .metadata import MAX_NESTING
from .pickle_uses import (
    ANYTHING,
    BYTEARRAY,
    BYTES,
    FLOAT,
    INT,
    ITEMS,
    KEYS,
    MADE,
    MEMBERS,
    NAMED,
    SINGLE,
    STATE,
    TEXT,
    TUPLE,
    Item,
    Use,
)

# Effects of an opcode on the stack. The table below has, for each opcode, its effect, the size of
# its argument, and a number or an item that the effect uses.
_SCALAR, _COUNTED, _EMPTY, _WRAP, _TUPLE, _GROW, _GROW_MARK, _CALL, _OTHER = range(1, 10)
_FORBIDDEN: Final = (0, 0, 0)

# Items on the stack, by kind (see pickle_uses.py): [kind, depth, cost of hashing it, and
#   for a tuple                   its items
#   for a list, dict, set         the number of its elements
#   for text, bytes, a long int   its position, its length in bytes
#   for a named object            its Use].
# Items are lists, since unfinished ones may still grow; the constant items below are shared.
_SINGLE: Final[Item] = [SINGLE, 0, 1, 0, 1]  # None, True, False
_INT: Final[Item] = [INT, 0, 1, 0, 1]
_FLOAT: Final[Item] = [FLOAT, 0, 1, 0, 1]
_NOTHING: Final[Item] = [TUPLE, 1, 1, []]

# The limit on copies, hashes and states is _FREE + _TIMES * the size of the body. For ordinary
# values they take about as much as the size of our Pickler's output.
_FREE: Final = 1 << 20
_TIMES: Final = 16
# The limit on the memory of empty lists, dicts and sets, as a multiple of the pickle's size. One
# byte can create such an object; our Pickler writes two bytes for an empty list or dict.
_ROOM_TIMES: Final = 48
_ROOM_OF: Final = {ITEMS: 64, KEYS: 72, MEMBERS: 224}
_MOST_BYTES_OF_A_NAME: Final = 4096

# A function (module, name) that returns the named object and its permitted uses.
Examine = Callable[[str, str], tuple[Any, Use]]


def _table() -> list[tuple[int, int, Any]]:
    """Return, by opcode, (effect, bytes of the argument, number or item for the effect)."""
    table: list[tuple[int, int, Any]] = [_FORBIDDEN] * 256

    def enter(kind: int, codes: bytes, argument: int = 0, number: Any = 0) -> None:
        for code in codes:
            table[code] = (kind, argument, number)

    enter(_SCALAR, b"N\x88\x89", 0, _SINGLE)  # NONE, NEWTRUE, NEWFALSE
    enter(_SCALAR, b"K", 1, _INT)  # BININT1
    enter(_SCALAR, b"M", 2, _INT)  # BININT2
    enter(_SCALAR, b"J", 4, _INT)  # BININT
    enter(_SCALAR, b"G", 8, _FLOAT)  # BINFLOAT
    enter(_SCALAR, b")", 0, _NOTHING)  # EMPTY_TUPLE
    enter(_COUNTED, b"C", 1, BYTES)  # SHORT_BINBYTES
    enter(_COUNTED, b"B", 4, BYTES)  # BINBYTES
    enter(_COUNTED, b"\x8e", 8, BYTES)  # BINBYTES8
    enter(_COUNTED, b"\x96", 8, BYTEARRAY)  # BYTEARRAY8
    enter(_COUNTED, b"\x8c", 1, TEXT)  # SHORT_BINUNICODE
    enter(_COUNTED, b"X", 4, TEXT)  # BINUNICODE
    enter(_COUNTED, b"\x8d", 8, TEXT)  # BINUNICODE8
    enter(_COUNTED, b"\x8a", 1, INT)  # LONG1
    enter(_COUNTED, b"\x8b", 4, INT)  # LONG4
    enter(_EMPTY, b"]", 0, ITEMS)  # EMPTY_LIST
    enter(_EMPTY, b"}", 0, KEYS)  # EMPTY_DICT
    enter(_EMPTY, b"\x8f", 0, MEMBERS)  # EMPTY_SET
    for number, code in enumerate((b"\x85", b"\x86", b"\x87"), start=1):
        enter(_WRAP, code, 0, number)  # TUPLE1, TUPLE2, TUPLE3
    enter(_TUPLE, b"t\x91")  # TUPLE, FROZENSET
    enter(_GROW, b"ab", 0, 1)  # APPEND, BUILD
    enter(_GROW, b"s", 0, 2)  # SETITEM
    enter(_GROW_MARK, b"eu\x90")  # APPENDS, SETITEMS, ADDITEMS
    enter(_CALL, b"R\x81", 0, 2)  # REDUCE, NEWOBJ
    enter(_CALL, b"\x92", 0, 3)  # NEWOBJ_EX
    enter(_OTHER, b"(01\x94\x93.")  # MARK, POP, POP_MARK, MEMOIZE, STACK_GLOBAL, STOP
    enter(_OTHER, b"h\x80", 1)  # BINGET, PROTO
    enter(_OTHER, b"j", 4)  # LONG_BINGET
    enter(_OTHER, b"\x95", 8)  # FRAME
    return table


_TABLE: Final = _table()
_MARK, _POP, _POP_MARK, _MEMOIZE, _STACK_GLOBAL, _STOP = b"(01\x94\x93."
_BINGET, _LONG_BINGET, _FRAME, _FROZENSET, _ADDITEMS, _BUILD = b"hj\x95\x91\x90b"
_REDUCE: Final = ord("R")
_APPENDING: Final = b"ae"
_PROTOCOL: Final = 5
_LONG: Final = TEXT | BYTES | BYTEARRAY | INT
_HOLDERS: Final = ITEMS | KEYS | MEMBERS
# Opcode -> the kind of item to which it adds something.
_TAKERS: Final = {
    **dict.fromkeys(b"ae", ITEMS),
    **dict.fromkeys(b"su", KEYS),
    **dict.fromkeys(b"\x90", MEMBERS),
    _BUILD: STATE,
}


def require_sound(
    body: Buffer, max_nesting: int = MAX_NESTING, examine: Examine = lambda *_: (None, ANYTHING)
) -> dict[tuple[str, str], Any]:
    """Scan a whole pickle without creating any object; return the objects that it names.

    See Note [What a pickle can do to its reader]. `examine` decides which names are permitted, and
    for which uses. Without `examine`, all names and uses are permitted.

    Raises  MessageError for opcodes and numbers that our Pickler does not write, for more than
            max_nesting levels, and for calls or changes that are not permitted; errors of examine
    """
    scan = _Scan(bytes(body), max_nesting, examine)
    try:
        scan.run()
    except IndexError as error:
        raise MessageError("a body that does not unpickle: it takes more than it holds") from error
    return scan.found


def _is_text(items: list[Item]) -> bool:
    return len(items) == 1 and items[0][0] == TEXT


class _Scan:
    """A simulated Unpickler: its stack has descriptions of the values instead of the values."""

    def __init__(self, body: bytes, max_nesting: int, examine: Examine) -> None:
        self.found: dict[tuple[str, str], Any] = {}
        self._body = body
        self._max_nesting = max_nesting
        self._examine = examine
        self._stack: list[Item] = []
        self._marks: list[int] = []
        self._memo: list[Item] = []
        self._named: dict[tuple[str, str], Item] = {}
        self._left = _FREE + _TIMES * len(body)
        self._room = _FREE + _ROOM_TIMES * len(body)

    def run(self) -> None:
        body, stack, memo, table = self._body, self._stack, self._memo, _TABLE
        at, end, frame_end = 0, len(body), 0
        while True:
            code = body[at]
            kind, size, number = table[code]
            start = at
            at += 1 + size
            if kind == _SCALAR:
                stack.append(number)
            elif code == _MEMOIZE:
                memo.append(stack[-1])
            elif kind == _COUNTED:
                length = int.from_bytes(body[at - size : at], "little")
                stack.append([number, 0, length + 1 if number == INT else 1, at, length])
                at += length
            elif kind == _EMPTY:
                stack.append([number, 1, 1, 0])
                self._take_room(number)
            elif kind == _WRAP:
                self._wrap(self._take(number))
            elif kind == _GROW:
                self._grow(code, self._take(number))
            elif kind == _GROW_MARK:
                self._grow(code, self._take_marked())
            elif kind == _TUPLE:
                self._wrap(self._take_marked(), is_set=code == _FROZENSET)
            elif kind == _CALL:
                self._call(code, self._take(number))
            elif kind == _OTHER:
                if code == _STOP:
                    break
                argument = int.from_bytes(body[at - size : at], "little")
                if code == _FRAME:
                    frame_end = self._begin_frame(start, frame_end, at + argument)
                else:
                    self._other(code, argument)
            else:
                raise MessageError(f"a body with opcode {code:#x}, which no worker writes")
            if start < frame_end < at:
                raise MessageError("a body with a frame that ends within an opcode")
        if at != end or len(stack) != 1 or self._marks:
            raise MessageError("a body that does not unpickle: it does not end where it should")

    def _begin_frame(self, start: int, last_end: int, frame_end: int) -> int:
        # The Unpickler drops the unread rest of a frame if it begins another frame or reads past
        # the end.
        if start < last_end or frame_end > len(self._body):
            raise MessageError("a body with a frame within a frame, or beyond its end")
        return frame_end

    def _take(self, count: int) -> list[Item]:
        """Remove `count` items from the stack; IndexError if too few are above the last mark."""
        stack = self._stack
        start = len(stack) - count
        if start < (self._marks[-1] if self._marks else 0):
            raise IndexError
        items = stack[start:]
        del stack[start:]
        return items

    def _take_marked(self) -> list[Item]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _wrap(self, items: list[Item], *, is_set: bool = False) -> None:
        """Put a tuple, or with `is_set` a frozenset, of these items on the stack."""
        depth = max([item[1] for item in items], default=0) + 1
        if depth > self._max_nesting:
            raise self._too_deep()
        cost = 1 + sum([item[2] for item in items])
        if is_set:
            self._spend(cost)
            self._take_room(MEMBERS)
        self._stack.append([MADE, depth, cost] if is_set else [TUPLE, depth, cost, items])

    def _grow(self, code: int, items: list[Item]) -> None:
        """Add items, or a state, to the item that is then on top of the stack."""
        (target,) = self._take(1)
        if not target[0] & _TAKERS[code]:
            raise MessageError(
                "a body that would change something that it only names, or that is finished: "
                f"opcode {code:#x}; only lists, dicts and sets grow, and only instances of "
                "exported or allowed classes and exceptions, made here, take a state"
            )
        target[1] = max([target[1], *[item[1] + 1 for item in items]])
        if target[1] > self._max_nesting:
            raise self._too_deep()
        if code == _BUILD:
            self._spend(_copied(items))
        elif code not in _APPENDING:
            keys = items if code == _ADDITEMS else items[::2]
            self._spend(sum([key[2] for key in keys]))
        target[3] += len(items)
        self._stack.append(target)

    def _call(self, code: int, items: list[Item]) -> None:
        """Put the result of calling a named object on the stack."""
        named, args = items[0], items[1]
        is_written = named[0] == NAMED and args[0] == TUPLE
        if not is_written or not all(item[0] & KEYS for item in items[2:]):
            raise MessageError("a body that calls something else than what it names")
        if code == _REDUCE and named[4] == "builtins.str" and _is_text(args[3]):
            # `str` of a text returns the same text. With as-torch, module names are pickled as such
            # calls.
            self._stack.append(args[3][0])
            return
        use: Use = named[3]
        if code not in use.opcodes or (use.takes is not None and not use.takes(args[3])):
            raise MessageError(f"a body that calls {named[4]} in a form that no worker writes")
        depth = max([item[1] for item in items[1:]])
        cost = args[2]
        if use.is_bounded:
            copied = _copied(args[3])
            self._spend(copied)
            cost += copied
        self._stack.append([use.gives, depth, cost, 0])

    def _other(self, code: int, argument: int) -> None:
        stack = self._stack
        if code in (_BINGET, _LONG_BINGET):
            stack.append(self._memo[argument])
        elif code == _MARK:
            self._marks.append(len(stack))
        elif code == _STACK_GLOBAL:
            stack.append(self._name(*self._take(2)))
        elif code == _POP:
            if self._marks and self._marks[-1] == len(stack):
                self._marks.pop()
            else:
                self._take(1)
        elif code == _POP_MARK:
            self._take_marked()
        elif argument != _PROTOCOL:
            raise MessageError(f"a body of protocol {argument}; workers write {_PROTOCOL}")

    def _name(self, module: Item, name: Item) -> Item:
        """Return the item for the object with this module and name."""
        if not (module[0] == name[0] == TEXT) or max(module[4], name[4]) > _MOST_BYTES_OF_A_NAME:
            raise MessageError("a body that names something by a value that is not a name")
        try:
            dotted = self._text(module), self._text(name)
        except UnicodeDecodeError as error:
            raise MessageError(
                "a body that does not unpickle: a name that is not a text"
            ) from error
        known = self._named.get(dotted)
        if known is None:
            self.found[dotted], use = self._examine(*dotted)
            known = self._named[dotted] = [NAMED, 0, 1, use, ".".join(dotted)]
        return known

    def _text(self, item: Item) -> str:
        return self._body[item[3] : item[3] + item[4]].decode(errors="surrogatepass")

    def _spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise MessageError(
                f"a body of {len(self._body)} bytes that would copy or hash more than {_TIMES} "
                "times as much, by naming the same values again and again"
            )

    def _take_room(self, kind: int) -> None:
        self._room -= _ROOM_OF[kind]
        if self._room < 0:
            raise MessageError(
                f"a body of {len(self._body)} bytes with so many lists, dicts or sets that they "
                f"would take more than {_ROOM_TIMES} times as much; send numbers in tensors or "
                "arrays, and texts joined"
            )

    def _too_deep(self) -> MessageError:
        return MessageError(
            f"a body that nests deeper than {self._max_nesting} levels; flatten it, or raise the "
            "limit nesting= of the workers that run in strict mode"
        )


def _copied(items: list[Item]) -> int:
    """Return how many bytes and elements a call or a state copies."""
    total = len(items)
    for item in items:
        kind = item[0]
        if kind & _LONG:
            total += item[4]
        elif kind & _HOLDERS:
            total += item[3]
        elif kind == TUPLE:
            total += len(item[3])
            for inner in item[3]:
                if inner[0] & _HOLDERS:
                    total += inner[3]
                elif inner[0] == TUPLE:
                    total += len(inner[3])
    return total
