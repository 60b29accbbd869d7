"""Device maps sent with messages direct the gradients; only differentiable calls are wrapped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist
import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import MessageError
from fastdist.distributed import rpc
from fastdist.distributed.autograd.outbox import unpack
from fastdist.distributed.autograd.pass_metadata import Terms
from fastdist.distributed.rpc.agent import get_current_agent
from fastdist.distributed.rpc.message.types import MessageType
from tests.device_kinds import KINDS, kind_here, told
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.autograd.programs import contexts_of, leaf, wait_for_no_context
from tests.distributed.workers import Group

BACKWARD = MessageType.BACKWARD_AUTOGRAD_REQ


def init() -> None:
    kind = kind_here()
    options = rpc.TensorPipeRpcBackendOptions(rpc_timeout=30, init_timeout=30)
    if os.environ["RANK"] == "0":
        options.set_device_map("w1", {f"{kind}:0": f"{kind}:1", f"{kind}:1": f"{kind}:0"})
    rpc.init_rpc(f"w{os.environ['RANK']}", rpc_backend_options=options)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def group(kind: str) -> Iterator[Group]:
    group = Group(__file__, 2, told(kind))
    try:
        group.run_all(init)
        yield group
        group.run_all(rpc.shutdown)
        assert group.end() == [0, 0]
    finally:
        group.kill()


# ---- device maps --------------------------------------------------------------------------------


def maps_here(*tensors: Tensor) -> list[dict[str, str]]:
    """Return the device map for the gradients of each receive in the current context."""
    return [
        {str(mine): str(theirs) for mine, theirs in receive.device_map.items()}
        for receive in da._current_context()._recv_functions().values()
    ]


def sum_and_maps(x: Tensor, y: Tensor) -> tuple[Tensor, list[dict[str, str]]]:
    return x * 3 + y.to(x.device), maps_here()


@pytest.mark.seed("U5", "U9", "U13")
@on_worker(0)
def test_a_receive_keeps_the_map_by_which_its_tensors_came_turned_round(kind: str) -> None:
    x = fastdist.ones(2, device=f"{kind}:0", requires_grad=True)
    y = fastdist.ones(2, requires_grad=True)
    with da.context() as context_id:
        z, there = rpc.rpc_sync("w1", sum_and_maps, (x, y))
        assert there == [{f"{kind}:1": f"{kind}:0", f"{kind}:0": f"{kind}:1"}]
        # The result came back by the caller's device map, so its gradients use that map.
        assert str(z.device) == f"{kind}:0"
        assert maps_here() == [{f"{kind}:0": f"{kind}:1", f"{kind}:1": f"{kind}:0"}]
        da.backward(context_id, [z.sum()])
        found = da.get_gradients(context_id)
        assert found[x].to("cpu").tolist() == [3.0, 3.0] and str(found[x].device) == f"{kind}:0"
        assert found[y].tolist() == [1.0, 1.0]


_words: list[dict[str, Any]] = []


def listen_for_gradients() -> None:
    """Record the metadata of gradients that arrive in this worker."""
    from fastdist.distributed.rpc import handlers

    handle = handlers.handler_of(BACKWARD)
    assert handle is not None

    def note(envelope: Any) -> Any:
        _words.append(dict(envelope.metadata))
        return handle(envelope)

    handlers.register_handler(BACKWARD, note)


def devices_told() -> list[Any]:
    return [words.get("devices") for words in _words]


@pytest.mark.seed("U5", "E36")
@on_worker(0)
def test_gradients_say_where_the_map_leads_them(kind: str) -> None:
    rpc.rpc_sync("w1", listen_for_gradients)
    x = fastdist.ones(2, device=f"{kind}:1", requires_grad=True)
    with da.context() as context_id:
        z, _ = rpc.rpc_sync("w1", sum_and_maps, (x, fastdist.ones(2, requires_grad=True)))
        # In auto mode, requests to begin a pass carry no devices, so use fast mode.
        da.backward(context_id, [z.sum()], mode="fast")
        (known,) = da._current_context()._recv_functions()
    # The gradient goes to device 0, where the result was on w1.
    assert rpc.rpc_sync("w1", devices_told) == [(f"{kind}:0",)] and known >> 48 == 1


@pytest.mark.seed("U5")
@on_worker(0)
def test_gradients_by_a_map_that_leads_elsewhere_are_refused(kind: str) -> None:
    x = fastdist.ones(2, device=f"{kind}:1", requires_grad=True)
    with da.context() as context_id:
        rpc.rpc_sync("w1", sum_and_maps, (x, fastdist.ones(2, requires_grad=True)))
        (known,) = da._current_context()._recv_functions()
        words = Terms(context_id, 1 << 40)._asdict()
        words |= {"messages": [known, 1], "devices": [f"{kind}:1"]}
        sent = get_current_agent().send(1, BACKWARD, [fastdist.ones(2)], words, timeout_s=20)
        expected = rf"from worker 0 by a device map that leads to {kind}:1, .* sent from {kind}:0$"
        with pytest.raises(MessageError, match=expected):
            sent.wait()


@pytest.mark.one_in(2)
@pytest.mark.seed("U5")
@pytest.mark.parametrize("devices", [("sim:0", "sim:0"), (1,), "sim:0", None])
def test_devices_that_do_not_fit_the_gradients_are_refused(devices: Any) -> None:
    words = {"messages": (5, 1), "devices": devices}
    with pytest.raises(MessageError, match=r"'devices' of worker 3 .* expected (one|a list)"):
        unpack([fastdist.ones(2)], words, 3)


# ---- what is wrapped ----------------------------------------------------------------------------


@pytest.mark.seed("U7")
@on_worker(0)
def test_an_op_under_no_grad_is_not_wrapped() -> None:
    a = leaf(1, 2)
    rpc.rpc_sync("w1", wait_for_no_context)  # the context of an earlier test may still exist there
    with da.context() as context_id:
        with fastdist.no_grad():
            total = rpc.rpc_sync("w1", fastdist.add, (a, a))
        assert contexts_of("w1") == 0 and total.is_leaf
        assert da._current_context()._known_worker_ids() == set()
        assert da._current_context()._send_functions() == {}
        # The same call outside no_grad is recorded.
        da.backward(context_id, [rpc.rpc_sync("w1", fastdist.add, (a, a)).sum()])
        assert contexts_of("w1") == 1 and (da.get_gradients(context_id)[a].numpy() == 2).all()
