"""/metrics and /healthz: a reading of this process in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fastdist.core.version import __version__

from .http_server import Answer
from .reading import get_metrics

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_BY_PEER = (
    ("calls", "Calls to a peer"),
    ("sent_bytes", "Bytes of calls to a peer"),
    ("received_bytes", "Bytes of answers from a peer"),
    ("errors", "Calls to a peer that ended with an error"),
)


class Exposition:
    """Answers requests for the two pages."""

    def __init__(self) -> None:
        self._registry: Any = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def answer(self, path: str) -> Answer:
        """Return the page for a path."""
        if path == "/metrics":
            return Answer(200, generate_latest(self._registry), _TEXT)
        if path == "/healthz":
            return health()
        return Answer(404, b"pages: /metrics /healthz\n")

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of one reading, for prometheus_client."""
        reading = get_metrics()
        rank = str(reading["rank"])
        rpc = reading["rpc"]
        info = GaugeMetricFamily(
            "fastdist_worker", "This worker", labels=["rank", "name", "pid", "version"]
        )
        info.add_metric([rank, rpc.get("name", ""), str(reading["pid"]), __version__], 1)
        yield info
        for name, text, value in (
            ("restarts", "How often this worker was started again", reading["restarts"]),
            ("uptime_seconds", "Seconds since the worker joined", reading["up_s"]),
            ("resident_memory_bytes", "Resident memory", reading["rss_bytes"]),
            ("threads", "Threads of the process", reading["threads"]),
            ("open_files", "Open descriptors", reading["files"]),
        ):
            yield _gauge(name, text, rank, value)
        yield from self._of_rpc(rpc, rank)
        if reading["passes"]:
            passes = reading["passes"]
            yield _gauge("backward_passes", "Passes that run here", rank, passes["running"])
            yield _gauge("autograd_contexts", "Contexts with a part here", rank, passes["contexts"])
        yield from _of_groups(reading["groups"], rank)

    def _of_rpc(self, rpc: dict[str, Any], rank: str) -> Iterator[Metric]:
        if not rpc:
            return
        for name, value in rpc["metrics"].items():
            # PyTorch's metrics have names such as agent.client_active_calls.
            plain = name.removeprefix("agent.").replace(".", "_")
            yield _gauge(f"rpc_{plain}", f"{name} of get_metrics()", rank, float(value))
        if "peers" not in rpc:
            return
        served = CounterMetricFamily("fastdist_rpc_served_calls", "Answers sent", labels=["rank"])
        served.add_metric([rank], rpc["served"])
        yield served
        for field, text in _BY_PEER:
            family = CounterMetricFamily(f"fastdist_rpc_{field}", text, labels=["rank", "peer"])
            for peer, numbers in rpc["peers"].items():
                family.add_metric([rank, peer], numbers[field])
            yield family
        waits = GaugeMetricFamily(
            "fastdist_rpc_unanswered_calls",
            "Calls to a peer that have no answer yet",
            labels=["rank", "peer"],
        )
        for peer, pending in rpc["waits_for"].items():
            waits.add_metric([rank, peer], pending)
        yield waits


def health() -> Answer:
    """Return 200 if this worker takes part in its job, or 503 with the reason."""
    reading = get_metrics()
    if reading["rpc"].get("given_up"):
        return Answer(503, b"the other workers have given this one up\n")
    return Answer(200, b"ok\n")


def _gauge(name: str, text: str, rank: str, value: float) -> Metric:
    family = GaugeMetricFamily(f"fastdist_{name}", text, labels=["rank"])
    family.add_metric([rank], value)
    return family


def _of_groups(groups: list[dict[str, Any]], rank: str) -> Iterator[Metric]:
    labels = ["rank", "group", "backend"]
    calls = CounterMetricFamily("fastdist_collectives", "Collectives called", labels=labels)
    moved = CounterMetricFamily(
        "fastdist_collective_bytes", "Bytes of the tensors of collectives", labels=labels
    )
    waited = GaugeMetricFamily(
        "fastdist_collective_wait_seconds",
        "How long the collective under way has lasted",
        labels=[*labels, "call"],
    )
    for group in groups:
        place = [rank, group["name"], group["backend"]]
        calls.add_metric(place, group["collectives"])
        moved.add_metric(place, group["bytes"])
        if group["under_way"] is not None:
            waited.add_metric([*place, group["under_way"]["what"]], group["under_way"]["for_s"])
    yield from (calls, moved, waited)
