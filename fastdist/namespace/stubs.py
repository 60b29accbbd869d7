"""Writes type stubs for the names that are created at import.

`python -m fastdist.namespace.stubs` writes the files; a test fails if one is out of date. Stubs for
Tensor's methods are in `tensor/methods.pyi`. Stubs for `fastdist`, `special` and `nn.functional`
are next to each module, and stubs for PyTorch's module files are below `nn/modules`. Signatures in
a module's source are read from the source, so the module need not be imported.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..core.dtypes import DType
from ..tensor.methods import TensorMethods
from . import load
from .attach import OPERATORS, UNARY_OPERATORS
from .settings import SETTINGS
from .stub_types import builtin, declarations, documented, known

_PACKAGE = Path(__file__).resolve().parents[1]
_HEADER = """# {what}. Written by fastdist/namespace/stubs.py.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

"""
_TYPES = """from {up}core.device import Device
from {up}core.dtypes import DType
from {up}random_numbers.generator import Generator
from {up}core.memory_format import MemoryFormat, MemoryLayout
from {up}ops import return_types
"""
_WORDS = "from {up}tensor.methods import DeviceLike, DTypeLike, Indices, NDArray, Number\n"
_WORDS += "from {up}tensor.methods import Operand, Scalar, Sizes\n"
_TENSOR = "from {up}tensor.layout import Size\nfrom {up}tensor.tensor import Tensor\n"
# methods.pyi defines the types that all stubs use.
_MEANINGS = """from ..graph.gradient_edge import Inputs
from .layout import Size
from .tensor import Tensor
from .typed_storage import TypedStorage, UntypedStorage

from types import EllipsisType
from typing import SupportsIndex

import numpy as np

DeviceLike = Device | str | builtins.int | None
DTypeLike = DType | type[builtins.int] | type[builtins.float]
NDArray = np.ndarray[Any, Any]
Number = builtins.int | builtins.float | builtins.complex
Scalar = Tensor | Number | np.generic
Operand = Scalar | NDArray
Sizes = SupportsIndex | Sequence[SupportsIndex]
_Index = SupportsIndex | slice | EllipsisType | Tensor | NDArray | None
Indices = _Index | list[Any] | tuple[Any, ...]

class TensorMethods:
"""
# The stub of a module file imports all names of nn.
_MODULES = """# PyTorch's {what} of modules. Written by fastdist/namespace/stubs.py.
from .. import *
"""
# Maps a PyTorch file to imports of private classes that programs use.
_BASES = {
    "batchnorm": "from ..batch_norm import _BatchNorm as _BatchNorm\n",
    "conv": """from ..convolution import _ConvNd as _ConvNd
from ..convolution import _ConvTransposeNd as _ConvTransposeNd
""",
    "instancenorm": "from ..batch_norm import _InstanceNorm as _InstanceNorm\n",
    "loss": """from ..loss import _Loss as _Loss
from ..loss import _WeightedLoss as _WeightedLoss
""",
    "utils": "from collections.abc import Callable\nfrom typing import Any\n\n"
    "def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]: ...\n"
    + "".join(
        f"def _{word}(value: Any) -> tuple[Any, ...]: ...\n"
        for word in ("single", "pair", "triple", "quadruple")
    ),
}
_SPECIAL = ("__slots__", "__module__", "__doc__", "__dict__", "__weakref__", "__hash__")
_BOOLEAN = frozenset({"requires_grad", "is_leaf", "retains_grad"})


def render() -> dict[Path, str]:
    """Return a dict from each stub's path to its text."""
    return {
        _PACKAGE / "tensor/methods.pyi": _tensor_methods(),
        _PACKAGE / "__init__.pyi": _root(),
        _PACKAGE / "fft.pyi": _functions_stub("The functions of fastdist.fft", ".", load.FFT),
        _PACKAGE / "linalg.pyi": _linalg(),
        _PACKAGE / "special.pyi": _special(),
        _PACKAGE / "nn/functional.pyi": _functional(),
        **{_PACKAGE / f"nn/modules/{name}.pyi": text for name, text in _modules()},
    }


def _modules() -> Iterator[tuple[str, str]]:
    (listed,) = (
        node.value
        for node in ast.parse((_PACKAGE / "nn/modules/__init__.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_FILES"
    )
    files = ast.literal_eval(listed)
    # nn and fastdist both have a package of this name: nn's hides fastdist's.
    twice = {"utils": "  # type: ignore[no-redef]"}
    rooms = "".join(f"from . import {file} as {file}{twice.get(file, '')}\n" for file in files)
    yield "__init__", _MODULES.format(what="files") + rooms
    for file in files:
        yield file, _MODULES.format(what=f"file {file}.py") + _BASES.get(file, "")


def _tensor_methods() -> str:
    header = _HEADER.format(what="Methods of Tensor that other rooms attach")
    return header + _TYPES.format(up="..") + _MEANINGS + "".join(_indented(_members()))


def _indented(lines: Iterator[str]) -> Iterator[str]:
    for text in lines:
        yield "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())


def _members() -> Iterator[str]:
    binary = {name for names in OPERATORS.values() for name in names} | {
        "__matmul__",
        "__rmatmul__",
    }
    for name in sorted(vars(TensorMethods)):
        value = vars(TensorMethods)[name]
        if name in _SPECIAL:
            continue
        if isinstance(value, property):
            yield from _property(name, value)
        elif name in ("__eq__", "__ne__"):
            # `object` declares these methods with the result bool.
            yield f"def {name}(self, other: Any) -> Tensor: ...  # type: ignore[override]\n"
        elif name in binary:
            yield f"def {name}(self, other: Operand) -> Tensor: ...\n"
        elif name in UNARY_OPERATORS.values():
            yield f"def {name}(self) -> Tensor: ...\n"
        elif callable(value):
            yield from declarations(name, *_signed(name, value), first="self", doc=value.__doc__)


def _signed(name: str, function: Any) -> tuple[Any, str | None]:
    """Return the function that has the signature of a stub, and a result type. For an in-place twin
    this is the op, which takes the same arguments except `out`.
    """
    twin = getattr(TensorMethods, name[:-1], None) if name.endswith("_") else None
    told_by = getattr(function, "__wrapped__", function).__name__
    if twin is None or name.startswith("__") or told_by.endswith("_"):
        return function, None
    return twin, "Tensor"


def _property(name: str, value: property) -> Iterator[str]:
    assert value.fget is not None
    annotation = "bool" if name in _BOOLEAN else value.fget.__annotations__.get("return")
    kind = builtin(known(annotation))
    yield documented(f"@property\ndef {name}(self) -> {kind}: ...\n", value.__doc__)
    if value.fset is not None:
        yield f"@{name}.setter\ndef {name}(self, value: {kind}) -> None: ...\n"


def _root() -> str:
    root = sys.modules[load.__name__.partition(".")[0]]
    text = (_PACKAGE / "__init__.py").read_text()
    imported = dict(_imports(text))
    lines = [f"from . import {name} as {name}\n" for name in sorted(root._ROOMS)]
    lines += [line for name, line in sorted(imported.items()) if name not in load.NAMES]
    lines += [f"from .namespace.settings import {name} as {name}\n" for name in sorted(SETTINGS)]
    lines += [
        f"from .{home} import {name} as {name}\n" for name, home in sorted(root._HOMES.items())
    ]
    told = {*load.NAMES, *imported, *SETTINGS, *root._HOMES}
    lines += [_constant(name, getattr(root, name)) for name in root.__all__ if name not in told]
    types = _TYPES.format(up=".").splitlines(keepends=True)
    header = _HEADER.format(what="The names of fastdist") + _WORDS.format(up=".")
    header += "".join(line for line in types if line.split()[-1] not in imported)
    return header + "".join([*lines, "\n", *_functions(load.NAMES)])


def _imports(text: str) -> Iterator[tuple[str, str]]:
    """Yield the public names that a module imports from its package, with the import statements."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            for alias in node.names:
                name = alias.asname or alias.name
                if not name.startswith("_") or name == "__version__":
                    home = f"from {'.' * node.level}{node.module} import {alias.name}"
                    # Without `as`, type checkers would treat the import as private.
                    other = alias.name != name
                    yield (
                        name,
                        f"{home}\n{name} = {alias.name}\n" if other else f"{home} as {name}\n",
                    )


def _constant(name: str, value: Any) -> str:
    if isinstance(value, type):
        base = "TypedStorage" if name.endswith("Storage") else "Tensor"
        return f"class {name}({base}): ...\n"
    # isinstance, because the types of some dtypes, such as chalf, are subclasses of DType.
    kind = "DType" if isinstance(value, DType) else known(type(value).__name__)
    kind = "None" if value is None else kind
    return f"{name}: {builtin(kind)}\n"


def _linalg() -> str:
    stub = _functions_stub("The functions of fastdist.linalg", ".", load.LINALG)
    stub += "from .core.errors import LinAlgError as LinAlgError\n"
    for node in ast.parse((_PACKAGE / "linalg.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("refusing("):
            stub += f"def {ast.unparse(node.targets[0])}(*args: Any, **kwargs: Any) -> Any: ...\n"
    return stub


def _special() -> str:
    (also,) = (
        node.value
        for node in ast.parse((_PACKAGE / "special.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_ALSO"
    )
    names = {name: load.NAMES[ours] for name, ours in ast.literal_eval(also).items()}
    names |= load.SPECIAL | {"modified_bessel_i1": load.SPECIAL["i1"]}
    return _functions_stub("The functions of fastdist.special", ".", names)


def _functional() -> str:
    written = dict(_definitions((_PACKAGE / "nn/functional.py").read_text()))
    made = {name: f for name, f in load.FUNCTIONAL_NAMES.items() if name not in written}
    stub = _functions_stub("The functions of fastdist.nn.functional", "..", made)
    return stub + "".join(text for _, text in sorted(written.items()))


def _definitions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the public functions and constants in a module's source, as stub text."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            node.args.defaults = [ast.Constant(...)] * len(node.args.defaults)
            result = "" if node.returns is None else ast.unparse(node.returns)
            yield node.name, f"def {node.name}({ast.unparse(node.args)}) -> {result}: ...\n"
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target).isupper():
            name = ast.unparse(node.target)
            yield name, f"{name}: {ast.unparse(node.annotation)}\n"


def _functions_stub(what: str, up: str, names: dict[str, Any]) -> str:
    imports = _TYPES.format(up=up) + _WORDS.format(up=up) + _TENSOR.format(up=up)
    return _HEADER.format(what=what) + imports + "\n" + "".join(_functions(names))


def _functions(names: dict[str, Any]) -> Iterator[str]:
    for name in sorted(names):
        function, result = _signed(name, names[name])
        yield from declarations(name, function, result, doc=names[name].__doc__)


if __name__ == "__main__":
    for path, text in render().items():
        path.write_text(text)
