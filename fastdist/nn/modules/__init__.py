"""PyTorch's files of modules by their names: `from torch.nn.modules.module import Module`.

There, a module's class stands in a file that few know and many import from. Here each of these
names leads to all of nn, its files' private names too (`modules.batchnorm._BatchNorm`): one module
per file of PyTorch's, which looks a name up where nn has it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ...core.missing import missing
from ..module import Module

__all__ = ["Module"]

_FILES = (
    "activation", "adaptive", "batchnorm", "channelshuffle", "container", "conv", "distance",
    "dropout", "flatten", "fold", "instancenorm", "lazy", "linear", "loss", "module",
    "normalization", "padding", "pixelshuffle", "pooling", "rnn", "sparse", "transformer",
    "upsampling", "utils",
)  # fmt: skip
_NN = __name__.rpartition(".")[0]


def _find(module: str, name: str) -> Any:
    if not name.startswith("__"):
        for home, found in list(sys.modules.items()):
            if home == _NN or (home.startswith(f"{_NN}.") and not home.startswith(__name__)):
                value = vars(found).get(name)
                # A class of ours, not one that a file imports for its own use.
                ours = isinstance(value, type) and value.__module__.startswith(_NN)
                if value is not None and (ours or name in dir(sys.modules[_NN])):
                    return value
    raise missing(module, name)


def __getattr__(name: str) -> Any:
    """Return the class that nn has under a name."""
    return _find(__name__, name)


def _make(file: str) -> ModuleType:
    made = ModuleType(f"{__name__}.{file}", f"PyTorch's nn/modules/{file}.py, by its name.")
    made.__getattr__ = lambda name: _find(made.__name__, name)  # type: ignore[method-assign]
    return made


for _file in _FILES:
    # `import fastdist.nn.modules.loss` finds it here, after this package.
    globals()[_file] = sys.modules[f"{__name__}.{_file}"] = _make(_file)


def _ntuple(n: int) -> Any:
    def parse(value: Any) -> tuple[Any, ...]:
        listed = hasattr(value, "__iter__") and not isinstance(value, str)
        return tuple(value) if listed else (value,) * n

    parse.__name__ = parse.__qualname__ = f"_{n}tuple"
    return parse


vars(sys.modules[f"{__name__}.utils"]).update(
    _ntuple=_ntuple,
    _single=_ntuple(1),
    _pair=_ntuple(2),
    _triple=_ntuple(3),
    _quadruple=_ntuple(4),
)
