"""SummaryWriter: writes figures of a training run to files for TensorBoard.

writer.py has the writer and its files. summary.py makes the protobuf messages, and pictures.py
the messages with images, audio and video. projector.py has the files of embeddings. The package
`tensorboard` provides the formats and the file writer. This package imports it, and no other part
of fastdist does.
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
