"""Messages with images, video and audio."""

from __future__ import annotations

import io
import math
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from tensorboard.compat.proto.summary_pb2 import Summary

from ...core.caller_warning import warn_caller
from .summary import Array, make_np

_LINE_WIDTH = 2


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """Return the message of an image, or of several images in rows of eight."""
    return _message(tag, _bytes_of(to_hwc(make_np(tensor), dataformats)), rescale)


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Sequence[str] | None = None,
) -> Any:
    """Return the message of an image with labelled red boxes."""
    pixels = _bytes_of(to_hwc(make_np(tensor_image), dataformats))
    return _message(tag, pixels, rescale, make_np(tensor_boxes), labels)


def _message(
    tag: str, pixels: Array, rescale: float, boxes: Any = (), labels: Sequence[str] | None = None
) -> Any:
    height, width, channels = pixels.shape
    picture = Image.fromarray(pixels)
    for i, box in enumerate(boxes):
        _draw_box(picture, box, None if labels is None else labels[i])
    scaled = int(width * rescale), int(height * rescale)
    picture = picture.resize(scaled, Image.Resampling.LANCZOS)
    return _encoded(tag, encode_png(picture), height, width, channels)


def _encoded(tag: str, data: bytes, height: int, width: int, channels: int) -> Any:
    message = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=data
    )
    return Summary(value=[Summary.Value(tag=tag, image=message)])


def encode_png(picture: Any) -> bytes:
    """Return a picture as the bytes of a PNG file."""
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return file.getvalue()


def _draw_box(picture: Any, box: Any, label: str | None) -> None:
    left, top, right, bottom = (float(side) for side in box)
    draw = ImageDraw.Draw(picture)
    corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
    draw.line(corners, width=_LINE_WIDTH, fill="Red")
    if label:
        font = ImageFont.load_default()
        begin, above, end, below = font.getbbox(label)
        width, height = end - begin, below - above
        margin = math.ceil(0.05 * height)
        top = bottom - height - 2 * margin
        draw.rectangle([(left, top), (left + width, bottom)], fill="Red")
        draw.text((left + margin, top + margin), label, fill="black", font=font)


def to_hwc(array: Array, dataformats: str) -> Array:
    """Return an image as (height, width, channels); join several images to one, eight in a row.

    Raises  AssertionError if the letters of dataformats repeat, or do not match the number of axes
    """
    if len(set(dataformats)) != len(dataformats):
        raise AssertionError(
            f"You can not use the same dimension shorthand twice. input_format: {dataformats}"
        )
    if array.ndim != len(dataformats):
        raise AssertionError(
            f"size of input tensor and input format are different. tensor shape: {array.shape}, "
            f"input_format: {dataformats}"
        )
    letters = dataformats.upper()
    wanted = {4: "NCHW", 3: "HWC", 2: "HW"}[len(letters)]
    array = array.transpose([letters.index(letter) for letter in wanted])
    if len(letters) == 4:
        return grid(array, 8).transpose(1, 2, 0)
    if len(letters) == 2:
        array = array[..., None]
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array


def grid(pictures: Array, columns: int) -> Array:
    """Return one image that joins several row by row; cells without an image are black.

    Shape   (N, 1 or 3, H, W) -> (3, rows * H, columns * W)
    """
    if pictures.shape[1] == 1:
        pictures = np.repeat(pictures, 3, axis=1)
    if pictures.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    count, channels, height, width = pictures.shape
    columns = min(count, columns)
    rows = -(-count // columns)
    cells = np.zeros((rows * columns, channels, height, width), pictures.dtype)
    cells[:count] = pictures
    cells = cells.reshape(rows, columns, channels, height, width)
    return cells.transpose(2, 0, 3, 1, 4).reshape(channels, rows * height, columns * width)


def _bytes_of(pixels: Array) -> Array:
    """Return uint8 unchanged, and floats from 0 to 1 scaled to uint8."""
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    return (pixels.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)


def figure_to_image(figures: Any, close: bool = True) -> Array:
    """Return a Matplotlib figure as (3, H, W), or a list of figures as (N, 3, H, W)."""
    if isinstance(figures, list):
        return np.stack([figure_to_image(figure, close) for figure in figures])
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figures)
    canvas.draw()
    pixels: Array = np.asarray(canvas.buffer_rgba())[:, :, :3].transpose(2, 0, 1).copy()
    if close:
        pyplot.close(figures)
    return pixels


def video(tag: str, tensor: Any, fps: float = 4) -> Any:
    """Return the message of videos next to each other, as a GIF.

    Shape   (batch, time, channels, height, width)
    """
    films = make_np(tensor)
    batch, time, channels, height, width = films.shape
    rows = 1 << ((batch.bit_length() - 1) // 2)
    columns = (1 << (batch - 1).bit_length()) // rows
    cells = np.zeros((rows * columns, *films.shape[1:]), films.dtype)
    cells[:batch] = films
    cells = cells.reshape(rows, columns, time, channels, height, width)
    frames = cells.transpose(2, 0, 4, 1, 5, 3)
    pixels = _bytes_of(frames.reshape(time, rows * height, columns * width, channels))
    pictures = [Image.fromarray(one.squeeze(2) if channels == 1 else one) for one in pixels]
    file = io.BytesIO()
    pictures[0].save(
        file,
        format="GIF",
        save_all=True,
        append_images=pictures[1:],
        duration=1000 / fps,
        loop=0,
    )
    return _encoded(tag, file.getvalue(), *pixels.shape[1:])


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Any:
    """Return the message of audio samples from -1 to 1, as a WAV file."""
    samples = make_np(tensor).squeeze()
    if samples.ndim != 1:
        raise AssertionError(f"input tensor should be 1 dimensional; got shape {samples.shape}")
    if abs(samples).max() > 1:
        warn_caller("add_audio: the amplitude is out of range; what lies outside -1 ... 1 is cut")
        samples = samples.clip(-1, 1)
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(sample_rate)
        sound.writeframes((samples * np.iinfo(np.int16).max).astype("<i2").tobytes())
    message = Summary.Audio(
        sample_rate=sample_rate,
        num_channels=1,
        length_frames=len(samples),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )
    return Summary(value=[Summary.Value(tag=tag, audio=message)])
