"""Hooks in a pass: they change a Node's gradients before it runs, and its results afterwards."""

from __future__ import annotations

from typing import Any

from ..graph.node import Node, node_of, output_number
from ..tensor.tensor import Tensor, layout_of, wrap


def _device(node: Node, i: int) -> Any:
    layout = node.output_layout[i] if node.output_layout.__class__ is tuple else node.output_layout
    return layout.device


def _tensors(node: Node, grads: tuple[Any, ...]) -> list[Any]:
    return [
        g if g is None or isinstance(g, Tensor) else wrap(g, layout_of(g, _device(node, i)))
        for i, g in enumerate(grads)
    ]


def run_pre_hooks(node: Node, g: Any) -> Any:
    """Apply tensor hooks, retain_grad and prehooks to g, a gradient or a tuple of gradients, and
    return the result.

    Note    raw arrays give raw arrays, and Tensors give Tensors. Order as in PyTorch: tensor hooks
            in order of registration, then retain_grad, then the Node's prehooks
    """
    assert node.hooks is not None
    g = run_tensor_hooks(node, g)
    return run_prehooks(node, g) if node.hooks.pre else g


def run_tensor_hooks(node: Node, g: Any) -> Any:
    """Apply the tensor hooks and retain_grad; they apply even if the Node will not run."""
    hooks = node.hooks
    assert hooks is not None
    if not hooks.tensor and not hooks.retains:
        return g
    tensors = _tensors(node, g if g.__class__ is tuple else (g,))
    for output_nr, by_id in tuple(hooks.tensor.items()):
        for hook in tuple(by_id.values()):
            if tensors[output_nr] is not None:
                _replace(tensors, output_nr, hook(tensors[output_nr]), node)
    for output_nr, keep in tuple(hooks.retains.items()):
        keep(tensors[output_nr])
    return _same_kind(tensors, g)


def run_prehooks(node: Node, g: Any) -> Any:
    """Apply the Node's prehooks."""
    hooks = node.hooks
    assert hooks is not None
    tensors = _tensors(node, g if g.__class__ is tuple else (g,))
    for hook in tuple(hooks.pre.values()):
        result = hook(tuple(tensors))
        if result is not None:
            result = result if isinstance(result, tuple | list) else (result,)
            for i, new in enumerate(result):
                if new is not None:
                    _replace(tensors, i, new, node)
    return _same_kind(tensors, g)


def _same_kind(tensors: list[Any], g: Any) -> Any:
    """Return `tensors` in the form of g: raw arrays or Tensors, several in a tuple or one alone."""
    many = g.__class__ is tuple
    if not any(isinstance(one, Tensor) for one in (g if many else (g,))):
        tensors = [None if t is None else t._array for t in tensors]
    return tuple(tensors) if many else tensors[0]


def _replace(tensors: list[Any], i: int, new: Any, node: Node) -> None:
    if new is None:
        return
    if not isinstance(new, Tensor):
        raise TypeError(
            f"a hook of {node.name()} returned {type(new).__name__}; expected a Tensor or None"
        )
    old = tensors[i]
    if old is not None and (
        new._layout.shape != old._layout.shape or new._layout.device is not old._layout.device
    ):
        raise RuntimeError(
            f"hook has changed the size of value: a hook of {node.name()} got a gradient of shape "
            f"{old._layout.shape} "
            f"on {old._layout.device} and returned {new._layout.shape} on {new._layout.device}"
        )
    if old is not None and new._layout.dtype is not old._layout.dtype:
        raise RuntimeError(
            f"hook has changed the type of value: a hook of {node.name()} got "
            f"{old._layout.dtype.name} and returned "
            f"{new._layout.dtype.name}"
        )
    tensors[i] = new


def run_post_hooks(node: Node, grads: tuple[Any, ...], g: Any) -> tuple[Any, ...]:
    """Call the Node's post hooks as hook(grad_inputs, grad_outputs); return the new `grads`."""
    hooks = node.hooks
    if hooks is None or not hooks.post:
        return grads
    outputs = g if g.__class__ is tuple else (g,)
    seen_outputs = tuple(_tensors(node, outputs))
    raw = not any(isinstance(one, Tensor) for one in grads)
    tensors: list[Any] = [
        x if x is None or isinstance(x, Tensor) else wrap(x, layout_of(x, _edge_device(node, i)))
        for i, x in enumerate(grads)
    ]
    for hook in tuple(hooks.post.values()):
        result = hook(tuple(tensors), seen_outputs)
        if result is not None:
            result = result if isinstance(result, tuple | list) else (result,)
            if len(result) != len(tensors):
                raise RuntimeError(
                    f"a hook of {node.name()} returned {len(result)} gradients; expected "
                    f"{len(tensors)}"
                )
            for i, new in enumerate(result):
                _replace(tensors, i, new, node)
    if raw:
        return tuple([None if t is None else t._array for t in tensors])
    return tuple(tensors)


def _edge_device(node: Node, i: int) -> Any:
    edge = node.edges[i]
    if edge is None:
        return _device(node, 0)
    return _device(node_of(edge), output_number(edge))
