"""Derivatives beside PyTorch's, for what its own database of ops gives them."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.interop.databases import function
from tests.interop.derivative_checks import CHECKS, difference, sides

pytestmark = pytest.mark.interop("torch", "expecttest")

# Of some 430 ops that have derivatives, every STEP-th is taken, with SAMPLES of its samples.
STEP, SAMPLES, PARTS = 6, 2, 24

# Ops that draw numbers, of which a seed draws others here.
DRAWING = {
    *("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "uniform"),
    *("pca_lowrank", "svd_lowrank", "nn.functional.rrelu"),
    *(f"nn.functional.{kind}" for kind in ("dropout", "dropout2d", "dropout3d", "alpha_dropout")),
    *("nn.functional.feature_alpha_dropout", "nn.functional.fractional_max_pool2d"),
    *("nn.functional.fractional_max_pool3d", "nn.functional.scaled_dot_product_attention"),
}
_TRIANGLE = "only a triangle is read, and PyTorch gives the other one gradients, too"
EXPLAINED = {
    "cholesky_inverse": _TRIANGLE,
    "cholesky_solve": _TRIANGLE,
    "triangular_solve": _TRIANGLE,
    "as_strided_scatter": "PyTorch gives input the gradient of what was written over",
    "cov": "PyTorch's gradient of the weights is rounded to float32",
    "cumprod": "PyTorch's tangents of gradients leave out terms where a factor is 0",
    "logcumsumexp": "PyTorch's tangents are of some six digits",
    "copysign": "PyTorch's tangent of the sign's number is None, ours zeros",
    "ormqr": "PyTorch's gradient of nothing is None, ours zeros",
    "linalg.cholesky": _TRIANGLE,
    "linalg.cholesky_ex": _TRIANGLE,
    "linalg.pinv.hermitian": _TRIANGLE,
    "linalg.lstsq": "the residuals have no gradient here",
    "linalg.norm.subgradients_at_zero": "PyTorch's second gradient at 0 is NaN, ours 0",
    "linalg.householder_product": "PyTorch's gradient of nothing is None, ours zeros",
    "nn.functional.linear_cross_entropy": "options for logits in pieces are refused",
    "as_strided": "PyTorch's samples share memory that ours are given a copy of",
    "sparse.mm": "of the layouts for sparse tensors there is sparse_coo",
    "max_pool2d_with_indices_backward": "an op of PyTorch's inner list has no public name",
}


@pytest.fixture(scope="module")
def ops() -> list[tuple[Any, Any]]:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    known = [op for op in op_db if op.supports_autograd and torch.float64 in op.dtypes]
    chosen = [
        op for op in known[::STEP] if op.name not in DRAWING and not EXPLAINED.keys() & names(op)
    ]
    return [(torch, op) for op in chosen if function(torch, op) is not None]


def names(op: Any) -> set[str]:
    return {op.name, f"{op.name}.{op.variant_test_name}"}


def differences(torch: Any, op: Any) -> Iterator[str]:
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002  what their samples are drawn by
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(op.sample_inputs("cpu", torch.float64, requires_grad=True))
    for sample in samples[:: max(1, -(-len(samples) // SAMPLES))]:
        for check, (_, supports) in CHECKS.items():
            ours, theirs = sides(torch, op, sample)
            if theirs.xs and getattr(op, supports):
                told = difference(check, ours, theirs)
                if told is not None:
                    yield f"{op.name} {op.variant_test_name}, {check}: {told}\n{sample.summary()}"


@pytest.mark.parametrize("part", range(PARTS))
def test_derivatives_are_pytorch_s(ops: list[tuple[Any, Any]], part: int) -> None:
    found = [told for torch, op in ops[part::PARTS] for told in differences(torch, op)]
    assert found == [], "\n\n".join(found)
