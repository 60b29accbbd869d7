"""The order in which tasks leave a ready queue."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fastdist.engine.graph_task import GraphTask
from fastdist.engine.ready_queue import NodeTask, ReadyQueue
from fastdist.graph.node import Node
from tests.disturbances.interrupts import each_ctrl_c


def pass_of(queue: ReadyQueue, depth: int = 0) -> GraphTask:
    return GraphTask(keep_graph=False, create_graph=False, depth=depth, cpu_ready_queue=queue)


def node(seq: int) -> Node:
    made = Node()
    made.seq, made.edges, made.hooks, made.output_layout = seq, (), None, None
    return made


def popped(queue: ReadyQueue) -> list[int]:
    return [queue.pop().node.seq for _ in range(len(queue))]


def test_deepest_node_leaves_first() -> None:
    queue = ReadyQueue()
    task = pass_of(queue)
    for seq in (1, 3, 2):
        queue.push(NodeTask(task, node(seq), None))
    assert popped(queue) == [3, 2, 1]


def test_nodes_of_a_nested_pass_leave_before_those_of_the_outer_one() -> None:
    queue = ReadyQueue()
    outer, inner = pass_of(queue), pass_of(queue, depth=1)
    queue.push(NodeTask(outer, node(9), None))
    queue.push(NodeTask(inner, node(1), None))
    assert popped(queue) == [1, 9]


def test_equal_nodes_leave_in_the_order_of_their_arrival() -> None:
    queue = ReadyQueue()
    task, same = pass_of(queue), node(4)
    tasks = [NodeTask(task, same, None) for _ in range(5)]
    for one in tasks:
        queue.push(one)
    assert [queue.pop() for _ in tasks] == tasks


def test_shutdown_leaves_before_everything() -> None:
    queue = ReadyQueue()
    task = pass_of(queue, depth=100)
    queue.push(NodeTask(task, node(7), None))
    queue.push_shutdown()
    assert queue.pop().shutdown


def test_push_counts_a_task_before_it_can_be_popped() -> None:
    queue = ReadyQueue()
    task = pass_of(queue)
    queue.push(NodeTask(task, node(1), None))
    assert task.outstanding == 1
    queue.push(NodeTask(task, None, None), increment_outstanding=False)
    assert task.outstanding == 1


def test_queue_does_not_keep_a_pass_alive() -> None:
    queue = ReadyQueue()
    task = pass_of(queue)
    queue.push(NodeTask(task, node(1), None))
    del task
    assert queue.pop().graph_task is None


def test_pop_waits_for_a_push_and_try_pop_does_not() -> None:
    queue = ReadyQueue()
    assert queue.try_pop() is None
    task, got = pass_of(queue), []
    thread = threading.Thread(target=lambda: got.append(queue.pop().node.seq))
    thread.start()
    queue.push(NodeTask(task, node(5), None))
    thread.join(10.0)
    assert got == [5]


def test_ctrl_c_in_a_push_leaves_the_queue_to_other_threads() -> None:
    consumers: list[tuple[ReadyQueue, threading.Thread]] = []
    passes: list[GraphTask] = []

    def prepare() -> Callable[[], object]:
        queue, sleeps = ReadyQueue(), threading.Event()

        def consume() -> None:
            sleeps.set()
            while not queue.pop().shutdown:
                continue

        consumer = threading.Thread(target=consume, daemon=True)
        consumer.start()
        sleeps.wait()
        consumers.append((queue, consumer))
        passes.append(pass_of(queue))
        return lambda: queue.push(NodeTask(passes[-1], node(1), None))

    for place in each_ctrl_c(prepare):
        queue, consumer = consumers[-1]
        threading.Thread(target=queue.push_shutdown, daemon=True).start()
        consumer.join(10.0)
        assert not consumer.is_alive(), f"place {place}"
    consumers[-1][0].push_shutdown()
    consumers[-1][1].join(10.0)
