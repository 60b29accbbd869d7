"""The recipes of CONTRIBUTING.md: the code blocks of the page make ops, a layer and an optimizer.

The blocks are written into a copy of the tree, and the tests that the page names are run there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
_BLOCK = re.compile(r"^```(\w+)\n(?:#|//) (\S+/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COPIED = ("fastdist", "kernels", "bench", "tests", "pyproject.toml")
_FILES = (
    "tests/ops/pointwise/test_pointwise.py",
    "tests/ops/test_table.py",
    "tests/ops/test_batching.py",
    "tests/ops/test_cuda_on_fibres.py",
    "tests/nn/test_table.py",
    "tests/nn/test_squareplus.py",
    "tests/optim",
    "tests/house/test_twins.py",
)
# Select the new tests, and the tests that require a row for each op, layer and optimiser.
_NAMES = (
    "squareplus or pair_sums or Squareplus or SignMomentum or sign_momentum"
    " or (test_every and not test_every_property and not test_every_derivative)"
)
# Calls that a user would make, which the tables of tests do not contain.
_PROGRAM = """
import fastdist as fd

x = fd.tensor([3.0, -3.0], requires_grad=True)
assert fd.squareplus(x, 7.0).tolist() == x.squareplus(7.0).tolist() == [3.5, 0.5]
y = x.detach().clone()
assert y.squareplus_(7.0) is y and y.tolist() == [3.5, 0.5]
fd.squareplus(x, 7.0).sum().backward()
assert x.grad.tolist() == [0.875, 0.125]
assert fd.squareplus(x).grad_fn.name() == "SquareplusBackward0"
assert fd.pair_sums(fd.tensor([1.0, 2.0, 4.0])).tolist() == [3.0, 6.0]
model = fd.nn.Sequential(fd.nn.Linear(3, 2), fd.nn.Squareplus())
fd.nn.init.zeros_(model[0].bias)
optimizer = fd.optim.SignMomentum(model.parameters(), lr=0.5, foreach=True)
model(fd.ones(4, 3)).sum().backward()
optimizer.step()
assert model[0].bias.tolist() == [-0.5, -0.5]
again = fd.optim.SignMomentum(model.parameters())
again.load_state_dict(optimizer.state_dict())
assert again.param_groups[0]["lr"] == 0.5 and len(again.state) == 2
"""


class Block(NamedTuple):
    file: str
    text: str


def blocks() -> list[Block]:
    return [Block(file, text) for _, file, text in _BLOCK.findall(PAGE.read_text())]


class Tree:
    """A copy of the tree with the blocks written into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Copy compiled Python files too. They stay valid, because modification times are copied.
        # `cp` takes a tenth of the time of shutil.copytree.
        subprocess.run(["cp", "-pR", *_COPIED, folder], cwd=ROOT, check=True)
        (folder / ".kernel-cache").symlink_to(ROOT / ".kernel-cache")
        for block in blocks():
            path = folder / block.file
            with path.open("a") as file:
                file.write(f"\n\n{block.text}" if path.exists() and file.tell() else block.text)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("tree"))


def test_every_block_of_code_on_the_page_names_its_file() -> None:
    assert len(blocks()) == len(re.findall(r"^```\w+$", PAGE.read_text(), re.MULTILINE))
    folders = {block.file.split("/")[0] for block in blocks()}
    assert folders == {"fastdist", "kernels", "tests"}


@pytest.mark.one_in(4)
def test_the_recipes_make_an_op_of_each_form_a_layer_and_an_optimiser(tree: Tree) -> None:
    tree.run("-c", _PROGRAM)


@pytest.mark.one_in(4)
def test_the_stubs_have_the_new_names(tree: Tree) -> None:
    tree.run("-m", "fastdist.namespace.stubs")
    stubs = (tree.folder / "fastdist" / "__init__.pyi").read_text()
    assert "def squareplus(" in stubs and "def squareplus_(" in stubs
    assert "def pair_sums(" in stubs


@pytest.mark.one_in(4)
def test_the_tables_try_them(tree: Tree) -> None:
    said = tree.run("-m", "pytest", "-n", "0", "-q", "-rA", *_FILES, "-k", _NAMES)
    passed = re.findall(r"^PASSED (\S+?\.py)::(.*)$", said, re.MULTILINE)
    per_file = {file: sum(file == other for other, _ in passed) for file, _ in passed}
    assert per_file["tests/ops/test_cuda_on_fibres.py"] >= 1
    assert per_file["tests/optim/test_saving.py"] >= 4
    assert per_file["tests/optim/test_sign_momentum.py"] == 2
    names = {name for _, name in passed}
    assert {
        "test_every_pointwise_op_has_a_row",
        "test_every_property[squareplus]",
        "test_every_derivative[squareplus]",
        "test_every_property[pair_sums]",
        "test_a_batch_of_a_pointwise_op_is_one_call[squareplus]",
        "test_every_op_and_composite_has_a_case",
        "test_every_class_has_a_row",
        "test_every_cpu_kernel_has_a_cuda_twin",
        "test_every_optimiser_has_a_row_for_its_state_dict",
        "test_it_is_half_of_input_and_root",
    } <= names


@pytest.mark.one_in(4)
def test_without_their_rows_the_tables_fail(tree: Tree) -> None:
    for file in ("tests/nn/module_rows.py", "tests/optim/option_rows.py"):
        (tree.folder / file).write_bytes((ROOT / file).read_bytes())
    with pytest.raises(AssertionError, match=r"Squareplus(.|\n)*SignMomentum"):
        tree.run(
            *(
                "-m",
                "pytest",
                "-n",
                "0",
                "-q",
                "tests/nn/test_table.py",
                "tests/optim/test_table.py",
            ),
            *("-k", "test_every"),
        )
