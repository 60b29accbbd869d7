"""The arguments and events of PyTorch's profiler, against fastdist's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import fastdist
import fastdist.autograd.profiler
import fastdist.profiler
from fastdist.namespace.catalogue import OPS

# Fields that only PyTorch's recorder fills, or that say which recorder made an event.
OF_THE_RECORDER = {
    *("activity_type", "append_cpu_child", "append_kernel", "concrete_inputs", "event_metadata"),
    *("external_id", "flow_start", "flow_type", "input_dtypes", "kwinputs", "metadata_json"),
    *("linked_correlation_id", "python_id", "python_module_id", "python_parent_id"),
    *("self_cpu_percent", "set_cpu_parent", "structured_input_strides", "total_cpu_percent"),
    *("total_device_percent",),
}
OPTIONS = {"activity_filters"}  # for kinds of records that only PyTorch's recorder makes


def names_of(function: Callable[..., Any]) -> set[str]:
    return {*inspect.signature(function).parameters}


@pytest.mark.interop("torch")
@pytest.mark.filterwarnings("ignore")
def test_functions_take_what_those_of_torch_take() -> None:
    import torch.autograd.profiler

    lacking: dict[str, set[str]] = {}
    for path in (
        *("profiler.profile", "profiler.schedule", "profiler.tensorboard_trace_handler"),
        *("profiler.record_function", "autograd.profiler.profile", "autograd.profiler.emit_nvtx"),
        *("autograd.profiler.profile.table", "autograd.profiler.EventList.table"),
        *("profiler.profile.key_averages", "autograd.profiler.EventList.key_averages"),
        *("profiler.profile.export_stacks", "profiler.profile.export_chrome_trace"),
        *("profiler.profile.toggle_collection_dynamic", "profiler.profile.add_metadata_json"),
        "autograd.profiler.profile.export_chrome_trace",
    ):
        theirs: Any = torch
        ours: Any = fastdist
        for name in path.split("."):
            theirs, ours = getattr(theirs, name), getattr(ours, name)
        lacking[path] = names_of(theirs) - names_of(ours) - OPTIONS
    assert {path for path, names in lacking.items() if names} == set(), lacking


@pytest.mark.interop("torch")
@pytest.mark.filterwarnings("ignore")
def test_events_and_averages_tell_what_those_of_torch_tell() -> None:
    import torch.autograd.profiler

    told = []
    for library in (torch, fastdist):
        with library.profiler.profile(record_shapes=True) as p:
            library.ones(3).exp()
        for entries in (p.events(), p.key_averages(), [p]):
            told.append({name for name in dir(entries[0]) if not name.startswith("_")})
    events, averages, profiles = (told[n] - told[n + 3] - OF_THE_RECORDER for n in range(3))
    assert (events, averages) == (set(), set())
    assert profiles == {
        *("action_map", "activity_filters", "experimental_config", "has_cudagraphs", "mem_tl"),
        *("post_processing_timeout_s", "preset_metadata", "profiler", "record_steps", "schedule"),
        *("step_rec_fn", "use_device"),
    }


@pytest.mark.interop("torch")
def test_events_of_ops_have_names_of_pytorchs() -> None:
    import torch

    from fastdist.distributed.nn.collective import collective  # an op only once it is imported

    known = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    given = {name: op.event((), ()) for name, op in OPS.items() if op.event_namer is None}
    ours = {op for op, event in given.items() if event not in known}
    # In PyTorch, the first is an op per collective, in c10d; the others are Python functions.
    assert ours == {collective.name, "softsign", "tanhshrink"}
