"""Generated code has a unique file name, under which its source lines are found."""

from __future__ import annotations

import inspect
import linecache
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import fastdist as fd
from fastdist.core.generated_code import compile_text
from fastdist.core.running_op import running_op
from tests.kernels.cpu.processes import run_script
from tests.namespace.public_modules import public_modules


def test_the_source_of_each_public_function_is_found() -> None:
    modules = {"fastdist": fd, "fastdist.Tensor": fd.Tensor, **public_modules()}
    functions = {
        f"{path}.{name}": one
        for path, module in modules.items()
        for name in dir(module)
        if not name.startswith("_") and _is_function(one := getattr(module, name))
    }
    assert len(functions) > 2000
    texts = {name: _source_of(one) for name, one in functions.items()}
    assert {name for name, text in texts.items() if not text.strip()} == set()


def _is_function(found: object) -> bool:
    # A function that is written in C, such as `time.perf_counter`, has no source.
    return inspect.isroutine(found) and not inspect.isbuiltin(found)


def _source_of(function: Any) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return ""


def test_the_source_of_an_op_is_what_runs() -> None:
    script = """
import inspect
import fastdist as fd
x = fd.ones(3, requires_grad=True)
before = inspect.getsource(fd.hypot)
node = fd.hypot(x, x).grad_fn
written = inspect.getsource(fd.hypot)  # from its first call on it has a short path
print(before.startswith("def hypot(input, other"), written.startswith("def hypot(input, other"))
print(len(before) < len(written), "def apply(" in inspect.getsource(type(node).apply))
"""
    assert run_script(script).split() == ["True"] * 4


def test_generated_code_is_written_into_a_folder_where_coverage_tools_measure_it(
    tmp_path: Path,
) -> None:
    script = """
import sys
import fastdist as fd
x = fd.ones(3, requires_grad=True)
def twice():
    for _ in range(2):
        fd.hypot(x, x).div(3).sum().backward()
twice()
ran = set()
def trace(frame, event, argument):
    if event == "line":
        ran.add((frame.f_code.co_filename, frame.f_lineno))
    return trace
sys.settrace(trace)
twice()
sys.settrace(None)
for file, line in sorted(ran):
    if "<fastdist " in file:
        print(file, line, sep=":")
"""
    runs = [run_script(script, FASTDIST_GENERATED=str(tmp_path / "texts")) for _ in range(2)]
    lines = [line.rpartition(":") for line in runs[0].splitlines()]
    assert runs[0] == runs[1]
    texts = {file: Path(file).read_text().splitlines() for file, _, _ in lines}
    names = {Path(file).name.rpartition(" ")[0] for file in texts}
    assert {"<fastdist hypot", "<fastdist Node of hypot", "<fastdist Node of sum"} <= names
    assert all(texts[file][int(number) - 1].strip() for file, _, number in lines)


def test_the_running_op_is_named_if_generated_code_is_in_files(tmp_path: Path) -> None:
    script = """
import fastdist as fd
from fastdist.core.running_op import running_op
x = fd.ones(3, requires_grad=True)
seen = []
x.register_hook(lambda g: seen.append(running_op()))
class Seen(fd.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        seen.append(running_op())
        return super().__torch_function__(function, types, args, kwargs or {})
fd.hypot(x, x.detach().as_subclass(Seen))
print(*seen)
"""
    shown = [run_script(script, FASTDIST_GENERATED=folder) for folder in ("", str(tmp_path))]
    assert "hypot" in shown[0] and shown[0] == shown[1]


def test_a_traceback_shows_the_line_of_generated_code() -> None:
    scope: dict[str, object] = {}
    exec(compile_text("halves", "def halve(x):\n    return 1 / (x - x)\n"), scope)
    with pytest.raises(ZeroDivisionError) as caught:
        scope["halve"](1)  # type: ignore[operator]
    linecache.checkcache()
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.line) == ("<fastdist halves>", 2, "return 1 / (x - x)")


def test_each_text_has_a_file_name_of_its_own_from_any_thread() -> None:
    sources = [f"value = {number % 3}\n" for number in range(30)]
    with ThreadPoolExecutor(8) as pool:
        files = list(pool.map(lambda s: compile_text("numbered", s).co_filename, sources))
    assert len(set(files)) == 3
    for source, file in zip(sources, files, strict=True):
        assert "".join(linecache.getlines(file)) == source


@pytest.mark.parametrize("name", ["log2", "exp2", "mul"])
def test_the_running_op_is_named_by_its_whole_name(name: str) -> None:
    seen: list[str] = []
    x = fd.ones(2, requires_grad=True)
    y = getattr(fd, name)(x, *[x] * (name == "mul"))
    node = y.grad_fn
    scope = {"note": lambda: seen.append(running_op())}
    exec(compile_text(f"Node of {name}", "def apply():\n    note()\n"), scope)
    exec(compile_text(f"Node of {name}", "def apply():\n    return note()\n"), scope)
    scope["apply"]()
    assert node is not None
    assert seen == [f"the gradient of {name}"]
