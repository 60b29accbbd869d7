"""PyTorch's name of an op: `known_as=` of its declaration, or else its own name.

Profiles show the op by it, and `grad_fn` its Node. `max.1` is PyTorch's `max` with the second of
its gradient formulas: the event is aten::max, the Node MaxBackward1. For a composite, an empty name
means that the ops it calls are shown instead: it only asks something, is another name of one op, or
is written in Python in PyTorch as well. A composite that PyTorch records as one Node gives `node=`,
the name that users see on the last Node of its ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.node import node_of
from ..tensor.tensor import Tensor


def without_formula(known_as: str) -> str:
    """Return the word alone."""
    return known_as.partition(".")[0]


def event_named(known_as: str) -> str:
    """Return the name of an op's event."""
    return f"aten::{without_formula(known_as)}"


def event_of_function(known_as: str) -> str | None:
    """Return the name of the event of a function that is made of ops, None for one without; of
    linalg's and fft's the word has that in front.
    """
    if not known_as or known_as.startswith("is_"):
        return None
    return event_named(known_as.replace("linalg.", "linalg_").replace("fft.", "fft_"))


def node_named(known_as: str) -> str:
    """Return the name of a Node, nothing for no word."""
    if not known_as:
        return ""
    word, _, formula = known_as.partition(".")
    # Of what PyTorch calls nll_loss_forward, the other half is NllLossBackward0.
    word = word.removesuffix("_forward").title().replace("_", "")
    return f"{word}Backward{formula or 0}"


def recorded_as(name: str, found: Any, args: Sequence[Any]) -> Any:
    """Return what a function gave for args, each Node that it made last called name."""
    if found.__class__ is not Tensor:
        for one in found if isinstance(found, tuple) else ():
            recorded_as(name, one, args)
        return found
    edge = found.edge
    if edge is not None:
        for one in args:
            if one is found:  # and no Node was made
                return found
        node_of(edge)._called = name
    return found
