"""Lazy modules, which infer the sizes of their inputs at the first call."""

from __future__ import annotations

from itertools import chain
from typing import Any

from ..core.dtypes import DType, int64
from ..graph.modes import no_grad
from ..ops.create.creation import tensor
from ..tensor.tensor import Tensor
from .batch_norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    _BatchNorm,
    _InstanceNorm,
    _Norm,
)
from .convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    _ConvNd,
)
from .linear import Linear
from .parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """Base of modules whose parameters are UninitializedParameters; it must be the first base.

    The first call of the module passes its arguments to initialize_parameters(), which sets the
    shapes of the parameters. Then the class of the module is changed to `cls_to_become`.

    Note    load_state_dict also sets the shapes, but the class changes only at the first call
    """

    cls_to_become: type[Any] | None = None
    _parameters: dict[str, Any]
    _buffers: dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        module._load_hook = module._register_load_state_dict_pre_hook(self._lazy_load_hook)
        module._initialize_hook = module.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Set the parameters' shapes from a call's arguments; subclasses override this method."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Return whether any parameter or buffer has no shape yet."""
        return any(map(is_lazy, chain(self._parameters.values(), self._buffers.values())))

    def _infer_parameters(self, module: Any, args: Any, kwargs: Any = None) -> None:
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise RuntimeError(f"module {module._get_name()} has not been fully initialized")
        for name in ("_initialize_hook", "_load_hook"):
            getattr(module, name).remove()
            delattr(module, name)
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _lazy_load_hook(self, state_dict: Any, prefix: str, *_: Any) -> None:
        for name, own in chain(self._parameters.items(), self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(own) and isinstance(given, Tensor) and not is_lazy(given):
                with no_grad():
                    own.materialize(given._layout.shape)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, True)  # type: ignore[misc]
        # A tensor without a shape cannot be detached, because a detached tensor must have a shape.
        for name, own in chain(self._parameters.items(), self._buffers.items()):
            if prefix + name in destination and not keep_vars and not is_lazy(own):
                destination[prefix + name] = own.detach()


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that takes in_features from its first input."""

    cls_to_become = Linear

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values for weight and bias, if they have shapes."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Set in_features to the length of input's last axis, and create the parameters."""
        if not self.has_uninitialized_params():
            self.in_features = self.weight.shape[-1]
            return
        self.in_features = input.shape[-1]
        shapes = {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}
        for name, member in self._parameters.items():
            if is_lazy(member):
                member.materialize(shapes[name])
        self.reset_parameters()


class _LazyNorm(LazyModuleMixin, _Norm):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        # The base creates no parameters and buffers, because their shapes are not known yet.
        super().__init__(0, eps, momentum, False, False)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = tensor(0, dtype=int64, device=device)

    def reset_parameters(self) -> None:
        """Reset the parameters and statistics, if they have shapes."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Set num_features to the length of input's second axis, and create the parameters."""
        members = chain(self._parameters.values(), self._buffers.values())
        waiting: list[Any] = [member for member in members if is_lazy(member)]
        if not waiting:
            known = self.weight if self.weight is not None else self.running_mean
            self.num_features = input.shape[1] if known is None else known.shape[0]
            return
        self.num_features = input.shape[1]
        for member in waiting:
            member.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNorm, _BatchNorm):
    """A BatchNorm1d that takes num_features from its first input."""

    cls_to_become = BatchNorm1d
    _ndims = BatchNorm1d._ndims


class LazyBatchNorm2d(_LazyNorm, _BatchNorm):
    """A BatchNorm2d that takes num_features from its first input."""

    cls_to_become = BatchNorm2d
    _ndims = BatchNorm2d._ndims


class LazyBatchNorm3d(_LazyNorm, _BatchNorm):
    """A BatchNorm3d that takes num_features from its first input."""

    cls_to_become = BatchNorm3d
    _ndims = BatchNorm3d._ndims


class LazyInstanceNorm1d(_LazyNorm, _InstanceNorm):
    """An InstanceNorm1d that takes num_features from its first input."""

    cls_to_become = InstanceNorm1d
    _ndims = InstanceNorm1d._ndims


class LazyInstanceNorm2d(_LazyNorm, _InstanceNorm):
    """An InstanceNorm2d that takes num_features from its first input."""

    cls_to_become = InstanceNorm2d
    _ndims = InstanceNorm2d._ndims


class LazyInstanceNorm3d(_LazyNorm, _InstanceNorm):
    """An InstanceNorm3d that takes num_features from its first input."""

    cls_to_become = InstanceNorm3d
    _ndims = InstanceNorm3d._ndims


class _LazyConv(LazyModuleMixin, _ConvNd):
    _axes: int

    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        self._prepare(out_channels, kernel_size, how, bias, padding_mode, device, dtype)

    def _prepare(
        self,
        out_channels: int,
        kernel_size: Any,
        how: dict[str, Any],
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: DType | None,
    ) -> None:
        # The base gets 0 channels, so that it does not initialize a weight yet.
        names: dict[str, Any] = {**how, "bias": False, "padding_mode": padding_mode}
        super().__init__(0, 0, kernel_size, **names)
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new initial values for weight and bias, if they have shapes."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Set in_channels to the length of input's channel axis, and create the parameters."""
        axes = self._axes
        if input.dim() not in (axes + 1, axes + 2):
            raise RuntimeError(
                f"Expected {axes + 1}D (unbatched) or {axes + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        if not self.has_uninitialized_params():
            first, second = self.weight.shape[:2]
            self.in_channels = first if self.transposed else second * self.groups
            return
        self.in_channels = input.shape[-axes - 1]
        if self.in_channels % self.groups:
            raise ValueError(
                f"in_channels must be divisible by groups: {self.in_channels} by {self.groups}"
            )
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        shapes = {
            "weight": (first, second // self.groups, *self.kernel_size),
            "bias": (self.out_channels,),
        }
        for name, member in self._parameters.items():
            if is_lazy(member):
                member.materialize(shapes[name])
        self.reset_parameters()


class _LazyConvTranspose(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        how["output_padding"] = output_padding
        self._prepare(out_channels, kernel_size, how, bias, padding_mode, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes in_channels from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes in_channels from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes in_channels from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that takes in_channels from its first input."""

    cls_to_become = ConvTranspose3d
