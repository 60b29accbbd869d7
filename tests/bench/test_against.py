"""`--against` alternates between the working tree and a commit; slower cases make it fail."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import against
from bench.harness import Case, row

ROOT = Path(__file__).resolve().parents[2]
TINY = '''
"""Two things to time."""
import time
from bench.harness import Case, compare, peer_torch

def run(rounds):
    import fastdist, kernels
    assert peer_torch() is None
    def nap(n):
        time.sleep(fastdist.NAP_S)
        return fastdist.NAP_S * n
    same = compare([Case("same", lambda n: n * 1e-3, number=2)], rounds)
    assert 1 / same[0].ours_s.median  # also where it is not timed
    extra = [Case("only new", lambda n: 1.0, number=1)] if fastdist.HAS_MORE else []
    return same + compare([Case("nap", nap, number=3, parts=3), *extra], rounds)
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a tree with one commit; its changed fastdist sleeps longer than the committed one."""
    shutil.copytree(ROOT / "bench", tmp_path / "bench", ignore=shutil.ignore_patterns("results"))
    (tmp_path / "bench" / "tiny.py").write_text(TINY)
    for package in ("fastdist", "kernels"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("NAP_S = 0.001\nHAS_MORE = False\n")
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "-m", "old")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "fastdist" / "__init__.py").write_text("NAP_S = 0.002\nHAS_MORE = True\n")
    return tmp_path


def bench(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tree)},
    )


@pytest.mark.one_in(4)
def test_what_became_slower_is_named_and_fails(tree: Path) -> None:
    run = bench(tree, "tiny", "--against", "HEAD", "--rounds", "4")
    assert run.returncode == 1, run.stderr
    assert run.stderr.strip() == "slower than HEAD: nap"
    lines = {line.split("  ")[0]: line for line in run.stdout.splitlines()}
    assert lines["nap"].endswith("2.00 [2-2]")
    assert "667 us" in lines["nap"]
    assert lines["same"].endswith("1.00 [1-1]")
    assert "not in the old one: only new" in run.stdout


@pytest.mark.one_in(4)
def test_nothing_became_slower(tree: Path) -> None:
    (tree / "fastdist" / "__init__.py").write_text("NAP_S = 0.0005\nHAS_MORE = False\n")
    run = bench(tree, "tiny", "--against", "HEAD", "--rounds", "2")
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.one_in(4)
def test_what_is_slower_in_one_pair_of_processes_alone_does_not_count(tree: Path) -> None:
    # Only the first process of the new tree is slow, as if its arrays were placed unluckily.
    (tree / "fastdist" / "__init__.py").write_text(
        """
import os
NAP_S, HAS_MORE, seen = 0.001, False, os.path.exists("seen")
if not seen:
    open("seen", "w").close()
    NAP_S = 0.002
"""
    )
    run = bench(tree, "tiny", "--against", "HEAD", "--rounds", "2")
    assert (run.returncode, run.stderr) == (0, "")
    first, again = run.stdout.split("again, in new processes")
    assert "2.00 [2-2]" in first and "1.00 [1-1]" in again
    assert "same" in first and "same" not in again  # only slower cases are timed again


@pytest.mark.one_in(4)
def test_rows_that_were_not_chosen_are_not_timed(tree: Path) -> None:
    run = bench(tree, "tiny", "--against", "HEAD", "--rounds", "2", "--only", "sa")
    assert (run.returncode, run.stderr) == (0, "")
    names = {line.split("  ")[0] for line in run.stdout.splitlines()}
    assert "same" in names and "nap" not in names


@pytest.mark.one_in(4)
def test_both_sides_know_what_was_chosen_and_need_not_build_the_rest(tree: Path) -> None:
    (tree / "bench" / "tiny.py").write_text(
        TINY.replace("same = ", 'assert harness.chosen() == "sa"\n    same = ').replace(
            "import time", "import time\nfrom bench import harness"
        )
    )
    run = bench(tree, "tiny", "--against", "HEAD", "--rounds", "2", "--only", "sa")
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.one_in(4)
def test_with_a_device_each_side_runs_its_own_bench(tree: Path) -> None:
    # Each tree's stands_in.py reads a name that only the `kernels` of the same tree has.
    (tree / "bench" / "stands_in.py").write_text("import kernels\nkernels.HAS_MORE\n")
    shim = TINY.replace("run(rounds)", 'run(rounds, device="cpu")').replace(
        "import fastdist, kernels", "import fastdist\n    from bench import stands_in"
    )
    (tree / "bench" / "tiny.py").write_text(shim)
    who = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    for words in (("add", "bench"), (*who, "commit", "-q", "-m", "a stand-in")):
        subprocess.run(["git", *words], cwd=tree, check=True)
    (tree / "kernels" / "__init__.py").write_text("NAMED_ANEW = True\n")
    (tree / "bench" / "stands_in.py").write_text("import kernels\nkernels.NAMED_ANEW\n")
    (tree / "fastdist" / "__init__.py").write_text("NAP_S = 0.0005\nHAS_MORE = False\n")
    run = bench(tree, "tiny", "--against", "HEAD", "--rounds", "2", "--device", "shim")
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.one_in(4)
def test_a_commit_that_is_none_and_a_tree_that_cannot_run_are_named(tree: Path) -> None:
    run = bench(tree, "tiny", "--against", "nowhere", "--rounds", "2")
    assert run.returncode == 1
    assert run.stderr.startswith("--against nowhere: ") and "nowhere" in run.stderr[20:]
    (tree / "fastdist" / "__init__.py").write_text("NAP_S = 0.0005\n")
    run = bench(tree, "tiny", "--against", "HEAD", "--rounds", "2")
    assert run.returncode == 1
    assert "has no attribute 'HAS_MORE'" in run.stderr
    assert "tiny, new: its process ended with 1; what it said stands above" in run.stderr


@pytest.mark.parametrize(
    ("name", "ratios", "slower"),
    [
        ("add 8x8", [1.02, 1.02, 1.5, 1.5], False),
        ("add 8x8", [1.04, 1.04, 1.04, 1.5], True),
        ("matmul 8x8", [1.04, 1.04, 1.04, 1.5], False),
        ("matmul 8x8", [1.06, 1.06, 1.06, 1.5], True),
    ],
)
def test_three_of_four_rounds_must_be_above_the_limit(
    name: str, ratios: list[float], slower: bool
) -> None:
    found = row(Case(name, lambda n: 0.0), ratios, [1.0] * len(ratios))
    assert against.is_slower(found) is slower
