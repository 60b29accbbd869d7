"""The graph of a pass, and how the pass ends."""

from __future__ import annotations

import threading

import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.engine.graph_task import GraphRoot, GraphTask
from fastdist.engine.input_buffer import InputBuffer
from fastdist.engine.ready_queue import ReadyQueue
from fastdist.graph.node import oldest


def task(**options: bool) -> GraphTask:
    return GraphTask(
        keep_graph=False, create_graph=False, depth=0, cpu_ready_queue=ReadyQueue(), **options
    )


def root_of(*tensors: Tensor) -> GraphRoot:
    return GraphRoot(tuple(t._edge for t in tensors), (None,) * len(tensors), 10**9)


def test_dependencies_count_the_gradients_that_each_node_gets() -> None:
    x = fd.ones(2, requires_grad=True)
    y = x * 2.0
    z = y + y * x
    found = task()
    found.compute_dependencies([root_of(z)])
    assert (found.dependencies[x._edge], found.dependencies[y._edge]) == (2, 2)
    assert found.dependencies[z._edge] == 1


def test_only_what_leads_to_the_wanted_is_executed() -> None:
    x, w = fd.ones(2, requires_grad=True), fd.ones(2, requires_grad=True)
    y, z = x * 2.0, w * 3.0
    total = y + z
    found, root = task(), root_of(total)
    found.compute_dependencies([root])
    found.init_to_execute(root, [(x._edge, 0)], accumulate=False)
    assert found.exec_info[y._edge].needed and found.exec_info[total._edge].needed
    assert z._edge not in found.exec_info
    assert found.exec_info[x._edge].captures and not found.exec_info[x._edge].needed


def test_what_is_older_than_all_chosen_inputs_is_not_looked_at() -> None:
    x = fd.ones(2, requires_grad=True)
    for _ in range(100):
        x = x * 1.5
    y = x * 2.0 + x
    found = task()
    found.compute_dependencies([root_of(y)], oldest([(x._edge, 0)]))
    assert len(found.nodes_in_graph) == 4


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("create_graph", [False, True])
def test_the_first_node_of_a_process_gets_its_gradient(create_graph: bool) -> None:
    x = fd.ones(2, requires_grad=True)
    y = x * 2.0
    y._edge.seq = 0
    (y * y).sum().backward(create_graph=create_graph)
    assert x.grad.tolist() == [8.0, 8.0]


@pytest.mark.usefixtures("loop")
def test_gradients_for_what_is_older_than_all_chosen_inputs_go_nowhere() -> None:
    x, older = fd.ones(2, requires_grad=True), fd.ones(2, requires_grad=True) * 2.0
    newer = x * 3.0
    (g,) = fd.autograd.grad((older * newer).sum(), newer)
    assert g.tolist() == [2.0, 2.0]


def test_a_leaf_made_late_is_reached_through_all_that_is_older() -> None:
    x = fd.ones(2, requires_grad=True)
    y = x * 2.0
    late = fd.ones(2, requires_grad=True)
    total = y * late
    grads = fd.autograd.grad(total.sum(), [late, x, y])
    assert [g.tolist() for g in grads] == [[2.0, 2.0]] * 2 + [[1.0, 1.0]]


@pytest.mark.seed("E26")
def test_callbacks_run_once_however_many_threads_see_the_end() -> None:
    for _ in range(20):
        found, ran = task(), []
        found.final_callbacks.append(lambda ran=ran: ran.append(None))
        start = threading.Barrier(4)

        def end(found: GraphTask = found, start: threading.Barrier = start) -> None:
            start.wait(10.0)
            found.mark_completed_and_post_process()

        threads = [threading.Thread(target=end) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10.0)
        assert ran == [None] and found.future.wait() == []


def test_callback_may_add_another_and_its_error_is_the_passs() -> None:
    found = task()

    def fail() -> None:
        raise LookupError("mine")

    found.final_callbacks.append(lambda: found.final_callbacks.append(fail))
    found.mark_completed_and_post_process()
    with pytest.raises(LookupError, match="mine"):
        found.future.wait()


def test_first_error_counts() -> None:
    found = task(exit_on_error=True)
    found.add_outstanding(1)
    found.set_exception(KeyError("first"))
    found.set_exception(ValueError("second"))
    assert found.completed()
    with pytest.raises(KeyError, match="first"):
        found.future.wait()


def test_buffer_adds_in_place_only_into_what_the_pass_made() -> None:
    buffer, given = InputBuffer(1), fd.ones(2)
    with fd.no_grad():
        buffer.add(0, given)
        buffer.add(0, fd.ones(2))
        total = buffer.values[0]
        buffer.add(0, None)
        buffer.add(0, fd.ones(2))
    assert given.tolist() == [1.0, 1.0] and total.tolist() == [3.0, 3.0]
    assert buffer.values[0] is total and buffer.owns(0)


@pytest.mark.seed("E19")
def test_buffer_takes_a_fresh_gradient_over_without_a_copy() -> None:
    buffer, fresh = InputBuffer(1), fd.ones(2)
    with fd.no_grad():
        buffer.add(0, fresh, fresh=True)
        buffer.add(0, fd.ones(2))
    assert buffer.values[0] is fresh and fresh.tolist() == [2.0, 2.0]


def test_buffer_does_not_take_over_what_cannot_be_written_to() -> None:
    buffer, seen = InputBuffer(1), fd.ones(1).expand(3)
    with fd.no_grad():
        buffer.add(0, seen, fresh=True)
        buffer.add(0, fd.ones(3))
    assert buffer.values[0] is not seen and buffer.values[0].tolist() == [2.0] * 3
