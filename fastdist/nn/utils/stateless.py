"""functional_call, which calls a module with other tensors instead of its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ...core.folded_frames import folds
from ...core.missing import explain_missing, show_public
from ...tensor.tensor import Tensor
from ..module import HasForward, Module

__all__ = [
    "functional_call",
]

R = TypeVar("R")


@folds
def functional_call(
    module: HasForward[..., R],
    parameters_and_buffers: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> R:
    """Call module with other tensors, given by dotted name, instead of its parameters.

    Thread  only one thread at a time, because the module holds these tensors during the call
    Raises  RuntimeError if strict is set and a name is unknown or missing; ValueError if a name is
            in more than one mapping
    Note    a write to a buffer during the call changes the tensor that was given for the buffer

    Args:
        module: The module, which is not changed; tensors that are not replaced are its own.
        parameters_and_buffers: Tensors by dotted name, in one mapping or several.
        args: The arguments of the call: a tuple, or a single argument; none if None.
        kwargs: The keyword arguments of the call; none if None.
        tie_weights: Whether a tensor that the module has under several names is replaced under
            all of them.
        strict: Whether the names must be exactly those of the module's tensors.

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
    """Replace a module's parameters by other tensors, given by dotted name, inside a with block.

    Args:
        module: The module.
        parameters_and_buffers: The tensors by dotted name.
        tie_weights: Whether a tensor that the module has under several names is replaced under all.
        strict: Whether unknown and missing names raise RuntimeError.
        stack_weights: Ignored, because each tensor is restored under its own name.
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
        # Not set by setattr, which accepts only Parameters in place of Parameters.
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
