"""Private functions of PyTorch's nn.modules that other packages import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from ..core.caller_warning import warn_caller
from ..tensor.tensor import Tensor


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that converts an iterable to a tuple, or a number to n copies of it."""

    def parse(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, Iterable) else (value,) * n

    parse.__name__ = parse.__qualname__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Return the elements of t in reverse order, each n times, as a padding for functional.pad."""
    return tuple(value for value in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """Return out_size with each None replaced by the default of its axis."""
    if isinstance(out_size, int | Tensor):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [own if given is None else given for given, own in zip(out_size, last, strict=True)]


def consume_prefix_in_state_dict_if_present(
    state_dict: MutableMapping[str, Any], prefix: str
) -> None:
    """Remove a prefix from the keys of a state dict and of its metadata, in place.

    Args:
        state_dict: The state dict, such as that of a model wrapped in DataParallel.
        prefix: The text to remove, such as "module.".
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in [key for key in metadata if key]:
        # The wrapped model's metadata gets the key "", and so replaces the wrapper's metadata.
        if key.startswith(prefix) or key == prefix.replace(".", ""):
            metadata[key[len(prefix) :]] = metadata.pop(key)


def _addindent(s_: str, numSpaces: int) -> str:
    """Return a text with all lines except the first indented by numSpaces spaces."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Return the tensor with its slices along dim in the order that permutation gives."""
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Return tensor.index_select(dim, permutation); a deprecated function of PyTorch."""
    warn_caller(
        "apply_permutation is deprecated, please use tensor.index_select(dim, permutation) instead",
        FutureWarning,
    )
    return _apply_permutation(tensor, permutation, dim)


_FACTORY_NAMES = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """Return the device, dtype and memory_format among a constructor's keyword arguments.

    Each of the three may instead be an entry of a dict that is the argument `factory_kwargs`.

    Raises  TypeError for an argument that is given in both places, and for any further argument
    """
    if kwargs is None:
        return {}
    given = dict(kwargs)
    found = dict(given.pop("factory_kwargs", {}))
    for name in _FACTORY_NAMES:
        if name in given:
            if name in found:
                raise TypeError(
                    f"{name} specified twice, in **kwargs and in factory_kwargs: give it once"
                )
            found[name] = given.pop(name)
    if given:
        raise TypeError(f"unexpected kwargs {given.keys()}")
    return found


def _mha_shape_check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Return whether the inputs of attention have a batch axis.

    Raises  AssertionError for inputs and masks whose numbers of axes do not fit together
    """
    ndim = query.dim()
    if ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {ndim}-D query tensor"
        )
    if key.dim() != ndim or value.dim() != ndim:
        raise AssertionError(
            f"key and value must have {ndim} dimensions like query, got {key.dim()} and "
            f"{value.dim()}"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != ndim - 1:
        raise AssertionError(
            f"key_padding_mask must have {ndim - 1} dimensions, got {key_padding_mask.dim()}"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(f"attn_mask must have 2 or 3 dimensions, got {attn_mask.dim()}")
    if ndim == 2 and attn_mask is not None and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"attn_mask must have shape {expected}, got {tuple(attn_mask.shape)}"
            )
    return ndim == 3


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    """Return a mask as numbers to add to attention scores: True becomes -inf, False becomes 0.

    Raises  AssertionError for a mask of integers
    """
    if mask is None:
        return None
    is_bool = mask.dtype.name == "bool"
    if not is_bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype is not other_type:
        warn_caller(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type "
            "for both instead."
        )
    if not is_bool:
        return mask
    return mask.new_zeros(mask.shape, dtype=target_type).masked_fill(mask, float("-inf"))
