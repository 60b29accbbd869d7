"""The stubs that type checkers use for `import torch`; tests/types checks their effect."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

import fastdist
from fastdist.cli import main
from fastdist.namespace.torch_stubs import MODULES

# The modules behind `fastdist ...` and `python -m fastdist`, and the one that finds `import torch`.
COMMANDS = ("__main__", "as_torch", "cli", "info", "run", "warm")
# PyTorch's private modules, and the private modules behind `library` and `quantization`.
PRIVATE = (
    "__future__", "_custom_ops", "_jit_internal", "_ops", "_tensor", "_tensor_str", "_utils",
    "op_schemas", "quantization",
)  # fmt: skip


@pytest.mark.one_in(5)
@pytest.mark.parametrize("name", MODULES)
def test_each_stub_is_of_a_module_that_there_is(name: str) -> None:
    assert importlib.util.find_spec(f"fastdist.{name}") is not None


def test_modules_at_the_top_are_pytorch_s_or_commands() -> None:
    """Type checkers find a module of PyTorch's only if the package has a file of its name."""
    top = {path.stem for path in Path(fastdist.__file__).parent.glob("*.py")} - {"__init__"}
    assert top - {*MODULES} == {"__config__", *PRIVATE, *COMMANDS}


def test_the_command_writes_a_stub_for_each_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["as-torch", "--stubs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"wrote {tmp_path / 'torch'}\n"
    written = {path.parent.relative_to(tmp_path) for path in tmp_path.rglob("__init__.py")}
    assert written == {Path("torch"), *(Path("torch", *name.split(".")) for name in MODULES)}


def test_stubs_can_be_written_over_older_ones(tmp_path: Path) -> None:
    assert main(["as-torch", "--stubs", str(tmp_path)]) == 0
    assert main(["as-torch", "--stubs", str(tmp_path)]) == 0


@pytest.mark.parametrize("given", [[], ["a", "b"]])
def test_the_command_takes_one_folder(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["as-torch", "--stubs", *given]) == 2
    assert "takes one folder, got" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "torch").write_text("a file")
    assert main(["as-torch", "--stubs", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("fastdist as-torch --stubs: ")
