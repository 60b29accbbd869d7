"""The jobs of `bench packages`: each function builds a model of a package and returns one step.

Here `torch` is the module that this process imports under that name: PyTorch or fastdist. Weights
and data come from NumPy, so they are equal for both libraries. A step returns a number, and the
benchmark compares the numbers of both libraries.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

Step = Callable[[], float]


def _torch() -> Any:
    return importlib.import_module("torch")


def random(*shape: int, seed: int = 1) -> Any:
    """Return a float32 tensor of normally distributed numbers."""
    drawn = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return _torch().from_numpy(drawn)


def integers(high: int, *shape: int, seed: int = 2) -> Any:
    """Return an int64 tensor of random integers below high."""
    return _torch().from_numpy(np.random.default_rng(seed).integers(0, high, shape))


def fill(module: Any, scale: float = 0.05) -> Any:
    """Set weights to small random numbers, drawn in the order of their names; return `module`.

    One-dimensional parameters are not random: biases become 0, others keep their values.
    """
    torch = _torch()
    generator = np.random.default_rng(0)
    with torch.no_grad():
        for name, parameter in sorted(module.named_parameters(), key=lambda item: item[0]):
            drawn = generator.standard_normal(tuple(parameter.shape)) * scale
            if parameter.ndim > 1:
                parameter.copy_(torch.from_numpy(np.asarray(drawn, np.float32)))
            elif name.endswith("bias"):
                parameter.zero_()
    return module


def _training(parameters: Any, loss_of: Callable[[], Any], make_optimizer: Any) -> Step:
    """Return one training step: gradients set to None, loss, backward pass, optimizer."""
    optimizer = make_optimizer(list(parameters))

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def gpt2_training() -> Step:
    """Train a GPT-2 with 2 layers of width 128 on 8 texts of 64 tokens, with AdamW."""
    torch, transformers = _torch(), importlib.import_module("transformers")
    config = transformers.GPT2Config(
        vocab_size=512, n_positions=64, n_embd=128, n_layer=2, n_head=4,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = fill(transformers.GPT2LMHeadModel(config)).train()
    texts = integers(512, 8, 64)

    def loss() -> Any:
        return model(input_ids=texts, labels=texts).loss

    return _training(model.parameters(), loss, lambda p: torch.optim.AdamW(p, lr=1e-4))


def bert_forward() -> Step:
    """Run a BERT with 2 layers of width 128 on 8 texts of 64 tokens, some of them padded."""
    torch, transformers = _torch(), importlib.import_module("transformers")
    config = transformers.BertConfig(
        vocab_size=1024, hidden_size=128, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=512, max_position_embeddings=64,
    )  # fmt: skip
    model = fill(transformers.BertModel(config)).eval()
    texts = integers(1024, 8, 64)
    mask = torch.ones(8, 64, dtype=torch.int64)
    mask[4:, 48:] = 0

    def step() -> float:
        with torch.no_grad():
            found = model(input_ids=texts, attention_mask=mask)
        return float(found.pooler_output[0, 0])

    return step


def llama_generate() -> Step:
    """Generate 32 tokens for each of 4 prompts of 16 tokens, greedily and with a cache.

    The model is a Llama with 2 layers of width 128.
    """
    transformers = importlib.import_module("transformers")
    config = transformers.LlamaConfig(
        vocab_size=512, hidden_size=128, intermediate_size=344, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        bos_token_id=0, eos_token_id=None, pad_token_id=0,
    )  # fmt: skip
    model = fill(transformers.LlamaForCausalLM(config)).eval()
    texts = integers(512, 4, 16)

    def step() -> float:
        made = model.generate(texts, max_new_tokens=32, min_new_tokens=32, do_sample=False)
        return float(made[:, 16:].float().mean())

    return step


def timm_training() -> Step:
    """Train timm's resnet18 on 4 images of 64 x 64, with SGD."""
    torch, timm = _torch(), importlib.import_module("timm")
    model = fill(timm.create_model("resnet18", num_classes=10)).train()
    images, labels = random(4, 3, 64, 64), integers(10, 4)

    def loss() -> Any:
        return torch.nn.functional.cross_entropy(model(images), labels)

    make = lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9)  # noqa: E731
    return _training(model.parameters(), loss, make)


def import_torchvision() -> None:
    """Import torchvision if it is installed, even if its compiled operators do not load.

    The operators of a CUDA build do not load into PyTorch for the CPU. The jobs only use Python
    code of torchvision.
    """
    if not find_spec("torchvision"):
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError:  # operator torchvision::nms does not exist
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = _torch().library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("torchvision")


def gpytorch_fit() -> Step:
    """Fit an exact Gaussian process to 200 points, with Adam on its marginal likelihood."""
    torch, gpytorch = _torch(), importlib.import_module("gpytorch")

    class Process(gpytorch.models.ExactGP):  # type: ignore[misc, name-defined]
        def __init__(self, x: Any, y: Any, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            kernel = gpytorch.kernels.RBFKernel()
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x: Any) -> Any:
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    x = torch.linspace(0, 1, 200)
    y = torch.sin(6 * x) + 0.1 * random(200)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Process(x, y, likelihood).train()
    likelihood.train()
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    # A small learning rate keeps the parameters near their initial values, however often it runs.
    make = lambda p: torch.optim.Adam(p, lr=1e-5)  # noqa: E731
    return _training(model.parameters(), lambda: -marginal(model(x), y), make)


def pyg_epoch() -> Step:
    """Train two GCN layers of PyTorch Geometric on a graph of Cora's size, with Adam."""
    torch, nn = _torch(), importlib.import_module("torch_geometric.nn")

    class Network(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.GCNConv(1433, 16), nn.GCNConv(16, 7)

        def forward(self, nodes: Any, edges: Any) -> Any:
            return self.second(self.first(nodes, edges).relu(), edges)

    model = fill(Network())
    nodes, edges, labels = random(2708, 1433), integers(2708, 2, 10556), integers(7, 2708)

    def loss() -> Any:
        return torch.nn.functional.cross_entropy(model(nodes, edges), labels)

    return _training(model.parameters(), loss, lambda p: torch.optim.Adam(p, lr=1e-4))


MAKERS: Mapping[str, Callable[[], Step]] = {
    "GPT-2 training step": gpt2_training,
    "BERT forward": bert_forward,
    "Llama generate": llama_generate,
    "timm ResNet-18 training step": timm_training,
    "GPyTorch fit step": gpytorch_fit,
    "PyG GCN epoch": pyg_epoch,
}
