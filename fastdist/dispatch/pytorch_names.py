"""The name that PyTorch gives an op: the `known_as=` of its declaration, or else its own name.

Profiles show the op, and `grad_fn` shows its Node, under this name. `max.1` is PyTorch's `max` with
the second of its formulas for gradients: an event is named aten::max, a Node MaxBackward1. For a
function that is made of ops, an empty name means that its inner ops are shown instead: it only
queries something, is another name of one op, or is written in Python in PyTorch as well.
A function that PyTorch records as one Node passes `node=`: the last Node of its ops, which users
see, gets that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.node import node_of
from ..tensor.tensor import Tensor


def without_formula(known_as: str) -> str:
    """Return the name without its number."""
    return known_as.partition(".")[0]


def event_named(known_as: str) -> str:
    """Return the name of an op's event."""
    return f"aten::{without_formula(known_as)}"


def event_of_function(known_as: str) -> str | None:
    """Return the event's name of a function that is made of ops, None for one without; for
    functions of linalg and fft it begins with that.
    """
    if not known_as or known_as.startswith("is_"):
        return None
    return event_named(known_as.replace("linalg.", "linalg_").replace("fft.", "fft_"))


def node_named(known_as: str) -> str:
    """Return the name of a Node, nothing for no name."""
    if not known_as:
        return ""
    word, _, formula = known_as.partition(".")
    # PyTorch calls the forward half nll_loss_forward, and the Node NllLossBackward0.
    word = word.removesuffix("_forward").title().replace("_", "")
    return f"{word}Backward{formula or 0}"


def recorded_as(name: str, found: Any, args: Sequence[Any]) -> Any:
    """Return the result of a function for args, with the last Node of each tensor called name."""
    if found.__class__ is not Tensor:
        for one in found if isinstance(found, tuple) else ():
            recorded_as(name, one, args)
        return found
    edge = found._edge
    if edge is not None:
        for one in args:
            if one is found:  # and no Node was made
                return found
        node_of(edge)._called = name
    return found
