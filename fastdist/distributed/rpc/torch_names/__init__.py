"""PyTorch's semi-private modules of rpc: names that PyTorch programs and tests import.

This package is not needed to understand how a call works, except for argument_errors.py.

backend_registry.py                kinds of agents by name; init_rpc looks up its backend here
faulty_agent.py                    an agent that fails and delays messages on purpose, for tests;
                                   _testing/ offers it under PyTorch's path
internal.py                        PyTorch's names for kinds of calls, and for packing values
gather.py                          _all_gather and _barrier
private_calls.py                   private functions of rpc/api.py and of the bindings
remote_profiler_manager.py         keys of profiled calls
server_process_global_profiler.py  a profile of this process's work for other workers
argument_errors.py                 TypeErrors for wrong arguments, in the wording of PyTorch's
                                   bindings, and the check of timeouts

Modules that PyTorch also has can be imported as `distributed.rpc.NAME`, too (ALIASES). Their actual
names are those in this package. The files belong to several layers of rpc, so
tests/house/test_layers.py checks the layer of each file separately.
"""

from __future__ import annotations

from typing import Final

# Modules of this package, and their alias names in `distributed.rpc`.
ALIASES: Final = (
    *("_testing", "_testing.faulty_agent_backend_registry", "backend_registry", "faulty_agent"),
    *("gather", "internal", "remote_profiler_manager", "server_process_global_profiler"),
)
