"""Activations as in nn.functional: the op's function with an additional argument `inplace`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..core.torch_function import NOT_TAKEN, offer
from ..dispatch.inplace import copy_result
from ..dispatch.op import Op, define
from ..graph.modes import modes
from ..tensor.methods import TensorMethods
from ..tensor.tensor import Tensor

_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD


def activations(op: Op, call: Callable[..., Any]) -> dict[str, Any]:
    """Return a dict from name to function for one op; the functions use `call`. The dict includes
    the in-place twin that PyTorch has for some activations.
    """
    numbers = [op.parameters[name] for name in op.attributes]
    names = {f"_default_{one.name}": one.default for one in numbers}
    names |= {
        "_NOT_TAKEN": NOT_TAKEN,
        "_offer": offer,
        "_modes": modes,
    }
    names |= {"_call": call, "_inplace": _inplace(op, call)}
    head = "".join(
        f", {one.name}" + (f"=_default_{one.name}" if one.default is not one.empty else "")
        for one in numbers
    )
    made = _written(op, op.name, f"{head}, inplace=False", "inplace", names)
    found: dict[str, Any] = {op.name: made}
    if "activation_" in op.homes:
        found[f"{op.name}_"] = _written(op, f"{op.name}_", head, "True", names)
    flag = inspect.Parameter("inplace", _EITHER, default=False, annotation="bool")
    for function in found.values():
        function.__doc__ = _with_flag(inspect.getdoc(call) or "", function is made)
        taken = [op.parameters[op.tensors[0]], *numbers, *([flag] if function is made else [])]
        function.__signature__ = inspect.Signature(taken, return_annotation="Tensor")
        function.__annotations__ = {one.name: one.annotation for one in taken}
        function.__annotations__["return"] = "Tensor"
    return found


def _with_flag(doc: str, has_flag: bool) -> str:
    """Return an op's docstring, with a line on `inplace` after the op's arguments."""
    head, mark, tail = doc.partition("Args:\n")
    if not (has_flag and mark):
        return doc
    listed, gap, rest = tail.partition("\n\n")
    return f"{head}{mark}{listed}\n    inplace: Whether to overwrite the input.{gap}{rest}"


def _written(op: Op, name: str, head: str, inplace: str, names: dict[str, Any]) -> Any:
    numbers = "".join(f", {one}" for one in op.attributes)
    told = [*op.attributes, *(["inplace"] if inplace == "inplace" else [])]
    given = ", ".join(f"{one!r}: {one}" for one in told)
    made = define(
        op,
        f"def public(input{head}):\n"
        "    if input.__class__ not in _modes.plain:\n"
        f"        _found = _offer(_self, (input,), {{{given}}})\n"
        "        if _found is not _NOT_TAKEN: return _found\n"
        f"    if {inplace}: return _inplace(input{numbers})\n"
        f"    return _call(input{numbers})\n",
        names := dict(names),
    )
    names["_self"] = made
    made.__name__ = made.__qualname__ = name
    return made


def _inplace(op: Op, call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that overwrites its input with the op's result."""
    if "inplace" in op.homes:
        return getattr(TensorMethods, f"{op.name}_")  # type: ignore[no-any-return]

    def overwritten(input: Any, *numbers: Any) -> Any:
        if not isinstance(input, Tensor):
            fault = f"must be Tensor, not {type(input).__name__}"
            raise TypeError(f"{op.name}_(): argument 'input' (position 1) {fault}")
        # Compute from a copy, because the gradient needs the unchanged input.
        return copy_result(input, call(input.clone(), *numbers))

    return overwritten
