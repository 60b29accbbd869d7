"""A child that is forked while other threads hold process-wide locks can take these locks."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import os, signal, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
import fastdist as fd
from fastdist.autograd import forward_ad
from fastdist.core import device
from fastdist.engine import engine
from fastdist.graph import accumulate_grad, anomaly, forward_grad, modes, recordings
from fastdist.graph.node import Node
from fastdist.interpreters import observed_methods
from fastdist.language import scalar
from fastdist.random_numbers import generator
from fastdist.serialization.safe_globals import add_safe_globals
from fastdist.tensor import storage
from fastdist.tensor.layout import Layout

fd.manual_seed(3)
held, over = threading.Event(), threading.Event()


def hold():
    with (
        generator._defaults_lock, generator.Generator._stream_lock, scalar.Node._interned_lock,
        scalar.Body._interned_lock, device._chosen_lock, engine._engine_lock, anomaly._switch_lock,
        forward_grad._levels_lock, recordings._lock, observed_methods._observers_lock,
        sys.modules[add_safe_globals.__module__]._added_lock, Node._first_hook_lock,
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
    loss = (x[1:] * x[:-1]).sum()
    loss.grad_fn.register_hook(lambda *_: None), x.register_post_accumulate_grad_hook(id)
    assert fd.Generator().manual_seed(3).initial_seed() == 3
    scalar.parse("exp(x) * T(17.25)", ("x",))
    with forward_ad.dual_level(), fd.autograd.profiler.profile(), fd.device("cpu"):
        forward_ad.make_dual(fd.ones(3), fd.ones(3)).exp()
    with fd.autograd.detect_anomaly():
        (x * x).sum().backward(create_graph=True, inputs=[x])
    add_safe_globals([])
    loss.backward()
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
