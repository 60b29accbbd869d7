"""Backward hooks of a Module, which observe or replace the gradients of its inputs and outputs.

The inputs and the outputs of the module each pass through a `_Seam`, an autograd Function that
returns them unchanged and intercepts their gradients. In the backward pass the outputs' seam runs
first, with grad_output; the inputs' seam runs last, with grad_input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.function import Function
from ..graph.modes import tls
from ..tensor.tensor import Tensor

Grads = tuple[Any, ...]


class _Seam(Function):
    """Returns its tensors unchanged. In the backward pass, the function `see` gets their gradients
    and returns the gradients to pass on.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(see: Callable[[Grads], Grads], *tensors: Tensor) -> Grads:
        return tensors

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Grads) -> None:
        ctx.see = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Grads:
        return (None, *ctx.see(grads))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> Grads:
        return tangents


class BackwardWatch:
    """One call of a module that has backward hooks.

    The object calls each hook in `pre` with (module, grad_output), and each hook in `full` with
    (module, grad_input, grad_output).

    Thread  created in the thread that calls the module; used in the thread that runs the backward
            pass
    """

    def __init__(
        self, module: Any, pre: Sequence[Callable[..., Any]], full: Sequence[Callable[..., Any]]
    ) -> None:
        self._module, self._pre, self._full = module, pre, full
        self._grad_output: Grads | None = None
        self._inputs = 0
        self._seen = False

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of forward, passed through a seam."""
        self._inputs = len(args)
        found, self._seen = _pass_seam(args, self._take_grad_input if self._full else None)
        return found

    def outputs(self, result: Any) -> Any:
        """Return the result of forward, passed through a second seam."""
        if isinstance(result, Tensor):
            return _pass_seam((result,), self._take_grad_output)[0][0]
        if isinstance(result, tuple):
            behind = _pass_seam(result, self._take_grad_output)[0]
            # For a named tuple, _make keeps the class.
            return result._make(behind) if hasattr(result, "_make") else behind
        return result  # as in PyTorch, tensors in other objects are ignored

    def _take_grad_output(self, grads: Grads) -> Grads:
        for hook in self._pre:
            grads = _chosen(hook(self._module, grads), grads, "Backward pre hook")
        self._grad_output = grads
        if self._full and not self._seen:
            for hook in self._full:
                given = hook(self._module, (None,) * self._inputs, grads)
                if given is not None and any(one is not None for one in given):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always "
                        "return None or None for all gradients."
                    )
        return grads

    def _take_grad_input(self, grads: Grads) -> Grads:
        if self._grad_output is None:
            return grads  # the result of forward got no gradient
        for hook in self._full:
            given = hook(self._module, grads, self._grad_output)
            grads = _chosen(given, grads, "Backward hook")
        self._grad_output = None  # released now, because the graph may keep this object for long
        return grads


def _pass_seam(
    values: tuple[Any, ...], see: Callable[[Grads], Grads] | None
) -> tuple[tuple[Any, ...], bool]:
    """Pass values that require grad through a seam; return all values, and whether a seam is used.

    Note    `see` gets one gradient per value, and None for a value that does not require grad
    """
    places = [i for i, one in enumerate(values) if isinstance(one, Tensor) and one.requires_grad]
    if see is None or not places or not tls.grad:
        return values, False

    def see_all(grads: Grads) -> Grads:
        whole: list[Any] = [None] * len(values)
        for i, grad in zip(places, grads, strict=True):
            whole[i] = grad
        found = see(tuple(whole))
        return tuple([found[i] for i in places])

    behind = list(values)
    for i, one in zip(places, _Seam.apply(see_all, *[values[i] for i in places]), strict=True):
        behind[i] = one
    return tuple(behind), True


def _chosen(given: Any, grads: Grads, what: str) -> Grads:
    """Return the gradients that the hook returned, or grads if it returned None."""
    if given is None:
        return grads
    chosen: Grads = given if isinstance(given, tuple) else (given,)
    if len(chosen) != len(grads):
        raise RuntimeError(
            f"{what} returned an invalid number of grads, got {len(chosen)}, but expected "
            f"{len(grads)}"
        )
    return chosen
