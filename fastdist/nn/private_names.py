"""Small functions that PyTorch keeps private in its files of modules, and that packages import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from ..core.caller_warning import warn_caller
from ..tensor.tensor import Tensor


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return the function that makes a tuple of an iterable, or n times the same of a number."""

    def parse(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, Iterable) else (value,) * n

    parse.__name__ = parse.__qualname__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Any, ...], n: int) -> tuple[Any, ...]:
    """Return the elements from the last to the first, each n times: pad() takes them so."""
    return tuple(value for value in reversed(t) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """Return sizes, with those of the last axes in the place of None."""
    if isinstance(out_size, int | Tensor):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    last = defaults[-len(out_size) :]
    return [own if given is None else given for given, own in zip(out_size, last, strict=True)]


def consume_prefix_in_state_dict_if_present(
    state_dict: MutableMapping[str, Any], prefix: str
) -> None:
    """Take a prefix from the keys of a state dict, and of its metadata, in place and in order.

    Args:
        state_dict: The state dict, such as one of a model in DataParallel.
        prefix: The text to remove, such as "module.".
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in [key for key in metadata if key]:
        # The entry of the model itself replaces that of its wrapper, whose key is empty.
        if key.startswith(prefix) or key == prefix.replace(".", ""):
            metadata[key[len(prefix) :]] = metadata.pop(key)


def _addindent(s_: str, numSpaces: int) -> str:
    """Return a text whose lines after the first are indented."""
    return s_.replace("\n", "\n" + " " * numSpaces)


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Return the tensor with its entries along an axis in another order."""
    return tensor.index_select(dim, permutation)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Return tensor.index_select(dim, permutation): an older name of it."""
    warn_caller(
        "apply_permutation is deprecated, please use tensor.index_select(dim, permutation) instead",
        FutureWarning,
    )
    return _apply_permutation(tensor, permutation, dim)
