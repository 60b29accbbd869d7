"""The folders of embeddings, and the file that lists them for TensorBoard's projector."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf import text_format
from PIL import Image
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from ...core.caller_warning import warn_caller
from .pictures import encode_png, grid
from .summary import Array, make_np


class Projector:
    """The embeddings of one run."""

    def __init__(self) -> None:
        self._config = ProjectorConfig()

    def add(
        self,
        folder: str,
        mat: Any,
        metadata: Any,
        label_img: Any,
        global_step: Any,
        tag: str,
        metadata_header: Sequence[str] | None,
    ) -> None:
        """Write points, labels and images into a new folder, and list it for the projector.

        Raises  AssertionError unless each row has one label and one image; NotADirectoryError if
                `folder` is a file
        """
        points = make_np(mat)
        step = str(global_step).zfill(5)
        own = f"{step}/{_encode(tag)}"
        path = os.path.join(folder, own)
        if os.path.isdir(path):
            warn_caller("Embedding dir exists, did you set global_step for add_embedding()?")
        os.makedirs(path, exist_ok=True)
        told = self._config.embeddings.add(
            tensor_name=f"{tag}:{step}", tensor_path=os.path.join(own, "tensors.tsv")
        )
        if metadata is not None:
            if len(points) != len(metadata):
                raise AssertionError("#labels should equal with #data points")
            _write_rows(os.path.join(path, "metadata.tsv"), _labels(metadata, metadata_header))
            told.metadata_path = os.path.join(own, "metadata.tsv")
        if label_img is not None:
            pictures = make_np(label_img)
            if len(points) != len(pictures):
                raise AssertionError("#images should equal with #data points")
            with open(os.path.join(path, "sprite.png"), "wb") as file:
                file.write(_sprite(pictures))
            told.sprite.image_path = os.path.join(own, "sprite.png")
            told.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
        if points.ndim != 2:
            raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
        rows = ["\t".join(map(str, row)) for row in points.tolist()]
        _write_rows(os.path.join(path, "tensors.tsv"), rows)
        with open(os.path.join(folder, "projector_config.pbtxt"), "w", encoding="utf-8") as file:
            file.write(text_format.MessageToString(self._config))


def _encode(tag: str) -> str:
    return tag.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")


def _labels(metadata: Any, header: Sequence[str] | None) -> list[str]:
    if not header:
        return [str(label) for label in metadata]
    if len(header) != len(metadata[0]):
        raise AssertionError("len of header must be equal to the number of columns in metadata")
    return ["\t".join(map(str, columns)) for columns in (header, *metadata)]


def _write_rows(path: str, rows: Sequence[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(rows) + "\n")


def _sprite(pictures: Array) -> bytes:
    """Return all images in one square sprite image, the form that the projector requires."""
    rows = grid(pictures, math.ceil(len(pictures) ** 0.5)).transpose(1, 2, 0)
    side = rows.shape[1]
    square = np.zeros((side, side, 3))
    square[: len(rows)] = rows
    return encode_png(Image.fromarray((square * 255).clip(0, 255).astype(np.uint8)))
