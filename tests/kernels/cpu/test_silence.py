"""Ufuncs in a silent function do not warn, whatever the filters; the user's own ufuncs do."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist.kernels.cpu.pointwise.pointwise import kernel_for
from fastdist.kernels.cpu.silence import silent
from fastdist.language.scalar import parse

HUGE = np.full(3, 3e38, np.float32)
square = silent(lambda x: np.multiply(x, x))


@pytest.mark.parametrize("action", ["error", "always", "default"])
def test_silent_function_does_not_warn_whatever_the_filters(action: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        result = square(HUGE)
    assert not caught and np.isinf(result).all()


def test_silent_function_does_not_warn_in_another_thread() -> None:
    results: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: results.append(square(HUGE)))
    thread.start()
    thread.join(10)
    assert np.isinf(results[0]).all()


def test_users_own_numpy_still_warns() -> None:
    square(HUGE)
    with pytest.warns(RuntimeWarning, match="overflow"):
        np.multiply(HUGE, HUGE)


@pytest.mark.parametrize(
    "text",
    [
        "x * x * x",
        "log(x - x)",
        "x / (x - x)",
        "exp(x)",
        "sigmoid(-x)",
        "where(x > T(0), sqrt(-x), x)",
    ],
)
def test_small_side_of_a_body_does_not_warn(text: str) -> None:
    kernel_for(parse(f"abs({text})", ("x",))).small(HUGE)
    kernel_for(parse(text, ("x",))).run([HUGE], np.empty_like(HUGE))


def test_silent_keeps_name_doc_and_defaults() -> None:
    def halve(x: float, *, by: float = 2.0) -> float:
        """Halve x."""
        return x / by

    made = silent(halve)
    assert made(3.0) == 1.5
    assert (made.__name__, made.__doc__, made.__module__) == ("halve", "Halve x.", __name__)


@pytest.mark.parametrize("dtype", [fd.float32, fd.float64, fd.float16, fd.bfloat16])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_sums_of_infinities_do_not_warn(dtype: fd.dtype, keepdim: bool, dim: Any) -> None:
    x = fd.tensor([[np.inf, -np.inf], [-np.inf, np.inf]]).to(dtype)
    for name in ("sum", "mean", "nansum"):
        assert getattr(x, name)(dim, keepdim=keepdim).isnan().all()


@pytest.mark.parametrize("what", [max, 3])
def test_what_has_no_code_of_python_is_refused(what: Any) -> None:
    with pytest.raises(TypeError, match=r"silent\(\) takes a function written in Python, got "):
        silent(what)
