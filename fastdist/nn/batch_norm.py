"""Batch and instance normalisation, with running means and variances for evaluation."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from ..core.dtypes import DType, int64
from ..ops.create.creation import empty, ones, tensor, zeros
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module


class _Norm(Module):
    """Base of normalisation modules with an optional scale and shift per channel, and optional
    running statistics.
    """

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    # The allowed numbers of input axes.
    _ndims: tuple[int, ...] = ()
    # From version 2 on, num_batches_tracked is part of the state_dict.
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        for name, is_wanted in (("weight", affine), ("bias", affine and bias)):
            made = empty(num_features, device=device, dtype=dtype) if is_wanted else None
            self.register_parameter(name, None if made is None else Parameter(made))
        buffers: dict[str, Tensor | None] = dict.fromkeys(
            ("running_mean", "running_var", "num_batches_tracked")
        )
        if track_running_stats:
            buffers["running_mean"] = zeros(num_features, device=device, dtype=dtype)
            buffers["running_var"] = ones(num_features, device=device, dtype=dtype)
            buffers["num_batches_tracked"] = tensor(0, dtype=int64, device=device)
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Reset the running mean to 0, the running variance to 1 and the batch counter to 0."""
        if self.track_running_stats:
            assert self.running_mean is not None and self.running_var is not None
            assert self.num_batches_tracked is not None
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset the running statistics; set the scale to 1 and the shift to 0."""
        self.reset_running_stats()
        if self.affine:
            if self.weight is not None:
                init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def extra_repr(self) -> str:
        """Return the number of channels and the options."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        key = f"{prefix}num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            own = self.num_batches_tracked
            state_dict.setdefault(key, tensor(0, dtype=int64) if own is None else own)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in self._ndims:
            wanted = " or ".join(f"{n}D" for n in self._ndims)
            raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")


class _BatchNorm(_Norm):
    def forward(self, input: Tensor) -> Tensor:
        """Return input, normalised per channel.

        Training mode uses the batch's statistics. Evaluation mode uses the running statistics, or
        the batch's statistics if the module has no running statistics.
        """
        self._check_input_dim(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        follows = self.training and self.track_running_stats
        if follows and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / float(self.num_batches_tracked)
        has_stats = self.running_mean is not None or self.running_var is not None
        takes_stats = follows or not self.training
        return functional.batch_norm(
            input,
            self.running_mean if takes_stats else None,
            self.running_var if takes_stats else None,
            self.weight,
            self.bias,
            self.training or not has_stats,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalizes each channel of a batch to mean 0 and variance 1, then scales and shifts it.

    Shape   (N, C) or (N, C, L) -> the same
    Note    running_mean and running_var are exponential moving averages of the batches' mean and
            variance, or plain averages if momentum is None. Evaluation mode uses these averages
            instead of the batch's mean and variance
    Source  Ioffe and Szegedy 2015, "Batch Normalization"
    Raises  ValueError in a call, if the input has neither 2 nor 3 axes or, in training mode, has
            only one value per channel; RuntimeError in a call, if the number of channels is not
            num_features

    Args:
        num_features: The number of channels.
        eps: Added to the variance, to avoid division by 0.
        momentum: The weight of a new batch in the running mean and variance; None gives all batches
            equal weight.
        affine: Whether to learn a scale and a shift for each channel.
        track_running_stats: Whether to keep a running mean and variance, which are used in eval
            mode.
        device: The device of the parameters; the default device if None.
        dtype: The dtype of the parameters; the default dtype if None.
        bias: Whether to learn the shift.

    Example:
        >>> nn.BatchNorm1d(3)(torch.randn(8, 3)).shape
        fastdist.Size([8, 3])
    """

    _ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalizes each channel of a batch of images to mean 0 and variance 1, then scales and shifts
    it.

    Shape   (N, C, H, W) -> the same
    Raises  ValueError in a call, if the input does not have 4 axes or, in training mode, has only
            one value per channel; RuntimeError in a call, if the number of channels is not
            num_features

    Args:
        num_features: The number of channels.
        eps: Added to the variance, to avoid division by 0.
        momentum: The weight of a new batch in the running mean and variance; None gives all batches
            equal weight.
        affine: Whether to learn a scale and a shift for each channel.
        track_running_stats: Whether to keep a running mean and variance, which are used in eval
            mode.
        device: The device of the parameters; the default device if None.
        dtype: The dtype of the parameters; the default dtype if None.
        bias: Whether to learn the shift.

    Example:
        >>> layer = nn.BatchNorm2d(3)
        >>> layer(torch.randn(2, 3, 4, 4)).mean().abs() < 1e-6
        tensor(True)
    """

    _ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalizes each channel of a batch of volumes, like BatchNorm1d.

    Shape   (N, C, D, H, W) -> the same
    """

    _ndims = (5,)


class SyncBatchNorm(_BatchNorm):
    """BatchNorm whose training statistics cover the batches of all processes of a group.

    Without a group, and in evaluation mode, it is the same as BatchNorm, and does not communicate
    with other processes. The processes' batches may differ in size, and some may be empty.

    Shape   (N, C, ...) -> the same
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.shape[1] == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    def _group(self) -> Any:
        """Return the process group that shares statistics, or None if they are not shared."""
        if not self.training or "fastdist.distributed.process_group.world" not in sys.modules:
            return None
        from ..distributed.process_group.world import group_of, is_initialized, is_outside

        if is_outside(self.process_group) or not is_initialized():
            return None
        group = group_of(self.process_group)
        return group if group.size() > 1 else None

    def forward(self, input: Tensor) -> Tensor:
        """Return input, normalised per channel.

        Training mode uses the statistics of all processes' batches. Evaluation mode uses the
        running statistics, or this batch's statistics if the module has no running statistics.
        """
        group = self._group()
        if group is None:
            return super().forward(input)
        from ..distributed.data_parallel.sync_batch_norm import sync_batch_norm

        self._check_input_dim(input)
        running: tuple[Any, Any] = (None, None)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.track_running_stats:
            running = self.running_mean, self.running_var
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
                if self.momentum is None:
                    momentum = 1.0 / float(self.num_batches_tracked)
        return sync_batch_norm(input, self.weight, self.bias, running, self.eps, momentum, group)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Replace every BatchNorm in module by a SyncBatchNorm, and return module. If module is
        itself a BatchNorm, return a SyncBatchNorm.
        """
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            for kind in ("_parameters", "_buffers"):
                getattr(made, kind).update(getattr(module, kind))
            made.training = module.training
            return made
        for name, child in module.named_children():
            module.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return module


class _InstanceNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: DType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        keys = [f"{prefix}{name}" for name in ("running_mean", "running_var")]
        found = [key for key in keys if key in state_dict]
        if found and not self.track_running_stats and local_metadata.get("version") is None:
            kind = type(self).__name__
            error_msgs.append(
                f"Unexpected running stats buffer(s) {_quoted(found)} for {kind} "
                "with track_running_stats=False. If state_dict is a checkpoint saved before "
                f"0.4.0, this may be expected because {kind} does not track running stats by "
                "default since 0.4.0. Please remove these keys from state_dict. If the running "
                f"stats are actually needed, instead set track_running_stats=True in {kind} to "
                "enable them."
            )
            for key in found:
                del state_dict[key]
        lists = (missing_keys, unexpected_keys, error_msgs)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, *lists)

    def forward(self, input: Tensor) -> Tensor:
        """Return input, normalised per sample and channel.

        Evaluation mode uses the running statistics, if the module has them. Otherwise the
        statistics of each sample are used.
        """
        self._check_input_dim(input)
        is_alone = input.dim() == self._ndims[0]
        axis = 0 if is_alone else 1
        if input.shape[axis] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={axis} to match num_features "
                    f"({self.num_features}), but got: {input.shape[axis]}."
                )
            warnings.warn(
                f"input's size at dim={axis} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=3,
            )
        out = functional.instance_norm(
            input.unsqueeze(0) if is_alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if is_alone else out


def _quoted(keys: list[str]) -> str:
    return " and ".join(f'"{key}"' for key in keys)


class InstanceNorm1d(_InstanceNorm):
    """Normalizes each channel of each sample to mean 0 and variance 1.

    Shape   (N, C, L) or (C, L) -> the same
    Source  Ulyanov et al. 2016, "Instance Normalization"
    """

    _ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalizes each channel of each image, like InstanceNorm1d.

    Shape   (N, C, H, W) or (C, H, W) -> the same
    """

    _ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalizes each channel of each volume, like InstanceNorm1d.

    Shape   (N, C, D, H, W) or (C, D, H, W) -> the same
    """

    _ndims = (4, 5)
