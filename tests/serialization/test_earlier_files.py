"""Pickles, saved files and checkpoints of an earlier version load with the same contents.

earlier_values.py defines the values, and wrote the file `earlier_values.zip`. earlier_names.py has
the modules of public names.
"""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import distributions, nn, optim
from fastdist.distributed import checkpoint
from fastdist.language.scalar import parse
from fastdist.optim import lr_scheduler
from fastdist.serialization import load, safe_globals
from fastdist.serialization.safe_globals import find_safe
from fastdist.utils import data
from tests.serialization.earlier_names import rows_of_today, stored_rows, text_of
from tests.serialization.earlier_values import PLAIN, job_state, values

# The values include the old weight_norm, and lazy layers without elements, which warn. A pickled
# optimizer of an earlier version does not record that it has made a step, so schedulers warn.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.nn.utils.weight_norm` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Initializing zero-element tensors:UserWarning"),
    pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning"),
]
FILE = Path(__file__).parent / "files" / "earlier_values.zip"
NAMES = [*values()]
# Names with another meaning today: a ScriptModule was a Module, restart_count is now the function
# of distributed.restarts, and accelerator.memory_reserved was another name of memory_allocated,
# which its earlier pickles name and load.
CHANGED = {"jit:ScriptModule", "distributed:restart_count", "accelerator:memory_reserved"}


def file(name: str) -> bytes:
    with zipfile.ZipFile(FILE) as archive:
        return archive.read(name)


def expected(name: str) -> Any:
    return values()[name]()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["pickle", "pickle5"])
def test_a_pickle_of_an_earlier_version_loads(kind: str, name: str) -> None:
    require_same(pickle.loads(file(f"{kind}/{name}")), expected(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_file_of_an_earlier_version_loads(name: str) -> None:
    require_same(load(io.BytesIO(file(f"saved/{name}")), weights_only=False), expected(name))


@pytest.mark.parametrize("name", NAMES)
def test_weights_of_an_earlier_version_load_and_nothing_else_does(name: str) -> None:
    stream = io.BytesIO(file(f"saved/{name}"))
    if name in PLAIN:
        require_same(load(stream, weights_only=True), expected(name))
    else:
        with pytest.raises(pickle.UnpicklingError):
            load(stream, weights_only=True)


def test_a_checkpoint_of_an_earlier_version_loads(tmp_path: Path) -> None:
    with zipfile.ZipFile(FILE) as archive:
        for name in archive.namelist():
            if name.startswith("checkpoint/"):
                archive.extract(name, tmp_path)
    state = job_state()
    for tensor in state["model"].values():
        tensor.zero_()
    checkpoint.load(state, checkpoint_id=tmp_path / "checkpoint" / "step")
    require_same(state, job_state())


def test_every_public_name_of_an_earlier_version_loads_by_its_module() -> None:
    missing, others = set(), []
    for public, module, name in sorted(stored_rows()):
        space, _, own = public.partition(":")
        today = getattr(importlib.import_module(f"fastdist.{space}".rstrip(".")), own)
        try:
            found = pickle.loads(f"\x80\x04c{module}\n{name}\n.".encode("latin-1"))
            if found is not today and public not in CHANGED:
                others.append(f"{module}.{name} is not what users get by {public}")
        except (ImportError, AttributeError):
            missing.add(f'"{module}.{name}": "{today.__module__}.{today.__qualname__}",')
    assert others == []
    assert not missing, "\n".join(
        ["core/moved_names.py needs these rows, or those of whole modules:", *sorted(missing)]
    )


def test_the_modules_of_all_public_names_are_stored_so_that_a_later_move_is_noticed() -> None:
    lacking = text_of(rows_of_today() - stored_rows())
    assert not lacking, f"add with `python -m tests.serialization.earlier_names`:\n{lacking}"


def test_a_file_may_name_what_was_added_by_its_earlier_name_too() -> None:
    earlier = ("fastdist.core.scalar", "parse")
    with pytest.raises(pickle.UnpicklingError, match="was not an allowed global"):
        find_safe(*earlier)
    with safe_globals([parse]):
        assert find_safe(*earlier) is parse
        with pytest.raises(pickle.UnpicklingError, match="was not an allowed global"):
            find_safe("fastdist.core.scalar", "substitute")


def require_same(found: Any, wanted: Any, where: str = "it") -> None:
    """Require that a value from a file has the class, contents and behaviour of `wanted`."""
    assert type(found).__qualname__ == type(wanted).__qualname__, where
    for kind, facts in FACTS.items():
        if isinstance(wanted, kind):
            require_same(facts(found), facts(wanted), where)
            return
    if isinstance(wanted, Mapping):
        assert [*found] == [*wanted], where
        for key in wanted:
            require_same(found[key], wanted[key], f"{where}[{key!r}]")
    elif isinstance(wanted, list | tuple):
        assert len(found) == len(wanted), where
        for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
            require_same(one, other, f"{where}[{number}]")
    elif isinstance(wanted, np.ndarray):
        np.testing.assert_array_equal(found, wanted, where)
    else:
        assert found == wanted, where


def facts_of_tensor(x: fd.Tensor) -> Any:
    if isinstance(x, nn.UninitializedParameter | nn.UninitializedBuffer):
        return x.dtype, x.requires_grad
    if x.is_sparse:
        return x.is_coalesced(), x.to_dense()
    held = x.detach().resolve_conj().resolve_neg().float() if x.is_floating_point() else x
    return x.dtype, x.shape, x.device, x.requires_grad, [held.tolist()]


def facts_of_module(module: nn.Module) -> Any:
    parameters = {name: one.requires_grad for name, one in module.named_parameters()}
    return repr(module), module.training, module.state_dict(), parameters


def facts_of_optimizer(optimizer: optim.Optimizer) -> Any:
    """Return an optimizer's state, its parameter, and the parameter after one more step."""
    before = copy.deepcopy(optimizer.state_dict())
    ((x,),) = [group["params"] for group in optimizer.param_groups]
    held, ones = x.detach().clone(), fd.ones_like(x)
    x.grad = ones.to_sparse(1) if isinstance(optimizer, optim.SparseAdam) else ones
    optimizer.step(*([lambda: 1.0] if isinstance(optimizer, optim.LBFGS) else []))
    return before, held, x.detach()


def facts_of_scheduler(scheduler: Any) -> Any:
    """Return the state of a scheduler, and the learning rates of three more steps."""
    state = {name: one for name, one in scheduler.state_dict().items() if name != "_schedulers"}
    rates = []
    for _ in range(3):
        scheduler.optimizer.step()
        scheduler.step(*([2.0] if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else []))
        rates.append(scheduler.get_last_lr())
    return state, rates


def facts_of_distribution(one: distributions.Distribution) -> Any:
    fd.manual_seed(5)
    drawn = one.sample()
    given = {name: getattr(one, name) for name in one.arg_constraints}
    return given, one.batch_shape, one.event_shape, drawn, one.log_prob(drawn)


def facts_of_dataset(rows: Any) -> Any:
    return [rows[number] for number in range(len(rows))]


def facts_of_sampler(sampler: data.Sampler[Any]) -> Any:
    fd.manual_seed(5)
    return [*sampler]


FACTS: dict[type, Callable[[Any], Any]] = {
    fd.Tensor: facts_of_tensor,
    fd.Generator: lambda generator: (generator.device, generator.get_state()),
    nn.Module: facts_of_module,
    optim.Optimizer: facts_of_optimizer,
    lr_scheduler.LRScheduler: facts_of_scheduler,
    lr_scheduler.ReduceLROnPlateau: facts_of_scheduler,
    distributions.Distribution: facts_of_distribution,
    distributions.Transform: lambda transform: transform(fd.tensor([0.25, 0.5])),
    data.Dataset: facts_of_dataset,
    data.Sampler: facts_of_sampler,
    BaseException: lambda error: (str(error), error.args),
}
