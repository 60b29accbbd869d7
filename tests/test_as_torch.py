"""`import torch` loads fastdist: each module is one object, in all processes of a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import fastdist
from fastdist import cli
from fastdist.as_torch import FOLDER, environment
from fastdist.core.version import TORCH_VERSION, TorchVersion
from tests.launch import forked_programs

ROOT = str(Path(fastdist.__file__).parents[1])
HERE = {**os.environ, "PYTHONPATH": ROOT}


def python(
    text: str, folder: Path, *arguments: str, by: tuple[str, ...] = (), is_started: bool = False
) -> str:
    """Run a script and return its output; `by` are arguments for Python before the script.

    Unless `is_started` is true, the script runs in a fork of a process. That process has imported
    parts of fastdist, but not as `torch`.
    """
    script = folder / "script.py"
    script.write_text(textwrap.dedent(text))
    words = [*by, str(script), *arguments]
    done = start(words, folder) if is_started else forked_programs.run(words, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def start(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=HERE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


AS_TORCH = ("-m", "fastdist", "as-torch")


def python_by_code(text: str, folder: Path) -> str:
    """Run a script whose first line installs fastdist as torch.

    In a forked process, this is faster than the command, which starts a second interpreter.
    """
    return python(f"import fastdist; fastdist.install_as_torch()\n{textwrap.dedent(text)}", folder)


PROGRAM = """
    import torch, sys
    import torch.nn as nn, torch.nn.functional as F
    from torch.optim.lr_scheduler import StepLR
    from torch.utils.data import DataLoader
    import fastdist
    assert sys.modules["torch.nn"] is sys.modules["fastdist.nn"] is torch.nn is fastdist.nn is nn
    assert torch.nn.functional is F is fastdist.nn.functional
    assert torch.autograd is vars(torch)["autograd"]
    assert torch.Tensor is fastdist.Tensor and torch.optim.lr_scheduler.StepLR is StepLR
    names = [name for name in sys.modules if name.startswith("torch.")]
    assert all(sys.modules[name] is sys.modules["fastdist" + name[5:]] for name in names), names
    assert torch.__version__ >= (2, 0) and torch.__version__.split(".")[0] == "2"
    assert fastdist.__version__ != torch.__version__
    model = nn.Linear(2, 1)
    model(torch.ones(3, 2)).sum().backward()
    print("gradient", model.weight.grad.tolist())
"""


@pytest.mark.one_in(3)
def test_a_program_that_imports_torch_finds_fastdist_under_both_names(tmp_path: Path) -> None:
    assert python(PROGRAM, tmp_path, by=AS_TORCH, is_started=True) == "gradient [[3.0, 3.0]]\n"


@pytest.mark.one_in(3)
def test_install_as_torch_does_the_same_in_code(tmp_path: Path) -> None:
    text = "import fastdist\nfastdist.install_as_torch()\nfastdist.install_as_torch()\n"
    program = text + textwrap.dedent(PROGRAM)
    assert python(program, tmp_path, is_started=True) == "gradient [[3.0, 3.0]]\n"


@pytest.mark.one_in(3)
def test_fastdist_put_into_sys_modules_by_hand_is_imported_once(tmp_path: Path) -> None:
    text = 'import sys, fastdist\nsys.modules["torch"] = fastdist\n'
    program = (
        textwrap.dedent(PROGRAM)
        .replace("assert fastdist.__version__", "")
        .replace("assert torch.__version__ >= (2, 0)", "assert True or (2, 0)")
        .replace('and torch.__version__.split(".")[0] == "2"', "")
        .replace(" != torch.__version__", "")
    )
    assert python(text + program, tmp_path, is_started=True) == "gradient [[3.0, 3.0]]\n"


@pytest.mark.one_in(3)
def test_a_script_is_started_as_python_starts_it(tmp_path: Path) -> None:
    text = """
        import sys
        print(__name__, __file__, sys.argv, sys.path[0])
    """
    plain = python(text, tmp_path, "--lr", "1", is_started=True)
    assert python(text, tmp_path, "--lr", "1", by=AS_TORCH, is_started=True) == plain
    name, _ = plain.split(maxsplit=1)
    assert name == "__main__"


@pytest.mark.one_in(3)
def test_a_module_is_started_as_python_starts_it(tmp_path: Path) -> None:
    (tmp_path / "trains.py").write_text("import torch, sys; print(torch.ones(1), sys.argv[1:])")
    done = start([*AS_TORCH, "-m", "trains", "x"], tmp_path)
    assert done.stdout == "tensor([1.]) ['x']\n"


@pytest.mark.one_in(3)
def test_a_failing_program_shows_its_own_frames_and_status(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    for text, status in (("import torch\ntorch.ones(2).view(3)", 1), ("raise SystemExit(7)", 7)):
        script.write_text(text)
        done = start([*AS_TORCH, str(script)], tmp_path)
        assert done.returncode == status
        assert "as_torch.py" not in done.stderr and "cli.py" not in done.stderr


@pytest.mark.one_in(3)
def test_ctrl_c_ends_a_program_as_python_ends_it(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text("import torch, signal\nprint('ready', flush=True)\nsignal.pause()")
    process = subprocess.Popen(
        [sys.executable, *AS_TORCH, str(script)],
        env=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT and told.rstrip().endswith("KeyboardInterrupt")


CHILDREN = """
    import multiprocessing, os, subprocess, sys, torch
    from torch.utils.data import DataLoader, Dataset

    class Squares(Dataset):
        def __len__(self): return 4
        def __getitem__(self, i):
            import torch.nn, fastdist
            assert torch.nn is fastdist.nn
            return torch.tensor(float(i * i))

    def child(queue):
        import torch.nn, fastdist
        queue.put((torch.__name__, torch.nn is fastdist.nn))

    if __name__ == "__main__":
        for method in ("spawn", "fork"):
            context = multiprocessing.get_context(method)
            queue = context.SimpleQueue()
            process = context.Process(target=child, args=(queue,))
            process.start(); print(method, queue.get()); process.join()
        print([batch.tolist() for batch in DataLoader(Squares(), 2, num_workers=1)])
        text = "import torch, fastdist, torch.nn; print(torch.nn is fastdist.nn)"
        print(subprocess.check_output([sys.executable, "-c", text], text=True), end="")
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("by_code", [False, True])
def test_processes_that_a_program_starts_find_it_too(tmp_path: Path, by_code: bool) -> None:
    if by_code:
        out = python_by_code(CHILDREN, tmp_path)
    else:
        out = python(CHILDREN, tmp_path, by=AS_TORCH, is_started=True)
    assert out.splitlines() == [
        "spawn ('torch', True)", "fork ('torch', True)", "[[0.0, 1.0], [4.0, 9.0]]", "True",
    ]  # fmt: skip


@pytest.mark.one_in(3)
def test_workers_of_a_job_find_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", ROOT)
    script = tmp_path / "script.py"
    script.write_text("import os, torch, fastdist, torch.nn; print(torch.nn is fastdist.nn)")
    assert cli.main(["run", "--as-torch", "-n", "2", str(script)]) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == ["[rank 0] True", "[rank 1] True"]


def test_what_is_missing_is_an_import_error_that_names_what_is_near(tmp_path: Path) -> None:
    text = """
        import torch
        for line in ("import torch.nn.functinal", "from torch.nn import Linera",
                     "from torch import rnadn", "import torch.optmi", "import torch.dispatch",
                     "import torch.monitor", "import torch.tensor"):
            try:
                exec(line)
            except ImportError as error:
                print(type(error).__name__, error)
        print(torch.tensor([1]).tolist())
    """
    told = python_by_code(text, tmp_path).splitlines()
    assert [line.split()[0] for line in told[:7]] == [
        "ModuleNotFoundError", "ImportError", "ImportError", *["ModuleNotFoundError"] * 4,
    ]  # fmt: skip
    for line, words in zip(told, (
        "No module named 'torch.nn.functinal'; nearest in fastdist.nn: functional",
        "'Linera' from 'fastdist.nn'; nearest in fastdist.nn: Linear", "randn", "optim",
        "No module named 'torch.dispatch'",
        "show what workers do", "No module named 'torch.ten",
        "[1]",
    ), strict=True):  # fmt: skip
        assert words in line


def test_packages_find_every_optimiser_in_the_module_itself(tmp_path: Path) -> None:
    text = """
        import torch
        kinds = [one for one in vars(torch.optim).values() if isinstance(one, type)]
        for kind in kinds:
            assert kind is not torch.optim.LBFGS or kind.__name__ == "LBFGS"
        print(sum(issubclass(kind, torch.optim.Optimizer) for kind in kinds))
    """
    assert python_by_code(text, tmp_path).split() == ["16"]


def test_pickles_by_either_name_are_read(tmp_path: Path) -> None:
    text = """
        import pickle, torch, fastdist
        assert pickle.loads(b"ctorch.nn\\nLinear\\n.") is fastdist.nn.Linear
        assert pickle.loads(b"cfastdist.nn\\nLinear\\n.") is fastdist.nn.Linear
        assert pickle.loads(b"ctorch\\nadd\\n.") is fastdist.add
        print(pickle.loads(pickle.dumps(torch.nn.Linear(2, 3))))
    """
    assert "Linear(in_features=2" in python_by_code(text, tmp_path)


def test_classes_of_tensors_print_as_pytorch_s(tmp_path: Path) -> None:
    # tensorboardX, for example, checks whether "torch" is in the printed name of a class.
    text = """
        import pickle, torch
        class Own(torch.Tensor): pass
        print(type(torch.ones(2)), type(torch.nn.Linear(1, 1).weight), torch.nn.Buffer)
        assert "Own" in str(Own) and "torch" not in str(Own)
        assert b"fastdist" in pickle.dumps(torch.Tensor) and b"torch." not in pickle.dumps(Own(2))
    """
    assert python_by_code(text, tmp_path) == (
        "<class 'torch.Tensor'> <class 'torch.nn.parameter.Parameter'> "
        "<class 'torch.nn.parameter.Buffer'>\n"
    )
    assert repr(fastdist.Tensor) == "<class 'fastdist.tensor.tensor.Tensor'>"


def test_the_tools_of_imports_see_a_package(tmp_path: Path) -> None:
    text = """
        import importlib, importlib.metadata, importlib.util, pkgutil, torch, fastdist
        assert importlib.util.find_spec("torch").name == "torch"
        assert importlib.util.find_spec("torch.nn") is not None
        assert importlib.metadata.version("torch") == torch.__version__
        linear = torch.nn.Linear
        assert importlib.reload(torch) is torch and importlib.reload(torch.nn) is fastdist.nn
        assert torch.nn.Linear is linear and torch.nn.__spec__.name == "fastdist.nn"
        assert pkgutil.resolve_name("torch.nn:Linear") is linear
        assert not list(pkgutil.walk_packages(torch.__path__, "torch."))
        assert {"nn", "randn"} <= set(dir(torch)) and not {"core", "ops"} & set(dir(torch))
        exec("from torch import *"); print(torch.optim.SGD)
    """
    assert "SGD" in python_by_code(text, tmp_path)


def test_where_torch_is_imported_already_it_refuses_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")
    text = """
        import torch, fastdist
        try:
            fastdist.install_as_torch()
        except ImportError as error:
            print(error)
        import torch as again
        print(again is torch, "PYTHONPATH" in __import__("os").environ)
    """
    told = python(text, tmp_path)
    assert "torch is imported already, from " in told and "before the first `import torch`" in told


def test_the_path_names_the_folder_once_and_keeps_the_rest() -> None:
    once = environment({"PYTHONPATH": os.pathsep.join(["/a", FOLDER, "/b"])})
    assert once == {"PYTHONPATH": os.pathsep.join([FOLDER, "/a", "/b"])}
    assert environment({}) == {"PYTHONPATH": FOLDER}


def test_the_metadata_has_the_version_that_torch_tells() -> None:
    metadata = (Path(FOLDER) / "torch.dist-info" / "METADATA").read_text()
    assert f"\nVersion: {TORCH_VERSION}\n" in metadata


def test_a_version_compares_as_versions_do() -> None:
    version = TorchVersion("2.13.0+fastdist")
    assert version >= (2, 0) and version > "2.9.1" and version >= "2.13" and version < "3"
    assert version < (2, 14) and version != "2.12.0" and version == TorchVersion(version)
    assert TorchVersion("2.0.0a1") < "2.0" < TorchVersion("2.0.0.post1")
    assert TorchVersion("1.10") > "1.9" and TorchVersion("1.10.0") == (1, 10)
    assert isinstance(version, str) and version.split("+")[1] == "fastdist"
    assert {version: 1}[version] == 1 and version != "unknown"
