"""Values of every kind that users pickle or save, and the writer of a file with all of them.

python tests/serialization/earlier_values.py FILE.zip

writes the values of `values()` in each format, with the installed fastdist. Run it in a checkout of
an earlier version; `test_earlier_files.py` loads the file with the current version.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastdist as fd
from fastdist import amp, distributions, nn, optim
from fastdist.core import errors
from fastdist.distributed import checkpoint
from fastdist.optim import lr_scheduler
from fastdist.utils import data

DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
# Public modules whose functions and classes appear in pickles; "" is fastdist itself.
NAMESPACES = (
    "",
    *("_C", "accelerator", "amp", "autograd", "autograd.forward_ad", "autograd.functional"),
    *("autograd.graph", "autograd.profiler", "backends.cuda", "compiler", "core.errors", "cpu"),
    *("cuda", "cuda.amp", "cuda.nvtx", "data.ready_pipes", "distributed"),
    "distributed.algorithms.ddp_comm_hooks",
    "distributed.algorithms.ddp_comm_hooks.default_hooks",
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook",
    *("distributed.algorithms.ddp_comm_hooks.powerSGD_hook", "distributed.algorithms.join"),
    "distributed.algorithms.model_averaging.averagers",
    *("distributed.algorithms.model_averaging.utils", "distributed.autograd"),
    *("distributed.checkpoint", "distributed.collective_utils", "distributed.device_mesh"),
    *("distributed.distributed_c10d", "distributed.elastic.multiprocessing"),
    *("distributed.elastic.multiprocessing.errors", "distributed.fsdp", "distributed.monitor"),
    *("distributed.nn", "distributed.optim", "distributed.profiler", "distributed.remote_device"),
    *("distributed.rendezvous", "distributed.restarts", "distributed.rpc", "distributed.tensor"),
    *("distributions", "distributions.constraints", "distributions.kl"),
    *("distributions.transforms", "distributions.utils", "fft", "func", "futures", "fx"),
    *("fx.immutable_collections", "fx.proxy", "hub", "jit", "library", "linalg", "mps", "mtia"),
    *("multiprocessing", "nn", "nn.attention", "nn.attention.bias", "nn.attention.flex_attention"),
    *("nn.functional", "nn.grad", "nn.init", "nn.parallel", "nn.parameter", "nn.utils"),
    *("nn.utils.parametrizations", "nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn"),
    *("nn.utils.stateless", "onnx", "optim", "optim.lr_scheduler", "optim.swa_utils", "overrides"),
    *("profiler", "quasirandom", "random", "serialization", "signal.windows", "sparse", "special"),
    *("storage", "testing", "torch_version", "types", "utils", "utils.benchmark"),
    *("utils.checkpoint", "utils.data", "utils.dlpack", "utils.flop_counter", "utils.hooks"),
    *("utils.npz", "utils.safetensors", "utils.weak", "version", "xpu"),
)
# Calls of the classes of fastdist.nn that create layers and losses.
_CALLS = """
AdaptiveAvgPool1d(2) AdaptiveAvgPool2d(2) AdaptiveAvgPool3d(2)
AdaptiveLogSoftmaxWithLoss(4,6,[2,4])
AdaptiveMaxPool1d(2) AdaptiveMaxPool2d(2) AdaptiveMaxPool3d(2) AlphaDropout() AvgPool1d(2)
AvgPool2d(2) AvgPool3d(2) BCELoss() BCEWithLogitsLoss() BatchNorm1d(2) BatchNorm2d(2)
BatchNorm3d(2)
Bilinear(2,2,1) CELU() CTCLoss() ChannelShuffle(2) CircularPad1d(1) CircularPad2d(1)
CircularPad3d(1)
ConstantPad1d(1,2.0) ConstantPad2d(1,2.0) ConstantPad3d(1,2.0) Conv1d(1,2,2) Conv2d(1,2,2)
Conv3d(1,2,2) ConvTranspose1d(1,2,2) ConvTranspose2d(1,2,2) ConvTranspose3d(1,2,2)
CosineEmbeddingLoss() CosineSimilarity() CrossEntropyLoss(weight=torch.ones(3)) CrossMapLRN2d(2)
Dropout() Dropout1d() Dropout2d() Dropout3d() ELU() Embedding(3,2) EmbeddingBag(3,2)
FeatureAlphaDropout() Flatten() Fold(4,2) FractionalMaxPool2d(2,output_size=2)
FractionalMaxPool3d(2,output_size=2) GELU() GLU() GRU(2,2) GRUCell(2,2) GaussianNLLLoss()
GroupNorm(1,2) Hardshrink() Hardsigmoid() Hardswish() Hardtanh() HingeEmbeddingLoss() HuberLoss()
Identity() InstanceNorm1d(2,affine=True) InstanceNorm2d(2) InstanceNorm3d(2) KLDivLoss() L1Loss()
LPPool1d(2,2) LPPool2d(2,2) LPPool3d(2,2) LSTM(2,2) LSTMCell(2,2) LayerNorm(2) LazyBatchNorm1d()
LazyBatchNorm2d() LazyBatchNorm3d() LazyConv1d(2,2) LazyConv2d(2,2) LazyConv3d(2,2)
LazyConvTranspose1d(2,2) LazyConvTranspose2d(2,2) LazyConvTranspose3d(2,2) LazyInstanceNorm1d()
LazyInstanceNorm2d() LazyInstanceNorm3d() LazyLinear(2) LeakyReLU() Linear(2,3)
LocalResponseNorm(2) LogSigmoid() LogSoftmax(1) MSELoss() MarginRankingLoss() MaxPool1d(2)
MaxPool2d(2) MaxPool3d(2) MaxUnpool1d(2) MaxUnpool2d(2) MaxUnpool3d(2) Mish() Module()
ModuleDict() ModuleList() MultiLabelMarginLoss() MultiLabelSoftMarginLoss() MultiMarginLoss()
MultiheadAttention(4,2) NLLLoss() PReLU() PairwiseDistance() ParameterDict() ParameterList()
PixelShuffle(2) PixelUnshuffle(2) PoissonNLLLoss() RMSNorm(2) RNN(2,2) RNNCell(2,2) RReLU() ReLU()
ReLU6() ReflectionPad1d(1) ReflectionPad2d(1) ReflectionPad3d(1) ReplicationPad1d(1)
ReplicationPad2d(1) ReplicationPad3d(1) SELU() Sequential() SiLU() Sigmoid() SmoothL1Loss()
SoftMarginLoss() Softmax(1) Softmax2d() Softmin(1) Softplus() Softshrink() Softsign()
SyncBatchNorm(2) Tanh() Tanhshrink() Threshold(0.5,1.0) Transformer(4,2,1,1,4)
TransformerDecoderLayer(4,2,4) TransformerEncoderLayer(4,2,4) TripletMarginLoss()
TripletMarginWithDistanceLoss() Unflatten(1,(2,2)) Unfold(2) Upsample(2)
UpsamplingBilinear2d(2) UpsamplingNearest2d(2) ZeroPad1d(1) ZeroPad2d(1) ZeroPad3d(1)
LinearCrossEntropyLoss(2,3)
"""
CALLS = tuple(_CALLS.split())
Values = dict[str, Callable[[], Any]]


def values() -> Values:
    """Return a function for each value, by name; it makes the same numbers in each call."""
    return {
        **{f"tensor.{name}": lambda name=name: _numbers(name) for name in DTYPES},
        "tensors": _tensors,
        "parameters": _parameters,
        "buffer": lambda: nn.Buffer(fd.arange(2.0)),
        "sparse": _sparse,
        "plain types": _plain_types,
        "return types": _return_types,
        "generator": _generator,
        "modules": lambda: {call: _filled(_module(call)) for call in CALLS},
        "networks": _networks,
        "state dicts": lambda: {call: net.state_dict() for call, net in _networks().items()},
        "optimizers": lambda: {name: made for name, made, _ in _optimizers()},
        "optimizers' states": lambda: {name: made.state_dict() for name, made, _ in _optimizers()},
        "schedulers' states": lambda: {n: made.state_dict() for n, made in _schedulers().items()},
        "schedulers": _schedulers,
        "distributions": _distributions,
        "transforms": _transforms,
        "scaler's state": lambda: _scaler().state_dict(),
        "datasets": _datasets,
        "samplers": _samplers,
        "errors": _errors,
    }


# Values whose files load(weights_only=True) accepts.
PLAIN = frozenset(
    {
        *(f"tensor.{name}" for name in DTYPES),
        *("tensors", "parameters", "sparse", "state dicts", "optimizers' states"),
        *("scaler's state", "schedulers' states"),
    }
)


def _numbers(dtype: str) -> fd.Tensor:
    return fd.tensor([0, 1, 2, 5]).to(getattr(fd, dtype)).reshape(2, 2)


def _tensors() -> dict[str, Any]:
    x = fd.arange(12.0).reshape(3, 4)
    return {
        "whole": x,
        "row": x[1],
        "turned": x.t(),
        "leaf": x.clone().requires_grad_(),
        "scalar": fd.tensor(2.5),
        "empty": fd.zeros(0, 3),
        "conjugated": fd.tensor([1 + 2j, 3 - 1j]).conj(),
        "negative": fd.tensor([1 + 2j, 3 - 1j]).conj().imag,
        "spread": fd.zeros(1, 3).expand(2, 3),
        "state": OrderedDict(a=fd.ones(2), b=fd.zeros(2, dtype=fd.int64)),
        "plain": (1, 2.5, "grün", None, True, {"k": [1]}, b"bytes", 1 + 2j, {1, 2}),
    }


def _parameters() -> list[Any]:
    return [
        nn.Parameter(fd.arange(3.0)),
        nn.Parameter(fd.arange(3), requires_grad=False),
    ]


def _sparse() -> list[Any]:
    found = fd.sparse_coo_tensor([[0, 2, 0], [1, 0, 1]], fd.tensor([1.5, 2.5, 1.0]), (3, 3))
    return [found, found.coalesce()]


def _plain_types() -> dict[str, Any]:
    return {
        "sizes": [fd.Size([2, 3]), fd.Size([])],
        "dtypes": [getattr(fd, name) for name in DTYPES],
        "devices": [fd.device("cpu"), fd.device("cuda:1"), fd.device("cuda")],
        "layouts": [fd.strided, fd.sparse_coo],
        "formats": [fd.contiguous_format, fd.channels_last, fd.preserve_format],
    }


def _return_types() -> list[Any]:
    x = fd.tensor([[3.0, 1.0], [2.0, 4.0]])
    return [x.max(1), x.min(0), x.sort(), x.topk(1), x.kthvalue(1), fd.linalg.qr(x), x.mode()]


def _generator() -> list[Any]:
    used = fd.Generator().manual_seed(7)
    fd.rand(5, generator=used)
    return [fd.Generator().manual_seed(3), used, used.get_state()]


def _module(call: str) -> nn.Module:
    made: nn.Module = eval(
        call, {**{name: getattr(nn, name) for name in dir(nn)}, "nn": nn, "torch": fd, "fd": fd}
    )
    return made


def _filled(module: nn.Module) -> nn.Module:
    """Return the module after writing fixed numbers into its parameters."""
    for number, one in enumerate(module.parameters()):
        if not isinstance(one, nn.UninitializedParameter):
            numbers = (fd.arange(one.numel()) % 7 + number).reshape(one.shape)
            one.data.copy_(numbers / 8)
    return module


def _networks() -> dict[str, nn.Module]:
    layer = nn.TransformerEncoderLayer(4, 2, 8, activation=nn.functional.gelu)
    pruned = nn.utils.prune.l1_unstructured(_filled(nn.Linear(3, 2)), "weight", 1)
    nets = {
        "sequential": nn.Sequential(
            OrderedDict(
                first=nn.Conv2d(1, 2, 3), norm=nn.BatchNorm2d(2), act=nn.ReLU(), flat=nn.Flatten()
            )
        ),
        "containers": nn.ModuleDict(
            {"list": nn.ModuleList([nn.Linear(2, 3)]), "numbers": nn.ParameterList([fd.ones(2)])}
        ),
        "transformer": nn.TransformerEncoder(layer, 1, enable_nested_tensor=False),
        "decoder": nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 1, 4), 1),
        "recurrent": nn.LSTM(2, 3, num_layers=2, bidirectional=True),
        "pruned": pruned,
        "weight_norm": fd.nn.utils.weight_norm(nn.Linear(2, 2)),
    }
    return {name: _filled(net) for name, net in nets.items()}


def _optimizers() -> Iterator[tuple[str, Any, Any]]:
    for name in sorted(optim.__all__):
        kind = getattr(optim, name)
        if not isinstance(kind, type) or name == "Optimizer":
            continue
        x = nn.Parameter(fd.arange(4.0).reshape(2, 2) / 4)
        made: Any = kind([x], lr=0.125)
        for step in range(2):
            gradient: Any = fd.full((2, 2), 0.5 + step)
            x.grad = gradient.to_sparse(1) if name == "SparseAdam" else gradient
            made.step(*([lambda: 1.0] if name == "LBFGS" else []))
        yield name, made, x


def _schedulers() -> dict[str, Any]:
    def sgd() -> optim.Optimizer:
        return optim.SGD([nn.Parameter(fd.ones(2))], lr=0.5, momentum=0.5)

    s = lr_scheduler
    both = sgd()
    made = {
        "StepLR": s.StepLR(sgd(), 2),
        "MultiStepLR": s.MultiStepLR(sgd(), [1, 3]),
        "ConstantLR": s.ConstantLR(sgd()),
        "LinearLR": s.LinearLR(sgd()),
        "ExponentialLR": s.ExponentialLR(sgd(), 0.5),
        "PolynomialLR": s.PolynomialLR(sgd()),
        "CosineAnnealingLR": s.CosineAnnealingLR(sgd(), 5),
        "CosineAnnealingWarmRestarts": s.CosineAnnealingWarmRestarts(sgd(), 3),
        "OneCycleLR": s.OneCycleLR(sgd(), 0.5, total_steps=9),
        "SequentialLR": s.SequentialLR(
            both, [s.ConstantLR(both, 0.5, 2), s.ExponentialLR(both, 0.5)], [2]
        ),
    }
    for one in made.values():
        one.optimizer.step()
        one.step()
    made["ReduceLROnPlateau"] = s.ReduceLROnPlateau(sgd())
    made["ReduceLROnPlateau"].step(1.5)
    return made


def _distributions() -> list[Any]:
    d = distributions
    half, two = fd.tensor(0.5), fd.tensor([1.0, 2.0])
    normal = d.Normal(fd.zeros(2), two)
    return [
        *(normal, d.Bernoulli(half), d.Bernoulli(logits=half), d.Beta(two, two), d.Gamma(two, two)),
        *(d.Categorical(two), d.Cauchy(half, two), d.Dirichlet(two), d.Exponential(two)),
        *(d.Independent(normal, 1), d.Laplace(half, two), d.LogNormal(half, two), d.Poisson(two)),
        *(d.MultivariateNormal(fd.zeros(2), fd.eye(2)), d.Uniform(half, two), d.StudentT(two)),
        *(d.Multinomial(3, two), d.Binomial(3, half), d.Geometric(half), d.Gumbel(half, two)),
        d.MixtureSameFamily(d.Categorical(two), d.Normal(fd.zeros(2), two)),
        d.TransformedDistribution(normal, [d.ExpTransform(), d.AffineTransform(1.0, 2.0)]),
        *(
            d.Weibull(half, two),
            d.Pareto(half, two),
            d.OneHotCategorical(two),
            d.VonMises(half, two),
        ),
    ]


def _transforms() -> list[Any]:
    t = distributions.transforms
    return [
        *(t.AbsTransform(), t.ExpTransform(), t.AffineTransform(1.0, 2.0), t.PowerTransform(2.0)),
        *(t.SigmoidTransform(), t.SoftmaxTransform(), t.StickBreakingTransform()),
        t.ComposeTransform([t.ExpTransform(), t.TanhTransform()]),
    ]


def _scaler() -> amp.GradScaler:
    return amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)


def _datasets() -> list[Any]:
    rows = data.TensorDataset(fd.arange(6.0).reshape(3, 2), fd.arange(3))
    halves = data.random_split(rows, [2, 1], fd.Generator().manual_seed(1))
    return [rows, data.ConcatDataset([rows, rows]), data.Subset(rows, [0, 2]), *halves]


def _samplers() -> list[Any]:
    rows = range(4)
    ordered = data.SequentialSampler(rows)
    return [
        ordered,
        data.RandomSampler(rows, generator=fd.Generator().manual_seed(1)),
        data.BatchSampler(ordered, 2, drop_last=False),
        data.SubsetRandomSampler([1, 2]),
        data.WeightedRandomSampler([0.5, 0.5], 3),
        data.DistributedSampler(rows, num_replicas=2, rank=1),
    ]


# These errors, and the errors of collectives, were added after the files had been written.
_LATER_ERRORS = {
    *("NoDataError", "DistError", "DistBackendError", "DistNetworkError", "DistStoreError"),
    *("EngineError", "QueueEmptyError", "StoreAddressError"),
}


def _errors() -> dict[str, BaseException]:
    kinds = {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and name not in _LATER_ERRORS and "Collective" not in name
    }
    found = {}
    for name, kind in kinds.items():
        if issubclass(kind, BaseException) and kind.__module__.startswith("fastdist."):
            try:
                found[name] = pickle.loads(pickle.dumps(kind("why")))
            except TypeError:
                continue  # needs more than a message; is a public name
    return found


def public_names() -> dict[str, Any]:
    """Return the functions and classes of public modules that pickle by name, by public name."""
    found = {}
    for space in NAMESPACES:
        module: Any = importlib.import_module(f"fastdist.{space}".rstrip("."))
        # In a module without `__all__`, a name that is imported from another package is not public.
        homes = (module.__name__, "fastdist.ops")
        homes = ("fastdist",) if hasattr(module, "__all__") else homes
        for name in getattr(module, "__all__", [n for n in dir(module) if n[0] != "_"]):
            thing = getattr(module, name)
            if callable(thing) and _pickles_by_name(thing, homes):
                found[f"{space}:{name}"] = thing
    return found


def _pickles_by_name(thing: Any, homes: tuple[str, ...]) -> bool:
    home = f"{getattr(thing, '__module__', None)}."
    if not home.startswith(tuple(f"{one}." for one in homes)):
        return False
    try:
        return pickle.loads(pickle.dumps(thing)) is thing
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


def write(path: Path) -> None:
    """Write a zip file with each value in each format, and a checkpoint of a job."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        put(archive, "version", fd.__version__.encode())
        for name, make in values().items():
            for kind, text in files_of(make()):
                put(archive, f"{kind}/{name}", text)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint.save(job_state(), checkpoint_id=Path(folder) / "step")
            for file in sorted(Path(folder).rglob("*")):
                if file.is_file():
                    put(archive, f"checkpoint/{file.relative_to(folder)}", file.read_bytes())


def put(archive: zipfile.ZipFile, name: str, text: bytes) -> None:
    """Write one file to the archive, with a fixed date."""
    archive.writestr(zipfile.ZipInfo(name), text, zipfile.ZIP_LZMA)


def job_state() -> dict[str, Any]:
    """Return the state of a job: the states of a model and an optimizer, and a number."""
    model = _networks()["sequential"]
    (adam,) = [made for name, made, _ in _optimizers() if name == "Adam"]
    return {"model": model.state_dict(), "optimizer": adam.state_dict(), "epoch": 3}


def files_of(value: Any) -> Iterator[tuple[str, bytes]]:
    """Yield each format with the bytes of a value in this format."""
    yield "pickle", pickle.dumps(value, 2)
    yield "pickle5", pickle.dumps(value, 5)
    stream = io.BytesIO()
    fd.save(value, stream)
    yield "saved", stream.getvalue()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
