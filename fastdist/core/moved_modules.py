"""The modules and names of earlier versions, which pickles and saved files still name.

A pickle names a class or a function by its module and its name. When one of them moves, a row here
keeps every file that an earlier version wrote readable. Three readers use the table:

- `pickle`, through `MovedModuleFinder`, which Python queries after all other finders found nothing;
- `load(weights_only=True)` and RPC in strict mode, which translate a name with `current_name` and
  then check the new name as if the file had named it.

So a row grants nothing: a name is accepted only where its new name is.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

# Modules that moved, or were renamed, as a whole.
MODULES: Final[dict[str, str]] = {
    "fastdist.core.absent_gpus": "fastdist.core.unavailable_gpus",
    "fastdist.core.after_import": "fastdist.system.import_hooks",
    "fastdist.core.atomic_file": "fastdist.system.atomic_file",
    "fastdist.core.blas": "fastdist.system.blas",
    "fastdist.core.cache_directory": "fastdist.system.cache_directory",
    "fastdist.core.counted": "fastdist.core.overflow_checks",
    "fastdist.core.digest": "fastdist.system.digest",
    "fastdist.core.evenly_apart": "fastdist.core.linspace",
    "fastdist.core.fence": "fastdist.system.fence",
    "fastdist.core.foreign_text": "fastdist.system.foreign_text",
    "fastdist.core.forked_imports": "fastdist.system.forked_imports",
    "fastdist.core.forked_locks": "fastdist.system.forked_locks",
    "fastdist.core.future": "fastdist.concurrency.future",
    "fastdist.core.generator": "fastdist.random_numbers.generator",
    "fastdist.core.lent_locks": "fastdist.concurrency.lent_locks",
    "fastdist.core.memory_meter": "fastdist.instrumentation.memory_meter",
    "fastdist.core.module_path": "fastdist.instrumentation.module_path",
    "fastdist.core.overriding": "fastdist.core.torch_function",
    "fastdist.core.own_folder": "fastdist.system.own_folder",
    "fastdist.core.philox": "fastdist.random_numbers.philox",
    "fastdist.core.pool_watcher": "fastdist.concurrency.pool_watcher",
    "fastdist.core.program": "fastdist.language.program",
    "fastdist.core.python_stack": "fastdist.instrumentation.python_stack",
    "fastdist.core.quiet_interrupt": "fastdist.system.quiet_interrupt",
    "fastdist.core.rejection": "fastdist.random_numbers.rejection",
    "fastdist.core.scalar": "fastdist.language.scalar",
    "fastdist.core.sealed_memory": "fastdist.system.sealed_memory",
    "fastdist.core.shared_block": "fastdist.system.shared_block",
    "fastdist.core.thread_pool": "fastdist.concurrency.thread_pool",
    "fastdist.core.time_ranges": "fastdist.instrumentation.time_ranges",
    "fastdist.core.unread_errors": "fastdist.concurrency.unread_errors",
    "fastdist.core.usual_pages": "fastdist.system.page_size",
    "fastdist.ops.activation": "fastdist.ops.nn.activation",
    "fastdist.ops.arithmetic": "fastdist.ops.pointwise.arithmetic",
    "fastdist.ops.attention": "fastdist.ops.nn.attention",
    "fastdist.ops.attention_blocks": "fastdist.ops.nn.attention_blocks",
    "fastdist.ops.average_pooling": "fastdist.ops.nn.average_pooling",
    "fastdist.ops.basic_index": "fastdist.ops.shape.basic_index",
    "fastdist.ops.batch_norm": "fastdist.ops.nn.batch_norm",
    "fastdist.ops.batched_index": "fastdist.ops.index.batched_index",
    "fastdist.ops.bessel": "fastdist.ops.pointwise.bessel",
    "fastdist.ops.bilinear": "fastdist.ops.nn.bilinear",
    "fastdist.ops.bitwise": "fastdist.ops.pointwise.bitwise",
    "fastdist.ops.casting": "fastdist.ops.shape.casting",
    "fastdist.ops.comparison": "fastdist.ops.pointwise.comparison",
    "fastdist.ops.complex_numbers": "fastdist.ops.pointwise.complex_numbers",
    "fastdist.ops.conjugates": "fastdist.ops.pointwise.conjugates",
    "fastdist.ops.convolution": "fastdist.ops.nn.convolution",
    "fastdist.ops.convolution_family": "fastdist.ops.nn.convolution_sums",
    "fastdist.ops.copying": "fastdist.ops.shape.copying",
    "fastdist.ops.counting": "fastdist.ops.index.searchsorted",
    "fastdist.ops.creation": "fastdist.ops.create.creation",
    "fastdist.ops.ctc": "fastdist.ops.nn.ctc",
    "fastdist.ops.density_losses": "fastdist.ops.nn.density_losses",
    "fastdist.ops.determinants": "fastdist.ops.linalg.determinants",
    "fastdist.ops.distances": "fastdist.ops.nn.cdist",
    "fastdist.ops.draws": "fastdist.ops.create.random_distributions",
    "fastdist.ops.dropout": "fastdist.ops.nn.dropout",
    "fastdist.ops.eigenvectors": "fastdist.ops.linalg.eig",
    "fastdist.ops.einsum": "fastdist.ops.linalg.einsum",
    "fastdist.ops.embedding": "fastdist.ops.nn.embedding",
    "fastdist.ops.embedding_bag": "fastdist.ops.nn.embedding_bag",
    "fastdist.ops.extrema": "fastdist.ops.pointwise.min_max",
    "fastdist.ops.extremes": "fastdist.ops.reduce.min_max",
    "fastdist.ops.fourier": "fastdist.ops.fft.transforms",
    "fastdist.ops.fourier_family": "fastdist.ops.fft.fft",
    "fastdist.ops.fractional_pooling": "fastdist.ops.nn.fractional_pooling",
    "fastdist.ops.given_memory": "fastdist.ops.create.from_memory",
    "fastdist.ops.grouped_products": "fastdist.ops.linalg.grouped_products",
    "fastdist.ops.histograms": "fastdist.ops.reduce.histograms",
    "fastdist.ops.index_entries": "fastdist.ops.index.index_entries",
    "fastdist.ops.indexing": "fastdist.ops.index.indexing",
    "fastdist.ops.interpolation": "fastdist.ops.nn.interpolation",
    "fastdist.ops.interpolation_taps": "fastdist.ops.nn.interpolation_taps",
    "fastdist.ops.joining": "fastdist.ops.shape.joining",
    "fastdist.ops.kept_tables": "fastdist.ops.device_constants",
    "fastdist.ops.kept_versions": "fastdist.ops.saved_indices",
    "fastdist.ops.least_squares": "fastdist.ops.linalg.least_squares",
    "fastdist.ops.likelihood": "fastdist.ops.nn.cross_entropy",
    "fastdist.ops.linear_cross_entropy": "fastdist.ops.nn.linear_cross_entropy",
    "fastdist.ops.linear_systems": "fastdist.ops.linalg.linear_systems",
    "fastdist.ops.losses": "fastdist.ops.nn.losses",
    "fastdist.ops.margins": "fastdist.ops.nn.margin_losses",
    "fastdist.ops.matmul": "fastdist.ops.linalg.matmul",
    "fastdist.ops.matrix_checks": "fastdist.ops.linalg.matrix_checks",
    "fastdist.ops.matrix_functions": "fastdist.ops.linalg.matrix_functions",
    "fastdist.ops.matrix_norms": "fastdist.ops.linalg.matrix_norms",
    "fastdist.ops.max_pooling": "fastdist.ops.nn.max_pooling",
    "fastdist.ops.movement": "fastdist.ops.shape.views",
    "fastdist.ops.multihead_attention": "fastdist.ops.nn.multihead_attention",
    "fastdist.ops.normalization": "fastdist.ops.nn.normalization",
    "fastdist.ops.norms": "fastdist.ops.reduce.norms",
    "fastdist.ops.order_statistics": "fastdist.ops.reduce.median_quantile",
    "fastdist.ops.ordering": "fastdist.ops.reduce.sorting",
    "fastdist.ops.orthogonal": "fastdist.ops.pointwise.orthogonal_polynomials",
    "fastdist.ops.padding": "fastdist.ops.nn.padding",
    "fastdist.ops.patches": "fastdist.ops.nn.unfold",
    "fastdist.ops.pixels": "fastdist.ops.nn.pixel_shuffle",
    "fastdist.ops.pool_arguments": "fastdist.ops.nn.pool_arguments",
    "fastdist.ops.products": "fastdist.ops.linalg.products",
    "fastdist.ops.random": "fastdist.ops.create.random",
    "fastdist.ops.ranges": "fastdist.ops.create.ranges",
    "fastdist.ops.real_numbers": "fastdist.ops.pointwise.angle",
    "fastdist.ops.rearranging": "fastdist.ops.shape.rearranging",
    "fastdist.ops.recurrent": "fastdist.ops.nn.recurrent",
    "fastdist.ops.recurrent_layers": "fastdist.ops.nn.recurrent_layers",
    "fastdist.ops.reductions": "fastdist.ops.reduce.reductions",
    "fastdist.ops.reflections": "fastdist.ops.linalg.qr",
    "fastdist.ops.reinterpreting": "fastdist.ops.shape.view_dtype",
    "fastdist.ops.rounding": "fastdist.ops.pointwise.rounding",
    "fastdist.ops.running": "fastdist.ops.reduce.cumulative_extremes",
    "fastdist.ops.sampling_grid": "fastdist.ops.nn.grid_sample",
    "fastdist.ops.scans": "fastdist.ops.reduce.cumulative_sums",
    "fastdist.ops.scattering": "fastdist.ops.index.scattering",
    "fastdist.ops.segments": "fastdist.ops.reduce.segment_reduce",
    "fastdist.ops.selection": "fastdist.ops.pointwise.masked",
    "fastdist.ops.set_memory": "fastdist.ops.shape.set_memory",
    "fastdist.ops.short_time": "fastdist.ops.fft.stft",
    "fastdist.ops.similarity": "fastdist.ops.nn.similarity",
    "fastdist.ops.slopes": "fastdist.ops.reduce.gradient",
    "fastdist.ops.softmax": "fastdist.ops.nn.softmax",
    "fastdist.ops.sparse_conversion": "fastdist.ops.sparse.conversion",
    "fastdist.ops.sparse_indexing": "fastdist.ops.sparse.indexing",
    "fastdist.ops.sparse_products": "fastdist.ops.sparse.products",
    "fastdist.ops.sparse_rules": "fastdist.ops.sparse.rules",
    "fastdist.ops.sparse_softmax": "fastdist.ops.sparse.softmax",
    "fastdist.ops.special": "fastdist.ops.pointwise.special",
    "fastdist.ops.spectra": "fastdist.ops.linalg.eigh_svd",
    "fastdist.ops.splitting": "fastdist.ops.shape.splitting",
    "fastdist.ops.strided": "fastdist.ops.shape.as_strided",
    "fastdist.ops.subscript": "fastdist.ops.index.subscript",
    "fastdist.ops.symmetric_systems": "fastdist.ops.linalg.ldl",
    "fastdist.ops.taking": "fastdist.ops.index.take",
    "fastdist.ops.transcendental": "fastdist.ops.pointwise.transcendental",
    "fastdist.ops.triangular": "fastdist.ops.linalg.cholesky",
    "fastdist.ops.unpooling": "fastdist.ops.nn.unpooling",
    "fastdist.ops.view_copies": "fastdist.ops.shape.view_copies",
    "fastdist.ops.weighing": "fastdist.ops.nn.weighted_neighbours",
    "fastdist.dispatch.kinds": "fastdist.dispatch.argument_kinds",
    "fastdist.dispatch.differentiated": "fastdist.dispatch.needs_derivative",
    "fastdist.dispatch.pointwise_way": "fastdist.dispatch.pointwise_route",
    "fastdist.dispatch.way": "fastdist.dispatch.route",
    "fastdist.dispatch.calls": "fastdist.dispatch.short_path",
    "fastdist.engine.inline_chosen": "fastdist.engine.inline_grad",
    "fastdist.engine.wanted": "fastdist.engine.needed_edges",
    "fastdist.graph.unresolved": "fastdist.graph.lazy_conj_neg",
    "fastdist.graph.differentiated": "fastdist.graph.transform_inputs",
    "fastdist.graph.fit_gradients": "fastdist.graph.unbroadcast",
    "fastdist.listeners.autocast": "fastdist.interpreters.autocast",
    "fastdist.listeners.batch_loop": "fastdist.interpreters.batch_loop",
    "fastdist.listeners.batched_tensor": "fastdist.interpreters.batched_tensor",
    "fastdist.listeners.batching": "fastdist.interpreters.batching",
    "fastdist.listeners.device_work": "fastdist.interpreters.device_work",
    "fastdist.listeners.flops": "fastdist.interpreters.flops",
    "fastdist.listeners.heard_methods": "fastdist.interpreters.observed_methods",
    "fastdist.listeners.sparse_rules": "fastdist.interpreters.sparse_rules",
    "fastdist.listeners.timing": "fastdist.interpreters.timing",
    "fastdist.listeners.offering": "fastdist.interpreters.torch_function",
    "fastdist.listeners.tracing": "fastdist.interpreters.tracing",
}
# (earlier module, module of today, names), for modules whose names went to several modules.
_SINGLE_NAMES: Final = (
    ("fastdist.ops.batch_norm", "fastdist.ops.nn.normalization", "group_norm"),
    ("fastdist.ops.builders", "fastdist.ops.create.ranges", "logspace"),
    ("fastdist.ops.builders", "fastdist.ops.index.triangle_indices", "tril_indices triu_indices"),
    ("fastdist.ops.builders", "fastdist.ops.index.unravel_index", "unravel_index"),
    ("fastdist.ops.builders", "fastdist.ops.linalg.vander", "vander"),
    ("fastdist.ops.builders", "fastdist.ops.shape.diagonal", "block_diag diag_embed diagflat"),
    ("fastdist.ops.builders", "fastdist.ops.shape.meshgrid", "cartesian_prod combinations"),
    ("fastdist.ops.draws", "fastdist.ops.index.multinomial", "multinomial"),
    ("fastdist.ops.embedding", "fastdist.ops.nn.one_hot", "one_hot"),
    (
        "fastdist.ops.extrema",
        "fastdist.ops.pointwise.clamp",
        "clamp_above clamp_above_tensor clamp_below clamp_below_tensor clamp_between",
    ),
    ("fastdist.ops.extrema", "fastdist.ops.pointwise.nan_to_num", "replace_nonfinite"),
    (
        "fastdist.ops.joining",
        "fastdist.ops.shape.splitting",
        "DimRange SplitBackward0 UnbindBackward0 chunk narrow select split unbind",
    ),
    (
        "fastdist.ops.least_squares",
        "fastdist.ops.linalg.pinv",
        "matrix_rank pinv pinverse pseudo_inverse",
    ),
    ("fastdist.ops.random", "fastdist.ops.nn.dropout", "dropout"),
    (
        "fastdist.ops.rearranging",
        "fastdist.ops.shape.diagonal",
        "diag diagonal place_diagonal trace",
    ),
    ("fastdist.ops.rearranging", "fastdist.ops.shape.triangles", "tril triu"),
    ("fastdist.ops.shorthand", "fastdist.ops.index.repeat_interleave", "repeat_interleave"),
    ("fastdist.ops.shorthand", "fastdist.ops.linalg.products", "vdot"),
    ("fastdist.ops.shorthand", "fastdist.ops.reduce.diff", "diff"),
    ("fastdist.ops.shorthand", "fastdist.ops.reduce.norms", "dist"),
    ("fastdist.ops.shorthand", "fastdist.ops.reduce.reductions", "nanmean nansum"),
    (
        "fastdist.ops.shorthand",
        "fastdist.ops.shape.joining",
        "atleast_1d atleast_2d atleast_3d column_stack dstack",
    ),
    ("fastdist.ops.shorthand", "fastdist.ops.shape.meshgrid", "meshgrid"),
    ("fastdist.ops.shorthand", "fastdist.ops.shape.splitting", "narrow_copy split_with_sizes"),
    ("fastdist.ops.statistics", "fastdist.ops.linalg.covariance", "corrcoef cov"),
    ("fastdist.ops.statistics", "fastdist.ops.linalg.kron_cross", "cross kron"),
    ("fastdist.ops.statistics", "fastdist.ops.linalg.products", "addbmm"),
    ("fastdist.ops.statistics", "fastdist.ops.reduce.norms", "renorm"),
    ("fastdist.ops.statistics", "fastdist.ops.reduce.trapezoid", "cumulative_trapezoid trapezoid"),
    ("fastdist.ops.statistics", "fastdist.ops.shape.rearranging", "rot90"),
    ("fastdist.ops.variants", "fastdist.ops.nn.activation", "gelu logit prelu"),
    ("fastdist.ops.variants", "fastdist.ops.nn.bounded_activation", "celu hardtanh"),
    ("fastdist.ops.variants", "fastdist.ops.pointwise.arithmetic", "positive"),
    ("fastdist.ops.variants", "fastdist.ops.pointwise.bitwise", "lcm"),
    ("fastdist.ops.variants", "fastdist.ops.pointwise.clamp", "clamp clamp_max clamp_min"),
    ("fastdist.ops.variants", "fastdist.ops.pointwise.complex_numbers", "sgn"),
    ("fastdist.ops.variants", "fastdist.ops.pointwise.div", "div"),
    (
        "fastdist.ops.variants",
        "fastdist.ops.pointwise.exponents",
        "float_power float_power_ frexp ldexp",
    ),
    ("fastdist.ops.variants", "fastdist.ops.pointwise.nan_to_num", "nan_to_num"),
    ("fastdist.ops.variants", "fastdist.ops.pointwise.round", "round"),
    ("fastdist.ops.variants", "fastdist.ops.pointwise.where", "where"),
)
# "earlier module.name" -> "module of today.name"
NAMES: Final[dict[str, str]] = {
    f"{earlier}.{name}": f"{today}.{name}"
    for earlier, today, names in _SINGLE_NAMES
    for name in names.split()
}


def current_name(module: str, name: str) -> tuple[str, str]:
    """Return the module and the name that stand today for those that a file names.

    Args:
        module: The module's full name, as a pickle has it.
        name: The name inside the module, such as "Kind" or "Kind.method".

    Returns:
        Both unchanged, unless the table has a row for them.
    """
    first, dot, rest = name.partition(".")
    moved = NAMES.get(f"{module}.{first}")
    if moved is None:
        return MODULES.get(module, module), name
    home, _, own = moved.rpartition(".")
    return home, f"{own}{dot}{rest}"


def current_path(path: str) -> str:
    """Return today's name of a module ("pkg.mod"), or of a thing in one ("pkg.mod.f")."""
    module, dot, name = path.rpartition(".")
    if path in MODULES or not dot:
        return MODULES.get(path, path)
    return ".".join(current_name(module, name))


class MovedModuleFinder:
    """Finds the modules of earlier versions; each imports nothing until a name is taken from it."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to make a module of the table, None for any other."""
        if not name.startswith("fastdist."):
            return None
        packages = _packages()
        if name not in packages and name not in _modules():
            return None
        # importlib.abc, whose Loader this could be, imports a dozen modules more.
        loader: Any = _MovedModuleLoader
        return ModuleSpec(name, loader, is_package=name in packages)


class _MovedModuleLoader:
    @staticmethod
    def create_module(spec: ModuleSpec) -> None:
        """Leave the making of an empty module to Python."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Let each name of the module be looked up where it is today."""
        names: Any = module
        names.__getattr__ = earlier_names(module.__name__)


def earlier_names(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module from which names moved, by the rows of NAMES.

    A module that is gone gets it from the finder. A module that stays, and has lost a name, needs
    the line `__getattr__ = earlier_names(__name__)`.
    """
    return functools.partial(_find, module)


def _find(module: str, name: str) -> Any:
    """Look up a name of an earlier module where it is today.

    Raises  AttributeError if the table has no row for it
    """
    home, own = current_name(module, name)
    if home == module or name.startswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), own)


@functools.cache
def _modules() -> frozenset[str]:
    return frozenset({*MODULES, *(name.rpartition(".")[0] for name in NAMES)})


@functools.cache
def _packages() -> frozenset[str]:
    """Return the packages that the modules of the table were in; some of them may be gone."""
    parts = [name.split(".") for name in _modules()]
    return frozenset(".".join(one[:end]) for one in parts for end in range(2, len(one)))


def find_moved_modules() -> None:
    """Put the finder behind all others, once."""
    if not any(getattr(one, "__name__", "") == "MovedModuleFinder" for one in sys.meta_path):
        sys.meta_path.append(MovedModuleFinder)
