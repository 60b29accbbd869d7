"""Bessel functions of orders 0 and 1, and Airy's function Ai; i0 and i1 are in special.py."""

from __future__ import annotations

from ...dispatch.pointwise import pointwise
from ...tensor.tensor import Tensor


@pointwise(
    "bessel_j0(input)",
    ["-(g * bessel_j1(input))"],
    dtype="floating",
    homes="special",
    known_as="special_bessel_j0",
)
def bessel_j0(input: Tensor) -> Tensor:
    """Return the Bessel function of the first kind of order 0."""


@pointwise(
    "bessel_j1(input)",
    [
        (
            "low = abs(input) < T(1e-7); x = where(low, T(1), input); "
            "g * where(low, T(0.5), bessel_j0(x) - out / x)"
        )
    ],
    dtype="floating",
    homes="special",
    known_as="special_bessel_j1",
)
def bessel_j1(input: Tensor) -> Tensor:
    """Return the Bessel function of the first kind of order 1."""


@pointwise(
    "bessel_y0(input)",
    ["-(g * bessel_y1(input))"],
    dtype="floating",
    homes="special",
    known_as="special_bessel_y0",
)
def bessel_y0(input: Tensor) -> Tensor:
    """Return the Bessel function of the second kind of order 0: -inf at 0, NaN below 0."""


@pointwise(
    "bessel_y1(input)",
    ["g * (bessel_y0(input) - out / input)"],
    dtype="floating",
    homes="special",
    known_as="special_bessel_y1",
)
def bessel_y1(input: Tensor) -> Tensor:
    """Return the Bessel function of the second kind of order 1: -inf at 0, NaN below 0."""


@pointwise(
    "scaled_modified_bessel_k0(input)",
    ["g * (out - scaled_modified_bessel_k1(input))"],
    dtype="floating",
    homes="special",
    known_as="special_scaled_modified_bessel_k0",
)
def scaled_modified_bessel_k0(input: Tensor) -> Tensor:
    """Return exp(input) * modified_bessel_k0(input)."""


@pointwise(
    "scaled_modified_bessel_k1(input)",
    ["g * (out - scaled_modified_bessel_k0(input) - out / input)"],
    dtype="floating",
    homes="special",
    known_as="special_scaled_modified_bessel_k1",
)
def scaled_modified_bessel_k1(input: Tensor) -> Tensor:
    """Return exp(input) * modified_bessel_k1(input)."""


@pointwise(
    "scaled_modified_bessel_k0(input) * exp(-input)",
    ["-(g * scaled_modified_bessel_k1(input) * exp(-input))"],
    dtype="floating",
    homes="special",
    known_as="special_modified_bessel_k0",
)
def modified_bessel_k0(input: Tensor) -> Tensor:
    """Return the modified Bessel function of the second kind of order 0: inf at 0, NaN below 0."""


@pointwise(
    "scaled_modified_bessel_k1(input) * exp(-input)",
    ["-(g * (scaled_modified_bessel_k0(input) * exp(-input) + out / input))"],
    dtype="floating",
    homes="special",
    known_as="special_modified_bessel_k1",
)
def modified_bessel_k1(input: Tensor) -> Tensor:
    """Return the modified Bessel function of the second kind of order 1: inf at 0, NaN below 0."""


@pointwise(
    "x = where(input == T(0), T(1), input); "
    "where(isinf(input), T(0), where(input == T(0), T(1), sin(x) / x))",
    [
        (
            "low = abs(input) < T(0.1); x = where(low, T(1), input); y = input * input; "
            "g * where(isinf(input), T(0), where(low, "
            "-input / T(3) * (T(1) - y / T(10) * (T(1) - y / T(28) * (T(1) - y / T(54)))), "
            "(cos(x) - out) / x))"
        )
    ],
    dtype="floating",
    homes="special",
    known_as="special_spherical_bessel_j0",
)
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """Return the spherical Bessel function of order 0: sin(input) / input, and 1 at 0."""


@pointwise("airy_ai(input)", dtype="floating", homes="special", known_as="special_airy_ai")
def airy_ai(input: Tensor) -> Tensor:
    """Return Airy's function Ai. As in PyTorch, the function has no gradient."""
