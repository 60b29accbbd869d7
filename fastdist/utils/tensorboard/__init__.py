"""SummaryWriter: writes data of a training run to files for TensorBoard.

writer.py has SummaryWriter and the class of an event file. summary.py makes the protobuf messages
without images, audio and video, and pictures.py makes the others. projector.py writes the files of
embeddings. The package `tensorboard` provides the formats and the file writer. No other part of
fastdist imports `tensorboard`.
"""

from __future__ import annotations

from ...core.missing import explain_missing

try:
    import tensorboard as _package  # noqa: F401
except ImportError as error:
    raise ImportError(
        "fastdist.utils.tensorboard needs the package tensorboard: pip install tensorboard",
        name="tensorboard",
    ) from error

from tensorboard.summary.writer.record_writer import RecordWriter

from . import summary, writer
from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter", "summary", "writer"]

explain_missing(__name__)
