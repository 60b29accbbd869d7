"""remote: run a function on another worker, and leave its result there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import constants
from .agent import get_current_agent
from .api import To, arguments_of, keywords_of, rpc_async, rpc_sync, worker_to_call
from .references.rref import RRef, above


def remote(
    to: To,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = constants.UNSET_RPC_TIMEOUT,
) -> RRef[Any]:
    """Run func(*args, **kwargs) on worker `to`, and return at once an RRef to its result there.

    Note    what func raises is raised by to_here
    """
    agent = get_current_agent()
    info = worker_to_call(agent, to, func)
    return agent.rrefs.create_remote(info, func, arguments_of(args), keywords_of(kwargs), timeout)


above.update(rpc_sync=rpc_sync, rpc_async=rpc_async, remote=remote)
above["context"] = lambda: get_current_agent().rrefs
