"""Events become a trace and a page, in which workers are separate and messages are arrows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import fastdist as fd
from fastdist.autograd import profiler as autograd_profiler
from fastdist.instrumentation.time_ranges import TimeRange
from fastdist.profiler import profile
from fastdist.profiler.events import events_of
from fastdist.profiler.function_event import Arrow
from fastdist.profiler.trace import Trace


def trace() -> Trace:
    sender, receiver = events_of(
        [
            TimeRange("send </script>", "message", 1_000, 3_000, 7, "main", 0),
            TimeRange(
                "receive", "message", 4_000, 6_000, 7, "pool", 1, shapes=((2, 3),), stack=("g", "f")
            ),
        ]
    )
    arrow = Arrow(sender, 1.0, receiver, 4.0)
    return Trace([sender, receiver], {0: "trainer"}, [arrow], {id(receiver)})


def test_a_trace_has_a_process_a_worker_a_row_a_thread_and_an_arrow_a_message() -> None:
    listed = trace().for_chrome()["traceEvents"]
    names = [(one["pid"], one["args"]["name"]) for one in listed if one["name"][-5:] == "_name"]
    assert names == [(0, "trainer"), (1, "worker 1"), (0, "main"), (1, "pool")]
    begun, ended = (next(one for one in listed if one["ph"] == kind) for kind in "sf")
    assert begun["id"] == ended["id"] and (begun["pid"], ended["pid"]) == (0, 1)
    critical = [one for one in listed if one.get("args", {}).get("critical")]
    assert [one["name"] for one in critical] == ["receive"]
    assert critical[0]["args"]["Input Dims"] == [[2, 3]]
    assert critical[0]["args"]["Call stack"] == "f;g"


def of_many_threads() -> list[TimeRange]:
    """Return ranges of two threads with the same id, of a thread pool, and of a stream."""
    return [
        TimeRange("a", "op", 1_000, 2_000, 7, "pool-10", sequence_nr=3),
        TimeRange("b", "op", 1_000, 2_000, 8, "pool-2", device="sim:0", kernel_id=5),
        TimeRange("c", "kernel", 2_000, 3_000, 4, "stream-0", device="sim:0", kernel_id=5),
        TimeRange("d", "backward", 3_000, 4_000, 7, "mine", sequence_nr=3),
        TimeRange("e", "op", 5_000, 6_000, 9, "MainThread"),
        TimeRange("f", "rpc", 5_000, 9_000, 9, "MainThread", is_async=True),
        TimeRange("g", "rpc", 5_500, 9_500, 9, "MainThread", is_async=True),
    ]


def test_each_thread_and_stream_is_one_row_the_main_thread_first_and_streams_last() -> None:
    listed = Trace(events_of(of_many_threads())).for_chrome()["traceEvents"]
    rows = [one["args"]["name"] for one in listed if one["name"] == "thread_name"]
    assert rows == ["MainThread", "MainThread", "mine", "pool-2", "pool-10", "stream-0"]
    order = {one["tid"]: one["args"] for one in listed if one["name"] == "thread_sort_index"}
    assert order == {number: {"sort_index": number} for number in range(1, 7)}
    tids = {one["name"]: one["tid"] for one in listed if one["ph"] in "Xb"}
    assert tids == {"a": 5, "b": 4, "c": 6, "d": 3, "e": 1, "f": 2, "g": 2}


def test_calls_that_overlap_are_asynchronous_and_nothing_else_overlaps_in_a_row() -> None:
    listed = Trace(events_of(of_many_threads())).for_chrome()["traceEvents"]
    calls = [one for one in listed if one["ph"] in "be"]
    assert [(one["ph"], one["name"], one["ts"]) for one in calls] == [
        ("b", "f", 4.0),
        ("e", "f", 8.0),
        ("b", "g", 4.5),
        ("e", "g", 8.5),
    ]
    assert len({one["id"] for one in calls}) == 2


def test_arrows_lead_from_an_op_to_its_gradient_and_to_what_a_device_did() -> None:
    listed = Trace(events_of(of_many_threads())).for_chrome()["traceEvents"]
    ends = [(one["cat"], one["ph"], one["tid"], one["ts"]) for one in listed if one["ph"] in "sf"]
    assert sorted(ends) == [
        ("ac2g", "f", 6, 1.0),
        ("ac2g", "s", 4, 0.0),
        ("fwdbwd", "f", 3, 2.0),
        ("fwdbwd", "s", 5, 0.0),
    ]


def shown(page: str) -> dict[str, object]:
    (found,) = re.findall(r"const data = (\{.*\});\n", page)
    data: dict[str, object] = json.loads(found)
    return data


def test_a_page_holds_all_that_it_shows_and_loads_nothing() -> None:
    page = trace().as_page("My <run>")
    assert not re.search(r"https?:|\bsrc=|@import|fetch\(|url\(", page)
    assert page.count("</script>") == 1
    told = shown(page)
    assert told["title"] == "My <run>"
    assert told["lanes"] == [["trainer", "main"], ["worker 1", "pool"]]
    assert told["arrows"] == [[0, 1.0, 1, 4.0]]
    assert told["events"] == [
        [0, "send </script>", "message", 0.0, 2.0, 0, [], -1],
        [1, "receive", "message", 3.0, 5.0, 1, [0, 1, 2], -1],
    ]
    assert told["texts"] == ["input [[2, 3]]", "g", "f"]


def test_a_page_tells_what_is_known_of_an_event_and_what_it_is_of() -> None:
    known = of_many_threads()
    known[0] = known[0]._replace(
        flops=1_000, memory_bytes=-2_000, module="Net.0", stack=tuple("abcdefghij")
    )
    told = shown(Trace(events_of(known)).as_page(""))
    events, texts = told["events"], told["texts"]
    assert isinstance(events, list) and isinstance(texts, list)
    (first,) = [[texts[place] for place in event[6]] for event in events if event[1] == "a"]
    assert first == ["in Net.0", "1,000 FLOPs", "-2,000 bytes of the CPU", *"abcdefgh", "..."]
    # A gradient has the module and the call stack of its op.
    (gradient,) = [event for event in events if event[1] == "d"]
    assert [texts[place] for place in gradient[6]] == ["in Net.0", *"abcdefgh", "..."]
    assert events[gradient[7]][1] == "a"


@pytest.mark.parametrize("make", [profile, autograd_profiler.profile])
def test_a_profile_writes_its_page(make: type, tmp_path: Path) -> None:
    with make() as p:
        fd.ones(2).exp()
    p.export_html(tmp_path / "page.html")
    told = shown((tmp_path / "page.html").read_text())
    assert "aten::exp" in str(told["events"])


def test_nothing_recorded_is_a_page_as_well(tmp_path: Path) -> None:
    assert shown(Trace([]).as_page(""))["events"] == []


def test_the_page_answers_every_key_that_it_lists() -> None:
    page = Trace([]).as_page("")
    listed = page.split('<dialog id="keys">')[1].split("</dialog>")[0]
    handler = page.split("window.onkeydown")[1]
    names = {"↑": "ArrowUp", "↓": "ArrowDown", "←": "ArrowLeft", "→": "ArrowRight"}
    keys = " ".join(re.findall(r"<tr><td>([^<]*)<td>", listed)).replace("double click", "")
    for key in set(re.findall(r"[^\s,]+", keys)) - {"Shift"}:
        assert f'"{names.get(key, key.lower() if len(key) == 1 else key)}"' in handler, key
    assert '<canvas id="canvas" tabindex="0"' in page
