"""Fourier transforms against PyTorch, for all samples of its database of ops."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.interop.derivative_checks import CHECKS, difference, sides

pytestmark = [pytest.mark.interop("torch", "expecttest"), pytest.mark.timeout(600)]

NAMES = (
    *("fft.fft", "fft.fft2", "fft.fftn", "fft.hfft", "fft.hfft2", "fft.hfftn", "fft.rfft"),
    *("fft.rfft2", "fft.rfftn", "fft.ifft", "fft.ifft2", "fft.ifftn", "fft.ihfft", "fft.ihfft2"),
    *("fft.ihfftn", "fft.irfft", "fft.irfft2", "fft.irfftn", "fft.fftshift", "fft.ifftshift"),
    *("stft", "istft"),
)
# Differentiate only a few samples, since each sample takes seven passes in each library.
DIFFERENTIATED = 6


def entry(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from tests.interop.operator_database import op_db
    (found,) = [op for op in op_db if op.name == name]
    return found


def seed() -> Any:
    import torch

    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002  what their samples are drawn by
    return torch


def value_differences(op: Any) -> Iterator[str]:
    from tests.interop.operator_database import DTYPES, NotOurs, Taken, differs, ours_of, tried

    seed()
    for dtype in op.supported_dtypes("cpu"):
        if dtype not in DTYPES:
            continue
        for sample in op.sample_inputs("cpu", dtype):
            taken = Taken(sample)
            try:
                given, our_given = taken.theirs(), taken.ours()
            except NotOurs:
                continue
            theirs, error = tried(op.op, given[0], *given[1], **given[2])
            found, our_error = tried(ours_of(op), our_given[0], *our_given[1], **our_given[2])
            if error is not None or our_error is not None:
                if error is None or our_error is None:
                    yield f"{dtype} {sample.summary()}: {error or our_error!r}"
                continue
            told = differs(theirs, found, by_chance=False)
            if told is not None:
                yield f"{dtype} {sample.summary()}: {told}"


def derivative_differences(op: Any, name: str) -> Iterator[str]:
    torch = seed()
    dtype = getattr(torch, name)
    if dtype not in op.supported_backward_dtypes("cpu"):
        return
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=True))
    for sample in samples[:: max(1, -(-len(samples) // DIFFERENTIATED))]:
        for check, (_, supports) in CHECKS.items():
            ours, theirs = sides(torch, op, sample)
            if any(x._is_view() for x in theirs.xs):
                continue  # PyTorch's gradients bypass a view made without grad
            if theirs.xs and getattr(op, supports):
                told = difference(check, ours, theirs)
                if told is not None:
                    yield f"{check}: {told}\n{sample.summary()}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_values_are_pytorch_s_in_every_dtype(name: str) -> None:
    assert list(value_differences(entry(name))) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_pytorch_s(name: str, dtype: str) -> None:
    found = list(derivative_differences(entry(name), dtype))
    assert found == [], "\n\n".join(found)


MISTAKES = {
    "fft(torch.tensor(1.0))": "Dimension specified as -1 but tensor has no dimensions",
    "fft(x.half())": "Unsupported dtype Half",
    "irfft(x.bfloat16())": "Unsupported dtype BFloat16",
    "rfft(c)": "rfft expects a real input tensor, but got ComplexFloat",
    "ihfft(c)": "ihfft expects a real input tensor, but got ComplexFloat",
    "rfft2(c)": "rfftn expects a real-valued input tensor, but got ComplexFloat",
    "ihfftn(c)": "Only supports floating-point dtypes, but found: ComplexFloat",
    "fft(x, 0)": "Invalid number of data points (0) specified",
    "ifft(c, -1)": "Invalid number of data points (-1) specified",
    "irfft(c[:, :1])": "Invalid number of data points (0) specified",
    "hfftn(c, (3, 0))": "Invalid number of data points (0) specified",
    "fft(x, dim=2)": "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
    "fftn(x, norm='none')": 'Invalid normalization mode: "none"',
    "fftn(x, dim=(0, -2))": "FFT dims must be unique",
    "fftn(x, (2, 3, 4))": "Got shape with 3 values but input tensor only has 2 dimensions.",
    "rfftn(x, (2,), (0, 1))": "When given, dim and shape arguments must have the same length",
    "irfftn(c, dim=())": "irfftn must transform at least one axis",
    "fft2(x, dim=None)": "argument 'dim' must be tuple of ints, not NoneType",
    "fftfreq(4, dtype=torch.int64)": "fftfreq requires a floating point or complex dtype",
    "rfftfreq(4, dtype=torch.complex64)": "\"arange_cpu\" not implemented for 'ComplexFloat'",
    "fftfreq(-1)": "Trying to create tensor with negative dimension -1: [-1]",
    "fftshift(x, ())": "`shifts` required",
    "torch.stft(x[0], 2, window=w)": "stft requires the return_complex parameter be given for real",
    "torch.stft(x, 2, window=w, align_to_window=True)": "align_to_window should only be set when",
    "torch.stft(x.long(), 2, 1, 1, w[:1], False, return_complex=True)": (
        "stft(torch.LongTensor[4, 6], n_fft=2, hop_length=1, win_length=1, "
        "window=torch.FloatTensor{[1]}, normalized=0, onesided=None, return_complex=1, "
        "align_to_window=None) : expected a tensor of floating point or complex values"
    ),
    "torch.stft(x, 7, 1, 2, w, False, return_complex=True)": "expected 0 < n_fft < 6, but got",
    "torch.stft(x, 2, 0, window=w, return_complex=True)": "expected hop_length > 0, but got",
    "torch.stft(c, 2, 1, window=w, onesided=True)": "Cannot have onesided output if window",
    "torch.istft(x, 2, 1, window=w)": "istft requires a complex-valued input tensor matching",
    "torch.istft(c, 5, 1, 2, w)": (
        "istft(CPUComplexFloatType[4, 6], n_fft=5, hop_length=1, win_length=2, "
        "window=torch.FloatTensor{[2]}, center=1, normalized=0, onesided=None, length=None, "
        "return_complex=0) : expected the frequency dimension (3rd to the last) of the input "
        "tensor to match n_fft / 2 + 1 when onesided=True, but got 4"
    ),
    "torch.istft(c, 6, 3, 2, w)": "expected 0 < hop_length <= win_length",
    "torch.istft(c, 6, 1, 2, w * 0)": "window overlap add min: 1",
    "fft(c, out=torch.empty(0))": "fft expects a complex output tensor, but got Float",
    "irfft(c, out=c)": "irfft expects a floating point output tensor, but got ComplexFloat",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_told_in_pytorch_s_words(text: str) -> None:
    import torch

    import fastdist

    for library in (torch, fastdist):
        x = library.ones(4, 6)
        names = {**vars(library.fft), "torch": library, "x": x, "c": library.complex(x, x)}
        names["w"] = library.ones(2)
        with pytest.raises((RuntimeError, IndexError, TypeError), match=re.escape(MISTAKES[text])):
            eval(text, names)
