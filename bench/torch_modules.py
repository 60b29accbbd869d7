"""Writes tests/nn/torch_modules.json: repr and state of PyTorch's modules. It needs torch.

python bench/torch_modules.py
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

_JSON = Path(__file__).parents[1] / "tests/nn/torch_modules.json"
CALLS = """
    BatchNorm1d(3) BatchNorm2d(3,momentum=None) BatchNorm3d(3,affine=False)
    BatchNorm1d(3,bias=False) BatchNorm1d(3,track_running_stats=False) InstanceNorm1d(3)
    InstanceNorm2d(3,affine=True) InstanceNorm3d(3,track_running_stats=True) SyncBatchNorm(3)
    GroupNorm(2,4) GroupNorm(2,4,affine=False) LayerNorm(3) LayerNorm((2,3),bias=False)
    LayerNorm(3,elementwise_affine=False) RMSNorm(3)
    RMSNorm((2,3),eps=0.1,elementwise_affine=False) LocalResponseNorm(2) CrossMapLRN2d(2)
    Dropout() Dropout1d(0.2) Dropout2d(0.2,True) Dropout3d() AlphaDropout(0.1)
    FeatureAlphaDropout() CELU() ELU(0.5,True) GELU() GELU('tanh') GLU() GLU(1) Hardshrink()
    Hardsigmoid() Hardsigmoid(True) Hardswish() Hardtanh() Hardtanh(-2,3,True) LeakyReLU(0.1)
    LogSigmoid() LogSoftmax(1) Mish() Mish(True) PReLU() PReLU(3) ReLU() ReLU(True) ReLU6()
    ReLU6(True) RReLU() RReLU(0.1,0.2,True) SELU() SELU(True) Sigmoid() SiLU() SiLU(True)
    Softmax(1) Softmax2d() Softmin() Softplus() Softplus(2,3) Softshrink(0.2) Softsign() Tanh()
    Tanhshrink() Threshold(0.1,20) Threshold(0.1,20,True) AdaptiveLogSoftmaxWithLoss(64,12,[3,7,9])
    AdaptiveLogSoftmaxWithLoss(8,12,[3],head_bias=True) BCELoss() BCEWithLogitsLoss() CTCLoss()
    CosineEmbeddingLoss() CosineSimilarity() CrossEntropyLoss() GaussianNLLLoss()
    HingeEmbeddingLoss() HuberLoss() KLDivLoss() L1Loss() MSELoss() MarginRankingLoss()
    MultiLabelMarginLoss() MultiLabelSoftMarginLoss() MultiMarginLoss() NLLLoss()
    PairwiseDistance() PoissonNLLLoss() SmoothL1Loss() SoftMarginLoss() TripletMarginLoss()
    TripletMarginWithDistanceLoss() Identity() Linear(2,3) Linear(2,3,False) Flatten()
    Unflatten(1,(2,3)) LazyBatchNorm1d() LazyBatchNorm2d(affine=False) LazyBatchNorm3d()
    LazyInstanceNorm1d() LazyInstanceNorm2d() LazyInstanceNorm3d() LazyLinear(3) ParameterList()
    ParameterDict() Sequential() ModuleList() ModuleDict()
"""


def shown(nn: Any, call: str) -> dict[str, Any]:
    """Return the parts of one module that must be equal: repr, state dict entries, parameters."""
    module = eval(call, {name: getattr(nn, name) for name in dir(nn)})
    kind = type(module)
    lazy = "Uninitialized"
    entries = {
        name: None
        if type(one).__name__.startswith(lazy)
        else [list(one.shape), str(one.dtype).rpartition(".")[2]]
        for name, one in module.state_dict(keep_vars=True).items()
    }
    given = inspect.signature(kind.__init__).parameters.values()
    numbers = (bool, int, float, str, type(None))
    defaults = {
        one.name: one.default
        for one in given
        if one.default is not inspect.Parameter.empty and isinstance(one.default, numbers)
    }
    return {"repr": repr(module), "entries": entries, "defaults": defaults}


if __name__ == "__main__":
    import torch

    found = {call: shown(torch.nn, call) for call in CALLS.split()}
    text = json.dumps(found, indent=1, sort_keys=True)
    _JSON.write_text(text + "\n")
    sys.stdout.write(f"{len(found)} modules of PyTorch {torch.__version__}\n")
