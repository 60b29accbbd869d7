"""Constraints on parameters and samples; `check` returns which values satisfy a constraint.

`dependent` stands for a constraint that depends on other parameters; `dependent_property` is a
property that returns such a constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..namespace.limits import finfo
from ..ops.create.creation import full
from ..ops.shape.casting import isclose
from ..ops.shape.joining import cat as _cat
from ..ops.shape.joining import stack as _stack
from ..tensor.tensor import Tensor
from .matrices import cholesky_info, smallest_eigenvalue

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]


class Constraint:
    """A set of allowed values; `event_dim` is the number of axes of one value."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.__class__.__name__[1:] + "()"


class _Dependent(Constraint):
    """A constraint that depends on other parameters."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> bool:
        """Return whether the values are discrete."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:
        """Return the number of axes of one event."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return int(self._event_dim)

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> Any:
        """Return a dependent constraint with is_discrete or event_dim set."""
        if is_discrete is NotImplemented:
            is_discrete = self._is_discrete
        if event_dim is NotImplemented:
            event_dim = self._event_dim
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Any) -> Tensor:
        """Raise ValueError, because the result depends on other parameters."""
        raise ValueError("Cannot determine validity of dependent constraint")


class _DependentProperty(property, _Dependent):
    """A property that returns a constraint; the property has is_discrete and event_dim too."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> Any:  # type: ignore[override]
        """Return a property with `fn` as its getter; this is called as a decorator."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Return whether a constraint depends on other parameters."""
    return isinstance(constraint, _Dependent)


class _IndependentConstraint(Constraint):
    """A constraint on events with more axes: all values of an event satisfy `base_constraint`."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        _require_constraint(base_constraint, "base_constraint")
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        """Return whether the values are discrete."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """Return the number of axes of one event."""
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Tensor:
        """Return for each event whether all its values satisfy the base constraint."""
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_behind(result, result.dim() - self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        name = self.__class__.__name__[1:]
        return f"{name}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The constraint on samples of a mixture: they satisfy the constraints of all components."""

    def __init__(self, base_constraint: Constraint) -> None:
        _require_constraint(base_constraint, "base_constraint")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        """Return whether the values are discrete."""
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        """Return the number of axes of one event."""
        return int(self.base_constraint.event_dim)

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraints of all components."""
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return _all_behind(result, value.dim() - self.event_dim)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    """The values 0 and 1."""

    is_discrete = True

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors with a single 1 and zeros elsewhere."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        is_boolean = (value == 0) | (value == 1)
        return is_boolean.all(-1) & value.sum(-1).eq(1)


class _Bounded(Constraint):
    """Base of constraints with bounds, which the repr shows."""

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={bound}" for name, bound in vars(self).items())
        return f"{self.__class__.__name__[1:]}({bounds})"


class _Above(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Below(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound


class _IntegerInterval(_Between):
    """Integers in [lower_bound, upper_bound]."""

    is_discrete = True

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        inside = (self.lower_bound <= value) & (value <= self.upper_bound)
        return (value % 1 == 0) & inside


class _IntegerGreaterThan(_Above):
    """Integers of at least lower_bound."""

    is_discrete = True

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return (value % 1 == 0) & (value >= self.lower_bound)


class _Real(Constraint):
    """All numbers except NaN."""

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return value == value


class _GreaterThan(_Above):
    """Numbers above lower_bound."""

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    """Numbers of at least lower_bound."""

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return self.lower_bound <= value


class _LessThan(_Below):
    """Numbers below upper_bound."""

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers in [lower_bound, upper_bound]."""

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers in [lower_bound, upper_bound)."""

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _Simplex(Constraint):
    """Vectors of nonnegative numbers that sum to 1."""

    event_dim = 1

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        # The sum in a half type has a rounding error above 1e-6.
        tolerance = max(1e-6, 4 * finfo(value.dtype).eps) if value.is_floating_point() else 1e-6
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < tolerance)


class _Multinomial(_Below):
    """Vectors of counts whose sum is at most upper_bound."""

    is_discrete = True
    event_dim = 1
    __repr__ = Constraint.__repr__

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Matrices that are 0 above the diagonal."""

    event_dim = 2

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return _all_behind(value.tril() == value, value.dim() - 2)


class _LowerCholesky(Constraint):
    """Matrices that are 0 above the diagonal and positive on it."""

    event_dim = 2

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        return lower_triangular.check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(Constraint):
    """Cholesky factors of correlation matrices: each row has norm 1."""

    event_dim = 2

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        tolerance = finfo(value.dtype).eps * value.size(-1) * 10
        length = value.detach().square().sum(-1).sqrt()
        return lower_cholesky.check(value) & ((length - 1.0).abs() <= tolerance).all(-1)


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        is_square = value.shape[-2] == value.shape[-1]
        return full(value.shape[:-2], is_square, device=value.device)


class _Symmetric(_Square):
    """Matrices that equal their transpose."""

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        is_square = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return is_square
        return isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        is_symmetric = super().check(value)
        if not is_symmetric.all():
            return is_symmetric
        return smallest_eigenvalue(value) >= 0


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint."""
        is_symmetric = super().check(value)
        if not is_symmetric.all():
            return is_symmetric
        return cholesky_info(value) == 0


class _Joined(Constraint):
    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        for one in cseq:
            _require_constraint(one, "each of cseq")
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:
        """Return whether any of the constraints is discrete."""
        return any(one.is_discrete for one in self.cseq)

    def _require_dim(self, value: Any) -> None:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(
                f"dim {self.dim} out of range for value with {value.dim()} dimensions"
            )


class _Cat(_Joined):
    """Concatenated values, whose parts along dim have different constraints."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.cseq)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})"
            )

    @property
    def event_dim(self) -> int:
        """Return the number of axes of one event."""
        return max(one.event_dim for one in self.cseq)

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint of its part."""
        self._require_dim(value)
        parts = value.split(self.lengths, self.dim)
        checked = [one.check(part) for one, part in zip(self.cseq, parts, strict=True)]
        return _cat(checked, self.dim)


class _Stack(_Joined):
    """Stacked values, which have different constraints along dim."""

    @property
    def event_dim(self) -> int:
        """Return the number of axes of one event."""
        dim: int = max(one.event_dim for one in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Any) -> Tensor:
        """Return for each value whether it satisfies the constraint of its part."""
        self._require_dim(value)
        parts = value.unbind(self.dim)
        return _stack(
            [one.check(part) for one, part in zip(self.cseq, parts, strict=False)], self.dim
        )


def _all_behind(checked: Tensor, kept: int) -> Tensor:
    return checked.reshape((*checked.shape[:kept], -1)).all(-1)


def _require_constraint(given: Any, what: str) -> None:
    if not isinstance(given, Constraint):
        raise AssertionError(f"{what} must be a Constraint, got {type(given).__name__}")


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
