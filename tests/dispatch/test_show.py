"""`python -m fastdist.dispatch show` prints the declaration of every op."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fastdist as fd
from fastdist.dispatch.__main__ import main, sections_of
from fastdist.dispatch.composite import COMPOSITES
from fastdist.dispatch.op import OPS


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [fd.float32, fd.float64], ids=str)
def test_every_op_can_be_shown(dtype: fd.dtype) -> None:
    for name in (*OPS, *COMPOSITES):
        sections = dict(sections_of(name, dtype))
        assert sections and all(text.strip() for text in sections.values()), name


def test_a_pointwise_op_shows_its_texts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "mul"]) == 0
    shown = capsys.readouterr().out
    for part in (
        "def mul(input: Tensor, other: Tensor) -> Tensor:",
        "_layout = input._layout",
        "class MulBackward0(OpNode):",
        "mul(g, other)",
        "_call('mul', g, input)",
        "def loop(pointers, count):",
        "__global__",
    ):
        assert part in shown


def test_the_kernels_of_a_comparison_write_bools_and_those_of_gradients_numbers() -> None:
    sections = dict(sections_of("eq", fd.float32))
    assert "typedef bool Out;" in sections["CUDA text"]
    sections = dict(sections_of("mul", fd.float64))
    assert "typedef double Out;" in sections["CUDA text"]
    assert "typedef double Out;" in sections["CUDA text, gradient by other"]


def test_a_structured_op_shows_its_rules_and_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "softmax"])
    shown = capsys.readouterr().out
    for part in (
        "@structured(",
        "@softmax.vjp(",
        "@softmax.jvp",
        "fastdist.kernels.cuda.nn.softmax",
    ):
        assert part in shown


def test_a_composite_shows_its_function(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "vdot"])
    assert "def vdot(" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "mull"], "there is no op 'mull'; similar names: mul, matmul"),
        (["show", "mul", "--dtype", "Tensor"], "--dtype 'Tensor' is not a dtype"),
        ([], "the following arguments are required: command"),
    ],
)
def test_mistakes_are_explained(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_module_is_a_command() -> None:
    command = [sys.executable, "-m", "fastdist.dispatch", "show", "exp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "== declaration =" in done.stdout
