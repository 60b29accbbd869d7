"""A child that is forked while another thread imports a module can import that module."""

from __future__ import annotations

import pytest

from tests.kernels.cpu.processes import run_script

SCRIPT = """
import importlib.util, os, signal, sys, threading
import fastdist
from fastdist.system.forked_imports import others_import

began, forking = threading.Event(), threading.Event()

class Gate:
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name == NAME else None
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        if threading.current_thread() is not threading.main_thread():
            began.set()
            forking.wait()
        module.number = 3

NAME = "fastdist.behind_a_gate"
sys.meta_path.insert(0, Gate())
BEFORE
os.register_at_fork(before=forking.set)
thread = threading.Thread(target=importlib.import_module, args=(NAME,))
thread.start()
began.wait()
assert others_import()
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(importlib.import_module(NAME).number)
thread.join()
assert not others_import()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.one_in(3)
def test_a_fork_waits_for_an_import_of_another_thread() -> None:
    assert run_script(SCRIPT.replace("BEFORE", "")) == "3"


@pytest.mark.one_in(3)
def test_a_fork_waits_for_an_import_before_it_takes_the_compiler() -> None:
    script = SCRIPT.replace("BEFORE", "import fastdist.kernels.cpu.jit.waiting")
    assert run_script(script) == "3"


@pytest.mark.one_in(3)
def test_an_import_of_another_package_does_not_hold_up_a_fork() -> None:
    script = SCRIPT.replace("BEFORE", "").replace("assert others_import()\n", "")
    script = script.replace("fastdist.behind_a_gate", "behind_a_gate")
    script = script.replace("os._exit(importlib.import_module(NAME).number)", "os._exit(4)")
    assert run_script(script) == "4"
