"""Parts shared by Adam, NAdam and RAdam: running means of gradients and of their squares."""

from __future__ import annotations

from typing import Any

from .fused import direction
from .optimizer import Group

# The names of the scalars in `follow`'s lines. Decoupled decay multiplies parameters by `keep`.
FOLLOWED = ("new", "beta", "new_square", "decay", "keep")


def follow(decays: bool, apart: bool, maximize: bool) -> tuple[str, str]:
    """Return program lines that update the means m and v, and an expression for the gradient.

    The expression includes the sign, and also the weight decay unless it is decoupled (`apart`).
    If the decay is decoupled, the first line shrinks the parameter p.
    """
    d = direction(maximize=maximize, weight_decay=decays and not apart)
    lines = [f"m = m + new * ({d} - m)", f"v = d = {d}; v * beta + new_square * d * d"]
    if decays and apart:
        lines.insert(0, "p = p * keep")
    return "\n".join(lines), d


def how_followed(group: Group) -> tuple[bool, bool, bool]:
    """Return the arguments of `follow` for the options of a group."""
    return (
        bool(group["weight_decay"]),
        bool(group["decoupled_weight_decay"]),
        bool(group["maximize"]),
    )


def followed(group: Group) -> list[Any]:
    """Return the values of FOLLOWED for a group."""
    (beta1, beta2), decay = group["betas"], group["weight_decay"]
    keep = 1.0 - group["lr"] * decay if decay else 1.0
    return [1.0 - beta1, beta2, 1.0 - beta2, decay, keep]
