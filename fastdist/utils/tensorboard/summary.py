"""The messages of an event file, in the formats that TensorBoard's plugins read.

Source  PyTorch, torch/utils/tensorboard/summary.py; TensorBoard, tensorboard/plugins/*/metadata.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf.struct_pb2 import ListValue, Value
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2 as hparams_api
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.hparams import plugin_data_pb2 as hparams_data
from tensorboard.plugins.mesh import metadata as mesh_metadata
from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from ...core import dtypes
from ...core.missing import explain_missing
from ...tensor.tensor import Tensor

__all__ = [
    "custom_scalars",
    "histogram",
    "histogram_raw",
    "hparams",
    "make_np",
    "mesh",
    "pr_curve",
    "pr_curve_raw",
    "scalar",
    "tensor_proto",
    "text",
]

Array = np.ndarray[Any, Any]
# With more thresholds, TensorBoard cannot read the message.
_MOST_THRESHOLDS = 127
_SMALLEST_COUNT = 1e-7
_MOST_BYTES = 1 << 31
# For each dtype, its name in the protobuf format and the field that holds the values.
_FIELDS = {
    dtypes.float16: ("DT_HALF", "half_val"),
    dtypes.float32: ("DT_FLOAT", "float_val"),
    dtypes.float64: ("DT_DOUBLE", "double_val"),
    dtypes.int8: ("DT_INT8", "int_val"),
    dtypes.uint8: ("DT_UINT8", "int_val"),
    dtypes.int16: ("DT_INT16", "int_val"),
    dtypes.int32: ("DT_INT32", "int_val"),
    dtypes.int64: ("DT_INT64", "int64_val"),
    dtypes.bool_: ("DT_BOOL", "bool_val"),
}


def make_np(x: Any) -> Array:
    """Return a tensor, an array or a number as an array.

    Raises  NotImplementedError for anything else
    """
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, Tensor):
        found: Array = x.detach().cpu().numpy()
        return found
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def scalar(
    name: str,
    tensor: Any,
    collections: Any = None,
    new_style: bool = False,
    double_precision: bool = False,
) -> Any:
    """Return the message of a number."""
    array = make_np(tensor).squeeze()
    if array.ndim != 0:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: {array.size} and "
            f"{array.ndim} dimensions."
        )
    value = float(array)
    if not new_style:
        return Summary(value=[Summary.Value(tag=name, simple_value=value)])
    if double_precision:
        proto = TensorProto(double_val=[value], dtype="DT_DOUBLE")
    else:
        proto = TensorProto(float_val=[value], dtype="DT_FLOAT")
    return _message(name, proto, "scalars")


def tensor_proto(tag: str, tensor: Tensor) -> Any:
    """Return the message of a whole tensor.

    Raises  ValueError for 2 GB or more, or for a dtype that the format does not have
    """
    if tensor.numel() * tensor.element_size() >= _MOST_BYTES:
        raise ValueError("tensor is bigger than protocol buffer's hard limit of 2GB in size")
    if tensor.dtype not in _FIELDS:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    word, field = _FIELDS[tensor.dtype]
    array = make_np(tensor).reshape(-1)
    if tensor.dtype is dtypes.float16:
        array = array.view(np.uint16)  # the field holds the bits of 16-bit floats
    numbers = array.tolist()
    proto = TensorProto(dtype=word, tensor_shape=_shape(*tensor.shape), **{field: numbers})
    return _message(tag, proto, "tensor")


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """Return the histogram message of values; bins is "tensorflow", or an argument of np.histogram.

    Raises  ValueError if there are no values
    """
    array = make_np(values).astype(float).reshape(-1)
    if array.size == 0:
        raise ValueError("The input has no element.")
    limits = _growing_limits() if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, limits = np.histogram(array, bins=limits)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _merged(counts, limits, len(counts) // max_bins)
    # Keep the bins from the first non-empty one to the last non-empty one. Put an empty bin before
    # them: the format has only upper limits, so that bin holds the lower limit of the next one.
    filled = np.flatnonzero(counts)
    first, last = (filled[0], filled[-1]) if filled.size else (0, len(counts) - 1)
    return histogram_raw(
        name,
        array.min(),
        array.max(),
        array.size,
        array.sum(),
        array.dot(array),
        limits[first : last + 2],
        np.concatenate([[0], counts[first : last + 1]]),
    )


def histogram_raw(
    name: str,
    min: float,
    max: float,
    num: int,
    sum: float,
    sum_squares: float,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Any:
    """Return the message of a histogram that the caller computed."""
    counted = HistogramProto(
        min=min,
        max=max,
        num=num,
        sum=sum,
        sum_squares=sum_squares,
        bucket_limit=[float(limit) for limit in bucket_limits],
        bucket=[float(count) for count in bucket_counts],
    )
    return Summary(value=[Summary.Value(tag=name, histo=counted)])


def _growing_limits() -> list[float]:
    """Return 0, and the numbers 1e-12 * 1.1**i below 1e20 with both signs, in ascending order."""
    grown, limit = [], 1e-12
    while limit < 1e20:
        grown.append(limit)
        limit *= 1.1
    return [-limit for limit in reversed(grown)] + [0.0] + grown


def _merged(counts: Array, limits: Array, together: int) -> tuple[Array, Array]:
    padded = np.pad(counts, (0, -len(counts) % together))
    return padded.reshape(-1, together).sum(-1), np.append(limits[:-1:together], limits[-1])


def text(tag: str, text: str) -> Any:
    """Return the message of a text."""
    proto = TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=_shape(1))
    content = TextPluginData(version=0).SerializeToString()
    return _message(f"{tag}/text_summary", proto, "text", content)


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Any:
    """Return the message of precision and recall at thresholds from 0 to 1."""
    count = min(num_thresholds, _MOST_THRESHOLDS)
    right = make_np(labels).astype(np.float64)
    weight = 1.0 if weights is None else make_np(weights)
    places = np.floor(make_np(predictions) * (count - 1)).astype(np.int32)

    def at_or_above(weighed: Array) -> Array:
        filled, _ = np.histogram(places, bins=count, range=(0, count - 1), weights=weighed)
        return np.cumsum(filled[::-1])[::-1]

    tp, fp = at_or_above(right * weight), at_or_above((1.0 - right) * weight)
    precision = tp / np.maximum(_SMALLEST_COUNT, tp + fp)
    recall = tp / np.maximum(_SMALLEST_COUNT, tp[0])
    return pr_curve_raw(tag, tp, fp, fp[0] - fp, tp[0] - tp, precision, recall, count)


def pr_curve_raw(
    tag: str,
    tp: Any,
    fp: Any,
    tn: Any,
    fn: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = 127,
    weights: Any = None,
) -> Any:
    """Return the message of a precision-recall curve that the caller computed."""
    data = np.stack([make_np(row) for row in (tp, fp, tn, fn, precision, recall)])
    count = min(num_thresholds, _MOST_THRESHOLDS)
    content = PrCurvePluginData(version=0, num_thresholds=count).SerializeToString()
    return _message(tag, _float_proto(data), "pr_curves", content)


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Any:
    """Return the message with the layout of charts: {category: {title: [kind, tags]}}."""
    found = layout_pb2.Layout(
        category=[
            layout_pb2.Category(
                title=category, chart=[_chart(title, *chart) for title, chart in charts.items()]
            )
            for category, charts in layout.items()
        ]
    )
    proto = TensorProto(
        dtype="DT_STRING", string_val=[found.SerializeToString()], tensor_shape=_shape()
    )
    return _message("custom_scalars__config__", proto, "custom_scalars")


def _chart(title: str, kind: str, tags: Sequence[str]) -> Any:
    if kind != "Margin":
        lines = layout_pb2.MultilineChartContent(tag=tags)
        return layout_pb2.Chart(title=title, multiline=lines)
    if len(tags) != 3:
        raise AssertionError(f"Expected 3 tags, got {len(tags)}: those of value, lower, upper")
    value, lower, upper = tags
    series = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
    return layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))


def mesh(
    tag: str,
    vertices: Any,
    colors: Any,
    faces: Any,
    config_dict: Mapping[str, Any] | None,
    display_name: str | None = None,
    description: str | None = None,
) -> Any:
    """Return the message of a mesh: points, colours and triangles."""
    parts = {
        MeshPluginData.VERTEX: vertices,
        MeshPluginData.FACE: faces,
        MeshPluginData.COLOR: colors,
    }
    given = {kind: make_np(part) for kind, part in parts.items() if part is not None}
    components = mesh_metadata.get_components_bitmask(list(given))
    config = json.dumps({} if config_dict is None else dict(config_dict), sort_keys=True)
    return Summary(
        value=[
            Summary.Value(
                tag=mesh_metadata.get_instance_name(tag, kind),
                tensor=_float_proto(part),
                metadata=mesh_metadata.create_summary_metadata(
                    tag, display_name, kind, components, part.shape, description, json_config=config
                ),
            )
            for kind, part in given.items()
        ]
    )


def hparams(
    hparam_dict: dict[str, Any],
    metric_dict: dict[str, Any],
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Any, Any, Any]:
    """Return three messages: the experiment, the start of a run with its settings, and the end of
    the run.

    Raises  TypeError for arguments that are not dicts; ValueError for a setting that is not a
            number, string, bool or tensor
    """
    domains = hparam_domain_discrete or {}
    for name, given in (
        ("hparam_dict", hparam_dict),
        ("metric_dict", metric_dict),
        ("hparam_domain_discrete", domains),
    ):
        if not isinstance(given, dict):
            raise TypeError(f"parameter: {name} should be a dictionary, nothing logged.")
    start, infos = hparams_data.SessionStartInfo(), []
    for name, setting in hparam_dict.items():
        if setting is None:
            continue
        kind, field, value = _setting(setting)
        setattr(start.hparams[name], field, value)
        domain = None
        if name in domains:
            values = [Value(**{field: one}) for one in _domain(name, domains, setting)]
            domain = ListValue(values=values)
        infos.append(hparams_api.HParamInfo(name=name, type=kind, domain_discrete=domain))
    if unknown := domains.keys() - hparam_dict.keys():
        _domain(min(unknown), domains, None)
    metrics = [
        hparams_api.MetricInfo(name=hparams_api.MetricName(tag=name)) for name in metric_dict
    ]
    experiment = hparams_api.Experiment(hparam_infos=infos, metric_infos=metrics)
    end = hparams_data.SessionEndInfo(status=hparams_api.Status.Value("STATUS_SUCCESS"))
    return (
        _hparams_message(hparams_metadata.EXPERIMENT_TAG, experiment=experiment),
        _hparams_message(hparams_metadata.SESSION_START_INFO_TAG, session_start_info=start),
        _hparams_message(hparams_metadata.SESSION_END_INFO_TAG, session_end_info=end),
    )


def _setting(value: Any) -> tuple[Any, str, Any]:
    number = hparams_api.DataType.Value("DATA_TYPE_FLOAT64")
    if isinstance(value, int | float):  # bools are written as numbers, as in PyTorch
        return number, "number_value", value
    if isinstance(value, str):
        return hparams_api.DataType.Value("DATA_TYPE_STRING"), "string_value", value
    if isinstance(value, Tensor):
        return number, "number_value", value.item()
    raise ValueError(
        f"value should be one of int, float, str, bool, or torch.Tensor; got {type(value)}"
    )


def _domain(name: str, domains: dict[str, list[Any]], setting: Any) -> list[Any]:
    values = domains[name]
    if not isinstance(values, list) or not all(isinstance(one, type(setting)) for one in values):
        raise TypeError(
            f"parameter: hparam_domain_discrete[{name}] should be a list of same type as "
            f"hparam_dict[{name}]."
        )
    return values


def _hparams_message(tag: str, **content: Any) -> Any:
    version = hparams_metadata.PLUGIN_DATA_VERSION
    data = hparams_data.HParamsPluginData(version=version, **content).SerializeToString()
    return _message(tag, None, hparams_metadata.PLUGIN_NAME, data)


def _message(tag: str, proto: Any, plugin: str, content: bytes = b"") -> Any:
    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    metadata = SummaryMetadata(plugin_data=data)
    return Summary(value=[Summary.Value(tag=tag, tensor=proto, metadata=metadata)])


def _float_proto(data: Array) -> Any:
    return TensorProto(
        dtype="DT_FLOAT", float_val=data.reshape(-1).tolist(), tensor_shape=_shape(*data.shape)
    )


def _shape(*sizes: int) -> Any:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in sizes])


explain_missing(__name__)
