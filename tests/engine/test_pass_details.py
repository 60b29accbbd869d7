"""Passes: their order and depth, the state of their threads, and the owners of their gradients."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import fastdist
from fastdist import Tensor
from fastdist.autograd.graph import current_graph_task_execution_order, get_gradient_edge
from fastdist.core.device import Device
from fastdist.core.errors import GraphError
from fastdist.engine.backward import modes_engine
from fastdist.engine.device_threads import DeviceThreads
from fastdist.engine.engine import _arrive, current_graph_task, queue_callback
from fastdist.engine.graph_task import GraphTask
from fastdist.engine.input_buffer import InputBuffer
from fastdist.engine.ready_queue import NodeTask, ReadyQueue
from fastdist.graph.node import Node, next_sequence_number
from tests.disturbances.interleaving import Step, each_interleaving


def leaf(*values: float) -> Tensor:
    return fastdist.tensor(values or (1.0, 2.0), dtype=fastdist.float64, requires_grad=True)


@pytest.fixture
def always_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every pass as a task of the engine."""
    monkeypatch.setattr(modes_engine, "always", True)


# ---- depth and order ----------------------------------------------------------------------------


@pytest.mark.usefixtures("always_engine")
def test_a_pass_inside_a_pass_is_one_deeper() -> None:
    depths: list[int] = []

    def go_deeper(levels: int) -> None:
        with fastdist.enable_grad():
            y = leaf().sum()

        def hook(grad: Tensor) -> None:
            task = current_graph_task()
            assert task is not None
            depths.append(task.depth)
            if levels:
                go_deeper(levels - 1)

        y.register_hook(hook)
        y.backward()

    go_deeper(2)
    assert depths == [0, 1, 2]


@pytest.mark.parametrize("always", [False, True])
def test_the_execution_order_of_several_roots_is_by_age_however_often_it_is_asked_for(
    always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes_engine, "always", always)
    x, orders = leaf(), []
    roots = [x.sin().sum(), x.cos().sum(), x.exp().sum()]

    def ask_twice(grad: Tensor) -> None:
        orders.extend(current_graph_task_execution_order() for _ in range(2))

    roots[2].register_hook(ask_twice)
    fastdist.autograd.backward(roots)
    names = [node.name() for node in orders[0]]
    newest_first = ["SumBackward0", "ExpBackward0", "SumBackward0", "CosBackward0"]
    assert names == [
        *newest_first,
        "SumBackward0",
        "SinBackward0",
        "torch::autograd::AccumulateGrad",
    ]
    assert orders[0] == orders[1]


class Task:
    """A stand-in for a pass: it has only `depth`, which a ready queue reads."""

    def __init__(self, depth: int) -> None:
        self.depth = depth


def test_a_queue_gives_the_end_first_then_depth_then_wake_ups_then_the_newest() -> None:
    queue, old, new = ReadyQueue(), leaf().sum().grad_fn, leaf().sum().grad_fn
    shallow, deep = Task(0), Task(1)
    given: dict[str, NodeTask] = {
        "old": NodeTask(shallow, old, InputBuffer(1)),
        "new": NodeTask(shallow, new, InputBuffer(1)),
        "wake-up": NodeTask(shallow, None, None),
        "deep": NodeTask(deep, old, InputBuffer(1)),
        "end": NodeTask(None, None, None, shutdown=True),
    }
    for item in given.values():
        queue.push(item, increment_outstanding=False)
    got = [queue.try_pop() for _ in range(6)]
    assert got == [given[name] for name in ("end", "deep", "wake-up", "new", "old")] + [None]


def test_tasks_of_one_place_keep_their_order() -> None:
    queue, task, node = ReadyQueue(), Task(0), leaf().sum().grad_fn
    items = [NodeTask(task, node, InputBuffer(1)) for _ in range(20)]
    for item in items:
        queue.push(item, increment_outstanding=False)
    assert [queue.pop() for _ in items] == items


# ---- hooks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("always", [False, True])
def test_a_hook_may_not_change_the_dtype(always: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes_engine, "always", always)
    y = leaf() * 2
    y.register_hook(lambda grad: grad.to(fastdist.float32))
    expected = r"^hook has changed the type of value: a hook of MulBackward0 got float64 and .*32$"
    with pytest.raises(RuntimeError, match=expected):
        y.sum().backward()


@pytest.mark.parametrize("always", [False, True])
def test_what_a_post_hook_of_a_node_keeps_is_nobody_elses(
    always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes_engine, "always", always)
    x, kept = leaf(), list[Tensor]()
    for _ in range(2):
        y = x * 3
        y.grad_fn.register_hook(lambda inputs, outputs: kept.append(inputs[0]))
        y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6.0, 6.0]
    assert [grad.tolist() for grad in kept] == [[3.0, 3.0]] * 2


@pytest.mark.parametrize("always", [False, True])
def test_a_leafs_post_hook_gets_a_tensor(always: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes_engine, "always", always)
    x, seen = leaf(), []
    node = get_gradient_edge(x).node
    node.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    (x * 3).sum().backward()
    (((), (grad,)),) = seen
    assert isinstance(grad, Tensor) and grad.tolist() == [3.0, 3.0]


Register = Callable[[Tensor, Callable[..., None]], Any]


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize(
    "register",
    [
        lambda tensor, hook: tensor.register_hook(hook),
        lambda tensor, hook: tensor.grad_fn.register_prehook(hook),
        lambda tensor, hook: tensor.grad_fn.register_hook(hook),
    ],
    ids=["of the tensor", "before the node", "after the node"],
)
def test_a_hook_may_take_itself_away(
    always: bool, register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes_engine, "always", always)
    called: list[str] = []
    y = leaf() * 2

    def once(*_: object) -> None:
        called.append("once")
        handle.remove()

    handle = register(y, once)
    register(y, lambda *_: called.append("always"))
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    assert called == ["once", "always", "always"]


def test_hooks_of_what_is_not_asked_for_do_not_run() -> None:
    x, y, seen = leaf(), leaf(), list[Tensor]()
    unasked = y * 2
    unasked.register_hook(seen.append)
    (grad,) = fastdist.autograd.grad((x * unasked).sum(), [x])
    assert grad.tolist() == [2.0, 4.0] and seen == []


# ---- arguments of a pass ------------------------------------------------------------------------


@pytest.mark.parametrize("given", [3.0, [1.0], "ones"])
def test_a_gradient_that_is_no_tensor_is_refused(given: Any) -> None:
    name = type(given).__name__
    expected = rf"^gradients can be either Tensors or None, but got {name}$"
    with pytest.raises(TypeError, match=expected):
        fastdist.autograd.backward([leaf().sum()], [given])


@pytest.mark.parametrize("always", [False, True])
def test_a_gradient_of_another_dtype_is_taken_as_the_roots(
    always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes_engine, "always", always)
    y, seen = leaf() * 2, list[Tensor]()
    y.grad_fn.register_prehook(lambda grads: seen.append(grads[0]))
    y.backward(fastdist.tensor([1.0, 3.0], dtype=fastdist.float32))
    assert seen[0].dtype is fastdist.float64 and seen[0].tolist() == [1.0, 3.0]


def test_leaves_may_be_roots_and_have_a_place_in_the_order() -> None:
    x, y, orders = leaf(1.0), leaf(2.0), []
    x.register_hook(lambda grad: orders.append(current_graph_task_execution_order()))
    fastdist.autograd.backward([x, y])
    nodes = {get_gradient_edge(x).node, get_gradient_edge(y).node}
    assert len(orders[0]) == 2 and set(orders[0]) == nodes


def test_a_root_that_is_no_tensor_is_refused() -> None:
    expected = r"^element 1 of tensors is float; expected a Tensor$"
    with pytest.raises(TypeError, match=expected):
        fastdist.autograd.backward([leaf().sum(), 3.0])  # type: ignore[list-item]


class Bare(Node):
    """A Node with the given edges, if any, and without a layout for its output."""

    def __init__(self, *edges: Any) -> None:
        self.seq, self.edges, self.hooks, self.output_layout = (
            next_sequence_number(),
            edges,
            None,
            None,
        )
        self.num_outputs = 1
        self.came: list[Any] = []

    def apply(self, g: Any, keep: bool) -> tuple[Any, ...]:
        self.came.append(g)
        return (g,) * len(self.edges)


@pytest.mark.usefixtures("always_engine")
def test_a_gradient_for_a_node_without_a_layout_is_where_it_was_made() -> None:
    x, end = leaf().detach(), Bare()
    x._edge = end
    (x * 3).sum().backward()
    x._edge = middle = Bare(end)
    with pytest.raises(GraphError, match=r"^Bare does not say on which device its gradients are$"):
        (x * 3).sum().backward()
    first, second = fastdist.split(x * 1, [1, 1])
    x._edge = None
    first._edge.node.edges = (end,)
    (first + second).sum().backward()
    assert [g.tolist() for g in end.came] == [[3.0, 3.0], [1.0, 1.0]]
    assert [g.tolist() for g in middle.came] == [[3.0, 3.0]]


def test_a_post_hook_sees_what_a_node_gives_to_nobody() -> None:
    x, seen = leaf().detach(), []
    x._edge = end = Bare(None)
    end.output_layout = x._layout
    end.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), inputs[0].device)))
    (x * 3).sum().backward()
    assert seen == [([3.0, 3.0], fastdist.device("cpu"))]


@pytest.mark.parametrize("always", [False, True])
def test_more_than_two_sparse_gradients_of_a_leaf_add_up(
    always: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes_engine, "always", always)
    weight = fastdist.ones(4, 1, requires_grad=True)
    rows = [fastdist.tensor([i, 0]) for i in range(4)]
    parts = [fastdist.nn.functional.embedding(row, weight, sparse=True).sum() for row in rows]
    (parts[0] + parts[1] + parts[2] + parts[3]).backward()
    assert weight.grad is not None and weight.grad.is_sparse
    assert weight.grad.to_dense().flatten().tolist() == [5.0, 1.0, 1.0, 1.0]


# ---- the thread's state -------------------------------------------------------------------------


def test_a_pass_of_the_engine_inside_an_inline_one_leaves_that_as_it_was() -> None:
    x, called = leaf(), list[str]()
    y = x * 2

    def hook(grad: Tensor) -> None:
        with fastdist.enable_grad():
            z = leaf()
            fastdist.autograd.grad((z * z).sum(), [z])  # a nested pass, which the engine runs
        queue_callback(lambda: called.append("callback"))
        assert current_graph_task_execution_order()[-1].name() == "torch::autograd::AccumulateGrad"

    y.register_hook(hook)
    y.sum().backward()
    assert called == ["callback"]


@pytest.mark.usefixtures("always_engine")
def test_final_callbacks_run_as_the_nodes_did_and_leave_the_mode_as_it_was() -> None:
    y, modes = leaf() * 2, list[bool]()

    def note() -> None:
        modes.append(fastdist.is_grad_enabled())

    y.register_hook(lambda grad: queue_callback(note))
    y.sum().backward()
    assert fastdist.is_grad_enabled()
    z = leaf() * 2
    z.register_hook(lambda grad: queue_callback(note))
    z.sum().backward(create_graph=True)
    assert modes == [False, True] and fastdist.is_grad_enabled()
    loss = leaf().exp().sum()
    loss.register_hook(lambda grad: queue_callback(note))
    with fastdist.no_grad():
        loss.backward()
        assert not fastdist.is_grad_enabled()


# ---- threads ------------------------------------------------------------------------------------


def test_a_pass_that_failed_waits_for_what_devices_still_do() -> None:
    is_inside, may_go_on, x = threading.Event(), threading.Event(), leaf()
    on_device = x.to("sim:0") * 2
    here = x * 3  # made later, so it runs first

    def wait(grad: Tensor) -> None:
        is_inside.set()
        assert may_go_on.wait(20)

    def fail(grad: Tensor) -> None:
        assert is_inside.wait(20)
        raise ValueError("mine")

    on_device.register_hook(wait)
    here.register_hook(fail)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            fastdist.autograd.backward([on_device.sum(), here.sum()])
        except ValueError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(0.1)
    was_alive = thread.is_alive()
    may_go_on.set()
    thread.join(20)
    assert was_alive and str(errors[0]) == "mine"


def test_threads_of_devices_are_gone_when_they_have_been_told_to_end() -> None:
    names: list[str] = []

    def loop(queue: ReadyQueue) -> None:
        assert queue.pop().shutdown
        names.append(threading.current_thread().name)

    threads = DeviceThreads(loop)
    for place in ("sim:0", "sim:1"):
        threads.queue_of(Device.parse(place))
    threads.shutdown()
    assert sorted(names) == ["fastdist-engine-sim:0", "fastdist-engine-sim:1"]
    threads.shutdown()


@pytest.mark.one_in(3)
def test_of_gradients_that_meet_at_a_node_the_last_brings_all_on() -> None:
    x, came = leaf(), list[InputBuffer | None]()
    node = (x * 1).grad_fn

    def prepare() -> tuple[Step, Step]:
        task = GraphTask(
            keep_graph=False, create_graph=False, depth=0, cpu_ready_queue=ReadyQueue()
        )
        task.dependencies[node] = 2
        came.clear()

        def arrive(value: float) -> None:
            grad = fastdist.tensor([value, value], dtype=fastdist.float64)
            with fastdist.no_grad():
                came.append(_arrive(task, node, node, grad, True))

        return lambda: arrive(1.0), lambda: arrive(2.0)

    for _ in each_interleaving(prepare, "engine/engine.py", "engine/input_buffer.py"):
        (buffer,) = (one for one in came if one is not None)
        assert len(came) == 2 and buffer.values[0].tolist() == [3.0, 3.0]


@pytest.mark.one_in(3)
def test_a_task_that_two_threads_see_end_is_completed_once() -> None:
    called: list[int] = []

    def prepare() -> tuple[Step, Step]:
        task = GraphTask(
            keep_graph=False, create_graph=False, depth=0, cpu_ready_queue=ReadyQueue()
        )
        task.final_callbacks.append(lambda: called.append(1))
        called.clear()
        return task.mark_completed_and_post_process, task.mark_completed_and_post_process

    for _ in each_interleaving(prepare, "engine/graph_task.py"):
        assert called == [1]


def test_tasks_are_counted_by_several_threads() -> None:
    tasks: list[GraphTask] = []

    def prepare() -> tuple[Step, Step]:
        task = GraphTask(
            keep_graph=False, create_graph=False, depth=0, cpu_ready_queue=ReadyQueue()
        )
        tasks[:] = [task]
        return lambda: task.add_outstanding(1), lambda: task.add_outstanding(1)

    for _ in each_interleaving(prepare, "engine/graph_task.py"):
        assert tasks[0].outstanding == 2


@pytest.mark.one_in(3)
def test_a_queue_is_filled_and_emptied_by_several_threads() -> None:
    left: list[Callable[[], list[int]]] = []

    def prepare() -> tuple[Step, Step]:
        queue, task, node = ReadyQueue(), Task(0), leaf().sum().grad_fn
        items = [NodeTask(task, node, InputBuffer(1)) for _ in range(3)]
        queue.push(items[0], increment_outstanding=False)
        got: list[NodeTask | None] = []

        def take_and_put(item: NodeTask) -> None:
            got.append(queue.try_pop())
            queue.push(item, increment_outstanding=False)

        def all_of_them() -> list[int]:
            rest = [queue.try_pop() for _ in range(len(queue))]
            return sorted(items.index(one) for one in [*got, *rest] if one is not None)

        left[:] = [all_of_them]
        return lambda: take_and_put(items[1]), lambda: take_and_put(items[2])

    for _ in each_interleaving(prepare, "engine/ready_queue.py"):
        assert left[0]() == [0, 1, 2]
