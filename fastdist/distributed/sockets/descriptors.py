"""The limit on open descriptors of this process."""

from __future__ import annotations

import resource

WANTED_DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Raise the soft limit on descriptors to the hard limit.

    Note    libzmq aborts the process if no descriptor is left for accepting a connection at a Unix
            socket (ipc_listener.cpp). The usual soft limit of 1024 is meant for programs that use
            select
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, WANTED_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptor_limit() -> int:
    """Return the limit on open descriptors of this process."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
