"""What PyTorch calls an op: what its declaration says by `known_as=`, or else its name.

By this word a profile tells of it, and `grad_fn` shows its Node. `max.1` is PyTorch's `max`, of
whose formulas for gradients the second one holds: an event is called aten::max, a Node
MaxBackward1. A function that is made of ops and recorded by PyTorch as one Node says `node=`: the
Node that users see of it, the last one of its ops, is then called so.
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
    """Return the name of an event; of a function of linalg that stands before the word."""
    word = known_as.replace("linalg.", "linalg_")
    return f"aten::{without_formula(word)}"


def node_named(known_as: str) -> str:
    """Return the name of a Node."""
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
