"""Functions made of ops: their names, and where users find them.

An op is one declaration with a kernel and derivatives; a composite is a Python function over ops,
such as `clamp`, which chooses among three. Its derivatives are those of the ops. Both end up under
the same names for users.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from ..core.errors import DeclarationError
from ..core.torch_function import NOT_TAKEN, offer
from .arguments import checked
from .declaration import OutRule, homes_of
from .interpreted import casting
from .op import Op
from .output import SignatureWithOut, written_parts
from .pytorch_names import node_named

F = TypeVar("F", bound=Callable[..., Any])


class Composite(NamedTuple):
    """One function of the table, and where users find it, as a value of HOMES."""

    name: str
    call: Callable[..., Any]
    homes: frozenset[str]


COMPOSITES: dict[str, Composite] = {}


def composite(
    *,
    name: str | None = None,
    homes: str = "function method",
    out: str = "",
    memory: str = "anywhere",
    early: bool = True,
    known_as: str | None = None,
    node: str = "",
    of_one: Op | None = None,
    quick: Callable[..., Any] | None = None,
) -> Callable[[F], F]:
    """Add the decorated function to the table of composites, in the place of an op of its name. The
    name of a function in `linalg` or `fft` begins with that.

    A value of OUT_WORDS as `out` adds an `out=`, into which its result is written, or a tuple of
    them: see OutRule; early=False leaves the check of arguments to its ops, where a check would be
    measurable; of_one is the op to call for a single tensor: the other arguments are not checked
    then; quick is given each call first, and returns NOT_TAKEN for those that it does not serve;
    known_as and node are PyTorch's names for it: see pytorch_names.py
    """

    def declare(call: F) -> F:
        known = name or call.__name__
        found_in = homes_of(known, homes)
        if found_in & {"fft", "linalg"}:
            known = f"{homes}.{known}"
        if known in COMPOSITES:
            raise DeclarationError(f"{known} is declared twice")
        made = checked(
            call,
            casting(known),
            early=early,
            known_as=known if known_as is None else known_as,
            node=node_named(node),
            of_one=None if of_one is None else of_one.public,
            quick=quick,
        )
        if out:
            made = _with_out(OutRule(known, out, memory), made)
        COMPOSITES[known] = Composite(known, made, found_in)
        return made

    return declare


def before(call: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Let users call the decorated function in the place of a composite, which it calls with all
    that it does not serve: such a call costs one function, and no check of its arguments.
    """
    name = call.__name__

    def declare(method: Callable[..., Any]) -> Any:
        made: Any = wraps(call)(method)
        call.offered_as = made  # type: ignore[attr-defined]
        COMPOSITES[name] = COMPOSITES[name]._replace(call=made)
        return made

    return declare


def _with_out(rule: OutRule, call: F) -> F:
    """Return call with an `out=`."""

    @wraps(call)
    def public(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return call(*args, **kwargs)
        found = offer(public, args, {**kwargs, "out": out})
        if found is not NOT_TAKEN:
            return found
        return written_parts(rule, out, call(*args, **kwargs), (*args, *kwargs.values()))

    public.__signature__ = SignatureWithOut(call)  # type: ignore[attr-defined]
    call.offered_as = public  # type: ignore[attr-defined]
    return public  # type: ignore[return-value]
