"""Scaled dot product attention, forward and with its backward pass, against torch's.

At one size it also runs with dropout, with a mask, and with a mask that requires grad.
"""

from __future__ import annotations

from typing import Any

from bench.harness import Amount, Case, Row, Stopwatch, compare, peer_torch, stopwatch

# Name -> (samples, heads, length, width), whether attention is causal, and dtype.
SHAPES = {
    "4 x 8 x 256 x 64": ((4, 8, 256, 64), False, "float32"),
    "4 x 8 x 256 x 64, causal": ((4, 8, 256, 64), True, "float32"),
    "1 x 8 x 1024 x 64, causal": ((1, 8, 1024, 64), True, "float32"),
    "1 x 8 x 2048 x 64": ((1, 8, 2048, 64), False, "float32"),
    "1 x 8 x 1024 x 64, causal, bfloat16": ((1, 8, 1024, 64), True, "bfloat16"),
}
FORWARD_TARGET, BOTH_TARGET = 0.9, 0.8
# Variants that are also timed, at the size 1 x 8 x 1024 x 64.
MORE = ("dropout", "mask", "mask that learns")


def run(rounds: int) -> list[Row]:
    """Compare attention at several lengths; ours against torch."""
    import fastdist

    torch = peer_torch()
    cases = []
    for name, (shape, is_causal, dtype) in SHAPES.items():
        samples, heads, length, width = shape
        product = 2.0 * samples * heads * length * length * width / (2 if is_causal else 1)
        # Forward has two products. Backward has four for the gradients, and recomputes one.
        for both, target, count in ((False, FORWARD_TARGET, 2), (True, BOTH_TARGET, 7)):
            ours, peer = (
                None if one is None else watch(one, shape, dtype, is_causal=is_causal, both=both)
                for one in (fastdist, torch)
            )
            assert ours is not None
            told = f"{name}, {'there and back' if both else 'forward'}"
            cases.append(Case(told, ours, peer, target, amount=Amount(count * product, "GFLOP/s")))
    for more in MORE:
        ours, peer = (
            None
            if one is None
            else watch(one, (1, 8, 1024, 64), "float32", is_causal=False, both=True, more=more)
            for one in (fastdist, torch)
        )
        assert ours is not None
        cases.append(Case(f"1 x 8 x 1024 x 64, {more}, there and back", ours, peer, BOTH_TARGET))
    return compare(cases, rounds)


def watch(
    library: Any, shape: tuple[int, ...], dtype: str, *, is_causal: bool, both: bool, more: str = ""
) -> Stopwatch:
    """Return a stopwatch that runs attention, and its gradients if `both` is true.

    `more` names the variant: one of MORE, or "" for plain attention.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    kind = getattr(library, dtype)
    *given, slope = (
        library.tensor(rng.standard_normal(shape, dtype=np.float32)).to(kind) for _ in range(4)
    )
    given = [one.requires_grad_() for one in given]
    attend = library.nn.functional.scaled_dot_product_attention
    named: dict[str, Any] = {"is_causal": True} if is_causal else {}
    if more == "dropout":
        named["dropout_p"] = 0.1
    elif more:
        values = rng.standard_normal((shape[2], shape[2]), dtype=np.float32)
        named["attn_mask"] = library.tensor(values).to(kind)
    by = given
    if more == "mask that learns":
        by = [*given, named["attn_mask"].requires_grad_()]

    def forward() -> None:
        with library.no_grad():
            attend(*given, **named)

    def there_and_back() -> None:
        library.autograd.grad(attend(*given, **named), by, slope)

    return stopwatch(there_and_back if both else forward)
