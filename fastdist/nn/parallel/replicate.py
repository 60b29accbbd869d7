"""Copies of a module on several devices, whose gradients reach the module's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.folded_frames import fold_public
from ...core.missing import show_public
from ..module import Module
from .comm import as_devices, broadcast


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Return copies of a module, one on each device.

    The copies' parameters are results of `to`, so gradients accumulate in network's parameters. If
    detach is set, the copies have independent Parameters.

    Note    each call makes new copies, so changes to a copy (to attributes, or to buffers on other
            devices than network's) are lost. A module that has two names in network also has two
            names in each copy
    Source  PyTorch, torch/nn/parallel/replicate.py

    Args:
        network: The module.
        devices: The devices, one for each replica.
        detach: Whether the replicas' parameters have no connection to network in the graph.
    """
    places = as_devices(devices)
    modules = list(network.modules())
    copies = [_copies(module, len(places)) for module in modules]
    of_module = dict(zip(map(id, modules), copies, strict=True))
    of_tensor: dict[int, tuple[Any, ...]] = {}

    def spread(tensor: Any, *, learns: bool) -> tuple[Any, ...]:
        if id(tensor) not in of_tensor:
            given = tensor if learns else tensor.detach()
            of_tensor[id(tensor)] = broadcast(given, places)
        return of_tensor[id(tensor)]

    for module, ours in zip(modules, copies, strict=True):
        for name, child in module._modules.items():
            for i, copy in enumerate(ours):
                copy._modules[name] = None if child is None else of_module[id(child)][i]
        for name, parameter in module._parameters.items():
            for i, copy in enumerate(ours):
                if parameter is None:
                    copy._parameters[name] = None
                    continue
                made = spread(parameter, learns=not detach)[i]
                if detach:
                    copy._parameters[name] = _parameter_like(made, parameter)
                else:
                    # `made` is not a leaf, so it cannot be registered as a Parameter. It is a plain
                    # attribute, as in PyTorch's replicas.
                    object.__setattr__(copy, name, made)
                    copy.__dict__["_former_parameters"][name] = made
        for name, buffer in module._buffers.items():
            for i, copy in enumerate(ours):
                learns = buffer is not None and buffer.requires_grad and not detach
                copy._buffers[name] = None if buffer is None else spread(buffer, learns=learns)[i]
    return [ours[i] for i in range(len(places)) for ours in copies[:1]]


def _copies(module: Any, count: int) -> list[Any]:
    made = []
    for _ in range(count):
        copy = module.__new__(type(module))
        copy.__dict__.update(module.__dict__)
        for kind in ("_parameters", "_buffers", "_modules", "_former_parameters"):
            copy.__dict__[kind] = {}
        copy.__dict__["_is_replica"] = True
        made.append(copy)
    return made


def _parameter_like(tensor: Any, parameter: Any) -> Any:
    return type(parameter)(tensor.detach(), parameter.requires_grad)


fold_public(__name__)
show_public(__name__)
