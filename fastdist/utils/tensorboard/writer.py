"""SummaryWriter: writes values of a run, each with its step and time, to files for TensorBoard."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn, Self

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ...core.missing import explain_missing
from . import pictures, projector, summary

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """One event file. A thread of the package tensorboard writes it, in the order of the calls."""

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self.event_writer = EventFileWriter(
            os.fspath(log_dir), max_queue, flush_secs, filename_suffix
        )

    def get_logdir(self) -> str:
        """Return the folder of the file."""
        folder: str = self.event_writer.get_logdir()
        return folder

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write a message with its step and time; `walltime` is the current time by default."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a Summary with its step and time."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Wait until all messages are in the file."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write all pending messages, and end the thread that writes the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Do nothing: the file is opened when the writer is created."""


class SummaryWriter:
    """Writes data of a run to `log_dir`, by default `runs/<date and time>_<host><comment>`.

    If a run restarts at `purge_step`, TensorBoard hides the data that it wrote before the restart
    for `purge_step` and later steps. `filename_suffix` is appended to the file's name. After
    `close`, the next call that writes opens another file.

    Thread  not thread-safe; a thread of the package tensorboard writes the file
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")  # noqa: DTZ005 (for people to read)
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        # The writers by folder: each curve of add_scalars has a separate folder.
        self.all_writers: dict[str, FileWriter] | None = None
        self._projector = projector.Projector()
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.all_writers = {}
            self.file_writer = self._writer_of(os.fspath(self.log_dir))
            if self.purge_step is not None:
                start = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(
                    Event(step=self.purge_step, file_version="brain.Event:2")
                )
                self.file_writer.add_event(Event(step=self.purge_step, session_log=start))
                self.purge_step = None
        return self.file_writer

    def _writer_of(self, folder: str) -> FileWriter:
        assert self.all_writers is not None
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(
                folder, self.max_queue, self.flush_secs, self.filename_suffix
            )
        return self.all_writers[folder]

    def _add(self, message: Any, global_step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(message, global_step, walltime)

    def get_logdir(self) -> str | os.PathLike[str]:
        """Return the folder of the run."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number. Raises AssertionError for a tensor with several elements."""
        message = summary.scalar(
            tag, scalar_value, new_style=new_style, double_precision=double_precision
        )
        self._add(message, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write several numbers, shown as curves in one chart; each curve has a separate folder."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            curve = self._writer_of(f"{folder}/{main_tag.replace('/', '_')}_{tag}")
            curve.add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a whole tensor. Raises ValueError for a dtype that the format does not have."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write a histogram of values; bins is "tensorflow", or an argument of np.histogram.

        Raises  ValueError if there are no values
        """
        message = summary.histogram(tag, values, bins, max_bins=max_bins)
        self._add(message, global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram that the caller computed; bucket_limits are the upper limits."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                "len(bucket_limits) != len(bucket_counts), see the document: "
                f"{len(bucket_limits)} upper limits of {len(bucket_counts)} buckets"
            )
        message = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(message, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write an image: uint8, or floats from 0 to 1."""
        self._add(pictures.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write several images as one, eight in a row."""
        self._add(pictures.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Sequence[str] | str | None = None,
    ) -> None:
        """Write an image with labelled boxes (left, top, right, bottom)."""
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != len(box_tensor):
            labels = None
        message = pictures.image_boxes(
            tag, img_tensor, box_tensor, rescale=rescale, dataformats=dataformats, labels=labels
        )
        self._add(message, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write one Matplotlib figure or a list of figures; if `close` is True, close them."""
        drawn = pictures.figure_to_image(figure, close)
        self.add_image(tag, drawn, global_step, walltime, "CHW" if drawn.ndim == 3 else "NCHW")

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Write videos, shown next to each other; shape (batch, time, channels, height, width)."""
        self._add(pictures.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write audio samples from -1 to 1."""
        self._add(pictures.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Write a text, which TensorBoard renders as Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> NoReturn:
        """Raise NotImplementedError: graphs of programs are not supported."""
        raise NotImplementedError(
            "SummaryWriter.add_graph: programs are not captured as graphs here; leave the call out,"
            " or write what print(model) says with add_text"
        )

    def add_onnx_graph(self, prototxt: Any) -> NoReturn:
        """Raise NotImplementedError: ONNX files are not supported."""
        raise NotImplementedError("SummaryWriter.add_onnx_graph: ONNX files are not read here")

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Write points, one per row, with labels and images, for the projector."""
        self._projector.add(
            self._get_file_writer().get_logdir(),
            mat,
            metadata,
            label_img,
            0 if global_step is None else global_step,
            tag,
            metadata_header,
        )

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision and recall of predicted probabilities, at thresholds from 0 to 1."""
        message = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(message, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a precision-recall curve that the caller computed."""
        message = summary.pr_curve_raw(
            tag,
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
            num_thresholds,
            weights,
        )
        self._add(message, global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show the scalars with these tags in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show a scalar with a margin; `tags` has the tags of value, lower bound, upper bound."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Set the layout of charts: {category: {title: ["Multiline" or "Margin", tags]}}. Call this
        once per run.
        """
        self._add(summary.custom_scalars(layout), None, None)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write a mesh: points of shape (batch, count, 3), colours and triangles."""
        message = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._add(message, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Write hyperparameters and the metrics reached with them, as a separate run.

        Raises  TypeError for arguments that are not dicts; ValueError for a hyperparameter that is
                not a number, string, bool or tensor
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError(
                "hparam_dict and metric_dict should be dictionary; got "
                f"{type(hparam_dict).__name__} and {type(metric_dict).__name__}"
            )
        messages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as run:
            for message in messages:
                run._add(message, global_step, None)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    def flush(self) -> None:
        """Wait until all messages are in the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write all pending messages, and end the threads; a second `close` does nothing."""
        writers, self.file_writer, self.all_writers = self.all_writers, None, None
        for writer in (writers or {}).values():
            writer.flush()
            writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


explain_missing(__name__)
