"""Calling a module with other tensors in the place of its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ...core.missing import explain_missing, show_public
from ...tensor.tensor import Tensor
from ..module import HasForward, Module

__all__ = [
    "functional_call",
]

R = TypeVar("R")


def functional_call(
    module: HasForward[..., R],
    parameters_and_buffers: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> R:
    """Return module(*args, **kwargs) with these tensors, by dotted name, for its parameters.

    Thread  as one that changes the module: it holds the tensors during the call
    Raises  RuntimeError if strict for a name that is not there, or one that is not given;
            ValueError for a name in two of several mappings
    Note    what the call writes into a buffer goes into the tensor given for it; tie_weights: a
            tensor that the module has under several names is replaced under all of them

    Args:
        module: The module.
        parameters_and_buffers: Tensors by dotted name, in one mapping or several.
        args: The arguments of the call: a tuple, or one argument.
        kwargs: The keyword arguments of the call.
        tie_weights: Whether a tensor with several names is replaced under all of them.
        strict: Whether all names must be given, and no others.

    Example:
        >>> from fastdist.func import functional_call
        >>> layer = nn.Linear(2, 1, bias=False)
        >>> functional_call(layer, {"weight": torch.ones(1, 2)}, (torch.ones(2),)).detach()
        tensor([2.])
    """
    given = _merged(parameters_and_buffers)
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    called: Any = module
    with _reparametrize_module(called, given, tie_weights, strict):
        return called(*arguments, **(kwargs or {}))  # type: ignore[no-any-return]


def _merged(given: Any) -> dict[str, Tensor]:
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, Sequence) or not all(isinstance(one, Mapping) for one in given):
        raise ValueError(
            "Expected all elements of parameters_and_buffers to be dictionaries, got "
            f"{type(given).__name__}"
        )
    merged: dict[str, Tensor] = {}
    for one in given:
        twice = sorted(merged.keys() & one.keys())
        if twice:
            raise ValueError(f"{twice} appeared in multiple dictionaries; behavior is ambiguous")
        merged.update(one)
    return merged


@contextmanager
def _reparametrize_module(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Let a module hold these tensors, by dotted name, for its parameters within the block.

    Args:
        module: The module.
        parameters_and_buffers: The tensors.
        tie_weights: Whether a tensor that the module has under several names is replaced under all.
        strict: Whether names that are not there, or not given, raise RuntimeError.
        stack_weights: Ignored: each tensor is put back at its own place.
    """
    given = dict(parameters_and_buffers)
    places = {
        (f"{path}." if path else "") + name: (held, name)
        for path, found in module.named_modules(remove_duplicate=False)
        for held in (found._parameters, found._buffers)
        for name, own in held.items()
        if own is not None
    }
    own = {name: held[key] for name, (held, key) in places.items()}
    unexpected = [name for name in given if name not in own]
    given = {name: one for name, one in given.items() if name in own}
    if tie_weights:
        by_tensor = {id(own[name]): one for name, one in given.items()}
        given = {name: by_tensor[id(one)] for name, one in own.items() if id(one) in by_tensor}
    missing = [name for name in own if name not in given]
    if strict and (unexpected or missing):
        lines = [f"Error(s) in reparametrizing for {type(module).__name__}:"]
        for kind, names in (("Unexpected", unexpected), ("Missing", missing)):
            if names:
                lines.append(f"{kind} key(s): {', '.join(map(repr, names))}.")
        raise RuntimeError("\n\t".join(lines))
    try:
        # Into the dicts themselves: what stands in is seldom a Parameter.
        for name, one in given.items():
            held, key = places[name]
            held[key] = one
        yield
    finally:
        for name in given:
            held, key = places[name]
            held[key] = own[name]


explain_missing(__name__)
show_public(__name__)
