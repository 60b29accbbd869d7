"""PyTorch's own databases of ops, modules and optimizers, translated to fastdist."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

import fastdist


class Translation:
    """Converts objects of PyTorch to fastdist's; a tensor that occurs twice is converted once."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.tensors: dict[int, Any] = {}
        self.kept: list[Any] = []

    def value(self, given: Any) -> Any:
        """Return fastdist's counterpart of a tensor, dtype, size, function, or a tree of them."""
        torch = self.torch
        if isinstance(given, torch.Tensor):
            if id(given) not in self.tensors:
                self.kept.append(given)
                self.tensors[id(given)] = tensor(torch, given)
            return self.tensors[id(given)]
        if isinstance(given, torch.Size):
            return fastdist.Size(given)
        if isinstance(given, (list, tuple)):
            content = [self.value(one) for one in given]
            if type(given) in (list, tuple):
                return type(given)(content)
            return type(given)(*content)
        if isinstance(given, dict):
            return {name: self.value(one) for name, one in given.items()}
        return word(torch, given)


def function(torch: Any, info: Any) -> Any:
    """Return fastdist's counterpart of the function of an OpInfo, or None."""
    ours = word(torch, info.op)
    return _found(info.name) if ours is None or ours is info.op else ours


def tensor(torch: Any, theirs: Any) -> Any:
    """Return a leaf of fastdist with the values and strides of PyTorch's tensor, including gaps."""
    plain = theirs.detach().resolve_conj().resolve_neg()
    length = plain.untyped_storage().nbytes() // plain.element_size()
    if not plain.numel() or (plain.is_contiguous() and plain.numel() == length):
        ours = fastdist.from_numpy(_array(torch, plain).copy())
    else:
        whole = _array(torch, plain.as_strided((length,), (1,), 0)).copy()
        place = (tuple(plain.shape), plain.stride(), plain.storage_offset())
        ours = fastdist.from_numpy(whole).as_strided(*place)
    if theirs.dtype is torch.bfloat16:
        ours = ours.to(fastdist.bfloat16)
    ours = ours.detach()
    return ours.requires_grad_() if theirs.requires_grad else ours


def word(torch: Any, given: Any) -> Any:
    """Return fastdist's counterpart of PyTorch's dtype, device or function, or the value itself."""
    if isinstance(given, (torch.dtype, torch.memory_format, torch.layout)):
        return getattr(fastdist, str(given).removeprefix("torch."))
    if isinstance(given, torch.device):
        return fastdist.device(str(given))
    if isinstance(given, functools.partial):
        keywords = {name: word(torch, one) for name, one in given.keywords.items()}
        return functools.partial(
            word(torch, given.func), *(word(torch, one) for one in given.args), **keywords
        )
    if given is torch:
        return fastdist
    if isinstance(given, torch.nn.Module):
        return word(torch, type(given))()
    if getattr(given, "__name__", "") == "wrapper_set_seed":
        return _called
    if isinstance(given, types.FunctionType) and given.__module__.startswith("torch.testing"):
        return _function(torch, given)
    if callable(given) or isinstance(given, types.ModuleType):
        return _named(torch, given)
    return given


def _called(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Call op; PyTorch's version calls it under a separate seed, with its own test machinery."""
    return op(*args, **kwargs)


def _named(torch: Any, given: Any) -> Any:
    """Return fastdist's object with the name of PyTorch's function, class or module."""
    name = getattr(given, "__qualname__", None) or getattr(given, "__name__", "")
    module = getattr(given, "__module__", None) or ""
    if module.startswith("torch.testing"):
        return given
    if isinstance(given, types.ModuleType):
        path = given.__name__
        return _found(path.removeprefix("torch.")) if path.startswith("torch.") else given
    if isinstance(given, torch._ops.OpOverloadPacket):
        return getattr(fastdist, given.__name__, None)
    if name.startswith(("_TensorBase.", "TensorBase.", "Tensor.")) or (
        type(given).__name__ == "method_descriptor"
    ):
        found = getattr(fastdist.Tensor, name.split(".")[-1], None)
        return given if found is None else found
    if name.startswith(("_VariableFunctionsClass.", "_VariableFunctions.")):
        return getattr(fastdist, name.split(".")[1], None)
    if module.startswith("torch._C._") or name.split(".")[0] in ("linalg_", "special_"):
        room = module.removeprefix("torch._C._")
        bare = given.__name__.removeprefix(f"{room}_")
        return _found({"nn": "nn.functional"}.get(room, room) + "." + bare)
    if module.startswith("torch"):
        room = "torch" if module == "torch.functional" else module
        return _found(f"{room}.{name}".removeprefix("torch."))
    for room in ("", "fft", "linalg", "special", "nn.functional"):
        owner = _attribute(torch, room)
        if getattr(owner, getattr(given, "__name__", "-"), None) is given:
            return getattr(_attribute(fastdist, room), given.__name__, None)
    return given


def _found(path: str) -> Any:
    return _attribute(fastdist, path)


def _attribute(owner: Any, path: str) -> Any:
    for name in filter(None, path.split(".")):
        owner = getattr(owner, name, None)
    return owner


def _function(torch: Any, given: Any) -> Any:
    """Return a copy of a function of PyTorch's tests that uses fastdist in place of torch."""
    if given in _FUNCTIONS:
        return _FUNCTIONS[given]
    names, codes = set(), [given.__code__]
    for code in codes:
        names |= set(code.co_names)
        codes.extend(one for one in code.co_consts if isinstance(one, types.CodeType))
    room = dict(given.__globals__)
    cells = tuple(types.CellType(word(torch, one.cell_contents)) for one in given.__closure__ or ())
    values = given.__defaults__
    defaults = None if values is None else tuple(word(torch, one) for one in values)
    made = types.FunctionType(given.__code__, room, given.__name__, defaults, cells)
    made.__kwdefaults__ = given.__kwdefaults__
    _FUNCTIONS[given] = made  # stored first: the functions in its globals may call it
    for name in names & set(room):
        room[name] = word(torch, room[name])
    return made


_FUNCTIONS: dict[Any, Any] = {}


def _array(torch: Any, plain: Any) -> Any:
    return (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy()


def array(one: Any) -> Any:
    """Return the values of a tensor of either library as a NumPy array."""
    one = one.detach()
    if str(one.dtype).endswith("bfloat16"):
        one = one.float()
    if getattr(one, "_is_zerotensor", bool)():
        one = one.clone()
    if hasattr(one, "resolve_conj"):
        one = one.resolve_conj().resolve_neg()
    return np.asarray(one.numpy())


def tensors(found: Any) -> list[Any]:
    """Return the tensors of a result of either library, in order."""
    if hasattr(found, "untyped_storage"):
        return [found]
    if isinstance(found, dict):
        return [one for value in found.values() for one in tensors(value)]
    if isinstance(found, (list, tuple)):
        return [one for value in found for one in tensors(value)]
    return []
