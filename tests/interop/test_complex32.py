"""complex32 is stored, moved and cast as in PyTorch; few ops compute in it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

import fastdist

pytestmark = [
    pytest.mark.interop("torch"),
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental"),
]

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "printed": lambda lib, x: str(x),
    "sum of two": lambda lib, x: x + x,
    "difference": lambda lib, x: x - x * 2,
    "product": lambda lib, x: x * x,
    "negative": lambda lib, x: -x,
    "absolute": lambda lib, x: x.abs(),
    "conjugate": lambda lib, x: x.conj().resolve_conj(),
    "equal": lambda lib, x: x == x.clone(),
    "chosen": lambda lib, x: lib.where(lib.tensor([True, False, True]), x, -x),
    "to complex64": lambda lib, x: x.to(lib.complex64),
    "to float32": lambda lib, x: x.real.to(lib.float32),
    "from int64": lambda lib, x: lib.arange(3).to(lib.complex32),
    "from float64": lambda lib, x: (lib.ones(2, dtype=lib.float64) / 3).to(lib.complex32),
    "real": lambda lib, x: x.real,
    "imaginary": lambda lib, x: x.imag,
    "as pairs": lambda lib, x: lib.view_as_real(x),
    "of pairs": lambda lib, x: lib.view_as_complex(lib.ones(2, 2, dtype=lib.float16)),
    "as integers": lambda lib, x: x.view(lib.int16),
    "joined": lambda lib, x: lib.cat([x, x[1:]]),
    "chosen by index": lambda lib, x: x.index_select(0, lib.tensor([2, 0])),
    "filled": lambda lib, x: x.clone().fill_(3),
    "zeros": lambda lib, x: lib.zeros(2, dtype=lib.complex32),
    "transposed": lambda lib, x: x.reshape(3, 1).t().contiguous(),
    "numbers": lambda lib, x: [x.tolist(), x[0].item(), x.element_size(), x.is_complex()],
    "promoted": lambda lib, x: [
        str(lib.promote_types(lib.complex32, getattr(lib, name))).split(".")[1]
        for name in "bool int64 float16 bfloat16 float32 float64 complex64".split()  # noqa: SIM905
    ],
}


def plain(value: Any) -> Any:
    if hasattr(value, "dtype"):
        return str(value.dtype).split(".")[1], value.tolist()
    return value.replace("torch.", "fastdist.") if isinstance(value, str) else value


def made(lib: Any) -> Any:
    return lib.tensor([1 + 2j, 3 - 4.5j, 0.1 + 700j], dtype=lib.complex32)


@pytest.mark.parametrize("name", CALLS)
def test_results_are_pytorchs(name: str) -> None:
    import torch

    found, expected = (plain(CALLS[name](lib, made(lib))) for lib in (fastdist, torch))
    assert found == expected or repr(found) == repr(expected)  # NaN differs from itself


@pytest.mark.parametrize("name", ["sum", "exp", "sqrt", "mean"])
def test_ops_without_a_kernel_refuse(name: str) -> None:
    import torch

    words = "not implemented for 'ComplexHalf'"
    for lib in (fastdist, torch):
        with pytest.raises(NotImplementedError, match=words):
            getattr(made(lib), name)()
    with pytest.raises(NotImplementedError, match=r"cast with \.to\(fastdist\.complex64\) first"):
        made(fastdist).exp()


def test_files_go_both_ways() -> None:
    import torch

    for save, load, lib in (
        (fastdist.save, torch.load, fastdist),
        (torch.save, fastdist.load, torch),
    ):
        stream = io.BytesIO()
        save({"x": made(lib)[:2]}, stream)
        stream.seek(0)
        found = load(stream)["x"]
        assert found.tolist() == [1 + 2j, 3 - 4.5j] and str(found.dtype).endswith("complex32")
