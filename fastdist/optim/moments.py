"""The parts that Adam, NAdam and RAdam share: running means of gradients and of their squares."""

from __future__ import annotations

from typing import Any

from .fused import direction
from .optimizer import Group

# Numbers of the lines that follow returns; keep is what a decay apart leaves of the parameter.
FOLLOWED = ("new", "beta", "new_square", "decay", "keep")


def follow(decays: bool, apart: bool, maximize: bool) -> tuple[str, str]:
    """Return the lines of a program that update the means m and v by the gradient g, and the text
    of the gradient with decay and sign.

    If decay is decoupled (`apart`), the lines shrink the parameter p first.
    """
    d = direction(maximize=maximize, weight_decay=decays and not apart)
    lines = [f"m = m + new * ({d} - m)", f"v = d = {d}; v * beta + new_square * d * d"]
    if decays and apart:
        lines.insert(0, "p = p * keep")
    return "\n".join(lines), d


def how_followed(group: Group) -> tuple[bool, bool, bool]:
    """Return the function that applies do to a group."""
    return (
        bool(group["weight_decay"]),
        bool(group["decoupled_weight_decay"]),
        bool(group["maximize"]),
    )


def followed(group: Group) -> list[Any]:
    """Return the numbers of a group for FOLLOWED."""
    (beta1, beta2), decay = group["betas"], group["weight_decay"]
    keep = 1.0 - group["lr"] * decay if decay else 1.0
    return [1.0 - beta1, beta2, 1.0 - beta2, decay, keep]
