"""A thread and a ready queue for each device, started when a pass first needs them."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterable
from typing import Any

from ..core.device import Device
from ..devices.backend import backend_of, is_cpu_alone
from ..graph.forward_streams import device_of, devices_of
from ..graph.node import Node
from .ready_queue import ReadyQueue


class _ThisThread(threading.local):
    queue: ReadyQueue | None = None


_this_thread = _ThisThread()


def current_device_queue() -> ReadyQueue | None:
    """Return the queue of the calling thread if it is a device thread, else None."""
    return _this_thread.queue


class DeviceThreads:
    """The device threads of the engine, named `fastdist-engine-cuda:0` after their device.

    Thread  any thread may call queue_of; `_lock` guards `_queues`
    """

    def __init__(self, loop: Callable[[ReadyQueue], None]) -> None:
        self._loop = loop
        self._queues: dict[Device, ReadyQueue] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def queue_of(self, device: Device) -> ReadyQueue:
        """Return the queue of a device; the first call starts the device's thread."""
        queue = self._queues.get(device)
        if queue is None:
            with self._lock:
                queue = self._queues.get(device)
                if queue is None:
                    queue = self._start(device)
        return queue

    def _start(self, device: Device) -> ReadyQueue:
        if not self._threads:
            atexit.register(self.shutdown)
        queue = ReadyQueue()
        thread = threading.Thread(
            target=self._run, args=(device, queue), name=f"fastdist-engine-{device}", daemon=True
        )
        # Start the thread before other threads can find the queue: if the start fails, no pass may
        # wait for this queue.
        thread.start()
        self._threads.append(thread)
        self._queues[device] = queue
        return queue

    def _run(self, device: Device, queue: ReadyQueue) -> None:
        _this_thread.queue = queue
        self._loop(queue)

    def streams_of(self, nodes: Iterable[Node]) -> dict[Device, Any]:
        """Return the caller's current stream on each device of `nodes`.

        The pass runs on these streams: after the work that the caller has queued, and before the
        work that the caller queues next.
        """
        if is_cpu_alone():
            return {}
        on_devices = (node for node in nodes if device_of(node) is not None)
        devices = {device for node in on_devices for device in devices_of(node)}
        return {device: backend_of(device.type).current_stream(device.index) for device in devices}

    def shutdown(self) -> None:
        """End all device threads; a later pass starts new ones."""
        with self._lock:
            queues, self._queues = self._queues, {}
            threads, self._threads = self._threads, []
        for queue in queues.values():
            queue.push_shutdown()
        for thread in threads:
            thread.join(timeout=1.0)
