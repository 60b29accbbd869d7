"""Parametrizations of weights: weight norm, spectral norm and orthogonal matrices."""

from __future__ import annotations

from typing import Any

from ...core.errors import ShapeError
from ...core.folded_frames import fold_public
from ...core.missing import show_public
from ...core.short_repr import short_repr
from ...graph.modes import no_grad
from ...ops.create.creation import zeros
from ...ops.create.random import randn
from ...ops.create.ranges import eye
from ...ops.linalg.linear_systems import solve
from ...ops.linalg.matrix_functions import matrix_exp
from ...ops.linalg.qr import geqrf, householder_product, qr
from ...ops.shape.joining import cat
from ...tensor.tensor import Tensor
from .. import functional
from ..module import Module
from .parametrize import register_parametrization

__all__ = [
    "orthogonal",
    "spectral_norm",
    "weight_norm",
]


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Any:
    """Return the norms over all axes except dim (keepdim=True), or one norm over all if dim=-1."""
    if dim == -1:
        return v.norm(pow)
    axes = tuple(axis for axis in range(v.dim()) if axis != dim % v.dim())
    return v.norm(pow, axes, keepdim=True) if axes else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """Return weight_v, scaled so that its norms are weight_g."""
        found: Tensor = weight_v * (weight_g / norm_except_dim(weight_v, dim=self.dim))
        return found

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return the norms of weight, and weight itself."""
        return norm_except_dim(weight, dim=self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Parametrize a weight by its norm (original0) and its direction (original1).

    There is one norm for each index along dim, or a single one if dim is None.

    Source  Salimans and Kingma 2016, "Weight Normalization"
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        axes = weight.dim()
        if not -axes <= dim < axes:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{axes}, {axes - 1}] but got "
                f"{short_repr(dim)})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % axes
        self.eps = eps
        if axes > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight.detach())
            for name, n in zip(("_u", "_v"), matrix.shape, strict=True):
                drawn = randn(n, dtype=weight.dtype, device=weight.device)
                self.register_buffer(name, functional.normalize(drawn, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        if self.dim:
            weight = weight.movedim(self.dim, 0)
        return weight.flatten(1)

    def _iterate(self, matrix: Any, times: int) -> None:
        with no_grad():
            for _ in range(times):
                self._u.copy_(functional.normalize(matrix.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(functional.normalize(matrix.T.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """Return weight divided by its estimated largest singular value.

        In training mode, each call improves the estimate.
        """
        if weight.dim() == 1:
            return functional.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # Copied, because the backward pass needs these values, and later iterations change _u, _v.
        u, v = self._u.clone(), self._v.clone()
        found: Tensor = weight / u.dot(matrix.mv(v))
        return found

    def right_inverse(self, value: Tensor) -> Tensor:
        """Return value unchanged."""
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, which power iterations estimate.

    Raises  ValueError if module has no parameter or buffer of this name
    Source  Miyato et al. 2018, "Spectral Normalization for Generative Adversarial Networks"
    """
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        is_transposed = type(module).__name__.startswith("ConvTranspose")
        dim = 1 if is_transposed else 0
    if not weight.dim():
        raise ShapeError(f"spectral_norm: {short_repr(name)} has no axes")
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    register_parametrization(module, name, made)
    return module


class _Orthogonal(Module):
    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Any) -> Tensor:
        """Return the orthogonal matrix that the map makes of X, times base if base is used."""
        wide = X.shape[-2] < X.shape[-1]
        x = X.mT if wide else X
        if self.orthogonal_map == "householder":
            below = x.tril(-1)
            scales = 2.0 / (1.0 + (below * below).sum(-2))
            # The diagonal of x holds signs, through which no gradient flows.
            signs = x.detach().diagonal(dim1=-2, dim2=-1).trunc()
            turned: Any = householder_product(below, scales) * signs.unsqueeze(-2)
        else:
            turned = self._turned_by_skew(x)
        found: Any = self.base @ turned if self.use_trivialization else turned
        return found.mT if wide else found  # type: ignore[no-any-return]

    def _turned_by_skew(self, x: Any) -> Any:
        n, k = x.shape[-2:]
        lower = functional.pad(x.tril(), [0, n - k])
        skew = lower - lower.mT
        if self.orthogonal_map == "matrix_exp":
            return matrix_exp(skew)[..., :k]
        one = eye(n, dtype=x.dtype, device=x.device)
        return solve(one - 0.5 * skew, one + 0.5 * skew)[..., :k]

    def right_inverse(self, Q: Any) -> Tensor:
        """Return an X for which forward returns Q.

        If use_trivialization is set, Q is first made orthogonal, and the result is stored as base.

        Raises  ValueError if Q and the weight differ in shape; NotImplementedError if
                use_trivialization is not set and the map is not "householder"
        """
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {Q.shape}."
            )
        with no_grad():
            wide = Q.shape[-2] < Q.shape[-1]
            tall = Q.mT if wide else Q
            if not self.use_trivialization:
                found = self._reflections_of(tall)
                return found.mT if wide else found  # type: ignore[no-any-return]
            n, k = tall.shape[-2:]
            # Random columns that make the matrix square.
            more = randn(*tall.shape[:-1], n - k, dtype=Q.dtype, device=Q.device)
            q, r = qr(cat([tall, more], -1))
            negative = r.diagonal(dim1=-2, dim2=-1) < 0.0
            self.base = q * (1.0 - 2.0 * negative.to(q.dtype)).unsqueeze(-2)
            nothing = zeros(Q.shape, dtype=Q.dtype, device=Q.device)
            rows, columns = Q.shape[-2:]
            # Each map makes the identity of this matrix. With "householder", each reflection
            # flips the sign of one axis, and -1 on the diagonal flips it again.
            return nothing - eye(rows, columns, dtype=Q.dtype, device=Q.device)

    def _reflections_of(self, tall: Any) -> Any:
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        found, scales = geqrf(tall)
        signs = found.diagonal(dim1=-2, dim2=-1).sign() * (1.0 - 2.0 * (scales == 0).to(tall.dtype))
        n, k = tall.shape[-2:]
        below: Any = found.tril(-1)
        return below + eye(n, k, dtype=tall.dtype, device=tall.device) * signs.unsqueeze(-2)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Parametrize a weight to have orthonormal columns (rows if the weight is wider than high).

    `orthogonal_map` is "matrix_exp" (the default for square weights), "householder" (the default
    for other weights) or "cayley".

    Raises  ValueError if module has no such weight, or if the weight has fewer than two axes
    Note    if use_trivialization is set, the current weight is stored as a base, which the map
            rotates. Otherwise, only "householder" starts from the current weight and supports
            assignment
    Source  Lezcano-Casado 2019, "Trivializations for Gradient-Based Optimization on Manifolds"
    """
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if orthogonal_map is None:
        is_square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if is_square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: '
            f"{orthogonal_map}"
        )
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    register_parametrization(module, name, made, unsafe=True)
    return module


fold_public(__name__)
show_public(__name__)
