"""Distribution, the base class: shapes, validation and expansion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..core.caller_warning import warn_caller
from ..core.folded_frames import fold_methods
from ..core.sequences import all_of
from ..core.short_repr import short_repr
from ..graph.modes import no_grad
from ..tensor.layout import Size
from ..tensor.tensor import Tensor
from . import constraints
from .utils import is_compatible, lazy_property

__all__ = ["Distribution"]


@fold_methods
class Distribution:
    """Base of distributions: a batch of parameters of shape batch_shape gives samples of shape
    batch_shape + event_shape.

    Note    for expand(), a subclass has a dict `_batched`. Its keys name the attributes that grow
            with the batch (tensors, inner distributions); each value is the number of axes that
            the attribute has after the batch axes
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__
    _batched: ClassVar[dict[str, int]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fold_methods(cls)

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check arguments and values if `validate_args` is not given."""
        if value not in [True, False]:
            raise ValueError(
                f"set_default_validate_args({short_repr(value)}): expected True or False"
            )
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._require_arguments()

    def _require_arguments(self) -> None:
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warn_caller(
                f"{self.__class__} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with "
                "`validate_args=False` to turn off validation.",
            )
            return
        for name, constraint in arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            # Lazy attributes need no check: they are computed from checked parameters.
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{short_repr(constraint)}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the distribution with a larger batch; its parameters are expanded, not copied."""
        if not hasattr(type(self), "_batched"):
            raise NotImplementedError(f"{type(self).__name__} does not implement expand")
        owner = next(one for one in type(self).__mro__ if "_batched" in vars(one))
        new = self._get_checked_instance(owner, _instance)
        self._expand_into(new, Size(batch_shape))
        return new

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        """Copy the parameters of self to new, expanded to batch_shape."""
        for name, value in self.__dict__.items():
            axes = self._batched.get(name)
            if axes is None:
                # Lazy attributes of the smaller batch are not copied: they are computed again when
                # they are read.
                if not isinstance(getattr(type(self), name, None), lazy_property):
                    new.__dict__.setdefault(name, value)
                continue
            shape = value.shape if isinstance(value, Tensor) else value.batch_shape
            new.__dict__[name] = value.expand((*batch_shape, *shape[len(shape) - axes :]))
        new._batch_shape, new._event_shape = batch_shape, self._event_shape
        new._validate_args = self._validate_args

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """Return the shape of the batch of parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Return the shape of one sample."""
        return self._event_shape

    @property
    def arg_constraints(self) -> Any:
        """Return a dict from parameter names to their constraints."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """Return the constraint that all samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """Return the mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Return the most likely value."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """Return the variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """Return the standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, without gradients.

        Shape   sample_shape + batch_shape + event_shape
        """
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return reparameterized samples, so that gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Return n samples; deprecated in PyTorch in favour of sample((n,))."""
        warn_caller(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
        )
        return self.sample((n,))

    def log_prob(self, value: Any) -> Tensor:
        """Return the logarithm of the density or probability at value."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Tensor:
        """Return the probability that a sample is at most value."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Tensor:
        """Return the quantile for the probability `value`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values that samples can take, along a new first axis."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy of each distribution in the batch."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        return Size((*all_of(sample_shape), *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Raise ValueError unless `value` is a tensor with a valid shape, inside the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape = value.shape
        if shape[len(shape) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        if not is_compatible(shape, expected):
            raise ValueError(
                f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {expected}."
            )
        try:
            support = self.support
        except NotImplementedError:
            warn_caller(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be "
                f"within the support ({short_repr(support)}) of the distribution {self!r}, "
                f"but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        told = ", ".join(
            f"{name}: {value if value.numel() == 1 else value.size()}"
            for name, value in ((name, self.__dict__.get(name)) for name in self.arg_constraints)
            if value is not None
        )
        return f"{self.__class__.__name__}({told})"
