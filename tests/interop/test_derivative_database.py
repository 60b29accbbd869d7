"""Derivatives compared with PyTorch's, for the samples of its database of ops.

Some ops are tested in float64, others in complex128; `--slow` tries all of them in both.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.interop.databases import function
from tests.interop.derivative_checks import CHECKS, difference, sides

pytestmark = pytest.mark.interop("torch", "expecttest")

# In each dtype, an ordinary run tests every STEP-th of some 430 ops with derivatives, and for each
# of them the number SAMPLES of samples.
STEP, SAMPLES, PARTS = 6, 2, 24
DTYPES = ("float64", "complex128")

# Ops that draw random numbers, which differ from PyTorch's for the same seed.
DRAWING = {
    *("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "uniform"),
    *("pca_lowrank", "svd_lowrank", "nn.functional.rrelu"),
    *(f"nn.functional.{kind}" for kind in ("dropout", "dropout2d", "dropout3d", "alpha_dropout")),
    *("nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d"),
    *("nn.functional.fractional_max_pool3d", "nn.functional.scaled_dot_product_attention"),
    "nn.functional.multi_head_attention_forward",
}
_TRIANGLE = (r".*", "only a triangle is read, and PyTorch gives the other one gradients, too")
_NOTHING = (r".*a tensor where theirs is the other", "PyTorch's gradient of nothing is None")
# By op: a regular expression for the difference, "dtype check: what", and the reason for it.
EXPLAINED = {
    "cholesky": _TRIANGLE,
    "cholesky_inverse": _TRIANGLE,
    "cholesky_solve": _TRIANGLE,
    "triangular_solve": _TRIANGLE,
    "linalg.cholesky": _TRIANGLE,
    "linalg.cholesky_ex": _TRIANGLE,
    "linalg.pinv.hermitian": _TRIANGLE,
    "ormqr": _NOTHING,
    "linalg.householder_product": _NOTHING,
    "copysign": _NOTHING,
    "as_strided_scatter": (
        r".*(backward|second).*",
        "PyTorch gives input the gradient of what was written over",
    ),
    "cov": (r".*", "PyTorch rounds weights, and their gradient, to float32"),
    "cumprod": (
        r".* tangents of gradients: .*",
        "PyTorch's leave out terms where a factor is 0",
    ),
    "logcumsumexp": (r".* tangents.*", "PyTorch's are of some six digits, of complex numbers NaN"),
    "linalg.lstsq": (
        r".*(which outputs require grad.*|tangent 1: None where.*)",
        "residuals that are not there have no gradient here",
    ),
    "linalg.norm": (r".* second: .*for nan.*", "at 0 PyTorch's is NaN, ours 0"),
    "linalg.norm.subgradients_at_zero": (r".* second: .*nan.*", "at 0 PyTorch's is NaN, ours 0"),
    "nn.functional.linear_cross_entropy": (
        r".*options ask for logits in pieces.*",
        "options for logits in pieces are refused",
    ),
    "as_strided": (r".*", "PyTorch's samples share memory that ours are given a copy of"),
    "as_strided.partial_views": (r".*", "as of as_strided"),
    "gather": (r".*for index, got uint8.*", "PyTorch looks at no dtype of an index of nothing"),
    "nn.functional.batch_norm": (
        r".*at least 2 dimensions.*",
        "PyTorch takes one axis if it is empty, which is then no channels",
    ),
    "chalf": (r".*has no attribute 'chalf'.*", "to(complex32) does it"),
    "max_pool2d_with_indices_backward": (r".*", "PyTorch's inner ops have no public name"),
    **{
        f"{name}.with_dtype": (r"complex128 .*not implemented.*", "complex numbers have no order")
        for name in ("softmax", "log_softmax", "nn.functional.softmin")
    },
}


@pytest.fixture(scope="module")
def ops() -> list[tuple[Any, Any]]:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    # The samples of sparse.mm.reduce have a layout whose memory cannot be read.
    known = [op for op in op_db if op.supports_autograd and op.name != "sparse.mm"]
    chosen = [op for op in known if op.name not in DRAWING]
    return [(torch, op) for op in chosen if function(torch, op) is not None]


def is_explained(op: Any, told: str) -> bool:
    names = (op.name, f"{op.name}.{op.variant_test_name}")
    return any(re.match(EXPLAINED[name][0], told) for name in names if name in EXPLAINED)


def differences(torch: Any, op: Any, dtype: str) -> Iterator[str]:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002  what their samples are drawn by
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(op.sample_inputs("cpu", getattr(torch, dtype), requires_grad=True))
    for sample in samples[:: max(1, -(-len(samples) // SAMPLES))]:
        for check, (_, supports) in CHECKS.items():
            ours, theirs = sides(torch, op, sample)
            if theirs.xs and getattr(op, supports):
                told = difference(check, ours, theirs)
                if told is not None and not is_explained(op, f"{dtype} {check}: {told}"):
                    kind = f"{op.name} {op.variant_test_name} {dtype}"
                    yield f"{kind}, {check}: {told}\n{sample.summary()}"


def found_in(ops: list[tuple[Any, Any]], dtype: str) -> list[str]:
    return [
        told
        for torch, op in ops
        if getattr(torch, dtype) in op.dtypes
        for told in differences(torch, op, dtype)
    ]


@pytest.mark.parametrize("part", range(PARTS))
def test_derivatives_are_pytorch_s(ops: list[tuple[Any, Any]], part: int) -> None:
    found = []
    for first, dtype in enumerate(DTYPES):
        found += found_in(ops[first * STEP // 2 :: STEP][part::PARTS], dtype)
    assert found == [], "\n\n".join(found)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", range(PARTS))
def test_derivatives_of_all_ops_are_pytorch_s(
    ops: list[tuple[Any, Any]], part: int, dtype: str
) -> None:
    found = found_in(ops[part::PARTS], dtype)
    assert found == [], "\n\n".join(found)
