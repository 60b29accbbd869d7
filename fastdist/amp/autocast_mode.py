"""`autocast`: a context in which matrix products use a half type, and sensitive ops float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..core.caller_warning import warn_caller
from ..core.dtypes import DType, bfloat16, float16
from ..core.folded_frames import folds
from ..core.short_repr import short_repr
from ..devices.gpus import device_count
from ..interpreters import autocast as casts
from ..tensor.tensor import Tensor

_DEFAULTS = {"cpu": bfloat16, "cuda": float16}


class autocast:
    """Compute matrix products in a half type (float16 or bfloat16) and losses in float32, in a
    `with` block or a decorated function.

    Raises  ValueError for a device type that is not a str, RuntimeError for an unknown type
    Note    warns and casts nothing if the device or the dtype is not available

    Args:
        device_type: "cpu" or "cuda".
        dtype: The half type; if None, bfloat16 on the CPU and float16 on a GPU.
        enabled: Whether to cast; False also suspends the casts of an outer block.
        cache_enabled: Whether to cast each parameter only once; True if None.

    Example:
        >>> x = torch.ones(2, 2)
        >>> with torch.autocast("cpu", dtype=torch.bfloat16):
        ...     (x @ x).dtype
        fastdist.bfloat16
    """

    @folds
    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        require_autocast_device(device_type)
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._is_cached = True if cache_enabled is None else cache_enabled
        self._enabled = enabled and can_cast(device_type, self.fast_dtype)
        # A stack, because one object may be entered again before it exits.
        self._before: list[Any] = []

    def __enter__(self) -> autocast:
        dtype = self.fast_dtype if self._enabled else None
        # Saved first: an interrupt between the two statements must not leave casting switched on.
        self._before.append((casts.casting_now(), casts.casts.depth))
        casts.enter(self.device, dtype, self._is_cached)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread = casts.casts
        before, thread.depth = self._before[-1]
        thread.dtypes, thread.is_cached = before
        casts.leave(*self._before.pop())

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return inside


def can_cast(device_type: str, dtype: DType) -> bool:
    """Return whether a device supports autocast to a dtype; warn if it does not."""
    if device_type == "cuda" and not device_count():
        text = "User provided device_type of 'cuda', but CUDA is not available. Disabling"
    elif not dtype.is_half:
        text = (
            f"In {device_type.upper()} autocast, but the target dtype is not supported. Disabling "
            f"autocast. Got {short_repr(dtype)}: give float16 or bfloat16"
        )
    else:
        return True
    warn_caller(text, UserWarning)
    return False


def is_autocast_available(device_type: str) -> bool:
    """Return whether autocast supports a device type."""
    return device_type in _DEFAULTS


def require_autocast_device(device_type: str) -> None:
    """Raise an error unless autocast supports a device type.

    Raises  TypeError for a value that is not a str, RuntimeError for an unknown type
    """
    if not isinstance(device_type, str):
        raise TypeError(f"argument 'device_type' must be str, not {type(device_type).__name__}")
    if not is_autocast_available(device_type):
        raise RuntimeError(
            f"User specified an unsupported autocast device_type '{device_type}'; expected "
            "'cpu' or 'cuda'"
        )


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether autocast is on in this thread for a device type."""
    return casts.dtype_on(device_type) is not None


@folds
def get_autocast_dtype(device_type: str) -> DType:
    """Return autocast's dtype for a device type in this thread: the one in use, or while autocast
    is off, the one that `autocast(device_type)` would use.

    Raises  TypeError for a value that is not a str, RuntimeError for an unknown device type
    """
    require_autocast_device(device_type)
    chosen = casts.casts.chosen.get(device_type, _DEFAULTS[device_type])
    return casts.dtype_on(device_type) or chosen


def custom_fwd(
    fwd: Any = None, *, device_type: str = "cuda", cast_inputs: DType | None = None
) -> Any:
    """Decorate the forward of an autograd.Function. If autocast is on and `cast_inputs` is given,
    floating-point arguments (except float64) are cast to it, and forward runs without autocast.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def inside(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = is_autocast_enabled(device_type) and cast_inputs is None
        if cast_inputs is None or not is_autocast_enabled(device_type):
            return fwd(ctx, *args, **kwargs)
        args = tuple([_in_dtype(value, cast_inputs) for value in args])
        kwargs = {name: _in_dtype(value, cast_inputs) for name, value in kwargs.items()}
        with autocast(device_type, enabled=False):
            return fwd(ctx, *args, **kwargs)

    return inside


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """Decorate the backward of an autograd.Function to run with the autocast state of forward."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def inside(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, ctx._dtype, ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return inside


def _in_dtype(value: Any, dtype: DType) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype.itemsize < 8 else value
    if isinstance(value, dict):
        return {key: _in_dtype(one, dtype) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_in_dtype(one, dtype) for one in value)
    return value
