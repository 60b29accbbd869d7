"""PyTorch's private files by their names: _utils, _tensor_str, _C, functional, quasirandom, hub."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import _C, _tensor_str, _utils, functional, hub, mps, mtia, quasirandom, xpu


def test_flat_buffers_go_back_into_the_shapes_of_their_tensors() -> None:
    tensors = [fastdist.ones(2, 3), fastdist.zeros(4)]
    flat = _utils._flatten_dense_tensors(tensors)
    parts = _utils._unflatten_dense_tensors(flat, tensors)
    assert flat.shape == (10,)
    assert [part.tolist() for part in parts] == [tensor.tolist() for tensor in tensors]
    parts[0].fill_(5.0)
    assert flat[0].item() == 5.0


def test_tensors_are_taken_by_kind_and_size_and_put_back_in_order() -> None:
    a, b, c = fastdist.ones(2), fastdist.ones(2, dtype=fastdist.int64), fastdist.ones(3)
    taken = list(_utils._take_tensors([a, b, c], 16))
    assert [[tuple(t.shape) for t in part] for part in taken] == [[(2,)], [(3,)], [(2,)]]
    assert _utils._reorder_tensors_as([a, c, b], [b, a, c])[0] is b


def test_a_device_without_a_number_is_refused_unless_it_may_be_the_cpu() -> None:
    assert (_utils._get_device_index(2), _utils._get_device_index("cuda:1")) == (2, 1)
    assert _utils._get_device_index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="Expected a non cpu device"):
        _utils._get_device_index("cpu")
    with pytest.raises(ValueError, match="specified index"):
        _utils._get_device_index(None)


def test_an_exception_is_raised_again_with_its_traceback_in_the_message() -> None:
    try:
        raise KeyError("lost")
    except KeyError:
        kept = _utils.ExceptionWrapper(where="in worker 3")
    with pytest.raises(KeyError, match="Caught KeyError in worker 3") as raised:
        kept.reraise()
    assert "\n" in str(raised.value)


def test_small_helpers_answer() -> None:
    class Model:
        @_utils.classproperty
        def label(cls: Any) -> str:
            return cls.__name__

    assert Model.label == "Model"
    assert _utils._element_size(fastdist.float64) == 8
    assert _utils._import_dotted_name("os.path.sep") == "/"
    assert (_utils.try_import("no_such_module_at_all"), _utils.try_import("math") is None) == (
        None,
        False,
    )


def test_values_print_with_other_options_within_a_block_only() -> None:
    with _tensor_str.printoptions(precision=1):
        assert _tensor_str._tensor_str(fastdist.tensor([0.25]), 7) == "[0.2]"
    assert _tensor_str.PRINT_OPTS.precision == 4
    assert _tensor_str._add_suffixes("tensor([1]", ["dtype=x"], 7, True) == (
        "tensor([1],\n       dtype=x)"
    )


def test_arguments_of_to_are_read_as_tensor_to_reads_them() -> None:
    parse = _C._nn._parse_to
    assert parse("cpu") == (fastdist.device("cpu"), None, False, None)
    assert parse(fastdist.float64, True) == (None, fastdist.float64, True, None)
    assert parse(fastdist.ones(1), memory_format=fastdist.channels_last)[3] is (
        fastdist.channels_last
    )


def test_the_compiled_half_has_functions_of_networks_and_refuses_graphs() -> None:
    assert _C._nn.gelu is fastdist.nn.functional.gelu
    assert _C._get_default_device() == "cpu"
    assert not _C._are_functorch_transforms_active()
    assert isinstance(fastdist.Tensor, _C._TensorMeta)
    with pytest.raises(NotImplementedError, match=r"_C\.Graph: programs are not captured"):
        _C.Graph()


def test_functional_has_the_functions_of_fastdist() -> None:
    assert functional.einsum is fastdist.einsum
    with pytest.raises(AttributeError, match="no_such"):
        functional.no_such  # noqa: B018


@pytest.mark.parametrize("module", [mps, mtia, xpu])
def test_a_device_that_is_not_there_answers_questions_and_refuses_use(module: Any) -> None:
    assert (module.is_available(), module.device_count()) == (False, 0)
    with pytest.raises(RuntimeError, match="is_available\\(\\) is False; use cpu or cuda"):
        module.synchronize()


def test_sobol_points_are_those_of_the_sequence() -> None:
    engine = quasirandom.SobolEngine(2)
    assert engine.draw(4).tolist() == [[0.0, 0.0], [0.5, 0.5], [0.75, 0.25], [0.25, 0.75]]
    ahead = quasirandom.SobolEngine(2).fast_forward(3).draw()
    assert ahead.tolist() == [[0.25, 0.75]]
    assert engine.reset().draw().tolist() == [[0.0, 0.0]]
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(2)


def test_scrambled_points_fill_each_cell_once_and_follow_the_seed() -> None:
    drawn = quasirandom.SobolEngine(3, scramble=True, seed=1).draw_base2(5)
    cells = np.sort(np.floor(np.asarray(drawn) * 32), axis=0)
    assert (cells == np.arange(32)[:, None]).all()
    again = quasirandom.SobolEngine(3, scramble=True, seed=1).draw(32)
    assert again.tolist() == drawn.tolist()
    other = quasirandom.SobolEngine(3, scramble=True, seed=2)
    assert other.draw(32).tolist() != drawn.tolist()
    assert repr(other) == "SobolEngine(dimension=3, scramble=True, seed=2)"


def test_the_folder_of_the_hub_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "_chosen", None)
    monkeypatch.setenv("TORCH_HOME", "/models")
    assert hub.get_dir() == "/models/hub"
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert hub.get_dir() == "/caches/torch/hub"
    hub.set_dir("/elsewhere")
    assert hub.get_dir() == "/elsewhere"


def test_weights_are_fetched_once_and_checked_by_their_hash(tmp_path: Path) -> None:
    saved = tmp_path / "made.pt"
    fastdist.save({"w": fastdist.ones(2)}, saved)
    digest = hashlib.sha256(saved.read_bytes()).hexdigest()
    source = saved.rename(tmp_path / f"net-{digest[:8]}.pt")
    kept = tmp_path / "kept"
    load = hub.load_state_dict_from_url
    first = load(source.as_uri(), str(kept), progress=False, check_hash=True)
    source.unlink()
    assert load(source.as_uri(), str(kept))["w"].tolist() == first["w"].tolist() == [1.0, 1.0]


def test_a_file_with_another_hash_is_not_kept(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"text")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file(source.as_uri(), str(target), "00", progress=False)
    assert not target.exists()


def test_a_local_folder_gives_its_models_and_a_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text('def net(n):\n    """A net."""\n    return [n]\n')
    assert hub.load(tmp_path, "net", 3, source="local", trust_repo=True) == [3]
    assert hub.list(tmp_path, source="local") == ["net"]
    assert hub.help(tmp_path, "net", source="local") == "A net."
    assert str(tmp_path) not in sys.path
    with pytest.raises(RuntimeError, match="Cannot find callable other in hubconf"):
        hub.load(tmp_path, "other", source="local")
    with pytest.raises(NotImplementedError, match="source='local'"):
        hub.load("owner/name", "net")
