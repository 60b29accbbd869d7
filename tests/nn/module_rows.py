"""A row for each class of `nn.__all__`, with its constructor and call.

`python -m tests.nn.module_rows torch`, if torch is installed, writes PyTorch's results to
module_results.json. For each row, the file has the outputs, the gradients of inputs and parameters,
and the state dict. Weights and inputs come from formulas. This file imports nothing of fastdist.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("module_results.json")

_OF_ROWS = """
    CELU() ELU(0.5) GELU() GELU('tanh') GLU() Hardshrink() Hardsigmoid() Hardswish()
    Hardtanh(-0.3,0.4) Identity() LeakyReLU(0.1) LogSigmoid() LogSoftmax(1) Mish() PReLU(4) ReLU()
    ReLU6() RReLU(0.2,0.2) RReLU().eval() SELU() Sigmoid() SiLU() Softmax(1) Softmin(1) Softplus(2)
    Softshrink(0.2) Softsign() Tanh() Tanhshrink() Threshold(0.1,20) Dropout(1.0) Dropout(0.0)
    Dropout().eval() AlphaDropout(0.0) AlphaDropout().eval() FeatureAlphaDropout(0.0)
    FeatureAlphaDropout().eval() Flatten() Unflatten(1,(2,2)) Linear(4,3) Linear(4,3,False)
    LazyLinear(3) LayerNorm(4) LayerNorm(4,bias=False) RMSNorm(4) GroupNorm(2,4) BatchNorm1d(4)
    BatchNorm1d(4).eval() LazyBatchNorm1d() SyncBatchNorm(4).eval() DataParallel(nn.Linear(4,3))
    Sequential(nn.Linear(4,3),nn.Tanh())
"""
_OF_LINES = """
    Dropout1d(1.0) Dropout1d(0.0) AdaptiveAvgPool1d(4) AdaptiveMaxPool1d(4) AvgPool1d(3,2)
    LPPool1d(2,2) MaxPool1d(3,2) CircularPad1d(2) ConstantPad1d(2,0.5) ReflectionPad1d((1,2))
    ReplicationPad1d(2) ZeroPad1d((0,3)) Conv1d(4,3,3) Conv1d(4,4,3,2,1,2,2,False)
    ConvTranspose1d(4,3,3,2,1,1) LazyConv1d(3,2) LazyConvTranspose1d(3,2)
    InstanceNorm1d(4,affine=True) LazyInstanceNorm1d() LocalResponseNorm(2)
    Upsample(scale_factor=2) Upsample(9,mode='linear')
"""
_OF_IMAGES = """
    Dropout2d(1.0) Dropout2d(0.0) AdaptiveAvgPool2d((4,None)) AdaptiveMaxPool2d(4) AvgPool2d((2,3))
    LPPool2d(2,2) MaxPool2d(3,2,1) CircularPad2d(2) ConstantPad2d(2,0.5) ReflectionPad2d(2)
    ReplicationPad2d((1,2,3,0)) ZeroPad2d(1) Conv2d(4,3,3)
    Conv2d(4,4,3,(2,1),1,groups=2,padding_mode='circular') ConvTranspose2d(4,3,3,2,1,1)
    LazyConv2d(3,2) LazyConvTranspose2d(3,2) BatchNorm2d(4) LazyBatchNorm2d()
    InstanceNorm2d(4,affine=True) LazyInstanceNorm2d() CrossMapLRN2d(2) ChannelShuffle(2)
    PixelShuffle(2) PixelUnshuffle(2) Softmax2d() Unfold(3,stride=2) UpsamplingBilinear2d(5)
    UpsamplingNearest2d(scale_factor=2) Upsample(scale_factor=1.5,mode='bicubic')
"""
_OF_BLOCKS = """
    Dropout3d(1.0) Dropout3d(0.0) AdaptiveAvgPool3d(2) AdaptiveMaxPool3d(2) AvgPool3d(2)
    LPPool3d(2,2) MaxPool3d(2) CircularPad3d(1) ConstantPad3d(1,0.5) ReflectionPad3d(1)
    ReplicationPad3d(1) ZeroPad3d(1) Conv3d(2,3,3) ConvTranspose3d(2,1,2) LazyConv3d(3,2)
    LazyConvTranspose3d(3,2) BatchNorm3d(2) LazyBatchNorm3d() InstanceNorm3d(2,affine=True)
    LazyInstanceNorm3d()
"""


def _alike(calls: str, call: str) -> dict[str, str]:
    return {f"nn.{made}": call for made in calls.split()}


_PAIR, _CLASSES = "m(x(3, 4), x(3, 4))", "m(x(3, 4), i(4, 3))"
# module -> its call. x(...) returns inputs with gradients, p(...) numbers between 0 and 1, s(...)
# signs, and i(n, ...) integers from 0 to n - 1.
ROWS = {
    **_alike(_OF_ROWS, "m(x(2, 4))"),
    **_alike(_OF_LINES, "m(x(2, 4, 6))"),
    **_alike(_OF_IMAGES, "m(x(1, 4, 4, 6))"),
    **_alike(_OF_BLOCKS, "m(x(1, 2, 3, 3, 4))"),
    "nn.BCELoss()": "m(x(3, 4).sigmoid(), p(3, 4))",
    "nn.BCEWithLogitsLoss()": "m(x(3, 4), p(3, 4))",
    "nn.CTCLoss()": "m(x(6, 2, 4).log_softmax(2), i(3, 2, 2) + 1, i(1, 2) + 6, i(1, 2) + 2)",
    "nn.CosineEmbeddingLoss(0.1)": "m(x(3, 4), x(3, 4), s(3))",
    "nn.CosineSimilarity(1)": _PAIR,
    "nn.CrossEntropyLoss(label_smoothing=0.1)": _CLASSES,
    "nn.GaussianNLLLoss()": "m(x(3, 4), x(3, 4), p(3, 4))",
    "nn.HingeEmbeddingLoss()": "m(x(3, 4), s(3, 4))",
    "nn.HuberLoss(delta=0.5)": _PAIR,
    "nn.KLDivLoss(reduction='batchmean')": "m(x(3, 4).log_softmax(1), p(3, 4))",
    "nn.L1Loss()": _PAIR,
    "nn.LinearCrossEntropyLoss(4, 5)": "m(x(3, 4), i(5, 3))",
    "nn.MSELoss(reduction='sum')": _PAIR,
    "nn.MarginRankingLoss(0.2)": "m(x(4), x(4), s(4))",
    "nn.MultiLabelMarginLoss()": "m(x(3, 4), i(4, 3, 4))",
    "nn.MultiLabelSoftMarginLoss()": "m(x(3, 4), i(2, 3, 4).double())",
    "nn.MultiMarginLoss(2)": _CLASSES,
    "nn.NLLLoss()": _CLASSES,
    "nn.PairwiseDistance(3)": _PAIR,
    "nn.PoissonNLLLoss()": "m(x(3, 4), p(3, 4))",
    "nn.SmoothL1Loss(beta=0.5)": _PAIR,
    "nn.SoftMarginLoss()": "m(x(3, 4), s(3, 4))",
    "nn.TripletMarginLoss(0.5, swap=True)": "m(x(3, 4), x(3, 4), x(3, 4))",
    "nn.TripletMarginWithDistanceLoss(margin=0.5)": "m(x(3, 4), x(3, 4), x(3, 4))",
    "nn.AdaptiveLogSoftmaxWithLoss(16, 8, [3, 5])": "m(x(3, 16), i(8, 3))",
    "nn.Fold((4, 5), (2, 2))": "m(x(1, 8, 12))",
    "nn.FractionalMaxPool2d(2, 3, _random_samples=p(1, 2, 2))": "m(x(1, 2, 5, 6))",
    "nn.FractionalMaxPool3d(2, 2, _random_samples=p(1, 2, 3))": "m(x(1, 2, 4, 4, 4))",
    "nn.MaxUnpool1d(2)": "m(x(1, 2, 2), i(4, 1, 1, 2).expand(1, 2, 2))",
    "nn.MaxUnpool2d(2)": "m(x(1, 2, 1, 2), i(8, 1, 1, 2).expand(1, 2, 1, 2))",
    "nn.MaxUnpool3d(2)": "m(x(1, 2, 1, 1, 2), i(16, 1, 1, 1, 2).expand(1, 2, 1, 1, 2))",
}
# Larger tolerances, because of PyTorch's rounding: it computes 1/6 in float32, and a gradient of
# PyTorch differs by 2e-5 from finite differences (fastdist's differs by 2e-10).
TOLERANCES = {"nn.Hardsigmoid()": 1e-7, "nn.CrossMapLRN2d(2)": 1e-4}
# Classes without a row here, and the file that tests each: rows of sequence_models.py, and classes
# that users do not call.
HELD_BY = {
    **dict.fromkeys(("GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"), "sequence_models.py"),
    **dict.fromkeys(("MultiheadAttention", "Embedding", "EmbeddingBag"), "sequence_models.py"),
    **dict.fromkeys(("Bilinear", "Transformer", "TransformerEncoder"), "sequence_models.py"),
    **dict.fromkeys(("TransformerDecoder", "TransformerEncoderLayer"), "sequence_models.py"),
    "TransformerDecoderLayer": "sequence_models.py",
    "Buffer": "test_parameter_classes.py",
    "Module": "test_module.py",
    "ModuleDict": "test_container.py",
    "ModuleList": "test_container.py",
    "NLLLoss2d": "test_weighted_losses.py",
    "Parameter": "test_module.py",
    "ParameterDict": "test_parameter_container.py",
    "ParameterList": "test_parameter_container.py",
    "RNNBase": "test_rnn.py",
    "RNNCellBase": "test_rnn.py",
    "UninitializedBuffer": "test_lazy.py",
    "UninitializedParameter": "test_lazy.py",
}


class Maker:
    """Makes the inputs of a row by formulas, and records those that get gradients."""

    def __init__(self, library: Any) -> None:
        self.leaves: list[Any] = []
        self._library = library

    def x(self, *shape: int) -> Any:
        """Return distinct numbers between -1 and 1, as a leaf that gets a gradient."""
        leaf = self._numbers(shape, 0.3 + len(self.leaves)).requires_grad_()
        self.leaves.append(leaf)
        return leaf

    def p(self, *shape: int) -> Any:
        """Return numbers between 0 and 1."""
        return self._numbers(shape, 0.8).abs()

    def s(self, *shape: int) -> Any:
        """Return a tensor of signs, -1 and 1."""
        return self._numbers(shape, 1.1).sign()

    def i(self, below: int, *shape: int) -> Any:
        """Return integers from 0 to below - 1; neighbours differ."""
        values = [(3 * k + 1) % below for k in range(math.prod(shape))]
        return self._library.tensor(values).reshape(shape)

    def fill(self, parameters: Any) -> None:
        """Write numbers from a formula into each parameter."""
        for k, parameter in enumerate(parameters):
            parameter.data.copy_(self._numbers(tuple(parameter.shape), k + 1.0))

    def _numbers(self, shape: tuple[int, ...], first: float) -> Any:
        values = [math.sin(first + 0.7 * k) for k in range(math.prod(shape))]
        return self._library.tensor(values, dtype=self._library.float64).reshape(shape)


def measure(library: Any, model: str, call: str) -> dict[str, Any]:
    """Call a library's module twice, and return the results and the state of the second call. The
    first call creates the parameters of a lazy module.
    """
    maker = Maker(library)
    letters = {name: getattr(maker, name) for name in ("x", "p", "s", "i")}
    made = eval(model, {"nn": library.nn, **letters}).double()
    eval(call, {"m": made, **letters})
    maker.fill(made.parameters())
    maker.leaves.clear()
    result = eval(call, {"m": made, **letters})
    outputs = list(result) if isinstance(result, tuple) else [result]
    sum((one * one.cos()).sum() for one in outputs).backward()
    return {
        "shapes": [list(one.shape) for one in outputs],
        "outputs": [_facts(one) for one in outputs],
        "gradients": [_facts(one.grad) for one in (*maker.leaves, *made.parameters())],
        "state": {name: _facts(one) for name, one in made.state_dict().items()},
    }


def _facts(tensor: Any) -> list[float]:
    """Return a tensor's numbers; if there are more than 8, return two weighted sums of them."""
    values = tensor.detach().double().reshape(-1).tolist()
    if len(values) > 8:
        values = [
            sum(math.cos(step * k) * value for k, value in enumerate(values)) for step in (0.9, 2.3)
        ]
    return [float(f"{value:.10g}") for value in values]


if __name__ == "__main__":
    package = importlib.import_module(sys.argv[1])
    found = {model: measure(package, model, call) for model, call in ROWS.items()}
    lines = [f"{json.dumps(model)}: {json.dumps(facts)}" for model, facts in found.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
