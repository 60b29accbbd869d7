"""Pages show real output, links have targets, and figures match stored measurements."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import fastdist
from bench.__main__ import benchmarks
from tests.launch import forked_programs

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GUIDES = DOCS / "guides"  # tests/house/test_guides.py runs their programs, and all sessions
PAGES = [
    *(ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(GUIDES.glob("*.md"))),
    *sorted(ROOT.glob("[CS]*.md")),
]
# Pages for users of fastdist; the other pages are for developers and operators.
USERS = [page for page in PAGES if page.parent in (DOCS, GUIDES) or page.name == "README.md"]
# Blocks in the languages of SHOWN are commands and outputs, which the tests below compare.
RUN, SHOWN = ("python", "py", "pycon"), ("sh", "console", "dockerfile", "")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


run = forked_programs.run


def start(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a new process, as users do; `run` forks, and starts programs differently."""
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# ---- blocks that are run ------------------------------------------------------------------------


@pytest.mark.one_in(4)
def test_programs_of_two_processes_print_what_is_shown(tmp_path: Path) -> None:
    """One job runs the program of README.md and the blocks at the end of docs/distributed.md."""
    readme, page = ROOT / "README.md", DOCS / "distributed.md"
    (program,) = blocks(readme, "python")
    end = "rpc.shutdown()\n"
    assert program.endswith(end)
    text = program.removesuffix(end) + "\n".join(blocks(page, "python")) + end
    (tmp_path / "spans.py").write_text(text)
    done = start(["-m", "fastdist.run", "-n", "2", "spans.py"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.splitlines()
    command, *expected = "".join(blocks(readme, "console")).splitlines()
    assert command == "$ .venv/bin/fastdist run -n 2 spans.py"
    assert [line for line in expected if line not in printed] == []
    expected = "".join(blocks(page, "console")).splitlines()
    assert expected and [line for line in expected if line not in printed] == []
    assert "backward pass over after" in done.stdout
    assert {"pass.html", "timeline.html"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.one_in(3)
def test_job_is_started_again_as_shown(tmp_path: Path) -> None:
    page = DOCS / "failures.md"
    (program,), (expected,) = blocks(page, "python"), blocks(page, "console")
    (tmp_path / "program.py").write_text(program)
    done = run(["-m", "fastdist.run", "-n", "2", "--max-restarts", "1", "program.py"], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rank 0 was killed by SIGKILL" in done.stderr
    assert expected in done.stdout


@pytest.mark.one_in(3)
def test_job_is_preempted_as_shown(tmp_path: Path) -> None:
    (program,) = blocks(DOCS / "failures.md", "py")
    (tmp_path / "program.py").write_text(program)
    done = run(["-m", "fastdist.run", "-n", "2", "program.py"], tmp_path)
    assert done.returncode == 75, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    steps = {line.rpartition(" ")[2] for line in lines}
    assert len(lines) == 2 and len(steps) == 1 and int(steps.pop()) > 5
    assert (tmp_path / "preempted.pt").exists()


def test_training_continues_from_its_checkpoint_as_shown(tmp_path: Path) -> None:
    (program,) = blocks(DOCS / "checkpoints.md", "py")
    command = ["-c", program + "\nprint(state['step'], model.weight.tolist())"]
    whole, resumed = (run(command, tmp_path) for _ in range(2))
    (shown,) = blocks(DOCS / "checkpoints.md", "console")
    assert whole.stdout.startswith(f"{shown}10 "), whole.stderr
    assert resumed.stdout == whole.stdout, resumed.stderr


@pytest.mark.one_in(4)
def test_programs_of_data_parallel_training_print_what_is_shown(tmp_path: Path) -> None:
    page = DOCS / "data-parallel.md"
    train, penalty = blocks(page, "python")
    expected = [f"[rank {rank}] {rank} of 2 mean loss 0.22" for rank in range(2)]
    for text, lines in (
        (train, expected),
        (penalty, "".join(blocks(page, "console")).splitlines()),
    ):
        (tmp_path / "train.py").write_text(text)
        done = run(["-m", "fastdist", "run", "-n", "2", "train.py"], tmp_path)
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == lines


def test_every_block_is_run_or_a_command() -> None:
    pages = [page for page in PAGES if page.name != "CONTRIBUTING.md" and page.parent != GUIDES]
    run_here = {
        *("README.md", "distributed.md", "failures.md", "checkpoints.md", "pytorch.md"),
        "data-parallel.md",
        *("ray.md", "dask.md"),  # by tests/integrations/test_pages.py
    }
    for page in pages:
        fences = re.findall(r"^```(\w*)$", page.read_text(), re.MULTILINE)
        assert set(fences[::2]) <= {*RUN, *SHOWN}, page
        assert set(fences[1::2]) <= {""}, page
        assert page.name in run_here or set(fences).isdisjoint(RUN), page


# ---- tables -------------------------------------------------------------------------------------


def names_in(page: Path, heading: str) -> set[str]:
    section = page.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"`([A-Z][A-Z_]+)`", section))


def test_variables_of_launchers_are_those_that_are_read() -> None:
    distributed = ROOT / "fastdist" / "distributed"
    code = (distributed / "store" / "environment.py").read_text()
    code += (distributed / "rendezvous.py").read_text()
    names = names_in(DOCS / "launching.md", "Other launchers")
    assert {"RANK", "SLURM_PROCID", "FASTDIST_ADDRESS"} <= names
    assert {name for name in names if f'"{name}"' not in code} == set()


def test_variables_of_a_worker_are_those_that_the_launcher_sets() -> None:
    code = "".join(path.read_text() for path in (ROOT / "fastdist" / "launch").glob("*.py"))
    names = names_in(DOCS / "launching.md", "A worker's environment")
    assert {"RANK", "FASTDIST_RESTART_COUNT", "CUDA_VISIBLE_DEVICES"} <= names
    assert {name for name in names if not re.search(rf'"{name}"|\b{name}=', code)} == set()


# ---- names --------------------------------------------------------------------------------------

MODULES = {
    "fastdist": "fastdist",
    "torch": "fastdist",
    "rpc": "fastdist.distributed.rpc",
    "dist": "fastdist.distributed",
    "dist_autograd": "fastdist.distributed.autograd",
    "checkpoint": "fastdist.distributed.checkpoint",
    "func": "fastdist.func",
    "autograd": "fastdist.autograd",
    "cuda": "fastdist.cuda",
    "utils": "fastdist.utils",
}
# A name that docs/pytorch.md misspells, a logger, and names of PyTorch's commands.
NO_NAMES = {
    "torch.rnadn",
    "fastdist.unread_errors",
    "torch.distributed.run",
    "torch.distributed.rpc",
}


# Packages that a page's program needs, and that may be missing here.
ENGINES = ("ray", "distributed")


def module_is_there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def in_code(page: Path) -> str:
    """Return the texts in backquotes and the code blocks of a page."""
    return " ".join(re.findall(r"```.*?```|`[^`]+`", page.read_text(), re.DOTALL))


def names_on(page: Path) -> set[tuple[str, str]]:
    pattern = rf"(?<![\w./\-])({'|'.join(MODULES)})((?:\.[a-zA-Z_]\w*)+)"
    found = re.findall(pattern, in_code(page))
    return {(module, names) for module, names in found if module + names not in NO_NAMES}


@pytest.mark.parametrize("page", USERS, ids=lambda page: page.name)
def test_names_on_pages_exist(page: Path) -> None:
    for module, names in names_on(page):
        found = importlib.import_module(MODULES[module])
        for name in names.split(".")[1:]:
            try:
                found = getattr(found, name)
            except AttributeError:
                try:
                    found = importlib.import_module(f"{found.__name__}.{name}")
                except ImportError as error:
                    # A page on an integration: tests/integrations/test_pages.py runs its program.
                    if error.name not in ENGINES or not module_is_there(f"{found.__name__}.{name}"):
                        raise
                    break


def test_names_are_found_on_pages() -> None:
    assert {("rpc", ".get_metrics"), ("dist_autograd", ".hvp")} <= names_on(DOCS / "distributed.md")


def test_variables_and_options_on_pages_exist() -> None:
    code = "".join(path.read_text() for path in (ROOT / "fastdist").rglob("*.py"))
    code += "".join(path.read_text() for path in (ROOT / "kernels").rglob("*.py"))
    for page in USERS:
        text = in_code(page)
        for name in set(re.findall(r"\bFASTDIST_[A-Z_]+", text)):
            assert name in code, (page, name)
        if page.parent == DOCS and page.name in (
            "launching.md",
            "failures.md",
            "slurm.md",
            "kubernetes.md",
        ):
            for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)):
                assert f'"{option}"' in code, (page, option)


# ---- figures ------------------------------------------------------------------------------------

# Figures on the pages, by benchmark, row and file: the times of fastdist and of PyTorch.
FIGURES = [
    ("rpc", "rpc_sync, 1 KB tensor", "2026-11-24-zen4-distributed", "47 µs", "481 µs"),
    ("rpc", "rpc_sync, 1 MB tensor", "2026-11-24-zen4-distributed", "206 µs", "728 µs"),
    (
        *("distributed_backward", "add 8x8, forward and backward"),
        *("2026-11-24-zen4-distributed", "0.69 ms", "1.29 ms"),
    ),
    (
        *("distributed_backward", "add 4 MB, forward and backward"),
        *("2026-11-24-zen4-distributed", "3.38 ms", "6.88 ms"),
    ),
    ("jobs", "pipeline, 4 micro-batches", "2026-11-24-zen4-distributed", "15.5 ms", "18.6 ms"),
    ("jobs", "parameter server, 2 trainers", "2026-11-24-zen4-distributed", "5.8 ms", "7.5 ms"),
    ("models", "GPT d 256", "2026-11-23-zen5-models", "17.1 ms", "29.7 ms"),
    ("models", "ResNet-18, 64 x 64", "2026-11-23-zen5-models", "114 ms", "118 ms"),
    ("packages", "GPT-2 training step", "2026-11-29-zen4-packages", "20 ms", "26 ms"),
    ("packages", "BERT forward", "2026-11-29-zen4-packages", "4.7 ms", "6.4 ms"),
    ("packages", "Llama generate", "2026-11-29-zen4-packages", "31 ms", "25 ms"),
    ("packages", "timm ResNet-18 training step", "2026-11-29-zen4-packages", "42 ms", "66 ms"),
    ("packages", "GPyTorch fit step", "2026-11-29-zen4-packages", "2.87 ms", "2.76 ms"),
    ("packages", "PyG GCN epoch", "2026-11-29-zen4-packages", "7.7 ms", "8.1 ms"),
    ("rpc", "idle, cores of both", "2026-11-24-zen4-distributed", "0.0015 cores", "1.99"),
    ("ops", "add 8x8, with grad", "2026-11-22-zen4", "0.9 µs", "2.0 µs"),
]
UNITS = {"µs": 1e-6, "ms": 1e-3, "cores": 1.0}


@pytest.mark.parametrize(("bench", "row", "file", "ours", "theirs"), FIGURES)
def test_figures_are_those_that_were_kept(
    bench: str, row: str, file: str, ours: str, theirs: str
) -> None:
    kept = json.loads((ROOT / "bench" / "results" / f"{file}.json").read_text())["results"]
    (found,) = [one for b in kept if b["bench"] == bench for one in b["rows"] if one["name"] == row]
    unit = ours.split()[1]
    for shown, key in ((ours, "ours_s"), (theirs, "peer_s")):
        number = shown.split()[0]
        places = len(number.partition(".")[2])
        assert f"{found[key]['median'] / UNITS[unit]:.{places}f}" == number
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/performance.md"))
    in_table = f"| `bench {bench}` | {row} | {ours} | {theirs} |" in page
    in_words = re.search(rf"\b{ours}\b[^-]*\b{theirs}\b[^-]*`python -m bench {bench}`", readme)
    assert in_table or in_words


def test_commands_name_benchmarks() -> None:
    text = "".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"`(?:python -m )?bench (\w+)`", text))
    assert {"rpc", "jobs", "gpu"} <= named <= {*benchmarks(), "all"}
    readme = (ROOT / "README.md").read_text()
    reasons = readme.split("## Five reasons\n")[1].split("\n## ")[0]
    assert len(re.findall(r"^- .*?`python -m bench \w+`", reasons, re.MULTILINE | re.DOTALL)) >= 1
    assert reasons.count("\n- ") == reasons.count("(`python -m bench ") == 5


# ---- links --------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings: lower case, no punctuation, dashes for spaces."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def links(page: Path) -> Iterator[str]:
    text = page.read_text()
    yield from re.findall(r"\]\(([^)\s]+)\)", text)
    yield from re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_reached_from_the_readme() -> None:
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in links(ROOT / "README.md")}
    assert set(PAGES) - {ROOT / "README.md"} <= linked
    assert DOCS / "overlap.svg" in linked


# ---- other files --------------------------------------------------------------------------------


def test_changelog_and_citation_name_this_version() -> None:
    changes, citation = ((ROOT / name).read_text() for name in ("CHANGELOG.md", "CITATION.cff"))
    headings = re.findall(r"^## \[(.*?)\]", changes, re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert f"version {fastdist.__version__}" in changes or fastdist.__version__ in headings
    keys = re.findall(r"^([\w-]+): *(.*)$", citation, re.MULTILINE)
    assert {"cff-version", "message", "title", "authors"} <= {key for key, _ in keys}
    assert dict(keys)["version"] == fastdist.__version__
    assert dict(keys)["license"] == "Apache-2.0"


def test_picture_is_readable_in_the_light_and_in_the_dark() -> None:
    text = (DOCS / "overlap.svg").read_text()
    picture = ElementTree.fromstring(text)
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text and len(text) < 25_000
    words = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"worker0: loss", "batch 1", "batch 4"} <= set(words)


@pytest.mark.one_in(4)
def test_picture_of_data_parallel_training_is_drawn_from_a_run(tmp_path: Path) -> None:
    script, out = DOCS / "draw_data_parallel.py", tmp_path / "data-parallel.svg"
    words = ["-n", "2", str(script), "--side", "64", "--out", str(out)]
    done = run(["-m", "fastdist.run", *words], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for picture in (out, DOCS / "data-parallel.svg"):
        root = ElementTree.parse(picture)
        tips = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}title")]
        assert {tip.partition(",")[0] for tip in tips} >= {"AddmmBackward0", "all_reduce"}
        words = [one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text")]
        assert {"rank 0: backward", "rank 1: all_reduce"} <= set(words)
    page = DOCS / "data-parallel.md"
    assert picture in {(DOCS / link.partition("#")[0]).resolve() for link in links(page)}


@pytest.mark.one_in(4)
def test_picture_is_drawn_from_a_run(tmp_path: Path) -> None:
    script, out = DOCS / "draw_overlap.py", tmp_path / "overlap.svg"
    words = ["-n", "3", str(script), "--side", "64", "--out", str(out)]
    done = run(["-m", "fastdist.run", *words], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    tips = [
        one.text or "" for one in ElementTree.parse(out).iter("{http://www.w3.org/2000/svg}title")
    ]
    assert sum(tip.startswith("MmBackward0, ") for tip in tips) == 2 * 3 * 4
    # Several small gradients may be sent in one message, so the number of messages varies.
    assert 2 <= sum(tip.startswith("gradients sent ") for tip in tips) <= 8
