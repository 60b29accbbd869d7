"""Reasons that many refusals give."""

from __future__ import annotations

NO_GRAPHS = "programs are not captured as graphs here: call the function or module itself"
NO_COLLECTIVES = (
    "there are no process groups and collectives yet: connect workers with rpc.init_rpc, and "
    "send gradients between them with distributed.autograd (`fastdist run -n 2 ...`); "
    "is_initialized() is False"
)
NO_HUB = (
    "fastdist fetches no repositories, whose code would run here: clone it yourself, import the "
    "model, and pass the loaded weights to load_state_dict"
)
