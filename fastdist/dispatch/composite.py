"""Functions made of ops: what they are called, and where users find them.

An op is one declaration with a kernel and derivatives; a composite is a Python function over ops,
such as `clamp`, which chooses among three. Its derivatives are those of the ops. Both end up under
the same names for users.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from ..core.overriding import NOT_TAKEN, offer
from ..listeners.autocast import casting
from .arguments import checked
from .declaration import require_word
from .op import OUT_WORDS, Op
from .output import with_out_parameter, written_parts
from .pytorch_names import node_named

F = TypeVar("F", bound=Callable[..., Any])


class Composite(NamedTuple):
    """One function of the table.

    `function`: `fastdist.<name>`; `method`: `Tensor.<name>`, the tensor being the first argument;
    `inplace`: there is also `Tensor.<name>_`; `functional`: `fastdist.nn.functional.<name>`;
    `room`: it is `fastdist.<room>.<name>` alone, as in `linalg`, and stands so in the table, too
    """

    name: str
    call: Callable[..., Any]
    function: bool
    method: bool
    inplace: bool
    functional: bool
    room: str = ""


COMPOSITES: dict[str, Composite] = {}


def composite(
    *,
    name: str | None = None,
    function: bool = True,
    method: bool = True,
    inplace: bool = False,
    functional: bool = False,
    linalg: bool = False,
    fft: bool = False,
    takes_out: bool | str = False,
    early: bool = True,
    known_as: str | None = None,
    node: str = "",
    of_one: Op | None = None,
) -> Callable[[F], F]:
    """Put the decorated function into the table of composites; it takes the place of an op of its
    name.

    early=False leaves arguments of the wrong kind to its ops, where a look at each would be felt;
    takes_out=True gives it an `out=`, into which its result is written, or a tuple of them, and so
    does a word of OUT_WORDS, which says of which dtype that may be: "same" if none does;
    of_one is the op that it is of a tensor alone: the other arguments are not looked at then;
    known_as and node say what PyTorch calls it: see pytorch_names.py
    """

    def declare(call: F) -> F:
        known = name or call.__name__
        room = "linalg" if linalg else "fft" if fft else ""
        if room:
            known = f"{room}.{known}"
        assert known not in COMPOSITES, f"{known} is declared twice"
        word = known if known_as is None else known_as
        made = checked(
            call,
            casting(known),
            early=early,
            known_as=word,
            node=node_named(node),
            of_one=None if of_one is None else of_one.public,
        )
        if takes_out:
            said = takes_out if isinstance(takes_out, str) else "kind" if fft else "same"
            require_word(f"{known}: takes_out=", said, OUT_WORDS)
            made = _with_out(known, made, said)
        only = not room
        COMPOSITES[known] = Composite(
            known, made, function and only, method and only, inplace, functional, room
        )
        return made

    return declare


def _with_out(name: str, call: F, word: str) -> F:
    """Return call with an `out=`, of which a word of OUT_WORDS says what it takes."""

    @wraps(call)
    def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is not None:
            found = offer(public, args, {**kwargs, "out": out})
            if found is not NOT_TAKEN:
                return found
        return written_parts(name, out, call(*args, **kwargs), (*args, *kwargs.values()), word)

    public.__signature__ = with_out_parameter(call)  # type: ignore[attr-defined]
    call.offered_as = public  # type: ignore[attr-defined]
    return public  # type: ignore[return-value]
