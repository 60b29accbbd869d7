"""Each case of the table and each pointwise row, in each dtype, compared with PyTorch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from tests.ops.dtype_samples import (
    COMPLEX,
    DTYPES,
    HALVES,
    REFUSALS,
    WHOLE,
    WIDE_UNSIGNED,
    Sample,
    samples,
)
from tests.ops.pointwise.pointwise_rows import POLYNOMIALS, ROWS
from tests.ops.pointwise.test_pointwise import function_of
from tests.properties import in_one_test_each

# Ops that are steps of other ops, and functions whose result has another form in PyTorch.
NOT_IN_PYTORCH = {
    *("attention_in_blocks", "convolve", "convolve_back", "correlate", "lay_out_patches"),
    *("add_patches", "cummax_along", "cummin_along", "gather_add", "gamma_slope", "valued"),
    *("gamma_of", "log_gamma_of", "gelu", "cumprod", "logistic"),
    *("distance_root", "root_slope", "root_tangent"),
    *("norm_slope", "norm_tangent", "product_at_zero", "rough_zero"),
    *("gelu_exact_tails", "gelu_tanh_tails"),
    "grouped_mm",  # requires rows of multiples of 16 bytes in PyTorch, so no sample works
}
pytestmark = pytest.mark.filterwarnings("ignore")
SAMPLES = samples()
TORCH = json.loads(Path(__file__).with_name("dtype_results.json").read_text())
COTANGENT = 1 + 0.5j
TOLERANCES = {"float16": 1e-2, "bfloat16": 8e-2, "complex64": 2e-4, "complex128": 2e-5}


# By op, the dtypes that fastdist supports and PyTorch rejects. In addition, fastdist supports wide
# unsigned integers wherever it supports uint8.
WIDER: dict[str, tuple[str, ...]] = {
    "embedding_bag": ("bool", *WHOLE, *WIDE_UNSIGNED, *COMPLEX),
    "embedding": COMPLEX,
    "bilinear": COMPLEX,
    "local_response_norm": ("bool", *WHOLE, *WIDE_UNSIGNED, *COMPLEX),
    # PyTorch supports strided and transposed convolutions of integers only in int64.
    "conv1d": (*WHOLE, *WIDE_UNSIGNED),
    "convolution": (*WHOLE, *WIDE_UNSIGNED, *COMPLEX),
    "silu": COMPLEX,  # PyTorch supports these without a gradient
    **dict.fromkeys([f"conv_transpose{n}d" for n in (1, 2, 3)], (*WHOLE, *WIDE_UNSIGNED)),
    "histogramdd": HALVES,
    **dict.fromkeys(("zeta", "airy_ai", *POLYNOMIALS), HALVES),
    **dict.fromkeys(("select_scatter", "slice_scatter", "nansum"), COMPLEX),
    "replace_nonfinite": COMPLEX,  # its real and imaginary parts are replaced
    **dict.fromkeys(("trace", "linear", "clamp", "searchsorted", "bucketize"), ("bool",)),
    **dict.fromkeys(("pad", "threshold", "softsign", "tanhshrink", "pow"), ("bool",)),
    "gradient": WIDE_UNSIGNED,
    "prelu_kernel": (*WHOLE, *WIDE_UNSIGNED),
}
# By id, dtypes in which results differ: PyTorch's numbers are an accident, or one valid choice.
OTHERWISE = {
    "as_strided_scatter-0": COMPLEX,  # PyTorch omits the gradient of kept elements
    "ldexp-0": COMPLEX,  # PyTorch's gradient uses 2**other in integers, which is 0 for other = -2
    "interpolate-0": ("uint8",),  # PyTorch's fixed-point weights differ by one
    "topk-2": (*WHOLE, *WIDE_UNSIGNED),  # equal elements in another order
    **{f"local_response_norm-{i}": ("int64",) for i in (1, 2, 3)},  # mean of integers
    # In PyTorch, some formulas of these cells accept integers, and others reject them.
    **dict.fromkeys(("rnn_relu-0", "rnn_relu_cell-0", "rnn_tanh_cell-0"), WHOLE),
    "addcmul pointwise": WHOLE,  # PyTorch silently truncates a factor
    # PyTorch's gradients of Hermitian matrices are not Hermitian; the rest affects no such matrix.
    **{f"linalg.cholesky-{i}": COMPLEX for i in range(4)},
    **{f"linalg.cholesky_ex-{i}": COMPLEX for i in range(2)},
    **{f"{op}-{i}": COMPLEX for op, i in (("cholesky", 0), ("cholesky", 1))},
    **{f"linalg.pinv-{i}": COMPLEX for i in (3, 4)},
    # PyTorch also gives a gradient for the triangle that the op does not read. In addition, the
    # sample's diagonal is not that of a valid factor.
    **{f"cholesky_solve-{i}": COMPLEX for i in range(2)},
    **{f"cholesky_inverse-{i}": COMPLEX for i in range(2)},
    "bincount-1": COMPLEX,  # PyTorch drops the imaginary part of weights
}


def call_of(name: str) -> Any:
    known = name.removesuffix(" pointwise")
    return SAMPLES[name].ours if known == name else function_of(ROWS[known])


def tensors_of(sample: Sample, dtype: str, *, requires_grad: bool) -> list[fd.Tensor]:
    return [
        fd.tensor(array, dtype=getattr(fd, dtype)).requires_grad_(requires_grad)
        if real.dtype.kind == "f"
        else fd.tensor(array)
        for real, array in zip(sample.inputs, sample.arrays(dtype), strict=True)
    ]


def flat(tensor: fd.Tensor) -> np.ndarray:
    found = (tensor.double() if tensor.dtype.is_floating_point else tensor).resolve_conj()
    array = found.resolve_neg().numpy().ravel()
    return np.stack([array.real, array.imag], -1).ravel() if array.dtype.kind == "c" else array


def fault_of(name: str, dtype: str) -> str | None:
    """Return how a sample in a dtype differs from PyTorch, or None if it does not differ."""
    sample, known = SAMPLES[name], TORCH[name]
    if dtype not in known["dtypes"]:
        return None  # half types of differentiable samples: test_table.py tests them
    expected = known["dtypes"][dtype]
    moves = dtype in COMPLEX and sample.is_differentiable
    tensors = tensors_of(sample, dtype, requires_grad=moves)
    try:
        found = call_of(name)(*tensors)
    except REFUSALS as error:
        return None if expected is None else f"refused: {error}"[:160]
    if expected is None:
        narrow = known["dtypes"]["uint8"]
        if dtype not in WIDE_UNSIGNED or narrow is None:
            return "taken"
        return _fault_beside_narrow(found, narrow[0], known["values"][narrow[1]][0])
    if found.dtype.name != expected[0]:
        return f"{found.dtype.name}, not {expected[0]}"
    values, gradients = known["values"][expected[1]]
    tolerance = TOLERANCES.get(dtype, 1e-5)
    if not _is_close(flat(found.detach()), values, tolerance):
        return f"{flat(found.detach())[:6]}, not {values[:6]}"
    if gradients is None:
        return None
    return _fault_of_gradients(found, tensors, gradients, tolerance)


def _fault_beside_narrow(found: Any, told: str, values: list[Any]) -> str | None:
    """Return how a result in a wide unsigned dtype differs from the result in uint8, or None.

    The result must have the operands' dtype. Its numbers may differ by multiples of 2**8.
    """
    numbers = flat(found)
    if told != "uint8":
        same = found.dtype.name == told and _is_close(numbers, values, 1e-5)
    else:
        same = found.dtype.is_bare and np.array_equal(numbers % 256, np.array(values))
    # A difference below 0 wraps around, so that any number is accepted.
    same = same or bool((numbers > 2**14).any() or (numbers < 0).any())
    return None if same else f"{found.dtype.name} {numbers[:6]}, not as uint8: {told} {values[:6]}"


def _fault_of_gradients(found: Any, tensors: Any, gradients: Any, tolerance: float) -> str | None:
    leaves = [one for one in tensors if one.requires_grad]
    if not found.requires_grad:
        return "no gradient"
    cotangent = fd.full_like(found.detach(), COTANGENT if found.dtype.is_complex else 1.0)
    try:
        made = fd.autograd.grad(found, leaves, cotangent, allow_unused=True)
    except REFUSALS as error:
        return f"gradient refused: {error}"[:160]
    for i, (ours, theirs) in enumerate(zip(made, gradients, strict=True)):
        numbers = np.zeros(1) if ours is None else flat(ours)
        if not _is_close(numbers, [0.0] if theirs is None else theirs, tolerance):
            return f"gradient {i}: {numbers[:4]}, not {theirs and theirs[:4]}"
    return None


def _is_close(found: np.ndarray, expected: list[Any], tolerance: float) -> bool:
    wanted = np.array([float(one) for one in expected])
    if found.shape != wanted.shape:
        return not found.any() and not wanted.any()
    size = np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
    return bool(np.allclose(found, wanted, rtol=tolerance, atol=tolerance * size, equal_nan=True))


def test_what_pytorch_gives_is_kept_for_every_case() -> None:
    """`python -m tests.ops.make_dtype_results torch` writes the file, if PyTorch is installed."""
    assert TORCH.keys() <= SAMPLES.keys()
    assert {op_of(name) for name in SAMPLES.keys() - TORCH.keys()} == NOT_IN_PYTORCH, (
        "run: python -m tests.ops.make_dtype_results torch; what PyTorch has not goes into "
        "NOT_IN_PYTORCH"
    )


def op_of(name: str) -> str:
    return name.removesuffix(" pointwise") if " " in name else name.rpartition("-")[0]


def is_stated(name: str, dtype: str, fault: str) -> bool:
    op = op_of(name)
    if dtype in OTHERWISE.get(name, ()):
        return True
    return fault == "taken" and dtype in WIDER.get(op, ())


def by_op(names: Iterable[str]) -> dict[str, dict[str, tuple[str]]]:
    """Return the names of samples by op, in the form that in_one_test_each takes."""
    found: dict[str, dict[str, tuple[str]]] = {}
    for name in names:
        found.setdefault(op_of(name), {})[name] = (name,)
    return found


@pytest.mark.one_in(5)
@in_one_test_each("op", "name", by_op(TORCH))
def test_results_dtypes_and_refusals_are_pytorch_s(name: str) -> None:
    faults = {dtype: fault_of(name, dtype) for dtype in DTYPES}
    assert {d: f for d, f in faults.items() if f is not None and not is_stated(name, d, f)} == {}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("op", WIDER)
def test_what_is_said_to_be_taken_is(op: str) -> None:
    faults = [fault_of(name, d) for name in TORCH if op_of(name) == op for d in WIDER[op]]
    assert "taken" in faults


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_said_to_be_otherwise_is(name: str) -> None:
    assert all(fault_of(name, dtype) is not None for dtype in OTHERWISE[name])
