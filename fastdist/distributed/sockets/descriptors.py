"""How many descriptors this process may have."""

from __future__ import annotations

import resource

WANTED_DESCRIPTORS = 65_536


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as it may without asking anybody.

    Note    libzmq ends the process when it cannot accept at a unix socket for want of a descriptor
            (ipc_listener.cpp): the usual soft limit of 1024 is there for programs that use select
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, WANTED_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptor_limit() -> int:
    """Return how many descriptors this process may have."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return WANTED_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
