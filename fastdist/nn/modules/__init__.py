"""PyTorch's submodules of nn.modules, for `from torch.nn.modules.module import Module`.

Many programs import classes from the file in which PyTorch defines them. For each such file there
is a module object here, which looks up names in fastdist.nn. The module object also finds private
names in the files of fastdist.nn, such as `modules.batchnorm._BatchNorm`.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

from ...core.missing import find_late, show_public
from ...core.moved_modules import own_name
from ...tensor.layout import Size
from ...tensor.tensor import Tensor
from ..module import Module

__all__ = ["Module"]

_FILES = (
    "activation", "adaptive", "batchnorm", "channelshuffle", "container", "conv", "distance",
    "dropout", "flatten", "fold", "instancenorm", "lazy", "linear", "loss", "module",
    "normalization", "padding", "pixelshuffle", "pooling", "rnn", "sparse", "transformer",
    "upsampling", "utils",
)  # fmt: skip
_NN = __name__.rpartition(".")[0]
for _file in vars(sys.modules[_NN])["_LATER"]:
    importlib.import_module(f"{_NN}.{_file}")  # _find finds private names in loaded modules only
# Private names that packages import, and that fastdist.nn and PyTorch have in different files. Maps
# PyTorch's file and name to the module below fastdist.nn. If the name in that module is a different
# one, it follows after a dot.
_ELSEWHERE = {
    "activation": {"constant_": "init", "xavier_normal_": "init", "xavier_uniform_": "init"},
    "batchnorm": {"_NormBase": "batch_norm._Norm", "_LazyNormBase": "lazy._LazyNorm"},
    "conv": {"_LazyConvXdMixin": "lazy._LazyConv"},
    "container": {"_addindent": "private_names"},
    "dropout": {"_DropoutNd": "dropout._Dropout"},
    "instancenorm": {"_NormBase": "batch_norm._Norm", "_LazyNormBase": "lazy._LazyNorm"},
    "lazy": {"is_lazy": "parameter"},
    "module": {
        "_EXTRA_STATE_KEY_SUFFIX": "state_dict._EXTRA",
        "_IncompatibleKeys": "state_dict.IncompatibleKeys",
        "_addindent": "private_names",
        "_forward_unimplemented": "module._no_forward",
        **dict.fromkeys(
            [
                "_global_buffer_registration_hooks",
                "_global_forward_hooks",
                "_global_forward_pre_hooks",
                "_global_module_registration_hooks",
                "_global_parameter_registration_hooks",
                "_has_any_global_hook",
                "register_module_backward_hook",
                "register_module_buffer_registration_hook",
                "register_module_forward_hook",
                "register_module_forward_pre_hook",
                "register_module_full_backward_hook",
                "register_module_full_backward_pre_hook",
                "register_module_module_registration_hook",
                "register_module_parameter_registration_hook",
            ],
            "global_hooks",
        ),
    },
    "padding": {},
    "pooling": {
        "_AdaptiveAvgPoolNd": "adaptive_pooling._AdaptiveAvgPool",
        "_AdaptiveMaxPoolNd": "adaptive_pooling._AdaptiveMaxPool",
        "_AvgPoolNd": "pooling._AvgPool",
        "_LPPoolNd": "pooling._LPPool",
        "_MaxPoolNd": "pooling._MaxPool",
        "_MaxUnpoolNd": "pooling._MaxUnpool",
    },
    "rnn": {"_apply_permutation": "private_names", "apply_permutation": "private_names"},
    "transformer": {
        "_generate_square_subsequent_mask": "transformer.generate_square_subsequent_mask",
        "_get_activation_fn": "transformer._activation_of",
        "_get_clones": "transformer._copies",
        "xavier_uniform_": "init",
    },
    "utils": dict.fromkeys(
        [
            "_list_with_default",
            "_ntuple",
            "_pair",
            "_quadruple",
            "_reverse_repeat_tuple",
            "_single",
            "_triple",
            "consume_prefix_in_state_dict_if_present",
        ],
        "private_names",
    ),
}
for _file in ("conv", "padding", "pooling"):
    _ELSEWHERE[_file].update(
        dict.fromkeys(
            ("_ntuple", "_single", "_pair", "_triple", "_quadruple", "_reverse_repeat_tuple"),
            "private_names",
        )
    )


def _find(module: str, name: str) -> Any:
    elsewhere = _ELSEWHERE.get(module.rpartition(".")[2], {}).get(name)
    if elsewhere is not None:
        home, _, own = elsewhere.partition(".")
        return getattr(importlib.import_module(f"{_NN}.{home}"), own or name)
    if name in ("Tensor", "Size"):
        return {"Tensor": Tensor, "Size": Size}[name]
    if not name.startswith("__"):
        for home, found in list(sys.modules.items()):
            if home == _NN or (home.startswith(f"{_NN}.") and not home.startswith(__name__)):
                value = vars(found).get(name)
                # A class counts only if fastdist.nn defines it, not if a file only imports it.
                ours = isinstance(value, type) and own_name(value)[0].startswith(_NN)
                if value is not None and (ours or name in dir(sys.modules[_NN])):
                    return value
    return find_late(module, name)


def __getattr__(name: str) -> Any:
    """Look up a name in fastdist.nn."""
    return _find(__name__, name)


def _make(file: str) -> ModuleType:
    made = ModuleType(f"{__name__}.{file}", f"PyTorch's nn/modules/{file}.py, by its name.")
    made.__getattr__ = lambda name: _find(made.__name__, name)  # type: ignore[method-assign]
    return made


for _file in _FILES:
    # Registered in sys.modules, so that, for example, `import fastdist.nn.modules.loss` works.
    globals()[_file] = sys.modules[f"{__name__}.{_file}"] = _make(_file)

show_public(__name__)
