"""Private functions of PyTorch's optim that optimisers of other packages import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..core.dtypes import DType, float32, float64
from ..ops.pointwise.complex_numbers import view_as_real
from ..tensor.parameter import Parameter
from ..tensor.promotion import get_default_dtype
from ..tensor.tensor import Tensor
from .hooks import _of_all_after_steps, _of_all_before_steps

F = TypeVar("F", bound=Callable[..., Any])

# Names for type annotations.
Args = tuple[Any, ...]
Kwargs = dict[str, Any]
StateDict = dict[str, Any]
DeviceDict = dict[Any, Tensor]
DeviceDtypeDict = dict[Any, Tensor]
TensorListList = list[list[Tensor | None]]
Indices = list[int]

_global_optimizer_pre_hooks = _of_all_before_steps
_global_optimizer_post_hooks = _of_all_after_steps
_foreach_supported_types = [Tensor, Parameter]

# Parameter descriptions that optimisers of other packages insert into their docstrings.
_params_doc = """params (iterable): parameters, (name, parameter) pairs, or dicts that are groups"""
_foreach_doc = (
    """foreach (bool, optional): ignored, parameters are stepped together (default: None)"""
)
_fused_doc = """fused (bool, optional): ignored, each step is one pass already (default: None)"""
_maximize_doc = """maximize (bool, optional): step towards the maximum (default: False)"""
_capturable_doc = """capturable (bool, optional): whether steps are counted on the device
            (default: False)"""
_differentiable_doc = """differentiable (bool, optional): whether steps are recorded for
            autograd (default: False)"""


def _default_to_fused_or_foreach(
    params: list[Tensor], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Return whether an optimiser's default step is fused, and whether it is foreach.

    Args:
        params: The parameters; entries may be None.
        differentiable: Whether the step is recorded for autograd, which rules out both.
        use_fused: Whether the optimiser has a fused step.
    """
    if differentiable:
        return False, False
    known = [p for p in params if p is not None]
    plain = all(type(p) in (Tensor, Parameter) for p in known)
    fused = use_fused and plain and all(p.is_floating_point() for p in known)
    on_gpus = all(p.device.type in _get_foreach_kernels_supported_devices() for p in known)
    return fused, not fused and plain and on_gpus


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the device types on which optimisers of other packages use foreach by default."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Return the device types with fused steps."""
    return ["cuda", "cpu"]


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Return the device types where steps may be counted on the device."""
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _device_dtype_check_for_fused(p: Tensor, cuda_unsupported: bool = False) -> None:
    """Raise RuntimeError for a parameter that a fused step does not support."""
    kinds = _get_fused_kernels_supported_devices()
    if cuda_unsupported:
        kinds.remove("cuda")
    if not (p.device.type in kinds and p.is_floating_point()):
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported "
            f"devices: {kinds} but {p.dtype} and {p.device.type}"
        )


def _get_scalar_dtype(is_fused: bool | None = None) -> DType:
    """Return the dtype of a step count stored as a Tensor."""
    return float64 if not is_fused and get_default_dtype() is float64 else float32


def _get_value(x: Any) -> Any:
    """Return x as a number; x may be a Tensor of one element."""
    return x.item() if isinstance(x, Tensor) else x


def _dispatch_sqrt(x: Any) -> Any:
    """Return the square root of a number or a Tensor."""
    return x.sqrt() if isinstance(x, Tensor) else float(x) ** 0.5


def _stack_if_compiling(x: Any) -> Any:
    """Return x unchanged, because nothing is compiled."""
    return x


def _to_scalar(x: Any) -> Any:
    """Return x; a Tensor of one element becomes 0-d."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() else x


def _view_as_real(params: list[Tensor], *state_and_grads: list[Tensor]) -> None:
    """Replace each complex tensor in params by its real view. Do the same with the tensors at this
    position in the other lists.
    """
    for i, p in enumerate(params):
        if p.is_complex():
            for column in (params, *state_and_grads):
                column[i] = view_as_real(column[i])


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None) -> Callable[[F], F]:
    """Return a decorator that changes nothing, because nothing is compiled."""
    return lambda function: function


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[Any, Any]:
    """Group parallel lists of tensors by the device and dtype of the first list's tensors.

    Args:
        tensorlistlist: Lists of equal length; all but the first may contain None.
        with_indices: Whether to return the positions in the lists as well.

    Returns:
        A dict whose keys are (device, dtype). Each value is a pair: a list with one list of tensors
        for each input list, and the positions. Without with_indices, the positions are empty.
    """
    groups: dict[Any, Any] = {}
    if not tensorlistlist:
        return groups
    for place, column in enumerate(zip(*tensorlistlist, strict=True)):
        first = column[0]
        if first is None:
            raise RuntimeError("the first list must hold tensors, but it has None")
        key = (first.device, first.dtype)
        lists, places = groups.setdefault(key, ([[] for _ in column], []))
        for kept, one in zip(lists, column, strict=True):
            kept.append(one)
        if with_indices:
            places.append(place)
    return groups


NAMES = frozenset(
    name for name in globals() if name not in {"annotations", "TypeVar", "Tensor", "NAMES"}
)
