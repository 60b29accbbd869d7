"""Signatures of public functions, which `help()` and completion show, are readable.

No default is a sentinel, and parameters have names where PyTorch documents names.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import fastdist as fd
from fastdist.namespace.names import words
from tests.namespace.public_modules import public_modules

_REST, _BY_NAME = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
# Defaults that a reader cannot interpret.
SENTINEL = re.compile(r"<absent>|<object object|<bound method|<module | at 0x|environ\(")
# In PyTorch, these names have *args and **kwargs too, which are passed to a function of any kind.
PASSED_ON = words(
    """
    Tensor Module LogSigmoid NLLLoss2d Identity Sigmoid Softmax2d
    Softsign Tanh Tanhshrink ScriptModule RecursiveScriptModule GraphModule Stateful tqdm
    rendezvous skip_init fork script trace trace_module help list load checkpoint range Proxy
    DistributedLRScheduler DistributedOptimizer StackDataset handle_torch_function
    """
)


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for module in [fd, *public_modules().values()]:
        for name in dir(module):
            value = getattr(module, name)
            if callable(value) and str(getattr(value, "__module__", "")).startswith("fastdist"):
                yield f"{module.__name__}.{name}", value
    for name in dir(fd.Tensor):
        if not name.startswith("_") and callable(getattr(fd.Tensor, name)):
            yield f"fastdist.Tensor.{name}", getattr(fd.Tensor, name)


def signatures() -> Iterator[tuple[str, inspect.Signature]]:
    for name, function in functions():
        try:
            yield name, inspect.signature(function)
        except ValueError:  # Python's own functions and classes without a signature
            assert isinstance(function, type), name


def test_no_default_is_a_sentinel() -> None:
    all_of_them = dict(signatures())
    assert len(all_of_them) > 2_000, "the list of public functions is cut"
    for method in (fd.fx.Graph.node_copy, fd.fx.Node.replace_all_uses_with):
        all_of_them[method.__qualname__] = inspect.signature(method)
    found = [name for name, signature in all_of_them.items() if SENTINEL.search(str(signature))]
    assert found == []


def test_parameters_have_names_where_pytorch_documents_names() -> None:
    found = []
    for name, signature in signatures():
        kinds = {p.kind: p.name for p in signature.parameters.values()}
        is_open = kinds.get(_REST) not in (None, "size") and _BY_NAME in kinds
        is_known = name.endswith("Storage") or name.rpartition(".")[2] in PASSED_ON
        if is_open and not is_known and str(signature.return_annotation) != "NoReturn":
            found.append(name)
    assert found == []


def test_the_signature_of_an_op_has_the_names_that_pytorch_documents() -> None:
    assert [*inspect.signature(fd.sum).parameters] == ["input", "dim", "keepdim", "dtype", "out"]
    assert [*inspect.signature(fd.view_copy).parameters] == ["input", "size", "out"]
    assert fd.sum(fd.ones(2, 3), axis=0, keepdims=True).shape == (1, 3)  # other keywords still work


def test_the_signature_of_a_class_of_tensors_is_that_of_its_constructor() -> None:
    class Scaled(fd.nn.Parameter):
        def __new__(cls, data: fd.Tensor, scale: float = 1.0) -> Scaled:
            return super().__new__(cls, data * scale)  # type: ignore[return-value]

    assert str(inspect.signature(Scaled)).startswith("(data: 'fd.Tensor', scale: 'float' = 1.0)")
    assert [*inspect.signature(fd.nn.Parameter).parameters] == ["data", "requires_grad"]
