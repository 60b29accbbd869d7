"""Reports to the launcher which workers do not answer although they live."""

# A worker whose Python does not answer for a minute may compute in one call of a library that holds
# the interpreter lock, or hang in it for good. Its peers cannot tell which, and do not give it up;
# its launcher sees whether the process makes progress (launch/lost_workers.py).

from __future__ import annotations

from typing import Any

from . import agent as agents
from .workers.hooks import silence_hooks
from .workers.record import WorkerInfo


def report_hang(worker_info: WorkerInfo, why: str) -> None:
    """Let the launcher know of a worker that lives, and whose Python does not answer."""
    if not agents.is_current_agent_set():
        return
    agent: Any = agents.get_current_agent()
    worker = agent.workers.known(worker_info.id)
    if worker is not None and worker.hangs:
        agent.group.report_to_launcher(worker.record, why, hangs=True)


silence_hooks.append(report_hang)
