"""A look at a pickle before it is read: only what our own Pickler writes, nothing too deep."""

# Note [What a pickle can do to its reader] The Unpickler believes what it reads. A memo index of
# 2^32 makes it fill a table of that size; a length makes it allocate before it looks whether the
# bytes are there; tuples nested 200,000 deep, as a key of a dictionary, overflow the C stack when
# they are hashed; and a state may be set into a class that was only named, which changes it for
# everybody. In open mode whoever sends a body may run any function here, so none of that matters.
# In strict mode a sender may not, so every opcode is held against what protocol 5 writes, every
# number against the bytes that came, and no state or item goes into what was found by name.

from __future__ import annotations

from typing import Final

from fastdist.core.errors import MessageError
from fastdist.distributed.pipe.message import Buffer
from fastdist.distributed.pipe.metadata import MAX_NESTING

# What an opcode does: its argument's bytes, and whether that is a length, are beside it.
_SCALAR, _COUNTED, _EMPTY, _WRAP, _TUPLE, _GROW, _GROW_MARK, _MADE, _OTHER = range(1, 10)
_FORBIDDEN: Final = (0, 0, 0)


def _table() -> list[tuple[int, int, int]]:
    """Return by opcode (kind, bytes of the argument, how many items go in)."""
    table = [_FORBIDDEN] * 256

    def enter(kind: int, codes: bytes, argument: int = 0, number: int = 0) -> None:
        for code in codes:
            table[code] = (kind, argument, number)

    enter(_SCALAR, b"N\x88\x89")  # NONE, NEWTRUE, NEWFALSE
    enter(_SCALAR, b"K", 1)  # BININT1
    enter(_SCALAR, b"M", 2)  # BININT2
    enter(_SCALAR, b"J", 4)  # BININT
    enter(_SCALAR, b"G", 8)  # BINFLOAT
    enter(_COUNTED, b"C\x8c\x8a", 1)  # SHORT_BINBYTES, SHORT_BINUNICODE, LONG1
    enter(_COUNTED, b"BX\x8b", 4)  # BINBYTES, BINUNICODE, LONG4
    enter(_COUNTED, b"\x8e\x8d\x96", 8)  # BINBYTES8, BINUNICODE8, BYTEARRAY8
    enter(_EMPTY, b")]}\x8f")  # EMPTY_TUPLE, EMPTY_LIST, EMPTY_DICT, EMPTY_SET
    for number, code in enumerate((b"\x85", b"\x86", b"\x87"), start=1):
        enter(_WRAP, code, 0, number)  # TUPLE1, TUPLE2, TUPLE3
    enter(_TUPLE, b"t\x91")  # TUPLE, FROZENSET
    enter(_GROW, b"ab", 0, 1)  # APPEND, BUILD
    enter(_GROW, b"s", 0, 2)  # SETITEM
    enter(_GROW_MARK, b"eu\x90")  # APPENDS, SETITEMS, ADDITEMS
    enter(_MADE, b"R\x81", 0, 2)  # REDUCE, NEWOBJ
    enter(_MADE, b"\x92", 0, 3)  # NEWOBJ_EX
    enter(_OTHER, b"(01\x94\x93.")  # MARK, POP, POP_MARK, MEMOIZE, STACK_GLOBAL, STOP
    enter(_OTHER, b"h\x80", 1)  # BINGET, PROTO
    enter(_OTHER, b"j", 4)  # LONG_BINGET
    enter(_OTHER, b"\x95", 8)  # FRAME
    return table


_TABLE: Final = _table()
_MARK, _POP, _POP_MARK, _MEMOIZE, _STACK_GLOBAL, _STOP = b"(01\x94\x93."
_BINGET, _LONG_BINGET = b"hj"
# What lies on the stack: how deep a value nests, in a list, since it may still grow; for scalars
# and for what was found by name there is one each.
_FLAT: Final = [0]
_NAMED: Final = [0]


def require_sound(body: Buffer, max_nesting: int = MAX_NESTING) -> None:
    """Look at a whole pickle without building anything of it.

    See Note [What a pickle can do to its reader].

    Raises  MessageError for opcodes and numbers that our Pickler does not write, for more than
            max_nesting levels, and where something found by name would be changed
    """
    try:
        _Scan(bytes(body), max_nesting).run()
    except IndexError as error:
        raise MessageError("a body that does not unpickle: it takes more than it holds") from error


class _Scan:
    """The stack of an Unpickler, with depths in place of values."""

    def __init__(self, body: bytes, max_nesting: int) -> None:
        self._body = body
        self._max_nesting = max_nesting
        self._stack: list[list[int]] = []
        self._marks: list[int] = []
        self._memo: list[list[int]] = []

    def run(self) -> None:
        body, stack, memo, table = self._body, self._stack, self._memo, _TABLE
        at, end = 0, len(body)
        while True:
            code = body[at]
            kind, size, number = table[code]
            at += 1 + size
            if kind == _SCALAR:
                stack.append(_FLAT)
            elif code == _MEMOIZE:
                memo.append(stack[-1])
            elif kind == _COUNTED:
                at += int.from_bytes(body[at - size : at], "little")
                stack.append(_FLAT)
            elif kind == _EMPTY:
                stack.append([1])
            elif kind == _WRAP:
                self._wrap(self._take(number))
            elif kind == _GROW:
                self._grow(self._take(number))
            elif kind == _GROW_MARK:
                self._grow(self._take_marked())
            elif kind == _TUPLE:
                self._wrap(self._take_marked())
            elif kind == _MADE:
                self._wrap(self._take(number)[1:], made=True)
            elif kind == _OTHER:
                if code == _STOP:
                    break
                self._other(code, int.from_bytes(body[at - size : at], "little"))
            else:
                raise MessageError(f"a body with opcode {code:#x}, which no worker writes")
        if at != end or len(stack) != 1 or self._marks:
            raise MessageError("a body that does not unpickle: it does not end where it should")

    def _take(self, count: int) -> list[list[int]]:
        """Take items off the stack, none from below the last mark."""
        stack = self._stack
        start = len(stack) - count
        if start < (self._marks[-1] if self._marks else 0):
            raise IndexError
        items = stack[start:]
        del stack[start:]
        return items

    def _take_marked(self) -> list[list[int]]:
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _wrap(self, items: list[list[int]], *, made: bool = False) -> None:
        """Put something on the stack that holds items; what is made of a tuple is no deeper."""
        depth = max([item[0] for item in items], default=0) + (not made)
        if depth > self._max_nesting:
            raise self._too_deep()
        self._stack.append([depth])

    def _grow(self, items: list[list[int]]) -> None:
        """Put items into what lies below them."""
        (target,) = self._take(1)
        if target is _NAMED or target is _FLAT:
            raise MessageError("a body that would change something that it only names")
        target[0] = max([target[0], *[item[0] + 1 for item in items]])
        if target[0] > self._max_nesting:
            raise self._too_deep()
        self._stack.append(target)

    def _other(self, code: int, argument: int) -> None:
        stack = self._stack
        if code in (_BINGET, _LONG_BINGET):
            stack.append(self._memo[argument])
        elif code == _MARK:
            self._marks.append(len(stack))
        elif code == _STACK_GLOBAL:
            self._take(2)
            stack.append(_NAMED)
        elif code == _POP:
            if self._marks and self._marks[-1] == len(stack):
                self._marks.pop()
            else:
                self._take(1)
        elif code == _POP_MARK:
            self._take_marked()

    def _too_deep(self) -> MessageError:
        return MessageError(
            f"a body that nests deeper than {self._max_nesting} levels; flatten it, or raise the "
            "limit nesting= of the workers that run in strict mode"
        )
