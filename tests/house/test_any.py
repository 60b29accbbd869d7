"""Most parameters of ops have types other than `Any`, and the share of `Any` only falls."""

from __future__ import annotations

from tests.house.test_sizes import parse, parsed

# The share of annotated parameters in fastdist/ops that are `Any`. Lower it when the share falls.
MAX_SHARE = 0.097


def test_parameters_of_ops_say_their_types() -> None:
    ops = [file.annotations for name, file in parsed().items() if name.startswith("fastdist/ops/")]
    listed, open_ones = (sum(column) for column in zip(*ops, strict=True))
    share = open_ones / listed
    assert share <= MAX_SHARE, "new parameters need types"
    assert share > MAX_SHARE - 0.005, f"lower MAX_SHARE: the share is {share:.4f}"


def test_parameters_of_all_kinds_are_counted() -> None:
    text = (
        "def f(a: Any, /, b: int, *c: Any, d: Any, **e: list[Any]):\n    def g(self, x: Any): ..."
    )
    assert parse(text).annotations == (6, 4)
