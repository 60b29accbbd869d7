"""Names of PyTorch's module files, of its wrappers for devices, and others that programs use."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import fastdist as fd


def test_files_of_modules_lead_to_nn() -> None:
    from fastdist.nn.modules import Linear
    from fastdist.nn.modules.linear import Linear as same
    from fastdist.nn.modules.loss import CrossEntropyLoss
    from fastdist.nn.modules.module import Module
    from fastdist.nn.modules.utils import _pair

    assert Linear is same is fd.nn.Linear and CrossEntropyLoss is fd.nn.CrossEntropyLoss
    assert Module is fd.nn.Module and _pair(3) == (3, 3) and _pair([1, 2]) == (1, 2)
    assert fd.nn.modules.activation.ReLU is fd.nn.ReLU
    with pytest.raises(ImportError, match=r"cannot import name 'Linera' from .*modules.linear"):
        exec("from fastdist.nn.modules.linear import Linera")
    assert not hasattr(fd.nn.modules.linear, "chain")


def test_a_module_over_one_device_passes_through() -> None:
    model = fd.nn.Linear(2, 1)
    wrapped = fd.nn.DataParallel(model)
    assert [*wrapped.state_dict()] == ["module.weight", "module.bias"] and wrapped.module is model
    x = fd.ones(3, 2)
    if not fd.cuda.is_available():
        assert (wrapped(x) == model(x)).all()
        assert (fd.nn.parallel.data_parallel(model, x) == model(x)).all()


@pytest.mark.parametrize("file", ["dataloader", "dataset", "sampler"])
def test_files_of_utils_data_lead_to_data(file: str) -> None:
    module = importlib.import_module(f"fastdist.utils.data.{file}")
    assert module.DataLoader is fd.data.DataLoader and module.Sampler is fd.data.Sampler


def test_a_variable_is_a_tensor_of_its_own() -> None:
    from fastdist.autograd import Variable

    x = fd.ones(2, requires_grad=True)
    found = Variable(x * 2)
    assert found.is_leaf and not found.requires_grad and isinstance(found, Variable)
    assert Variable(x, requires_grad=True).requires_grad and isinstance(x, Variable)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        Variable([1.0])
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        Variable(x, volatile=True)


def test_a_group_must_bring_what_its_optimizer_requires() -> None:
    from fastdist.optim.optimizer import Optimizer, required

    class Own(Optimizer):
        def __init__(self, params: object) -> None:
            super().__init__(params, {"lr": required})  # type: ignore[arg-type]

    assert Own([{"params": [fd.ones(1)], "lr": 1.0}]).param_groups[0]["lr"] == 1.0
    with pytest.raises(ValueError, match="didn't specify a value of required optimization param"):
        Own([fd.ones(1)])


def test_devices_that_are_not_there_are_refused_in_words() -> None:
    for kind in ("xpu", "ipu", "mtia"):
        for moved in (fd.ones(1), fd.nn.Linear(1, 1)):
            with pytest.raises(RuntimeError, match=f"{kind}: no such device here"):
                getattr(moved, kind)()


def test_weights_of_convolutions_are_laid_out_as_told() -> None:
    model = fd.nn.Sequential(fd.nn.Conv2d(2, 3, 3), fd.nn.Conv3d(2, 3, 3), fd.nn.Linear(2, 2))
    before = [p.clone() for p in model.parameters()]
    fd.nn.utils.convert_conv2d_weight_memory_format(model, fd.channels_last)
    fd.nn.utils.convert_conv3d_weight_memory_format(model, fd.channels_last_3d)
    assert model[0].weight.is_contiguous(memory_format=fd.channels_last)
    assert model[1].weight.is_contiguous(memory_format=fd.channels_last_3d)
    assert all(fd.equal(p, q) for p, q in zip(model.parameters(), before))
    assert all(p.requires_grad for p in model.parameters())


def test_libraries_ask_of_arguments_what_they_are() -> None:
    x = fd.ones(1)
    assert not fd.overrides.has_torch_function_unary(x)
    assert not fd.overrides.has_torch_function_variadic(x, 1)
    assert fd.overrides.is_tensor_method_or_property(fd.Tensor.sum)
    assert not fd.overrides.is_tensor_method_or_property(len)


def test_a_hook_s_handle_and_the_hub_have_their_older_homes(tmp_path: Path) -> None:
    from fastdist.utils.hooks import RemovableHandle
    from fastdist.utils.model_zoo import load_url

    handle = fd.nn.Linear(1, 1).register_forward_hook(lambda *args: None)
    assert isinstance(handle, RemovableHandle)
    with pytest.raises(ValueError, match="unknown url type"):
        load_url("weights.pt", model_dir=str(tmp_path))
