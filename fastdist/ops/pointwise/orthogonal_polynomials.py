"""The orthogonal polynomials of `torch.special`, of degree `n` at the points `input`.

The degree is truncated to an integer. As in PyTorch, the polynomials have no gradient, and are 0
for a negative degree.
"""

from __future__ import annotations

from ...dispatch.pointwise import pointwise
from ...tensor.tensor import Tensor


@pointwise(
    "chebyshev_polynomial_t(input, n)",
    dtype="floating",
    homes="special",
    known_as="special_chebyshev_polynomial_t",
)
def chebyshev_polynomial_t(input: Tensor, n: Tensor) -> Tensor:
    """Return Chebyshev's polynomial of the first kind."""


@pointwise(
    "chebyshev_polynomial_u(input, n)",
    dtype="floating",
    homes="special",
    known_as="special_chebyshev_polynomial_u",
)
def chebyshev_polynomial_u(input: Tensor, n: Tensor) -> Tensor:
    """Return Chebyshev's polynomial of the second kind."""


@pointwise(
    "chebyshev_polynomial_v(input, n)",
    dtype="floating",
    homes="special",
    known_as="special_chebyshev_polynomial_v",
)
def chebyshev_polynomial_v(input: Tensor, n: Tensor) -> Tensor:
    """Return Chebyshev's polynomial of the third kind."""


@pointwise(
    "chebyshev_polynomial_w(input, n)",
    dtype="floating",
    homes="special",
    known_as="special_chebyshev_polynomial_w",
)
def chebyshev_polynomial_w(input: Tensor, n: Tensor) -> Tensor:
    """Return Chebyshev's polynomial of the fourth kind."""


@pointwise(
    "hermite_polynomial_h(input, n)",
    dtype="floating",
    homes="special",
    known_as="special_hermite_polynomial_h",
)
def hermite_polynomial_h(input: Tensor, n: Tensor) -> Tensor:
    """Return the physicists' Hermite polynomial."""


@pointwise(
    "hermite_polynomial_he(input, n)",
    dtype="floating",
    homes="special",
    known_as="special_hermite_polynomial_he",
)
def hermite_polynomial_he(input: Tensor, n: Tensor) -> Tensor:
    """Return the probabilists' Hermite polynomial."""


@pointwise(
    "laguerre_polynomial_l(input, n)",
    dtype="floating",
    homes="special",
    known_as="special_laguerre_polynomial_l",
)
def laguerre_polynomial_l(input: Tensor, n: Tensor) -> Tensor:
    """Return Laguerre's polynomial."""


@pointwise(
    "legendre_polynomial_p(input, n)",
    dtype="floating",
    homes="special",
    known_as="special_legendre_polynomial_p",
)
def legendre_polynomial_p(input: Tensor, n: Tensor) -> Tensor:
    """Return Legendre's polynomial."""


@pointwise(
    "chebyshev_polynomial_t(T(2) * input - T(1), n)",
    dtype="floating",
    homes="special",
    known_as="special_shifted_chebyshev_polynomial_t",
)
def shifted_chebyshev_polynomial_t(input: Tensor, n: Tensor) -> Tensor:
    """Return Chebyshev's polynomial of the first kind at 2 * input - 1."""


@pointwise(
    "chebyshev_polynomial_u(T(2) * input - T(1), n)",
    dtype="floating",
    homes="special",
    known_as="special_shifted_chebyshev_polynomial_u",
)
def shifted_chebyshev_polynomial_u(input: Tensor, n: Tensor) -> Tensor:
    """Return Chebyshev's polynomial of the second kind at 2 * input - 1."""


@pointwise(
    "chebyshev_polynomial_v(T(2) * input - T(1), n)",
    dtype="floating",
    homes="special",
    known_as="special_shifted_chebyshev_polynomial_v",
)
def shifted_chebyshev_polynomial_v(input: Tensor, n: Tensor) -> Tensor:
    """Return Chebyshev's polynomial of the third kind at 2 * input - 1."""


@pointwise(
    "chebyshev_polynomial_w(T(2) * input - T(1), n)",
    dtype="floating",
    homes="special",
    known_as="special_shifted_chebyshev_polynomial_w",
)
def shifted_chebyshev_polynomial_w(input: Tensor, n: Tensor) -> Tensor:
    """Return Chebyshev's polynomial of the fourth kind at 2 * input - 1."""
