"""Arguments of a wrong type, and too few or too many arguments, are errors."""

from __future__ import annotations

import fastdist as torch
import fastdist.nn.functional as F
from fastdist import nn, optim

x = torch.randn(2, 3)
torch.randn("2")  # error: "2"
torch.randn(2.5)  # error: 2.5
torch.zeros(2, dtype="float32")  # error: "float32"
torch.zeros(2, dtyp=torch.float32)  # error: dtyp
torch.cat(3)  # error: 3
torch.add(x, "1")  # error: "1"
torch.add(x)  # error: add
torch.exp(1.0)  # error: 1.0
x.sum(dim="0")  # error: "0"
x.add_([1])  # error: [1]
x.exp_(3)  # error: 3
x.view("2")  # error: "2"
x.topk("2")  # error: "2"
x.backward(1.0)  # error: 1.0
x + "1"  # error: "1"
x["rows"]  # error: "rows"
x[0] = "1"  # error: x[0] = "1"
F.linear(x)  # error: linear
F.relu(x, True, 1)  # error: 1
F.softmax(x, dim="1")  # error: "1"
nn.Linear("3", 2)  # error: "3"
nn.Dropout(p="half")  # error: "half"
optim.SGD(lr=0.1)  # error: SGD
