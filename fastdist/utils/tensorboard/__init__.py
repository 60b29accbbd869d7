"""Figures of a training run in files that TensorBoard shows: SummaryWriter.

writer.py has the writer and its files, summary.py makes the messages that go into them, pictures.py
those with images, sounds and films in them, projector.py the folder of an embedding. The package
`tensorboard` has the formats and the file's writer; it is imported with this one, which nothing
else of fastdist imports.
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
