"""Type stubs for `import torch`, for environments where only fastdist is installed.

At run time an import hook provides all modules below `torch` (as_torch.py). But a type checker runs
no code and needs files. These stubs import fastdist's names into each module, so that torch.Tensor
and fastdist.Tensor are the same class. The user chooses the folder of the stubs. If the stubs were
next to the package fastdist, mypy would either not find them on its search path, or prefer them to
an installed PyTorch.
"""

from __future__ import annotations

from pathlib import Path

# PyTorch's modules that programs import by name and that also exist in fastdist.
_NAMES = """
accelerator amp amp.autocast_mode amp.grad_scaler autograd autograd.forward_ad autograd.function
autograd.functional autograd.gradcheck autograd.graph autograd.profiler autograd.variable backends
backends.cpu backends.cuda backends.cudnn backends.mkl backends.mkldnn backends.mps backends.openmp
compiler cpu cpu.amp cuda cuda.amp distributed distributed.autograd distributed.nn
distributed.nn.api.remote_module distributed.nn.functional distributed.optim distributed.rpc
distributions distributions.bernoulli distributions.categorical
distributions.constraint_registry distributions.constraints distributions.distribution
distributions.gamma distributions.independent distributions.kl distributions.multivariate_normal
distributions.normal distributions.transformed_distribution distributions.transforms
distributions.utils export fft func functional futures fx hub jit library linalg mps mtia
multiprocessing nn nn.attention nn.attention.bias nn.attention.flex_attention
nn.functional nn.init nn.modules nn.parallel nn.parameter nn.utils nn.utils.clip_grad
nn.utils.convert_parameters nn.utils.parametrizations nn.utils.parametrize nn.utils.prune
nn.utils.rnn nn.utils.spectral_norm nn.utils.stateless nn.utils.weight_norm onnx optim optim.adagrad
optim.adam optim.adamw optim.lbfgs optim.lr_scheduler optim.optimizer optim.rmsprop optim.sgd
optim.sparse_adam optim.swa_utils overrides profiler quasirandom random
serialization signal signal.windows
sparse special storage testing torch_version types utils utils.benchmark utils.checkpoint utils.data
utils.data.dataloader utils.data.dataset utils.data.distributed utils.data.sampler utils.dlpack
utils.hooks utils.model_zoo utils.tensorboard version xpu
"""
MODULES = tuple(_NAMES.split())
# mypy does not follow an `__all__` that is copied from another module.
_MORE = {
    "distributions": "distributions.transforms",
    "utils.data": "data",
    "utils.data.dataloader": "data",
    "utils.data.dataset": "data",
    "utils.data.sampler": "data",
}


def write_stubs(folder: Path) -> Path:
    """Write the stubs to the subfolder `torch` of a folder, and return the path of the subfolder.

    Existing stubs are overwritten.

    Raises  OSError if a file cannot be written
    """
    root = folder / "torch"
    _write(root, "from fastdist import *\n")
    for name in MODULES:
        homes = [name, _MORE[name]] if name in _MORE else [name]
        text = "".join(f"from fastdist.{home} import *\n" for home in homes)
        _write(root.joinpath(*name.split(".")), text)
    return root


def _write(folder: Path, imports: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = f"# Written by `fastdist as-torch --stubs`.\n{imports}"
    # Not a .pyi file: pyright warns at each import of a stub without a source.
    (folder / "__init__.py").write_text(text, encoding="utf-8")
