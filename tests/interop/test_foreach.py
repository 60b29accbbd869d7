"""Functions over lists of tensors, against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist.namespace.foreach import FOREACH

pytestmark = pytest.mark.interop("torch")

RNG = np.random.default_rng(0)
A, B, C = ([RNG.uniform(0.1, 0.9, shape) for shape in ((3,), (2, 2))] for _ in range(3))
BINARY = "add sub mul div pow clamp_max clamp_min maximum minimum".split()  # noqa: SIM905


def made(library: Any, arrays: Any) -> list[Any]:
    return [library.tensor(array.tolist(), dtype=library.float64) for array in arrays]


def forms_of(name: str) -> list[Any]:
    base = name.removeprefix("_foreach_").rstrip("_")
    if base in BINARY:
        forms: list[Any] = [lambda m: (2.0,), lambda m: ([2.0, 3.0],), lambda m: (made(m, B),)]
        one = [lambda m: (m.tensor(2.0, dtype=m.float64),)]
        return forms + (one if base in ("add", "mul", "div") else [])
    if base in ("addcdiv", "addcmul"):
        more: list[Any] = [lambda m: (), lambda m: (2.0,), lambda m: ([2.0, 3.0],)]
        more.append(lambda m: (m.tensor([2.0, 3.0]),))
        return [lambda m, last=last: (made(m, B), made(m, C), *last(m)) for last in more]
    if base == "lerp":
        weights: list[Any] = [lambda m: 0.3, lambda m: made(m, C), lambda m: [0.1, 0.2]]
        return [lambda m, w=w: (made(m, B), w(m)) for w in weights]
    return {"copy": [lambda m: (made(m, B),)], "powsum": [lambda m: (3,)]}.get(
        base, [] if base == "mm" else [lambda m: ()]
    )


def test_every_name_of_pytorchs_is_there() -> None:
    import torch

    theirs = {name for name in dir(torch) if name.startswith("_foreach_")}
    assert theirs - FOREACH.keys() == set()


@pytest.mark.parametrize("name", sorted(FOREACH))
def test_results_are_pytorchs(name: str) -> None:
    import torch

    for form in forms_of(name):
        theirs, ours = made(torch, A), made(fastdist, A)
        expected = getattr(torch, name)(theirs, *form(torch))
        found = getattr(fastdist, name)(ours, *form(fastdist))
        if name.endswith("_"):
            expected, found = theirs, ours
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(one), other.numpy(), rtol=1e-12)
