"""The claim that what README.md shows is what happens."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_the_first_block_installs_what_a_bare_machine_lacks_and_trains() -> None:
    lacking, clone, demo = blocks("sh")[0].strip().splitlines()
    assert lacking == (
        "sudo apt-get update && sudo apt-get install -y git python3-venv libgomp1 g++"
    )
    assert clone.startswith("git clone ")
    assert demo == (
        "python3 -m venv .venv && .venv/bin/pip install -e . && .venv/bin/fastdist demo"
    )


def test_the_second_block_tests_and_stands_alone() -> None:
    assert blocks("sh")[1].strip() == (
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest"
    )


def test_ci_runs_the_test_command_letter_for_letter() -> None:
    command = blocks("sh")[1].strip()
    assert command.endswith("-m pytest")
    assert f"    {command}\n" in (ROOT / ".ci" / "run").read_text()


def test_the_prompt_answers_as_shown() -> None:
    (session,) = blocks("pycon")
    test = doctest.DocTestParser().get_doctest(session, {}, "README.md", "README.md", 0)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert "".join(said) == ""


def test_the_two_processes_differentiate_as_shown(tmp_path: Path) -> None:
    done = run_block(0, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tensor([4., 5., 6.]) tensor([1., 2., 3.])" in done.stdout


def test_the_two_processes_outlive_a_kill_as_shown(tmp_path: Path) -> None:
    done = run_block(1, tmp_path, "--max-restarts", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank 0 was killed by SIGKILL" in done.stderr
    assert "at step 4 after restart 1" in done.stdout


def run_block(number: int, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(blocks("python")[number])
    return subprocess.run(
        [sys.executable, "-m", "fastdist.run", "-n", "2", *flags, "program.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_training_goes_on_as_shown(tmp_path: Path) -> None:
    (program,) = blocks("py")
    whole, resumed = (
        subprocess.run(
            [sys.executable, "-c", text + "\nprint(state['step'], model.weight.tolist())"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        for text in (program, program)
    )
    assert whole.stdout.startswith("10 "), whole.stderr
    assert resumed.stdout == whole.stdout, resumed.stderr


def test_the_variables_of_launchers_are_those_that_are_read() -> None:
    code = (ROOT / "fastdist" / "distributed" / "store" / "environment.py").read_text()
    code += (ROOT / "fastdist" / "distributed" / "rendezvous.py").read_text()
    table = README.split("Workers that something else starts", 1)[1].split("## Outlive", 1)[0]
    names = set(re.findall(r"`([A-Z][A-Z_]+)`", table))
    assert {"RANK", "SLURM_PROCID", "FASTDIST_ADDRESS"} <= names
    assert {name for name in names if f'"{name}"' not in code} == set()


def test_the_variables_that_a_worker_finds_are_those_that_the_launcher_sets() -> None:
    launch = ROOT / "fastdist" / "launch"
    code = "".join(path.read_text() for path in launch.glob("*.py"))
    table = README.split("| a worker finds in its environment |", 1)[1].split("\n## ", 1)[0]
    names = set(re.findall(r"`([A-Z][A-Z_]+)`", table))
    assert {"RANK", "FASTDIST_RESTART_COUNT", "CUDA_VISIBLE_DEVICES"} <= names
    assert {name for name in names if not re.search(rf'"{name}"|\b{name}=', code)} == set()


def test_links_lead_somewhere() -> None:
    pages = [README, (ROOT / "CONTRIBUTING.md").read_text(), (ROOT / "SECURITY.md").read_text()]
    links = {link for page in pages for link in re.findall(r"\]\(([^)#]+)\)", page)}
    assert {link for link in links if not (ROOT / link).exists()} == set()
