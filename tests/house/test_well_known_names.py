"""The file that a PyTorch user opens first defines the well-known functions and classes."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "fastdist"

# By file below fastdist/ops, the names that a user first looks for in that file.
OPS = {
    "create/creation": "empty full ones tensor zeros zeros_like",
    "create/from_memory": "asarray frombuffer",
    "create/random": "bernoulli normal rand randint randn randperm",
    "create/random_distributions": "binomial poisson",
    "create/ranges": "arange eye linspace logspace",
    "fft/fft": "fft fftshift ifft irfft rfft",
    "fft/stft": "istft stft",
    "index/indexing": "gather index_add index_select scatter scatter_add",
    "index/multinomial": "multinomial",
    "index/repeat_interleave": "repeat_interleave",
    "index/searchsorted": "bincount bucketize searchsorted",
    "index/take": "take take_along_dim",
    "linalg/cholesky": "cholesky cholesky_solve",
    "linalg/covariance": "corrcoef cov",
    "linalg/determinants": "det slogdet",
    "linalg/eigh_svd": "eigh svd svdvals",
    "linalg/einsum": "einsum tensordot",
    "linalg/kron_cross": "cross kron",
    "linalg/least_squares": "lstsq",
    "linalg/linear_systems": "inv lu solve",
    "linalg/matmul": "matmul",
    "linalg/pinv": "matrix_rank pinv",
    "linalg/products": "addmm baddbmm bmm dot linear mm mv outer",
    "linalg/qr": "qr",
    "nn/activation": "gelu leaky_relu logit prelu relu sigmoid silu softplus",
    "nn/attention": "scaled_dot_product_attention",
    "nn/average_pooling": "adaptive_avg_pool2d avg_pool2d",
    "nn/batch_norm": "batch_norm instance_norm",
    "nn/cdist": "cdist pdist",
    "nn/convolution": "conv1d conv2d conv3d conv_transpose2d",
    "nn/cross_entropy": "cross_entropy nll_loss",
    "nn/ctc": "ctc_loss",
    "nn/dropout": "alpha_dropout dropout dropout2d",
    "nn/embedding": "embedding",
    "nn/embedding_bag": "embedding_bag",
    "nn/grid_sample": "affine_grid grid_sample",
    "nn/interpolation": "interpolate upsample",
    "nn/losses": "binary_cross_entropy huber_loss kl_div l1_loss mse_loss",
    "nn/margin_losses": "hinge_embedding_loss triplet_margin_loss",
    "nn/normalization": "group_norm layer_norm rms_norm",
    "nn/one_hot": "one_hot",
    "nn/padding": "pad",
    "nn/pixel_shuffle": "pixel_shuffle",
    "nn/recurrent_layers": "gru lstm",
    "nn/similarity": "cosine_similarity normalize",
    "nn/softmax": "log_softmax softmax",
    "nn/unfold": "fold unfold",
    "pointwise/arithmetic": "abs add mul pow sqrt",
    "pointwise/bitwise": "bitwise_and gcd lcm",
    "pointwise/clamp": "clamp clamp_min",
    "pointwise/comparison": "eq isnan lt",
    "pointwise/div": "div",
    "pointwise/min_max": "maximum minimum",
    "pointwise/nan_to_num": "nan_to_num",
    "pointwise/round": "round",
    "pointwise/rounding": "ceil floor trunc",
    "pointwise/transcendental": "exp log sin tanh",
    "pointwise/where": "where",
    "reduce/cumulative_extremes": "cummax cummin logcumsumexp",
    "reduce/cumulative_sums": "cumprod cumsum",
    "reduce/diff": "diff",
    "reduce/gradient": "gradient",
    "reduce/histograms": "histc histogram",
    "reduce/median_quantile": "kthvalue median mode quantile",
    "reduce/min_max": "amax argmax max min",
    "reduce/norms": "norm std var",
    "reduce/reductions": "all any logsumexp mean nansum prod sum",
    "reduce/sorting": "argsort sort topk unique",
    "reduce/trapezoid": "trapezoid",
    "shape/as_strided": "as_strided",
    "shape/copying": "clone contiguous",
    "shape/diagonal": "block_diag diag diag_embed diagonal",
    "shape/joining": "atleast_2d cat hstack stack vstack",
    "shape/meshgrid": "cartesian_prod combinations meshgrid",
    "shape/rearranging": "broadcast_tensors flatten flip repeat roll rot90 tile",
    "shape/splitting": "chunk narrow select split tensor_split unbind",
    "shape/triangles": "tril triu",
    "shape/views": "expand permute reshape squeeze transpose unsqueeze view",
}  # fmt: skip


# By file, names of the other packages.
OTHERS = {
    "amp/autocast_mode": "autocast",
    "amp/grad_scaler": "GradScaler",
    "autograd/function": "Function",
    "autograd/functional": "hessian hvp jvp vjp",
    "autograd/gradcheck": "gradcheck",
    "data/collate": "default_collate",
    "data/dataset": "Dataset TensorDataset",
    "data/loader": "DataLoader",
    "data/sampler": "BatchSampler DistributedSampler RandomSampler",
    "distributed/device_mesh": "DeviceMesh init_device_mesh",
    "distributed/optim": "DistributedOptimizer",
    "distributed/process_group/collectives": "all_gather all_reduce barrier broadcast",
    "distributed/process_group/exchange": "irecv isend recv send",
    "distributed/process_group/init": "init_process_group",
    "distributed/rpc/api": "remote rpc_async rpc_sync shutdown",
    "distributed/rpc/init": "init_rpc",
    "distributed/rpc/references/rref": "RRef",
    "distributed/store/file_store": "FileStore",
    "distributed/store/hash_store": "HashStore",
    "distributed/store/tcp_store": "TCPStore",
    "distributed/zero_optimizer": "ZeroRedundancyOptimizer",
    "distributions/categorical": "Categorical",
    "distributions/kl": "kl_divergence",
    "distributions/normal": "Normal",
    "func/reverse": "jacrev",
    "nn/activation": "GELU ReLU Sigmoid Softmax",
    "nn/batch_norm": "BatchNorm2d SyncBatchNorm",
    "nn/container": "ModuleDict ModuleList Sequential",
    "nn/convolution": "Conv1d Conv2d ConvTranspose2d",
    "nn/dropout": "Dropout",
    "nn/embedding": "Embedding EmbeddingBag",
    "nn/flatten": "Flatten Unflatten",
    "nn/init": "kaiming_uniform_ xavier_normal_",
    "nn/linear": "Bilinear Identity Linear",
    "nn/loss": "CrossEntropyLoss L1Loss MSELoss",
    "nn/module": "Module",
    "nn/multihead_attention": "MultiheadAttention",
    "nn/normalization": "GroupNorm LayerNorm RMSNorm",
    "nn/parallel/distributed": "DistributedDataParallel",
    "nn/pooling": "AvgPool2d MaxPool2d",
    "nn/rnn": "GRU LSTM RNN",
    "nn/transformer": "Transformer TransformerEncoderLayer",
    "nn/utils/clip_grad": "clip_grad_norm_",
    "nn/utils/convert_parameters": "parameters_to_vector",
    "optim/adam": "Adam",
    "optim/adamw": "AdamW",
    "optim/lbfgs": "LBFGS",
    "optim/optimizer": "Optimizer",
    "optim/sgd": "SGD",
    "profiler/profile": "profile",
    "serialization/loading": "load",
    "serialization/saving": "save",
    "utils/checkpoint": "checkpoint",
}
FILES = {**{f"ops/{file}": names for file, names in OPS.items()}, **OTHERS}


def test_well_known_names_are_defined_in_the_file_that_a_user_opens_first() -> None:
    missing = {file: set(names.split()) - names_of(file) for file, names in FILES.items()}
    assert {file: names for file, names in missing.items() if names} == {}


def names_of(file: str) -> set[str]:
    """Return the functions and classes that a file below the package defines."""
    tree = ast.parse((PACKAGE / f"{file}.py").read_text())
    kinds = ast.FunctionDef | ast.ClassDef
    return {node.name for node in tree.body if isinstance(node, kinds)}


def test_at_least_one_hundred_names_are_looked_for() -> None:
    names = [name for names in FILES.values() for name in names.split()]
    assert len(names) == len(set(names)) >= 100
