"""A child that is forked while other threads hold locks of the process."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, signal, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
import fastdist as fd
from fastdist.core import generator
from fastdist.graph import accumulate_grad, modes
from fastdist.tensor import storage
from fastdist.tensor.layout import Layout

fd.manual_seed(3)
held, over = threading.Event(), threading.Event()


def hold():
    with (
        generator._defaults_lock, generator.default_generator_of(fd.device("cpu"))._stream_lock,
        modes._modes_lock, storage._storages_lock, accumulate_grad._leaves_lock,
        Layout._interned_lock,
    ):
        held.set()
        over.wait()


thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)  # which kills it
    x = fd.randn(17, 3).requires_grad_()
    with fd.no_grad():
        x.mul_(2.0)
    fd.trace(lambda a: a[1:].exp().sum())(x).outputs
    (x[1:] * x[:-1]).sum().backward()
    os._exit(0 if x.grad.isfinite().all() else 3)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
over.set()
thread.join()
fd.ones(3, 31).requires_grad_().exp().sum().backward()  # the parent's are as they were
print(status)
"""


def test_a_child_waits_for_no_lock_that_another_thread_held_at_the_fork() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=110, check=False
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
