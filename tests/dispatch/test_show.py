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
        "@softmax.plan",
        "fastdist.kernels.cuda.nn.softmax",
        "def softmax(x: Array, out: Array, axis: int",  # the CPU kernel
        "softmax(const Stored* in",  # nn/softmax.cu
        "_layout = input._layout",  # the short path
    ):
        assert part in shown


def test_a_view_shows_its_functions_and_its_short_path() -> None:
    sections = dict(sections_of("transpose", fd.float32))
    assert "out = _see(" in sections["short path, from its first call on"]
    assert "def " in sections["view of a raw array"]


def test_a_kernel_shows_the_texts_of_the_functions_that_it_calls() -> None:
    sections = dict(sections_of("gather", fd.float32))
    assert "__global__" in sections["CUDA text index/indexing.cu"]
    assert "def gather(" in sections["CPU kernel"]


@pytest.mark.parametrize(
    ("name", "heading", "part"),
    [
        ("torch.mul", "declaration", "def mul("),
        ("fastdist.sum", "declaration", "def sum("),
        ("absolute", "declaration", "def abs("),
        ("add_", "declaration", "def add("),
        ("Tensor.clamp_", "composite: other ops compute it", "def clamp("),
        ("Tensor.view", "declaration", "def view("),
        ("Tensor.__mul__", "declaration", "def mul("),
        ("nn.functional.softmax", "declaration", "def softmax("),
        ("torch.linalg.qr", "composite: other ops compute it", "def linalg_qr("),
        ("torch.special.expit", "declaration", "def sigmoid("),
        ("sparse.mm", "function that calls ops", "def "),
        ("getitem", "function that calls ops", "def "),
    ],
)
def test_an_op_is_found_by_the_names_that_users_write(name: str, heading: str, part: str) -> None:
    sections = dict(sections_of(name, fd.float32))
    assert name in sections["name"] and part in sections[heading]


def test_a_short_path_is_shown_for_all_results_of_the_op() -> None:
    """The number of results is that of the annotation, which a call compares with the plan."""
    shown = dict(sections_of("sort_along", fd.float32))["short path, from its first call on"]
    assert shown.count("_shell()") == len(OPS["sort_along"](fd.ones(3), 0, False)) == 2


def test_a_composite_shows_its_function(capsys: pytest.CaptureFixture[str]) -> None:
    main(["show", "vdot"])
    assert "def vdot(" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "mull"], "there is no op 'mull'; similar names: mul, matmul"),
        (["show", "torch.mull"], "there is no op 'torch.mull'; similar names: mul, matmul"),
        (["show", "nn.functional.sofmax"], "similar names: softmax, "),
        (["show", "nn.Linear"], "there is no op 'nn.Linear'; similar names: linear, bilinear"),
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
