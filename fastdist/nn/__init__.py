"""Modules: models made of parameters and functions.

`Module` is read in this order: module_tree.py (parameters, buffers and children by name, and walks
over them), state_dict.py (saving and loading), module_hooks.py (what is called around forward),
module.py (calling, moving, showing). Each other file holds one family of modules, thin around its
functions in `functional`; init.py draws first values from fastdist's generators, so that
manual_seed makes a model the same everywhere. Modules hold no locks and no arrays of their own:
they pickle, and so travel by RPC.
"""

from __future__ import annotations

from ..core.missing import explain_missing
from ..tensor.parameter import Parameter
from . import functional, init, parameter, utils
from .activation import GELU, LeakyReLU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh
from .container import ModuleDict, ModuleList, Sequential
from .dropout import Dropout
from .embedding import Embedding
from .flatten import Flatten, Unflatten
from .linear import Identity, Linear
from .loss import BCEWithLogitsLoss, CrossEntropyLoss, L1Loss, MSELoss, NLLLoss
from .module import Module
from .normalization import LayerNorm

__all__ = [
    "GELU",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Flatten",
    "Identity",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSoftmax",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "NLLLoss",
    "Parameter",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "Unflatten",
    "functional",
    "init",
    "parameter",
    "utils",
]

explain_missing(__name__, functional.__name__, init.__name__, utils.__name__)
