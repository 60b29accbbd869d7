"""Files written by SummaryWriter are read by the package tensorboard."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import nn

pytestmark = pytest.mark.interop("tensorboard")


def make_writer(folder: Path, **options: Any) -> Any:
    from fastdist.utils.tensorboard import SummaryWriter

    return SummaryWriter(folder, **options)


def events(folder: Path) -> list[Any]:
    """Return the events of the files in a folder, in the order of their names."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    files = sorted(path for path in folder.iterdir() if "tfevents" in path.name)
    return [
        Event.FromString(data) for path in files for data in RawEventFileLoader(str(path)).Load()
    ]


def values(folder: Path) -> dict[str, Any]:
    """Return the written values, by tag."""
    return {value.tag: value for event in events(folder) for value in event.summary.value}


def tensor_of(value: Any) -> np.ndarray[Any, Any]:
    from tensorboard.util import tensor_util

    found: np.ndarray[Any, Any] = tensor_util.make_ndarray(value.tensor)
    return found


def pixels(value: Any) -> np.ndarray[Any, Any]:
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))


def test_scalars_come_with_their_steps_and_times(tmp_path: Path) -> None:
    with make_writer(tmp_path) as writer:
        writer.add_scalar("loss", fastdist.tensor(1.5), 3, walltime=7.0)
        writer.add_scalar("loss", 2, fastdist.tensor(4))
        writer.add_scalar("new", np.float64(2.5), 5, new_style=True)
        with pytest.raises(AssertionError, match=r"^Tensor should contain one element"):
            writer.add_scalar("two", fastdist.ones(2))
        writer.add_scalar("double", 0.1, 5, new_style=True, double_precision=True)
    first, second, *_ = [event for event in events(tmp_path) if event.summary.value]
    assert (first.step, first.wall_time, first.summary.value[0].simple_value) == (3, 7.0, 1.5)
    assert second.step == 4
    assert tensor_of(values(tmp_path)["new"]) == 2.5
    assert tensor_of(values(tmp_path)["double"]).dtype == np.float64


def test_each_curve_of_a_chart_has_a_folder_of_its_own(tmp_path: Path) -> None:
    with make_writer(tmp_path) as writer:
        writer.add_scalars("run/x", {"sin": 1.0, "cos": fastdist.tensor(2.0)}, 1)
    assert values(tmp_path / "run_x_sin")["run/x"].simple_value == 1.0
    assert values(tmp_path / "run_x_cos")["run/x"].simple_value == 2.0


def test_a_histogram_counts_all_values(tmp_path: Path) -> None:
    given = fastdist.arange(-50, 50).to(fastdist.float32) / 10
    with make_writer(tmp_path) as writer:
        writer.add_histogram("h", given, 1)
        writer.add_histogram("few", given, 1, max_bins=5)
        writer.add_histogram("auto", given.numpy(), 1, bins="auto")
        with pytest.raises(ValueError, match=r"^The input has no element\."):
            writer.add_histogram("none", fastdist.ones(0))
        with pytest.raises(ValueError, match=r"^len\(bucket_limits\) != len\(bucket_counts\)"):
            writer.add_histogram_raw("raw", 0, 1, 2, 1, 1, [1.0], [1, 2])
    for tag in ("h", "few", "auto"):
        told = values(tmp_path)[tag].histo
        assert sum(told.bucket) == told.num == 100
        assert (told.min, told.max) == pytest.approx((-5, 4.9))
        assert (told.sum, told.sum_squares) == pytest.approx((-5.0, 833.5), rel=1e-5)
        assert told.bucket[0] == 0 and told.bucket[1] > 0 and told.bucket[-1] > 0
        assert len(told.bucket) == len(told.bucket_limit)


def test_a_histogram_of_one_value_has_one_full_bucket(tmp_path: Path) -> None:
    with make_writer(tmp_path) as writer:
        writer.add_histogram("h", fastdist.zeros(5))
    assert list(values(tmp_path)["h"].histo.bucket) == [0, 5]


def test_pictures_are_those_that_were_given(tmp_path: Path) -> None:
    picture = (np.arange(3 * 4 * 5).reshape(3, 4, 5) * 4).astype(np.uint8)
    with make_writer(tmp_path) as writer:
        writer.add_image("chw", picture)
        writer.add_image("float", fastdist.from_numpy(picture / 255.0))
        writer.add_image("hw", picture[0], dataformats="HW")
        writer.add_images("nchw", np.stack([picture] * 9))
        writer.add_image_with_boxes("box", picture, np.array([[0, 0, 2, 2]]), labels=["a"])
        with pytest.raises(AssertionError, match=r"^You can not use the same dimension shorthand"):
            writer.add_image("x", picture, dataformats="HHW")
    found = values(tmp_path)
    assert (pixels(found["chw"]) == picture.transpose(1, 2, 0)).all()
    assert (abs(pixels(found["float"]).astype(int) - pixels(found["chw"])) <= 1).all()
    assert (pixels(found["hw"]) == picture[0][..., None]).all()
    rows = pixels(found["nchw"])
    assert rows.shape == (8, 40, 3)
    assert (rows[4:, :5] == pixels(found["chw"])).all() and not rows[4:, 5:].any()
    assert (pixels(found["box"])[0, 0] == (255, 0, 0)).all()


def test_sounds_and_films_are_files_that_play(tmp_path: Path) -> None:
    import wave

    from PIL import Image

    with make_writer(tmp_path) as writer:
        writer.add_audio("sound", fastdist.tensor([[0.0, 0.5, -1.0]]), sample_rate=8000)
        writer.add_video("film", fastdist.rand(3, 6, 3, 4, 5), fps=10)
        with pytest.warns(UserWarning, match="the amplitude is out of range"):
            writer.add_audio("loud", fastdist.tensor([2.0, 0.0]))
    found = values(tmp_path)
    with wave.open(io.BytesIO(found["sound"].audio.encoded_audio_string)) as sound:
        assert (sound.getframerate(), sound.getnframes()) == (8000, 3)
        heard = np.frombuffer(sound.readframes(3), "<i2")
    assert heard.tolist() == [0, 16383, -32767]
    film = Image.open(io.BytesIO(found["film"].image.encoded_image_string))
    assert (film.size, getattr(film, "n_frames", 1)) == ((20, 4), 6)


def test_texts_curves_and_charts_are_what_their_plugins_read(tmp_path: Path) -> None:
    from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

    with make_writer(tmp_path) as writer:
        writer.add_text("note", "grüß dich")
        labels, told = fastdist.tensor([0, 1, 1, 0]), fastdist.tensor([0.1, 0.9, 0.4, 0.6])
        writer.add_pr_curve("pr", labels, told, num_thresholds=3)
        writer.add_custom_scalars({"c": {"x": ["Multiline", ["a"]], "y": ["Margin", list("abc")]}})
        writer.add_mesh("mesh", fastdist.ones(1, 4, 3), faces=fastdist.ones(1, 2, 3))
    found = values(tmp_path)
    assert tensor_of(found["note/text_summary"]).tolist() == ["grüß dich".encode()]
    tp, fp, tn, fn, precision, recall = tensor_of(found["pr"])
    assert [row.tolist() for row in (tp, fp, tn, fn)] == [
        [2, 1, 0],
        [2, 1, 0],
        [0, 1, 2],
        [0, 1, 2],
    ]
    assert precision.tolist() == [0.5, 0.5, 0.0] and recall.tolist() == [1.0, 0.5, 0.0]
    layout = Layout.FromString(tensor_of(found["custom_scalars__config__"]).item())
    lines, margin = layout.category[0].chart
    assert lines.multiline.tag == ["a"] and margin.margin.series[0].upper == "c"
    assert tensor_of(found["mesh_VERTEX"]).shape == (1, 4, 3)
    assert tensor_of(found["mesh_FACE"]).shape == (1, 2, 3)


def test_settings_and_metrics_make_a_run_of_their_own(tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    settings = {"lr": 0.1, "name": "a", "size": fastdist.tensor(3), "none": None}
    with make_writer(tmp_path) as writer:
        writer.add_hparams(settings, {"acc": 0.5}, {"name": ["a", "b"]}, run_name="one")
        with pytest.raises(TypeError, match=r"^hparam_dict and metric_dict should be dictionary"):
            writer.add_hparams([1], {})
        with pytest.raises(ValueError, match=r"^value should be one of int, float, str"):
            writer.add_hparams({"a": [1]}, {})
        with pytest.raises(
            TypeError, match=r"hparam_domain_discrete\[a\] should be a list of same"
        ):
            writer.add_hparams({"a": 1}, {}, {"a": ["x"]})
    found = values(tmp_path / "one")
    assert found["acc"].simple_value == 0.5
    content = found["_hparams_/session_start_info"].metadata.plugin_data.content
    told = HParamsPluginData.FromString(content).session_start_info.hparams
    assert (told["lr"].number_value, told["name"].string_value) == (0.1, "a")
    assert told["size"].number_value == 3 and "none" not in told


@pytest.mark.parametrize("dtype", ["float16", "uint8", "float32", "int64", "bool"])
def test_tensors_are_read_as_they_were(tmp_path: Path, dtype: str) -> None:
    given = fastdist.tensor([[1.0, 0.0, 3.5]]).to(getattr(fastdist, dtype))
    with make_writer(tmp_path) as writer:
        writer.add_tensor("t", given)
    assert tensor_of(values(tmp_path)["t"]).tolist() == given.tolist()


def test_embeddings_lie_in_a_folder_of_their_step_and_tag(tmp_path: Path) -> None:
    with make_writer(tmp_path) as writer:
        writer.add_embedding(fastdist.eye(2), ["x", "y"], fastdist.rand(2, 3, 4, 4), 7, "a/b")
        writer.add_embedding(fastdist.eye(2), [[1, 2], [3, 4]], metadata_header=["p", "q"])
        with pytest.raises(AssertionError, match=r"^#labels should equal with #data points"):
            writer.add_embedding(fastdist.eye(2), ["x"], tag="c")
    folder = tmp_path / "00007" / "a%2fb"
    assert (folder / "tensors.tsv").read_text() == "1.0\t0.0\n0.0\t1.0\n"
    assert (folder / "metadata.tsv").read_text() == "x\ny\n"
    assert (folder / "sprite.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "00000" / "default" / "metadata.tsv").read_text() == "p\tq\n1\t2\n3\t4\n"
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_name: "a/b:00007"' in config and 'tensor_name: "default:00000"' in config


def test_the_folder_is_named_after_date_and_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    from fastdist.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(comment="-one", filename_suffix=".end")
    writer.close()
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith(f"_{os.uname().nodename}-one")
    assert writer.get_logdir() == os.path.join("runs", folder.name)
    assert next(folder.iterdir()).name.endswith(".end")


def test_a_run_that_begins_again_says_from_which_step(tmp_path: Path) -> None:
    make_writer(tmp_path, purge_step=5).close()
    assert [event.step for event in events(tmp_path) if event.session_log.status] == [5]


def test_what_is_flushed_can_be_read_and_a_closed_writer_opens_another_file(
    tmp_path: Path,
) -> None:
    writer = make_writer(tmp_path, filename_suffix=".1")
    writer.add_scalar("x", 1)
    writer.flush()
    assert values(tmp_path)["x"].simple_value == 1
    writer.close()
    writer.close()
    writer.filename_suffix = ".2"
    writer.add_scalar("y", 2)
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2 and values(tmp_path)["y"].simple_value == 2


def test_graphs_are_refused_with_words(tmp_path: Path) -> None:
    with make_writer(tmp_path) as writer, pytest.raises(NotImplementedError, match="add_text"):
        writer.add_graph(nn.Linear(2, 3), fastdist.ones(1, 2))
