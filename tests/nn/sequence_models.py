"""Recurrent, attention and embedding modules. Run this file to write PyTorch's results.

`python tests/nn/sequence_models.py torch`, if torch is installed, writes sequence_models.json. The
file has each module's repr, the shapes in its `state_dict()`, its outputs, and sums of its
gradients. Weights and inputs come from formulas. This file imports nothing of fastdist.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")

# module -> its call; x(...) returns floating numbers by a formula, i(...) integers from 0 to 3.
_SEQUENCE, _TOKENS = "m(x(3, 2, 4))", "m(i(2, 3))"
_ATTEND = "m(x(3, 2, 4), x(5, 2, 4), x(5, 2, 4))"
_BATCH_FIRST = "m(x(2, 3, 4), x(2, 5, 4), x(2, 5, 4))"
_CODE = "m(x(3, 2, 4), src_mask=mask(3))"
_DECODE = "m(x(3, 2, 4), x(5, 2, 4), tgt_mask=mask(3))"
MODELS = {
    "nn.RNN(4, 3)": _SEQUENCE,
    "nn.RNN(4, 3, 2, 'relu', False, bidirectional=True)": _SEQUENCE,
    "nn.GRU(4, 3)": _SEQUENCE,
    "nn.GRU(4, 3, 2, batch_first=True, bidirectional=True)": _SEQUENCE,
    "nn.LSTM(4, 3)": _SEQUENCE,
    "nn.LSTM(4, 3, 2, bias=False, dropout=0.0, bidirectional=True)": _SEQUENCE,
    "nn.LSTM(4, 3, num_layers=2, batch_first=True, proj_size=2)": _SEQUENCE,
    "nn.RNNCell(4, 3, nonlinearity='relu')": "m(x(2, 4))",
    "nn.RNNCell(4, 3, bias=False)": "m(x(2, 4), x(2, 3))",
    "nn.GRUCell(4, 3)": "m(x(2, 4), x(2, 3))",
    "nn.LSTMCell(4, 3)": "m(x(2, 4), (x(2, 3), x(2, 3)))",
    "nn.MultiheadAttention(4, 2)": _ATTEND,
    "nn.MultiheadAttention(4, 2, bias=False, batch_first=True)": _BATCH_FIRST,
    "nn.MultiheadAttention(4, 2, 0.0, True, True, True)": _ATTEND,
    "nn.MultiheadAttention(4, 2, kdim=3, vdim=5)": "m(x(3, 2, 4), x(5, 2, 3), x(5, 2, 5))",
    "nn.TransformerEncoderLayer(4, 2, 5, 0.0)": _CODE,
    "nn.TransformerEncoderLayer(4, 2, 5, 0.0, 'gelu', norm_first=True, bias=False)": _CODE,
    "nn.TransformerDecoderLayer(4, 2, 5, 0.0)": _DECODE,
    "nn.TransformerDecoderLayer(4, 2, 5, 0.0, 'gelu', norm_first=True)": _DECODE,
    "nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 5, 0.0), 2)": "m(x(3, 2, 4), mask(3))",
    "nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 5, 0.0), 2, nn.LayerNorm(4))": _DECODE,
    "nn.Transformer(4, 2, 1, 2, 5, 0.0)": "m(x(5, 2, 4), x(3, 2, 4), tgt_mask=mask(3))",
    "nn.Embedding(4, 3)": _TOKENS,
    "nn.Embedding(4, 3, padding_idx=-1, max_norm=1.0, scale_grad_by_freq=True)": _TOKENS,
    "nn.EmbeddingBag(4, 3)": _TOKENS,
    "nn.EmbeddingBag(4, 3, max_norm=1.0, norm_type=1.0, mode='sum', padding_idx=1)": _TOKENS,
    "nn.EmbeddingBag(4, 3, mode='max', include_last_offset=True)": _TOKENS,
    "nn.Bilinear(4, 3, 2)": "m(x(2, 4), x(2, 3))",
    "nn.Bilinear(4, 3, 2, bias=False)": "m(x(2, 4), x(2, 3))",
}


def measure(library: Any, model: str, call: str) -> dict[str, Any]:
    """Return a library's results for a module and for one call of it."""
    made = eval(model, {"nn": library.nn}).double()
    for k, parameter in enumerate(made.parameters()):
        parameter.data.copy_(_numbers(library, tuple(parameter.shape), k + 1))
    names = {
        "m": made,
        "x": lambda *shape: _numbers(library, shape, 0.3),
        "i": lambda *shape: _integers(library, shape),
        "mask": lambda n: library.nn.Transformer.generate_square_subsequent_mask(n).double(),
    }
    outputs = _flat(eval(call, names))
    total = sum((one * one.cos()).sum() for one in outputs)
    total.backward()
    return {
        "repr": repr(made),
        "shapes": {name: list(value.shape) for name, value in made.state_dict().items()},
        "outputs": [[float(f"{v:.12g}") for v in one.reshape(-1).tolist()] for one in outputs],
        "gradients": [_sum_of(parameter.grad) for parameter in made.parameters()],
    }


def _numbers(library: Any, shape: tuple[int, ...], step: float) -> Any:
    values = [math.sin(step + 0.7 * k) for k in range(math.prod(shape))]
    return library.tensor(values, dtype=library.float64).reshape(shape)


def _integers(library: Any, shape: tuple[int, ...]) -> Any:
    return library.tensor([k * k % 4 for k in range(math.prod(shape))]).reshape(shape)


def _sum_of(gradient: Any) -> float:
    """Return a weighted sum of a gradient's elements."""
    flat = gradient.reshape(-1).tolist()
    whole = sum((k + 1) * value for k, value in enumerate(flat)) / len(flat)
    return float(f"{whole:.12g}")


def _flat(results: Any) -> list[Any]:
    if isinstance(results, tuple):
        return [one for part in results for one in _flat(part)]
    return [results]


if __name__ == "__main__":
    library = importlib.import_module(sys.argv[1])
    found = {model: measure(library, model, call) for model, call in MODELS.items()}
    lines = [f"{json.dumps(model)}: {json.dumps(facts)}" for model, facts in found.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
