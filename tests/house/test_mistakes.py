"""Messages for the most common mistakes say what was given, what was expected, and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fastdist as fd

nn, F = fd.nn, fd.nn.functional
IMAGE = fd.ones(1, 4, 8, 8)


def leaf() -> Any:
    return fd.ones(2, requires_grad=True)


def load(state: dict[str, fd.Tensor]) -> None:
    nn.Linear(4, 2).load_state_dict(state)


def write_leaf() -> None:
    leaf()[0] = 3.0


def backward_twice() -> None:
    total = (leaf() * leaf()).sum()
    total.backward()
    total.backward()


def change_what_was_saved() -> None:
    found = leaf().exp()
    found.add_(1)
    found.sum().backward()


MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "matmul": (
        lambda: fd.ones(3, 4) @ fd.ones(5, 2),
        RuntimeError,
        r"mat1 and mat2 shapes cannot be multiplied \(3x4 and 5x2\): .* 4 != 5",
    ),
    "mm of three axes": (
        lambda: fd.mm(fd.ones(2, 3, 4), fd.ones(4, 2)),
        RuntimeError,
        r"self must be a matrix: its shape is \(2, 3, 4\); matmul takes more axes",
    ),
    "Linear": (
        lambda: nn.Linear(4, 2)(fd.ones(3, 5)),
        RuntimeError,
        r"cannot be multiplied \(3x5 and 4x2\): linear needs inputs of 4 features",
    ),
    "Linear of integers": (
        lambda: nn.Linear(4, 2)(fd.ones(3, 4).long()),
        RuntimeError,
        r"same dtype, but got int64 and float32: cast one, such as input.to\(fastdist.float32\)",
    ),
    "Linear of NumPy's doubles": (
        lambda: nn.Linear(4, 2)(fd.from_numpy(np.ones((3, 4)))),
        RuntimeError,
        "but got float64 and float32: cast one",
    ),
    "broadcast": (
        lambda: fd.ones(3) + fd.ones(4),
        RuntimeError,
        r"tensor a \(3\) must match .* b \(4\) at .* dimension 0: add was given shapes \(3,\) and",
    ),
    "in place on a leaf": (lambda: leaf().add_(1), RuntimeError, "Wrap the change in no_grad"),
    "writing to a leaf": (
        write_leaf,
        RuntimeError,
        "a view of a leaf .* Wrap the change",
    ),
    "backward twice": (backward_twice, RuntimeError, "Specify retain_graph=True if you need to go"),
    "backward of many": (
        (leaf() * 2).backward,
        RuntimeError,
        r"only for scalar outputs: this one has shape \(2,\); give backward a gradient",
    ),
    "backward of nothing": (
        lambda: fd.ones(2).sum().backward(),
        RuntimeError,
        "does not have a grad_fn: it was made under no_grad.*without requires_grad=True",
    ),
    "a saved tensor changed": (change_what_was_saved, RuntimeError, "Use the out-of-place form of"),
    "an unused input": (
        lambda: fd.autograd.grad(leaf().sum(), leaf()),
        RuntimeError,
        "Set allow_unused=True if this is the desired behavior",
    ),
    "index": (
        lambda: fd.ones(3)[5],
        IndexError,
        "index 5 is out of bounds for dimension 0 with",
    ),
    "too many indices": (
        lambda: fd.ones(3)[1, 2],
        IndexError,
        r"too many indices for tensor of dimension 1: its shape is \(3,\)",
    ),
    "index by floats": (lambda: fd.ones(3)[fd.ones(2)], IndexError, "got float32; cast with .long"),
    "mask": (
        lambda: fd.ones(2, 3)[fd.ones(3, 2).bool()],
        IndexError,
        r"The shape of the mask \[3, 2\] at index 0 does not match .* \[2, 3\] at index 0",
    ),
    "dim": (
        lambda: fd.ones(3, 2).sum(2),
        IndexError,
        r"expected to be in range of \[-2, 1\], but got 2\): sum of a tensor with 2 axes",
    ),
    "missing key": (
        lambda: load({"weight": fd.ones(2, 4)}),
        RuntimeError,
        r'Error\(s\) in loading state_dict for Linear:\s+Missing key\(s\) in state_dict: "bias"',
    ),
    "unexpected key": (
        lambda: load({"weight": fd.ones(2, 4), "bias": fd.ones(2), "module.bias": fd.ones(2)}),
        RuntimeError,
        r'Unexpected key\(s\) in state_dict: "module.bias"',
    ),
    "other shape": (
        lambda: load({"weight": fd.ones(3, 4), "bias": fd.ones(2)}),
        RuntimeError,
        "size mismatch for weight: copying a param with shape .*3, 4.* the shape in current model",
    ),
    "cat": (
        lambda: fd.cat([fd.ones(2, 3), fd.ones(2, 4)]),
        RuntimeError,
        "except in dimension 0. Expected size 3 but got size 4 for tensor number 1 in the list",
    ),
    "cat of a tensor": (
        lambda: fd.cat(fd.ones(2, 3)),
        TypeError,
        r"cat\(\): argument 'tensors' \(position 1\) must be a sequence of Tensors, not Tensor",
    ),
    "stack": (
        lambda: fd.stack([fd.ones(2, 3), fd.ones(2, 4)]),
        RuntimeError,
        r"to be equal size, but got \[2, 3\] at entry 0 and \[2, 4\] at entry 1",
    ),
    "view": (
        lambda: fd.ones(2, 3).t().view(6),
        RuntimeError,
        r"\(3, 2\) with strides \(1, 3\) as \(6,\). Use .reshape\(...\) instead",
    ),
    "reshape": (
        lambda: fd.ones(2, 3).reshape(4),
        RuntimeError,
        r"shape '\[4\]' is invalid for input of size 6",
    ),
    "numpy with a gradient": (
        lambda: leaf().numpy(),
        RuntimeError,
        r"Use tensor.detach\(\)",
    ),
    "item of many": (
        lambda: fd.ones(2).item(),
        RuntimeError,
        r"2 elements cannot be .* Scalar: its shape is \(2,\); index one element, or call tolist",
    ),
    "bool of many": (
        lambda: bool(fd.ones(2)),
        RuntimeError,
        r"is ambiguous: its shape is \(2,\); ask any\(\) or all\(\) of it",
    ),
    "an unknown device": (
        lambda: fd.ones(2, device="gpu"),
        RuntimeError,
        "Invalid device string: 'gpu'; known types: cpu, cuda",
    ),
    "target beyond the classes": (
        lambda: F.cross_entropy(fd.ones(3, 4), fd.tensor([0, 4, 1])),
        IndexError,
        r"^Target 4 is out of bounds\. There are 4 classes, 0 to 3$",
    ),
    "a floating target": (
        lambda: F.cross_entropy(fd.ones(3, 4), fd.tensor([0.0, 2.0, 1.0])),
        RuntimeError,
        r"a float32 target holds probabilities: cast indices of classes with .long\(\)",
    ),
    "an int32 target": (
        lambda: F.cross_entropy(fd.ones(3, 4), fd.tensor([0, 2, 1]).int()),
        RuntimeError,
        r"Long or Byte, but got Int: it holds numbers of classes; cast it with .long\(\)",
    ),
    "fewer targets": (
        lambda: F.cross_entropy(fd.ones(3, 4), fd.tensor([0, 2])),
        ValueError,
        r"Expected input batch_size \(3\) to match target batch_size \(2\)",
    ),
    "scores as probabilities": (
        lambda: F.binary_cross_entropy(fd.tensor([2.0]), fd.tensor([1.0])),
        RuntimeError,
        "input should be between 0 and 1: give it a sigmoid's result, or use binary_cross",
    ),
    "one_hot": (
        lambda: F.one_hot(fd.tensor([5]), 3),
        RuntimeError,
        "must be smaller than num_classes.: the largest is 5, num_classes is 3",
    ),
    "Embedding": (
        lambda: nn.Embedding(10, 3)(fd.tensor([10])),
        IndexError,
        "index 10 is out of",
    ),
    "BatchNorm of one value": (
        lambda: nn.BatchNorm1d(4)(fd.ones(1, 4)),
        ValueError,
        r"Expected more than 1 value .* give a larger batch, or call eval\(\)",
    ),
    "channels": (
        lambda: nn.Conv2d(3, 8, 3)(IMAGE),
        RuntimeError,
        r"expected input\[1, 4, 8, 8\] to have 3 channels, but got 4 channels instead",
    ),
    "heads": (
        lambda: nn.MultiheadAttention(10, 3),
        AssertionError,
        "by num_heads: 10 by 3",
    ),
    "a key of another batch": (
        lambda: nn.MultiheadAttention(4, 2)(fd.ones(3, 2, 4), fd.ones(3, 1, 4), fd.ones(3, 1, 4)),
        RuntimeError,
        "query has a batch of 2, key of 1",
    ),
    "a word as sizes": (
        lambda: nn.Unflatten(1, "ab"),
        TypeError,
        "must be tuple of ints, but found",
    ),
    "softmax of integers": (
        lambda: fd.softmax(fd.tensor([1, 2]), 0),
        NotImplementedError,
        "\"softmax_lastdim_kernel_impl\" not implemented for 'Long': give dtype=, such as",
    ),
    "mean of integers": (
        lambda: fd.tensor([1, 2]).mean(),
        RuntimeError,
        "Got: int64",
    ),
    "optimizer of nothing": (
        lambda: fd.optim.SGD([], lr=0.1),
        ValueError,
        r"got an empty parameter list: give it model.parameters\(\)",
    ),
    "optimizer of a result": (
        lambda: fd.optim.SGD([leaf() * 2], lr=0.1),
        ValueError,
        "can't optimize a non-leaf Tensor; give the leaves that it was made of",
    ),
    "an empty dataset to shuffle": (
        lambda: fd.utils.data.DataLoader([], shuffle=True),
        ValueError,
        "num_samples=0: there is nothing to shuffle in an empty dataset",
    ),
    "an empty batch": (
        lambda: fd.utils.data.DataLoader([1], batch_size=0),
        ValueError,
        "batch_size should be a positive integer value, but got batch_size=0",
    ),
    "samples of unequal size": (
        lambda: list(fd.utils.data.DataLoader([fd.ones(2), fd.ones(3)], batch_size=2)),
        RuntimeError,
        r"to be equal size, but got \[2\] at entry 0 and \[3\] at entry 1",
    ),
    "a list of layers": (
        lambda: nn.Sequential([nn.Linear(2, 2)]),
        TypeError,
        "list is not a Module subclass",
    ),
    "a class of layers": (
        lambda: nn.Sequential(nn.ReLU),
        TypeError,
        r"ReLU is not a Module subclass: write ReLU\(\)",
    ),
    "a name that is not there": (lambda: fd.relux, AttributeError, "nearest in fastdist: relu"),
}


@pytest.mark.parametrize(("call", "kind", "text"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"(?s){text}"):
        call()
