"""Registries of transforms from all real numbers to the values that satisfy a constraint.

`biject_to` returns bijective transforms, as densities require. `transform_to` may return transforms
that are not bijective, for unconstrained optimization.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms
from .utils import NUMBER

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """A table from classes of constraints to functions that create transforms."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Register `factory` for a constraint's class; without `factory`, return a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not (isinstance(constraint, type) and issubclass(constraint, constraints.Constraint)):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """Return the transform from all real numbers to the values that satisfy a constraint.

        Raises  NotImplementedError if no transform is registered
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            known = ", ".join(sorted(one.__name__.lstrip("_") for one in self._registry))
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints; register() one, there "
                f"are: {known}"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _for(*registered: Any, only: ConstraintRegistry | None = None) -> Callable[[Any], Any]:
    """Return a decorator that registers a function of (registry, constraint).

    The function is registered in both registries, or only in `only`.
    """

    def decorate(make: Any) -> Any:
        for registry in (biject_to, transform_to) if only is None else (only,):
            for one in registered:
                registry.register(one, lambda given, registry=registry: make(registry, given))
        return make

    return decorate


@_for(constraints.real)
def _to_real(registry: Any, constraint: Any) -> Any:
    return transforms.identity_transform


@_for(constraints.independent)
def _to_independent(registry: Any, constraint: Any) -> Any:
    return transforms.IndependentTransform(
        registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
    )


@_for(constraints.positive, constraints.nonnegative)
def _to_above(registry: Any, constraint: Any) -> Any:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


@_for(constraints.less_than)
def _to_below(registry: Any, constraint: Any) -> Any:
    turn = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), turn])


@_for(constraints.interval, constraints.half_open_interval)
def _to_interval(registry: Any, constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    unit = transforms.SigmoidTransform()
    if isinstance(low, NUMBER) and isinstance(high, NUMBER) and (low, high) == (0, 1):
        return unit
    return transforms.ComposeTransform([unit, transforms.AffineTransform(low, high - low)])


@_for(constraints.simplex, only=biject_to)
def _to_simplex_by_sticks(registry: Any, constraint: Any) -> Any:
    return transforms.StickBreakingTransform()


@_for(constraints.simplex, only=transform_to)
def _to_simplex(registry: Any, constraint: Any) -> Any:
    return transforms.SoftmaxTransform()


@_for(constraints.lower_cholesky, only=transform_to)
def _to_lower_cholesky(registry: Any, constraint: Any) -> Any:
    return transforms.LowerCholeskyTransform()


@_for(constraints.positive_definite, constraints.positive_semidefinite, only=transform_to)
def _to_positive_definite(registry: Any, constraint: Any) -> Any:
    return transforms.PositiveDefiniteTransform()


@_for(constraints.corr_cholesky)
def _to_corr_cholesky(registry: Any, constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


@_for(constraints.cat)
def _to_cat(registry: Any, constraint: Any) -> Any:
    parts = [registry(one) for one in constraint.cseq]
    return transforms.CatTransform(parts, constraint.dim, constraint.lengths)


@_for(constraints.stack)
def _to_stack(registry: Any, constraint: Any) -> Any:
    return transforms.StackTransform([registry(one) for one in constraint.cseq], constraint.dim)
