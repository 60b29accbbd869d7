"""Random tensors: seeds reproduce them; their moments, dtype and device are right."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.ops.cases import F

# Each function draws numbers on the device that is passed.
DRAWS: dict[str, Callable[[str], fd.Tensor]] = {
    "rand": lambda at: fd.rand(3, 4, device=at),
    "randn": lambda at: fd.randn((3, 4), dtype=fd.float64, device=at),
    "randint": lambda at: fd.randint(5, (3, 4), device=at),
    "randperm": lambda at: fd.randperm(12, device=at),
    "rand_like": lambda at: fd.rand_like(fd.ones(12, device=at)),
    "randn_like": lambda at: fd.randn_like(fd.ones(12, device=at)),
    "randint_like": lambda at: fd.randint_like(fd.ones(12, device=at), 5),
    "normal": lambda at: fd.normal(fd.zeros(3, 4, device=at), 1.0),
    "bernoulli": lambda at: fd.bernoulli(fd.full((64,), 0.5, device=at)),
    "bernoulli_": lambda at: fd.zeros(64, device=at).bernoulli_(0.5),
    "uniform_": lambda at: fd.zeros(12, device=at).uniform_(1, 2),
    "normal_": lambda at: fd.zeros(12, device=at).normal_(1, 2),
    "random_": lambda at: fd.zeros(12, device=at).random_(100),
    "dropout": lambda at: F.dropout(fd.ones(64, device=at), 0.5),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_repeats_what_was_drawn(name: str) -> None:
    fd.manual_seed(7)
    first, second = DRAWS[name]("cpu"), DRAWS[name]("cpu")
    fd.manual_seed(7)
    assert fd.equal(DRAWS[name]("cpu"), first)
    assert not fd.equal(first, second)


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("device", ["sim:1", pytest.param("cuda:0", marks=pytest.mark.gpu)])
def test_every_device_draws_the_same_numbers(name: str, device: str) -> None:
    drawn = []
    for at in ("cpu", device):
        fd.manual_seed(7)
        first, second = DRAWS[name](at), DRAWS[name](at)
        assert str(first.device) == str(second.device) == at
        drawn.append([first.tolist(), second.tolist()])
    if device == "cuda:0" and name == "randn":
        # The random bits are equal, but a GPU rounds the logarithm and the cosine differently.
        np.testing.assert_allclose(drawn[0], drawn[1], rtol=1e-14, atol=1e-15)
    else:
        assert drawn[0] == drawn[1]


DRAW_AND_COMPUTE = """
import hashlib
import fastdist as fd
fd.manual_seed(7)
x, y = fd.randn(300, 301), fd.rand(300, 301, dtype=fd.float64).requires_grad_()
z = (fd.nn.functional.dropout(x, 0.3) * y).sin().cumsum(1).softmax(0)
(z * z).sum().backward()
parts = [x, y, z, y.grad, z.sum(), z.mean(1), fd.randperm(5000), x.bernoulli(0.3), z.std(0)]
text = b"".join(part.detach().numpy().tobytes() for part in parts)
print(hashlib.sha256(text).hexdigest())
"""


def test_any_number_of_threads_draws_and_computes_the_same_bits() -> None:
    found = set()
    for threads in ("1", "2", "4"):
        environment = {**os.environ, "NUMBA_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", DRAW_AND_COMPUTE],
            env=environment,
            cwd=Path(__file__).resolve().parents[3],
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_moments_are_those_of_the_distribution() -> None:
    fd.manual_seed(0)
    n = 100_000
    assert float(fd.rand(n).mean()) == pytest.approx(0.5, abs=0.01)
    assert float(fd.randn(n).std()) == pytest.approx(1.0, abs=0.02)
    assert float(fd.normal(fd.full((n,), 3.0), 2.0).mean()) == pytest.approx(3.0, abs=0.05)
    assert float(fd.zeros(n).uniform_(-2, 4).mean()) == pytest.approx(1.0, abs=0.05)
    assert float(fd.bernoulli(fd.full((n,), 0.2)).mean()) == pytest.approx(0.2, abs=0.01)
    assert float(F.dropout(fd.ones(n), 0.3).mean()) == pytest.approx(1.0, abs=0.02)


def test_integers_stay_in_their_range() -> None:
    drawn = fd.randint(-3, 4, (1000,))
    assert int(drawn.min()) == -3 and int(drawn.max()) == 3 and drawn.dtype is fd.int64
    assert sorted(fd.randperm(50).tolist()) == list(range(50))


def test_a_generator_of_one_s_own_leaves_the_default_alone() -> None:
    fd.manual_seed(1)
    expected = fd.rand(4)
    fd.manual_seed(1)
    fd.rand(4, generator=fd.Generator().manual_seed(5))
    assert fd.equal(fd.rand(4), expected)


def test_randint_starts_at_zero_where_one_bound_and_a_named_size_are_given() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'size'"):
        fd.randint(3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'high'"):
        fd.randint(size=(3,))
    assert set(fd.randint(high=3, size=(1000,)).tolist()) == {0, 1, 2}
    drawn = fd.randint(3, size=(1000,))
    assert drawn.unique().tolist() == [0, 1, 2]


def test_dropout_scales_what_it_keeps_and_its_gradient() -> None:
    x = fd.ones(1000, requires_grad=True)
    y = F.dropout(x, 0.25)
    y.sum().backward()
    assert x.grad is not None and fd.equal(x.grad, y.detach())
    assert y.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert F.dropout(x, 0.25, training=False) is x


NEGATIVE = "normal expects std >= 0.0, but found std "
NEGATIVES = "normal expects all elements of std >= 0.0"
WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: F.dropout(fd.ones(2), 1.5), ValueError, "dropout probability has to be between"),
    (lambda: fd.randint(3, 3, (2,)), RuntimeError, "random_ expects 'from' to be less than 'to'"),
    (lambda: fd.zeros(2).normal_(0, -1), RuntimeError, "normal expects std >= 0.0"),
    (lambda: fd.zeros(2).normal_(0, -1.0), RuntimeError, NEGATIVE + "-1"),
    (lambda: fd.zeros(0).normal_(0, float("nan")), RuntimeError, NEGATIVE + "nan"),
    (lambda: fd.normal(0.0, -1.0, (2,)), RuntimeError, NEGATIVE + "-1"),
    (lambda: fd.normal(fd.zeros(2), -1.5), RuntimeError, NEGATIVE + "-1.5"),
    (lambda: fd.normal(0.0, fd.tensor([1.0, -1.0])), RuntimeError, NEGATIVES),
    (lambda: fd.normal(fd.zeros(2), fd.tensor([1.0, float("nan")])), RuntimeError, NEGATIVES),
    (lambda: fd.nn.init.normal_(fd.zeros(2), 0.0, -2.0), RuntimeError, NEGATIVE + "-2"),
    (lambda: fd.zeros(2).uniform_(2, 1), RuntimeError, "uniform_ expects to return a [from, to)"),
    (lambda: fd.rand(2, dtype=fd.int64), RuntimeError, '"rand" not implemented for int64'),
    (lambda: fd.bernoulli(fd.tensor([1.5])), RuntimeError, "bernoulli expects p to be in [0, 1]"),
    (lambda: fd.zeros(2).bernoulli_(-0.5), RuntimeError, "bernoulli expects p to be in [0, 1]"),
]


@pytest.mark.parametrize(("call", "kind", "text"), WRONG, ids=[row[2][:20] for row in WRONG])
def test_what_cannot_be_drawn_is_refused(
    call: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("draw", "what"),
    [
        (lambda: fd.randint(0, 257, (2,), dtype=fd.uint8), "to - 1 is out of bounds"),
        (lambda: fd.randint(-1, 5, (2,), dtype=fd.uint8), "from is out of bounds"),
        (lambda: fd.randint(0, 3, (2,), dtype=fd.bool), "to - 1 is out of bounds"),
        (lambda: fd.randint(0, 70000, (2,), dtype=fd.float16), "to - 1 is out of bounds"),
        (lambda: fd.randint_like(fd.ones(2, dtype=fd.int8), 300), "to - 1 is out of bounds"),
        (lambda: fd.ones(2, dtype=fd.uint8).random_(0, 300), "to - 1 is out of bounds"),
        (lambda: fd.randperm(257, dtype=fd.uint8), "without overflow"),
        (lambda: fd.randperm(3000, dtype=fd.float16), "without overflow"),
    ],
)
def test_integers_that_the_dtype_does_not_hold_are_not_drawn(
    draw: Callable[[], object], what: str
) -> None:
    with pytest.raises(RuntimeError, match=what):
        draw()


def test_integers_of_63_and_64_bits_are_drawn_by_the_first_call() -> None:
    for low, high in ((0, 1 << 62), (0, (1 << 63) - 1), (-(1 << 63), (1 << 63) - 1)):
        found = fd.randint(low, high, (100,))
        least, most = found.min().item(), found.max().item()
        assert found.dtype is fd.int64 and low <= least < most < high
        assert most - least > (high - low) // 2
    assert fd.randint_like(found, 1 << 62).min() >= 0
    assert found.random_(0, 1 << 62).max() < 1 << 62


@pytest.mark.parametrize(
    "draw",
    [
        lambda: fd.randint(1 << 63, (2,)),
        lambda: fd.randint(0, 1 << 63, (2,)),
        lambda: fd.randint(-(1 << 63) - 1, 0, (2,)),
        lambda: fd.randint(0, 1 << 63, (2,), dtype=fd.uint64),
        lambda: fd.randint(0, 1 << 63, (2,), dtype=fd.float32),
        lambda: fd.randint_like(fd.ones(2), 1 << 63),
        lambda: fd.ones(2, dtype=fd.int64).random_(1 << 63),
        lambda: fd.ones(2, dtype=fd.int64).random_(0, 1 << 64),
    ],
)
def test_ends_of_a_range_are_numbers_of_int64_whatever_the_dtype(draw: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"^Overflow when unpacking long long: (from|to) is -?\d+"):
        draw()


def test_integers_up_to_the_largest_of_the_dtype_are_drawn() -> None:
    assert fd.randint(255, 256, (1,), dtype=fd.uint8).item() == 255
    assert fd.randint(-128, -127, (1,), dtype=fd.int8).item() == -128
    assert sorted(fd.randperm(256, dtype=fd.uint8).tolist()) == list(range(256))


@pytest.mark.parametrize("dtype", [fd.float32, fd.complex64])
def test_what_is_drawn_in_place_is_one_node_of_the_name_of_the_draw(dtype: fd.DType) -> None:
    x = fd.zeros(3, dtype=dtype, requires_grad=True)
    assert (x * 1).normal_().grad_fn.name() == "NormalBackward0"
    assert (x * 1).uniform_().grad_fn.name() == "UniformBackward0"


@pytest.mark.parametrize("draw", [fd.rand, fd.randn])
def test_wrong_sizes_are_refused_and_few_numbers_are_those_of_many(
    draw: Callable[..., Any],
) -> None:
    for size in ((-1,), ("a",), ([1], [2]), (2.5,), (2, None)):
        with pytest.raises((RuntimeError, TypeError), match=r"size|dimension -1"):
            draw(*size)
    fd.manual_seed(3)
    wanted = [draw(2, 3), draw((4,)), draw([5, 1]), draw(fd.Size((3,)))]
    fd.manual_seed(3)
    found = [draw(*shape, dtype=fd.float32) for shape in ((2, 3), (4,), (5, 1), (3,))]
    assert all(fd.equal(*pair) for pair in zip(wanted, found, strict=True))
    assert draw(0, 3).shape == (0, 3) and draw(()).shape == ()
