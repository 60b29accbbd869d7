# The names of fastdist. Written by fastdist/namespace/stubs.py.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

from .tensor.methods import DeviceLike, DTypeLike, Indices, NDArray, Number
from .tensor.methods import Operand, Scalar, Sizes
from .core.device import Device
from .core.dtypes import DType
from .core.memory_format import MemoryFormat, MemoryLayout
from . import _C as _C
from . import __config__ as __config__
from . import __future__ as __future__
from . import _custom_ops as _custom_ops
from . import _dynamo as _dynamo
from . import _functorch as _functorch
from . import _inductor as _inductor
from . import _jit_internal as _jit_internal
from . import _ops as _ops
from . import _subclasses as _subclasses
from . import _tensor as _tensor
from . import _tensor_str as _tensor_str
from . import _utils as _utils
from . import accelerator as accelerator
from . import amp as amp
from . import ao as ao
from . import autograd as autograd
from . import backends as backends
from . import compiler as compiler
from . import cpu as cpu
from . import cuda as cuda
from . import data as data
from . import distributed as distributed
from . import distributions as distributions
from . import export as export
from . import fft as fft
from . import func as func
from . import functional as functional
from . import futures as futures
from . import fx as fx
from . import hub as hub
from . import info as info
from . import jit as jit
from . import library as library
from . import linalg as linalg
from . import mps as mps
from . import mtia as mtia
from . import multiprocessing as multiprocessing
from . import nn as nn
from . import onnx as onnx
from . import optim as optim
from . import overrides as overrides
from . import profiler as profiler
from . import quantization as quantization
from . import quasirandom as quasirandom
from . import random as random
from . import serialization as serialization
from . import signal as signal
from . import sparse as sparse
from . import special as special
from . import storage as storage
from . import testing as testing
from . import torch_version as torch_version
from . import types as types
from . import utils as utils
from . import version as version
from . import xpu as xpu
from .core.errors import KernelError
AcceleratorError = KernelError
from .random_numbers.generator import Generator as Generator
from .core.errors import OutOfMemoryError as OutOfMemoryError
from .tensor.layout import Size as Size
from .tensor.tensor import Tensor as Tensor
from .tensor.typed_storage import TypedStorage as TypedStorage
from .tensor.typed_storage import UntypedStorage as UntypedStorage
from .core.version import __version__ as __version__
from .core.dtypes import bfloat16 as bfloat16
from .core.dtypes import bool_
bool = bool_
from .core.dtypes import complex128 as complex128
from .core.dtypes import complex32 as complex32
from .core.dtypes import complex64 as complex64
from .random_numbers.generator import default_generator as default_generator
from .core.device import Device
device = Device
from .core.dtypes import DType
dtype = DType
from .graph.modes import enable_grad as enable_grad
from .namespace.limits import finfo as finfo
from .core.dtypes import float16 as float16
from .core.dtypes import float32 as float32
from .core.dtypes import float64 as float64
from .core.dtypes import float8_e4m3fn as float8_e4m3fn
from .core.dtypes import float8_e4m3fnuz as float8_e4m3fnuz
from .core.dtypes import float8_e5m2 as float8_e5m2
from .core.dtypes import float8_e5m2fnuz as float8_e5m2fnuz
from .core.dtypes import float8_e8m0fnu as float8_e8m0fnu
from .tensor.dlpack import from_dlpack as from_dlpack
from .core.device import get_default_device as get_default_device
from .tensor.promotion import get_default_dtype as get_default_dtype
from .namespace.threads import get_num_threads as get_num_threads
from .namespace.limits import iinfo as iinfo
from .graph.modes import inference_mode as inference_mode
from .random_numbers.generator import initial_seed as initial_seed
from .as_torch import install_as_torch as install_as_torch
from .core.dtypes import int16 as int16
from .core.dtypes import int32 as int32
from .core.dtypes import int64 as int64
from .core.dtypes import int8 as int8
from .graph.modes import is_grad_enabled as is_grad_enabled
from .tensor.typed_storage import is_storage as is_storage
from .core.memory_format import MemoryLayout
layout = MemoryLayout
from .random_numbers.generator import manual_seed as manual_seed
from .core.memory_format import MemoryFormat
memory_format = MemoryFormat
from .graph.modes import no_grad as no_grad
from .ops import return_types as return_types
from .random_numbers.generator import seed as seed
from .core.device import set_default_device as set_default_device
from .tensor.promotion import set_default_dtype as set_default_dtype
from .graph.modes import set_grad_enabled as set_grad_enabled
from .namespace.threads import set_num_threads as set_num_threads
from .tensor.printing import set_printoptions as set_printoptions
from .core.memory_format import sparse_coo as sparse_coo
from .core.memory_format import strided as strided
from .tensor.dlpack import to_dlpack as to_dlpack
from .core.dtypes import uint16 as uint16
from .core.dtypes import uint32 as uint32
from .core.dtypes import uint64 as uint64
from .core.dtypes import uint8 as uint8
from .namespace.settings import are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled
from .namespace.settings import compiled_with_cxx11_abi as compiled_with_cxx11_abi
from .namespace.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from .namespace.settings import get_float32_matmul_precision as get_float32_matmul_precision
from .namespace.settings import get_num_interop_threads as get_num_interop_threads
from .namespace.settings import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from .namespace.settings import is_anomaly_enabled as is_anomaly_enabled
from .namespace.settings import is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled
from .namespace.settings import is_inference_mode_enabled as is_inference_mode_enabled
from .namespace.settings import is_vulkan_available as is_vulkan_available
from .namespace.settings import is_warn_always_enabled as is_warn_always_enabled
from .namespace.settings import set_anomaly_enabled as set_anomaly_enabled
from .namespace.settings import set_default_tensor_type as set_default_tensor_type
from .namespace.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from .namespace.settings import set_float32_matmul_precision as set_float32_matmul_precision
from .namespace.settings import set_flush_denormal as set_flush_denormal
from .namespace.settings import set_num_interop_threads as set_num_interop_threads
from .namespace.settings import set_warn_always as set_warn_always
from .namespace.settings import use_deterministic_algorithms as use_deterministic_algorithms
from ._C import DispatchKey as DispatchKey
from .accelerator import Event as Event
from .futures import Future as Future
from .amp import GradScaler as GradScaler
from ._C import PyTorchFileReader as PyTorchFileReader
from ._C import PyTorchFileWriter as PyTorchFileWriter
from .jit import ScriptFunction as ScriptFunction
from .jit import ScriptModule as ScriptModule
from .accelerator import Stream as Stream
from .namespace.control_flow import SymBool as SymBool
from .namespace.control_flow import SymFloat as SymFloat
from .namespace.control_flow import SymInt as SymInt
from ._C import TensorType as TensorType
from .namespace.checks import _assert as _assert
from .namespace.checks import _assert_async as _assert_async
from .namespace.checks import _check as _check
from .namespace.checks import _check_index as _check_index
from .namespace.checks import _check_is_size as _check_is_size
from .namespace.checks import _check_not_implemented as _check_not_implemented
from .namespace.checks import _check_tensor_all as _check_tensor_all
from .namespace.checks import _check_tensor_all_with as _check_tensor_all_with
from .namespace.checks import _check_type as _check_type
from .namespace.checks import _check_value as _check_value
from .namespace.checks import _check_with as _check_with
from .nn.positional import adaptive_max_pool1d as adaptive_max_pool1d
from .nn.positional import affine_grid_generator as affine_grid_generator
from .ops.shape.view_copies import alias_copy as alias_copy
from .nn.positional import alpha_dropout as alpha_dropout
from .nn.positional import alpha_dropout_ as alpha_dropout_
from .ops.shape.view_copies import as_strided_copy as as_strided_copy
from .ops.create.from_memory import asarray as asarray
from .amp import autocast as autocast
from .amp.switches import autocast_decrement_nesting as autocast_decrement_nesting
from .amp.switches import autocast_increment_nesting as autocast_increment_nesting
from .signal.windows import bartlett_window as bartlett_window
from .nn.positional import batch_norm as batch_norm
from .nn.positional import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .core.named_dtypes import bit as bit
from .core.named_dtypes import bits16 as bits16
from .core.named_dtypes import bits1x8 as bits1x8
from .core.named_dtypes import bits2x4 as bits2x4
from .core.named_dtypes import bits4x2 as bits4x2
from .core.named_dtypes import bits8 as bits8
from .signal.windows import blackman_window as blackman_window
from .nn.functional import celu_ as celu_
from .amp.switches import clear_autocast_cache as clear_autocast_cache
from .compiler import compile as compile
from .namespace.control_flow import cond as cond
from .nn.positional import constant_pad_nd as constant_pad_nd
from .nn.functional import conv_tbc as conv_tbc
from .nn.positional import cosine_embedding_loss as cosine_embedding_loss
from .nn.positional import ctc_loss as ctc_loss
from .ops.shape.view_copies import detach_copy as detach_copy
from .ops.shape.view_copies import diagonal_copy as diagonal_copy
from .nn.positional import dropout as dropout
from .nn.positional import dropout_ as dropout_
from .nn.positional import embedding as embedding
from .nn.positional import embedding_bag as embedding_bag
from .nn.positional import embedding_renorm_ as embedding_renorm_
from .ops.create.from_memory import empty_permuted as empty_permuted
from .ops.create.from_memory import empty_strided as empty_strided
from .ops.shape.view_copies import expand_copy as expand_copy
from .nn.positional import feature_alpha_dropout as feature_alpha_dropout
from .nn.positional import feature_alpha_dropout_ as feature_alpha_dropout_
from .nn.positional import feature_dropout as feature_dropout
from .nn.positional import feature_dropout_ as feature_dropout_
from .ops.shape.view_copies import fill as fill
from .core.named_dtypes import float4_e2m1fn_x2 as float4_e2m1fn_x2
from .ops.create.from_memory import from_file as from_file
from .ops.create.from_memory import frombuffer as frombuffer
from .amp.switches import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
from .amp.switches import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .namespace.typename import get_device as get_device
from .accelerator import get_device_module as get_device_module
from .namespace.typename import get_file_path as get_file_path
from .ops.reduce.gradient import gradient as gradient
from .nn.positional import grid_sampler as grid_sampler
from .nn.positional import grid_sampler_2d as grid_sampler_2d
from .nn.positional import grid_sampler_3d as grid_sampler_3d
from .nn.positional import group_norm as group_norm
from .signal.windows import hamming_window as hamming_window
from .signal.windows import hann_window as hann_window
from .backends import has_lapack as has_lapack
from .backends import has_mkl as has_mkl
from .backends import has_openmp as has_openmp
from .backends import has_spectral as has_spectral
from .nn.positional import hinge_embedding_loss as hinge_embedding_loss
from .ops.shape.view_copies import indices_copy as indices_copy
from .nn.positional import instance_norm as instance_norm
from .core.named_dtypes import int1 as int1
from .core.named_dtypes import int2 as int2
from .core.named_dtypes import int3 as int3
from .core.named_dtypes import int4 as int4
from .core.named_dtypes import int5 as int5
from .core.named_dtypes import int6 as int6
from .core.named_dtypes import int7 as int7
from .amp.switches import is_autocast_cache_enabled as is_autocast_cache_enabled
from .amp.switches import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
from .namespace.typename import is_distributed as is_distributed
from .namespace.typename import is_inference as is_inference
from .signal.windows import kaiser_window as kaiser_window
from .nn.positional import kl_div as kl_div
from .serialization import load as load
from .nn.positional import margin_ranking_loss as margin_ranking_loss
from .nn.utils.parametrizations import norm_except_dim as norm_except_dim
from .ops.shape.view_copies import permute_copy as permute_copy
from .nn.positional import poisson_nll_loss as poisson_nll_loss
from .core.named_dtypes import qint32 as qint32
from .core.named_dtypes import qint8 as qint8
from .core.named_dtypes import quint2x4 as quint2x4
from .core.named_dtypes import quint4x2 as quint4x2
from .core.named_dtypes import quint8 as quint8
from .nn.functional import rrelu_ as rrelu_
from .serialization import save as save
from .ops.create.from_memory import scalar_tensor as scalar_tensor
from .ops.reduce.segment_reduce import segment_reduce as segment_reduce
from .ops.shape.view_copies import select_copy as select_copy
from .nn.functional import selu_ as selu_
from .amp.switches import set_autocast_cache_enabled as set_autocast_cache_enabled
from .amp.switches import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from .amp.switches import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from .amp.switches import set_autocast_dtype as set_autocast_dtype
from .amp.switches import set_autocast_enabled as set_autocast_enabled
from .amp.switches import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from .ops.shape.view_copies import slice_copy as slice_copy
from .ops.shape.view_copies import split_copy as split_copy
from .ops.shape.view_copies import split_with_sizes_copy as split_with_sizes_copy
from .ops.shape.view_copies import squeeze_copy as squeeze_copy
from .namespace.control_flow import sym_float as sym_float
from .namespace.control_flow import sym_int as sym_int
from .namespace.control_flow import sym_ite as sym_ite
from .namespace.control_flow import sym_max as sym_max
from .namespace.control_flow import sym_min as sym_min
from .namespace.control_flow import sym_not as sym_not
from .namespace.control_flow import sym_sqrt as sym_sqrt
from .namespace.control_flow import sym_sum as sym_sum
from .ops.shape.view_copies import t_copy as t_copy
from .nn.functional import threshold_ as threshold_
from .ops.shape.view_copies import transpose_copy as transpose_copy
from .nn.positional import triplet_margin_loss as triplet_margin_loss
from .namespace.typename import typename as typename
from .core.named_dtypes import uint1 as uint1
from .core.named_dtypes import uint2 as uint2
from .core.named_dtypes import uint3 as uint3
from .core.named_dtypes import uint4 as uint4
from .core.named_dtypes import uint5 as uint5
from .core.named_dtypes import uint6 as uint6
from .core.named_dtypes import uint7 as uint7
from .ops.shape.view_copies import unbind_copy as unbind_copy
from .ops.shape.view_copies import unfold_copy as unfold_copy
from .ops.shape.view_copies import unsqueeze_copy as unsqueeze_copy
from .ops.shape.view_copies import values_copy as values_copy
from .ops.shape.view_copies import view_as_complex_copy as view_as_complex_copy
from .ops.shape.view_copies import view_as_real_copy as view_as_real_copy
from .ops.shape.view_copies import view_copy as view_copy
from .namespace.vmap import vmap as vmap
from .namespace.control_flow import while_loop as while_loop
cdouble: DType
cfloat: DType
chalf: DType
double: DType
e: builtins.float
float: DType
half: DType
inf: builtins.float
int: DType
legacy_contiguous_format: MemoryFormat
long: DType
nan: builtins.float
newaxis: None
pi: builtins.float
short: DType
class BFloat16Storage(TypedStorage): ...
class BFloat16Tensor(Tensor): ...
class BoolStorage(TypedStorage): ...
class BoolTensor(Tensor): ...
class ByteStorage(TypedStorage): ...
class ByteTensor(Tensor): ...
class CharStorage(TypedStorage): ...
class CharTensor(Tensor): ...
class ComplexDoubleStorage(TypedStorage): ...
class ComplexDoubleTensor(Tensor): ...
class ComplexFloatStorage(TypedStorage): ...
class ComplexFloatTensor(Tensor): ...
class DoubleStorage(TypedStorage): ...
class DoubleTensor(Tensor): ...
class FloatStorage(TypedStorage): ...
class FloatTensor(Tensor): ...
class HalfStorage(TypedStorage): ...
class HalfTensor(Tensor): ...
class IntStorage(TypedStorage): ...
class IntTensor(Tensor): ...
class LongStorage(TypedStorage): ...
class LongTensor(Tensor): ...
class ShortStorage(TypedStorage): ...
class ShortTensor(Tensor): ...
class UInt16Tensor(Tensor): ...
class UInt32Tensor(Tensor): ...
class UInt64Tensor(Tensor): ...
channels_last: MemoryFormat
channels_last_3d: MemoryFormat
contiguous_format: MemoryFormat
jagged: MemoryLayout
preserve_format: MemoryFormat
sparse_bsc: MemoryLayout
sparse_bsr: MemoryLayout
sparse_csc: MemoryLayout
sparse_csr: MemoryLayout

def _sample_dirichlet(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return numbers that sum to 1 along the last axis: gamma numbers with the concentrations in
    input, divided by their sum. No result is below the smallest normal number of input's dtype.
    """
def _standard_gamma(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return gamma numbers with the concentrations in input and scale 1. No result is below the
    smallest normal number of input's dtype.
    """
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the absolute value of each element; the gradient at 0 is 0.

    Raises  NotImplementedError if input is bool

    Args:
        input: A tensor of any dtype but bool. The smallest integer of a dtype, -128 in int8, is
            unchanged.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape. For complex input, the tensor is real.

    Example:
        >>> torch.abs(torch.tensor([-1.5, 2.0]))
        tensor([1.5000, 2.0000])
    """
def abs_(input: Tensor) -> Tensor:
    """Return the absolute value of each element; the gradient at 0 is 0.

    Raises  NotImplementedError if input is bool

    Args:
        input: A tensor of any dtype but bool. The smallest integer of a dtype, -128 in int8, is
            unchanged.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape. For complex input, the tensor is real.

    Example:
        >>> torch.abs(torch.tensor([-1.5, 2.0]))
        tensor([1.5000, 2.0000])
    """
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the absolute value of each element; the gradient at 0 is 0.

    Raises  NotImplementedError if input is bool

    Args:
        input: A tensor of any dtype but bool. The smallest integer of a dtype, -128 in int8, is
            unchanged.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape. For complex input, the tensor is real.

    Example:
        >>> torch.abs(torch.tensor([-1.5, 2.0]))
        tensor([1.5000, 2.0000])
    """
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the arc cosine of each element: the angle in radians, from 0 to pi.

    Args:
        input: A tensor of any shape and dtype. Real numbers outside of [-1, 1] give NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.acos(torch.tensor([1.0, 0.0]))
        tensor([0.0000, 1.5708])
    """
def acos_(input: Tensor) -> Tensor:
    """Return the arc cosine of each element: the angle in radians, from 0 to pi.

    Args:
        input: A tensor of any shape and dtype. Real numbers outside of [-1, 1] give NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.acos(torch.tensor([1.0, 0.0]))
        tensor([0.0000, 1.5708])
    """
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the non-negative inverse hyperbolic cosine of each element; NaN below 1."""
def acosh_(input: Tensor) -> Tensor:
    """Return the non-negative inverse hyperbolic cosine of each element; NaN below 1."""
def adaptive_avg_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None]) -> Tensor:
    """Divide the last axis into output_size parts of nearly equal size, and average each part."""
def add(input: Operand, other: Operand, *, alpha: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """Return input + alpha * other.

    Shape   (...), (...) -> broadcast
    Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
            nor a number

    Args:
        input: The first summand, a tensor of any dtype or a number. Integers wrap around: 255 + 1
            is 0 in uint8.
        other: The second summand, a tensor or a number.
        alpha: The number by which `other` is multiplied.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.add(torch.tensor([1.0, 2.0]), 1, alpha=10)
        tensor([11., 12.])
    """
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """Return beta * input + alpha * (the sum of the products of two batches of matrices)."""
def addcdiv(input: Operand, tensor1: Operand, tensor2: Operand, *, value: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """Return input + value * (tensor1 / tensor2).

    Raises  RuntimeError if tensor1 and tensor2 are integers
    """
def addcmul(input: Operand, tensor1: Operand, tensor2: Operand, *, value: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """Return input + value * tensor1 * tensor2.

    Raises  RuntimeError if all operands are bool
    """
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """Return beta * input + alpha * (mat1 @ mat2); input broadcasts."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """Return beta * input + alpha * (mat @ vec)."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """In-place version of addmv: writes the result into this tensor and returns it."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """Return beta * input + alpha * outer(vec1, vec2)."""
def adjoint(input: Tensor) -> Tensor:
    """Return a view with the last two axes swapped; complex numbers are conjugated.

    Raises  RuntimeError for a vector
    """
def all(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return whether all elements over dim are nonzero; True if there are no elements.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. NaN counts as nonzero.
        dim: The axis or axes to reduce; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool, or of uint8 if input is uint8.

    Example:
        >>> torch.all(torch.tensor([[True, False], [True, True]]), dim=1)
        tensor([False,  True])
    """
def allclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
    """Return whether |input - other| <= atol + rtol * |other| for all elements, as a Python bool.

    Raises  RuntimeError if the dtypes differ, or the shapes do not broadcast

    Args:
        input: A tensor of any dtype. Without elements the result is True.
        other: The tensor to compare with.
        rtol: The tolerance relative to |other|, so input and other are not interchangeable; not
            negative.
        atol: The absolute tolerance, which matters near 0; not negative.
        equal_nan: Whether NaN is close to NaN.

    Example:
        >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
        True
    """
def amax(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = ..., keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the maximum over dim; NaN if any element is NaN. Equal elements share the gradient.

    Raises  IndexError if dim is out of range, or an axis to reduce has no elements;
            NotImplementedError if input is complex

    Args:
        input: A real tensor; the axes to reduce must not be empty.
        dim: The axis or axes; all if empty.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.amax(torch.tensor([[1, 5], [7, 2]]), dim=0)
        tensor([7, 5])
    """
def amin(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = ..., keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the minimum over dim; NaN if any element is NaN. Equal elements share the gradient.

    Raises  IndexError if dim is out of range, or an axis to reduce has no elements;
            NotImplementedError if input is complex

    Args:
        input: A real tensor; the axes to reduce must not be empty.
        dim: The axis or axes; all if empty.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.amin(torch.tensor([[1, 5], [7, 2]]), dim=0)
        tensor([1, 2])
    """
def aminmax(input: Tensor, *, dim: builtins.int | None = None, keepdim: builtins.bool = False, out: Any = None) -> return_types.aminmax:
    """Return the minimum and the maximum of all elements, or of the elements along dim."""
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 0 for non-negative numbers, pi for negative numbers, and NaN for NaN. The gradient
    is 0.
    """
def any(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return whether any element over dim is nonzero; False if there are no elements.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. NaN counts as nonzero.
        dim: The axis or axes to reduce; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool, or of uint8 if input is uint8.

    Example:
        >>> torch.any(torch.tensor([[False, False], [True, False]]), dim=1)
        tensor([False,  True])
    """
def arange(start: Scalar = ..., end: Scalar | None = None, step: Scalar = 1, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return start, start + step, ... up to but excluding end; arange(n) starts at 0.

    Dtype   int64 if start, end and step are integers, else the default dtype
    Raises  RuntimeError for a step that is 0 or leads away from end

    Args:
        start: The first number; 0 if None.
        end: The end of the range, which is excluded; start is the end if None.
        step: The difference between successive numbers; it may be negative.
        dtype: The dtype of the result; int64 or the default dtype, as above, if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor with one axis of ceil((end - start) / step) elements.

    Example:
        >>> torch.arange(4)
        tensor([0, 1, 2, 3])
        >>> torch.arange(1, 2, 0.25)
        tensor([1.0000, 1.2500, 1.5000, 1.7500])
    """
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the arc cosine of each element: the angle in radians, from 0 to pi.

    Args:
        input: A tensor of any shape and dtype. Real numbers outside of [-1, 1] give NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.acos(torch.tensor([1.0, 0.0]))
        tensor([0.0000, 1.5708])
    """
def arccos_(input: Tensor) -> Tensor:
    """Return the arc cosine of each element: the angle in radians, from 0 to pi.

    Args:
        input: A tensor of any shape and dtype. Real numbers outside of [-1, 1] give NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.acos(torch.tensor([1.0, 0.0]))
        tensor([0.0000, 1.5708])
    """
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the non-negative inverse hyperbolic cosine of each element; NaN below 1."""
def arccosh_(input: Tensor) -> Tensor:
    """Return the non-negative inverse hyperbolic cosine of each element; NaN below 1."""
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the arc sine of each element: the angle in radians, from -pi/2 to pi/2."""
def arcsin_(input: Tensor) -> Tensor:
    """Return the arc sine of each element: the angle in radians, from -pi/2 to pi/2."""
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse hyperbolic sine of each element."""
def arcsinh_(input: Tensor) -> Tensor:
    """Return the inverse hyperbolic sine of each element."""
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the arc tangent of each element: the angle in radians, from -pi/2 to pi/2."""
def arctan2(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the angle in radians, from -pi to pi, of the point (other, input).

    Args:
        input: The y coordinates of the points.
        other: The x coordinates of the points; a tensor that broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.atan2(torch.tensor([1.0]), torch.tensor([1.0]))
        tensor([0.7854])
    """
def arctan_(input: Tensor) -> Tensor:
    """Return the arc tangent of each element: the angle in radians, from -pi/2 to pi/2."""
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse hyperbolic tangent of each element."""
def arctanh_(input: Tensor) -> Tensor:
    """Return the inverse hyperbolic tangent of each element."""
def argmax(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the index of the maximum, along dim or in the flattened tensor. Of several equal
    maxima, the first index is returned.

    Raises  IndexError if dim is out of range, or input has no elements; RuntimeError if input is
            bool or complex

    Args:
        input: A real tensor of any dtype but bool, not empty. NaN counts as the extremum.
        dim: The axis to search along; the flattened tensor if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64.

    Example:
        >>> torch.argmax(torch.tensor([[1, 5], [7, 2]]), dim=1)
        tensor([1, 0])
    """
def argmin(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the index of the minimum, along dim or in the flattened tensor. Of several equal
    minima, the first index is returned.

    Raises  IndexError if dim is out of range, or input has no elements; RuntimeError if input is
            bool or complex

    Args:
        input: A real tensor of any dtype but bool, not empty. NaN counts as the extremum.
        dim: The axis to search along; the flattened tensor if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64.

    Example:
        >>> torch.argmin(torch.tensor([[1, 5], [7, 2]]), dim=1)
        tensor([0, 1])
    """
def argsort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the indices that sort input along dim.

    Raises  IndexError if dim is out of range; NotImplementedError if input is complex

    Args:
        input: A real tensor of any dtype. NaN counts as largest.
        dim: The axis to sort along, by default the last.
        descending: Whether the largest element comes first.
        stable: Ignored: the order of equal elements is always kept.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64 of the shape of input.

    Example:
        >>> torch.argsort(torch.tensor([3, 1, 2]))
        tensor([1, 2, 0])
    """
def argwhere(input: Tensor) -> Tensor:
    """Return the indices of nonzero elements, one row for each element."""
def as_strided(input: Tensor, size: Sizes, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
    """Return a view of the memory of input with this size and stride. storage_offset is the number
    of elements before the view in the memory; None means the offset of input.
    """
def as_strided_(input: Tensor, size: Sizes, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
    """In-place version of as_strided: lets this tensor be that view, and returns it."""
def as_strided_scatter(input: Tensor, src: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None) -> Tensor:
    """Return a copy of input with src written to the view that as_strided makes of the copy."""
def as_tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike = ...) -> Tensor:
    """Return data as a Tensor. Memory is shared with a Tensor, a CPU array or a GPU array
    (`__cuda_array_interface__`) that has the right dtype and device.

    Raises  ValueError if lists have unequal lengths; TypeError if a value is not a number

    Args:
        data: A tensor, an array, a number, or nested lists of numbers.
        dtype: The dtype of the result; None means the dtype of the values, as for `tensor`.
        device: The device of the result; if None, the device of data if data is a tensor, otherwise
            the default device.

    Returns:
        data itself if data is a tensor of the right dtype and device; otherwise a new tensor.

    Example:
        >>> x = torch.ones(2)
        >>> torch.as_tensor(x) is x
        True
    """
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the arc sine of each element: the angle in radians, from -pi/2 to pi/2."""
def asin_(input: Tensor) -> Tensor:
    """Return the arc sine of each element: the angle in radians, from -pi/2 to pi/2."""
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse hyperbolic sine of each element."""
def asinh_(input: Tensor) -> Tensor:
    """Return the inverse hyperbolic sine of each element."""
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the arc tangent of each element: the angle in radians, from -pi/2 to pi/2."""
def atan2(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the angle in radians, from -pi to pi, of the point (other, input).

    Args:
        input: The y coordinates of the points.
        other: The x coordinates of the points; a tensor that broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.atan2(torch.tensor([1.0]), torch.tensor([1.0]))
        tensor([0.7854])
    """
def atan_(input: Tensor) -> Tensor:
    """Return the arc tangent of each element: the angle in radians, from -pi/2 to pi/2."""
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse hyperbolic tangent of each element."""
def atanh_(input: Tensor) -> Tensor:
    """Return the inverse hyperbolic tangent of each element."""
def atleast_1d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Return tensors with at least one axis; a 0-d tensor gets an axis of length 1."""
def atleast_2d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Return tensors with at least two axes; a vector becomes a row."""
def atleast_3d(*tensors: Tensor | Sequence[Tensor]) -> Any:
    """Return tensors with at least three axes; a matrix gets the third axis at the end."""
def avg_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True) -> Tensor:
    """Return the averages of windows along the last axis.

    Shape   (..., channels, n) -> (..., channels, windows)
    """
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None) -> Tensor:
    """Return beta * input + alpha * bmm(batch1, batch2)."""
def bernoulli(input: Tensor, p: Scalar | None = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Return 1 with the probability that input or p gives, else 0.

    Raises  RuntimeError for a probability outside of [0, 1]; tensors are checked on the CPU only

    Args:
        input: The probability of each element. If p is given, only its shape and dtype are used.
        p: One probability for all elements, or a tensor of probabilities.
        generator: The generator to draw from; the default one if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
        tensor([0., 1.])
    """
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input1 @ weight[k] @ input2 + bias[k] for each k.

    Shape   (..., n), (..., m), (k, n, m), (k) -> (..., k)
    """
def bincount(input: Tensor, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
    """Return how often each integer occurs or, with weights, the sum of weights of each integer. On
    a GPU, this waits for the largest integer, which determines the length of the result.

    Dtype   int64; with weights, float32 if the weights are float32, else float64
    Raises  NotImplementedError for complex weights, which would lose their imaginary part;
            RuntimeError if input is not a vector of non-negative integers

    Args:
        input: A vector of non-negative integers.
        weights: A weight for each element of input; all 1 if None.
        minlength: The minimal length of the result.

    Example:
        >>> torch.bincount(torch.tensor([0, 2, 2]))
        tensor([1, 0, 2])
    """
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Return numbers of successes in `count` trials with probability `prob`, in count's dtype."""
def bitwise_and(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the bitwise AND of input and other; for bools this is the logical AND."""
def bitwise_left_shift(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input with its bits shifted left by `other` bits."""
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the bitwise complement of input; for bools this is the logical NOT."""
def bitwise_or(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the bitwise OR of input and other; for bools this is the logical OR."""
def bitwise_right_shift(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input with its bits shifted right by `other` bits; the sign does not change."""
def bitwise_xor(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the bitwise XOR of input and other; for bools this is the logical XOR."""
def block_diag(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return a block-diagonal matrix of tensors with at most two axes. Without tensors, return a
    matrix of shape (1, 0).

    Dtype   the dtype to which all tensors promote; of a tensor without axes, only the category of
            its dtype counts
    """
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the products of two batches of matrices.

    Raises  RuntimeError if an argument does not have three axes, or the sizes do not fit

    Args:
        input: The left matrices, of shape (b, n, k), of any dtype but bool.
        mat2: The right matrices, of shape (b, k, m).
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of shape (b, n, m), for an input of shape (b, n, k).

    Example:
        >>> torch.bmm(torch.ones(4, 2, 3), torch.ones(4, 3, 5)).shape
        fastdist.Size([4, 2, 5])
    """
def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape that these shapes broadcast to."""
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return views of all tensors, broadcast to a common shape."""
def broadcast_to(input: Tensor, size: Sequence[builtins.int]) -> Tensor:
    """Return a view of input broadcast to this size.

    Raises  RuntimeError if an axis of input has neither length 1 nor the length given in size

    Args:
        input: A tensor of any dtype. The elements of the view share memory, so clone() it before
            writing.
        size: The shape of the result, as a tuple.

    Example:
        >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
def bucketize(input: Tensor | builtins.float, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return the index of the interval between boundaries that contains each element.

    Args:
        input: A tensor or a number.
        boundaries: A vector of numbers in ascending order.
        out_int32: Whether the result is int32 instead of int64.
        right: Whether an element equal to a boundary belongs to the interval after it.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.bucketize(torch.tensor([1, 4]), torch.tensor([2, 5]))
        tensor([0, 1])
    """
def can_cast(from_: DTypeLike, to: DTypeLike) -> builtins.bool:
    """Return whether results of dtype `from_` may be stored in a tensor of dtype `to`."""
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """Return the Cartesian product of vectors as a matrix. Each row has one element of each vector;
    the last column varies fastest. A single vector is returned unchanged.
    """
def cat(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return tensors joined along the axis dim; their shapes may differ only in that axis.

    Dtype   the dtype to which all tensors promote
    Raises  RuntimeError if an axis other than dim differs in length, or if there are no tensors;
            IndexError if dim is out of range

    Args:
        tensors: A list or tuple of tensors.
        dim: The axis along which to join.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.cat([torch.tensor([[1, 2]]), torch.tensor([[3, 4]])], dim=0)
        tensor([[1, 2],
                [3, 4]])
    """
def cdist(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, compute_mode: str = 'use_mm_for_euclid_dist_if_necessary') -> Tensor:
    """Return the distance of order p between each row of x1 and each row of x2.

    Shape   (..., n, m), (..., r, m) -> (..., n, r)
    Note    for equal rows, the gradient is 0, and second derivatives are correct for functions
            that are smooth in the squares of Euclidean distances and NaN for other functions. For
            equal rows, forward mode supports only squares, unless create_graph records a gradient
    Raises  RuntimeError if the last axes differ, the batches do not broadcast, or p is negative

    Args:
        x1: The first points, one in each row.
        x2: The second points, of shape (..., m, d), with the d of x1; batches broadcast.
        p: The order of the norm.
        compute_mode: Whether distances of order 2 come from a matrix product, or from differences
            of rows, which is more precise. By default, up to 25 rows use differences.

    Example:
        >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
        tensor([[5.]])
    """
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return each element rounded up to an integer; the gradient is 0.

    Raises  NotImplementedError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.ceil(torch.tensor([1.2, -1.2]))
        tensor([ 2., -1.])
    """
def ceil_(input: Tensor) -> Tensor:
    """Return each element rounded up to an integer; the gradient is 0.

    Raises  NotImplementedError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.ceil(torch.tensor([1.2, -1.2]))
        tensor([ 2., -1.])
    """
def celu(input: Tensor, alpha: builtins.float = 1.0) -> Tensor:
    """Return input where it is positive, and alpha * (exp(input / alpha) - 1) elsewhere.

    Raises  RuntimeError if alpha is 0
    """
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the product of several matrices; replaced by linalg.multi_dot."""
def channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor:
    """Return input with its channels (axis 1) reordered: the first channel of each group, then the
    second channel of each group, and so on.
    """
def cholesky(input: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the Cholesky factor; an older form of linalg.cholesky."""
def cholesky_inverse(input: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of the matrix whose Cholesky factor is input.

    Raises  LinAlgError if an element of the diagonal is 0
    """
def cholesky_solve(input: Tensor, input2: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return X with A @ X = input, where input2 is the Cholesky factor of A.

    Shape   (..., n, k), (..., n, n) -> (..., n, k); batch axes broadcast
    Note    if G is the gradient with respect to A, the gradient with respect to input2 is
            (G + G.mH) @ input2, which is not triangular
    """
def chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Return at most `chunks` views along dim, all of the same length except the last one.

    Raises  RuntimeError if chunks is not positive, or input has no axes; IndexError if dim is out
            of range

    Args:
        input: A tensor of any dtype with at least one axis.
        chunks: The number of views to make; fewer, if the length is not enough: 6 elements in 4
            chunks give 3 views of 2.
        dim: The axis to divide, by default the first.

    Example:
        >>> [part.tolist() for part in torch.chunk(torch.arange(5), 2)]
        [[0, 1, 2], [3, 4]]
    """
def clamp(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Return input limited to the range from min to max. Both bounds may be numbers or tensors, and
    one may be None.

    Raises  RuntimeError if both bounds are None

    Args:
        input: A real tensor of any shape. NaN stays NaN.
        min: The lower bound; None means no lower bound.
        max: The upper bound; None means no upper bound. Where max is below min, the result is max.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), min=0, max=1)
        tensor([0.0000, 0.5000, 1.0000])
    """
def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place version of clamp: writes the result into this tensor and returns it."""
def clamp_max(input: Tensor, max: Scalar | None, *, out: Tensor | None = None) -> Tensor:
    """Return the smaller of each element and the bound `max`."""
def clamp_max_(input: Tensor, max: Scalar | None) -> Tensor:
    """In-place version of clamp_max: writes the result into this tensor and returns it."""
def clamp_min(input: Tensor, min: Scalar | None, *, out: Tensor | None = None) -> Tensor:
    """Return the larger of each element and the bound `min`.

    Raises  NotImplementedError if input is complex; RuntimeError if the shapes do not broadcast

    Args:
        input: A real tensor of any shape. NaN stays NaN.
        min: The lower bound, a number or a tensor.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.clamp_min(torch.tensor([-1.0, 2.0]), 0)
        tensor([0., 2.])
    """
def clamp_min_(input: Tensor, min: Scalar | None) -> Tensor:
    """In-place version of clamp_min: writes the result into this tensor and returns it."""
def clip(input: Tensor, min: Any = None, max: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Return input limited to the range from min to max. Both bounds may be numbers or tensors, and
    one may be None.

    Raises  RuntimeError if both bounds are None

    Args:
        input: A real tensor of any shape. NaN stays NaN.
        min: The lower bound; None means no lower bound.
        max: The upper bound; None means no upper bound. Where max is below min, the result is max.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.clamp(torch.tensor([-2.0, 0.5, 3.0]), min=0, max=1)
        tensor([0.0000, 0.5000, 1.0000])
    """
def clip_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place version of clamp: writes the result into this tensor and returns it."""
def clone(input: Tensor, *, memory_format: MemoryFormat | None = None) -> Tensor:
    """Return a copy of input with the same order of axes in memory. Gradients pass to input.

    Raises  RuntimeError if memory_format is channels_last, and input does not have four axes

    Args:
        input: A tensor of any dtype and device.
        memory_format: The order of the elements in memory; None means input's order.

    Returns:
        A new tensor. Its gradient is passed on to input. For a leaf, call `detach().clone()`.

    Example:
        >>> x = torch.ones(2)
        >>> y = x.clone()
        >>> y[0] = 5
        >>> x
        tensor([1., 1.])
    """
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Join tensors as columns: along axis 1, with vectors as columns."""
def combinations(input: Tensor, r: builtins.int = 2, with_replacement: builtins.bool = False) -> Tensor:
    """Return all combinations of r elements as rows of a matrix, in the order of their indices."""
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return complex numbers made from real and imaginary parts of one dtype, which broadcast.

    Raises  RuntimeError if the parts have different dtypes, or a dtype that is neither float32 nor
            float64
    """
def concat(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return tensors joined along the axis dim; their shapes may differ only in that axis.

    Dtype   the dtype to which all tensors promote
    Raises  RuntimeError if an axis other than dim differs in length, or if there are no tensors;
            IndexError if dim is out of range

    Args:
        tensors: A list or tuple of tensors.
        dim: The axis along which to join.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.cat([torch.tensor([[1, 2]]), torch.tensor([[3, 4]])], dim=0)
        tensor([[1, 2],
                [3, 4]])
    """
def concatenate(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return tensors joined along the axis dim; their shapes may differ only in that axis.

    Dtype   the dtype to which all tensors promote
    Raises  RuntimeError if an axis other than dim differs in length, or if there are no tensors;
            IndexError if dim is out of range

    Args:
        tensors: A list or tuple of tensors.
        dim: The axis along which to join.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.cat([torch.tensor([[1, 2]]), torch.tensor([[3, 4]])], dim=0)
        tensor([[1, 2],
                [3, 4]])
    """
def conj(input: Tensor) -> Tensor:
    """Return a view of the conjugates of complex numbers; real tensors are returned unchanged.

    Note    the view shares the memory of input, so writes into the view change input. is_conj() of
            the view is True, and resolve_conj() returns a copy. Each op computes the conjugates
            again, so resolve a view that is read often. The view is an instance of a subclass of
            Tensor: use isinstance(), not type(). If input is an instance of a user's subclass, the
            view is not an instance of that subclass. A sparse tensor is copied

    Args:
        input: A tensor of any shape and dtype.

    Example:
        >>> torch.conj(torch.tensor([1 + 2j])).resolve_conj()
        tensor([1.-2.j])
    """
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the conjugates of complex numbers; real tensors are returned unchanged."""
def conj_physical_(input: Tensor) -> Tensor:
    """Conjugate complex numbers in place."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Return the cross-correlation of signals with weight, plus bias. `padding` is the number of
    zeros added at each end, "valid" (no zeros) or "same" (so many zeros that the length does not
    change).

    Shape   (n, c, length) or (c, length), (o, c / groups, kernel), (o) -> (n, o, positions)
    """
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Return the cross-correlation of images with weight, plus bias, as conv1d does for signals.

    Shape   (n, c, *image) or (c, *image), (o, c / groups, *kernel), (o) -> (n, o, *positions)
    Raises  RuntimeError if the channels or the dtypes do not fit the weight, the kernel is larger
            than the padded image, or input has neither 3 nor 4 axes

    Args:
        input: Images of shape (n, channels, height, width) or (channels, height, width), in the
            dtype of weight.
        weight: The kernels, of shape (out_channels, channels / groups, height, width).
        bias: One number for each channel of the result, or None.
        stride: The distance between positions of the kernel, one number or one for each axis.
        padding: The number of zeros added at each end, one number or one for each axis; "same" or
            "valid".
        dilation: The distance between neighbouring elements of the kernel.
        groups: The number of groups into which the channels are divided.

    Example:
        >>> F.conv2d(torch.zeros(1, 3, 6, 6), torch.zeros(8, 3, 3, 3), padding=1).shape
        fastdist.Size([1, 8, 6, 6])
    """
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Return the cross-correlation of volumes with weight, plus bias, as conv1d does for signals.

    Shape   (n, c, *volume) or (c, *volume), (o, c / groups, *kernel), (o) -> (n, o, *positions)
    """
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """Return the transposed convolution of signals, which is the adjoint of conv1d, plus bias.

    Shape   (n, c, length) or (c, length), (c, o / groups, kernel), (o) -> (n, o, positions)
    """
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """Return the transposed convolution of images, which is the adjoint of conv2d, plus bias.

    Shape   (n, c, *image) or (c, *image), (c, o / groups, *kernel), (o) -> (n, o, *positions)
    """
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """Return the transposed convolution of volumes, which is the adjoint of conv3d, plus bias.

    Shape   (n, c, *volume) or (c, *volume), (c, o / groups, *kernel), (o) -> (n, o, *positions)
    """
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Sequence[builtins.int], padding: Sequence[builtins.int], dilation: Sequence[builtins.int], transposed: builtins.bool, output_padding: Sequence[builtins.int], groups: builtins.int) -> Tensor:
    """Return a convolution of a batch, transposed or not, along the spatial axes of weight."""
def copysign(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input with the signs of `other`, including the signs of zeros and NaNs."""
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlation coefficients of the rows of input, between -1 and 1."""
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the cosine of each element; the elements are angles in radians.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result for inf is NaN.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.cos(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 0.5403])
    """
def cos_(input: Tensor) -> Tensor:
    """Return the cosine of each element; the elements are angles in radians.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result for inf is NaN.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.cos(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 0.5403])
    """
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the hyperbolic cosine of each element."""
def cosh_(input: Tensor) -> Tensor:
    """Return the hyperbolic cosine of each element."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = 1, eps: builtins.float = 1e-08) -> Tensor:
    """Return the cosine of the angle between x1 and x2 along dim. Norms smaller than eps are
    replaced by eps.
    """
def count_nonzero(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
    """Return the number of nonzero elements over dim."""
def cov(input: Tensor, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """Return the covariances of the rows of input. fweights holds the number of observations for
    each column, and aweights the weight of each column.
    """
def cross(input: Tensor, other: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the cross products of vectors of three elements along dim, by default the first axis
    of length 3.
    """
def cummax(input: Tensor, dim: builtins.int, *, out: Any = None) -> return_types.cummax:
    """Return the cumulative maxima along dim, and the last index of each; NaN from a NaN on."""
def cummin(input: Tensor, dim: builtins.int, *, out: Any = None) -> return_types.cummin:
    """Return the cumulative minima along dim, and the last index of each; NaN from a NaN on."""
def cumprod(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the cumulative product along dim.

    Dtype   integers and bool are multiplied in int64; floating -> the same
    """
def cumsum(input: Tensor, dim: builtins.int, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the cumulative sum along dim.

    Dtype   integers and bool are added in int64; floating -> the same
    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. After a NaN, all sums are NaN.
        dim: The axis along which to add.
        dtype: The dtype of the additions and of the result; int64 for integers if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.cumsum(torch.tensor([1, 2, 3]), dim=0)
        tensor([1, 3, 6])
    """
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: builtins.int = -1) -> Tensor:
    """Return the cumulative integrals of y along dim by the trapezoidal rule, without the 0 at the
    start.
    """
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Convert angles from degrees to radians."""
def deg2rad_(input: Tensor) -> Tensor:
    """Convert angles from degrees to radians."""
def det(input: Tensor) -> Tensor:
    """Return the determinant; an alias of linalg.det."""
def detach(input: Tensor) -> Tensor:
    """Return a tensor over the same memory that is not in any graph and has no tangents."""
def detach_(input: Tensor) -> Tensor:
    """Detach this tensor from its graph in place: it becomes a leaf without gradient or tangent.

    Raises  RuntimeError for a view, because its base would attach it to the graph again
    """
def diag(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return the diagonal of a matrix as a vector, or a matrix with a vector on its diagonal.

    Raises  RuntimeError if input has neither one nor two axes

    Args:
        input: A vector or a matrix of any dtype; the matrix need not be square.
        diagonal: The index of the diagonal: 0 is the main diagonal, positive ones are above it.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.diag(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
        >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
def diag_embed(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
    """Return matrices with the last axis of input on their diagonals.

    Args:
        input: A tensor of shape (..., n).
        offset: The index of the diagonal: 0 is the main diagonal, positive ones are above it.
        dim1: The axis of rows in the result.
        dim2: The axis of columns in the result.

    Example:
        >>> torch.diag_embed(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
def diagflat(input: Tensor, offset: builtins.int = 0) -> Tensor:
    """Return a matrix with input's elements on the diagonal with the index `offset`."""
def diagonal(input: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """Return a view whose last axis is the diagonal of the axes dim1 and dim2."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
    """Return a copy of input with src written to the diagonal of the axes dim1 and dim2."""
def diff(input: Tensor, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the n-th differences between neighbours along dim. First, `prepend` and `append` are
    joined to input.

    Raises  RuntimeError if input has no axes, or n is negative; IndexError if dim is out of range

    Args:
        input: A tensor with at least one axis. Differences of bool are exclusive or; unsigned
            integers wrap around.
        n: How many times to take differences.
        dim: The axis along which neighbours are subtracted; the result is n elements shorter there,
            or empty.
        prepend: A tensor to insert before input; nothing if None.
        append: A tensor to append to input; nothing if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.diff(torch.tensor([1, 4, 9]))
        tensor([3, 5])
    """
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the derivative of lgamma."""
def dist(input: Tensor, other: Tensor, p: builtins.float = 2) -> Tensor:
    """Return the norm of order p of input - other."""
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return input / other; rounding_mode "floor" or "trunc" rounds the quotient to an integer.

    Raises  RuntimeError if the shapes do not broadcast, or rounding_mode is unknown; RuntimeError
            if integers are divided by 0 with a rounding_mode

    Args:
        input: The dividend, a tensor or a number.
        other: The divisor, a tensor or a number.
        rounding_mode: None for the true quotient, "trunc" to round toward 0, "floor" to round down.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other. For integers without a rounding_mode,
        the quotient has the default dtype.

    Example:
        >>> torch.div(torch.tensor([7, -7]), 2)
        tensor([ 3.5000, -3.5000])
        >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
        tensor([ 3, -4])
    """
def divide(input: Operand, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return input / other; rounding_mode "floor" or "trunc" rounds the quotient to an integer.

    Raises  RuntimeError if the shapes do not broadcast, or rounding_mode is unknown; RuntimeError
            if integers are divided by 0 with a rounding_mode

    Args:
        input: The dividend, a tensor or a number.
        other: The divisor, a tensor or a number.
        rounding_mode: None for the true quotient, "trunc" to round toward 0, "floor" to round down.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other. For integers without a rounding_mode,
        the quotient has the default dtype.

    Example:
        >>> torch.div(torch.tensor([7, -7]), 2)
        tensor([ 3.5000, -3.5000])
        >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
        tensor([ 3, -4])
    """
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inner product of two vectors.

    Raises  RuntimeError if an argument does not have one axis, the lengths differ, or the dtypes
            differ

    Args:
        input: The first vector, of any dtype but bool. Complex numbers are not conjugated: see
            vdot.
        tensor: The second vector, of the same length and dtype. The product of empty vectors is 0.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.dot(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor(11)
    """
def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices, the first of which is sparse. Older name: use `mm`."""
def dsplit(input: Tensor, indices_or_sections: Sizes | Tensor) -> tuple[Tensor, ...]:
    """Return views of parts along the third axis."""
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Join tensors along the third axis."""
def eig(*args: Any, **kwargs: Any) -> Any:
    """Raise RuntimeError: removed from PyTorch; use linalg.eig."""
def einsum(equation: str | Tensor, *operands: Any) -> Tensor:
    """Return the sum of products that `equation` describes, such as "ij,jk->ik".

    Letters that do not occur in the result are summed over; `...` stands for axes that broadcast.
    Operands are multiplied from left to right, each time by one batched matrix product. Integers
    may replace letters: einsum(x, [0, 1], y, [1, 2], [0, 2]).

    Raises  RuntimeError if the equation is invalid, or does not fit the shapes of the operands

    Args:
        equation: One letter for each axis of each operand, "," between operands, and "->" before
            the axes of the result.
        *operands: The tensors, one for each term before the arrow of the equation.

    Returns:
        A tensor with the axes of the result, in their order.

    Example:
        >>> a, b = torch.ones(2, 3), torch.ones(3, 4)
        >>> torch.einsum("ij,jk->ik", a, b).shape
        fastdist.Size([2, 4])
        >>> torch.einsum("ii", torch.eye(3))
        tensor(3.)
    """
def empty(*size: Sizes, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: MemoryFormat | None = None, out: Tensor | None = None) -> Tensor:
    """Return a tensor with uninitialized elements.

    Raises  RuntimeError if a length is negative; TypeError if a length is not an integer

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; row-major if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.empty(2, 3).shape
        fastdist.Size([2, 3])
    """
def empty_like(input: Tensor, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: MemoryFormat | None = None) -> Tensor:
    """Return a tensor with uninitialized elements and the shape, strides, dtype and device of
    input.

    Raises  TypeError if input is not a tensor

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.empty_like(torch.ones(2, 3)).shape
        fastdist.Size([2, 3])
    """
def eq(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether elements are equal; NaN is not equal to anything.

    Raises  RuntimeError if the shapes do not broadcast

    Args:
        input: A tensor of any dtype; numbers of different dtypes are compared by value.
        other: A tensor or a number; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.eq(torch.tensor([1, 2]), 2)
        tensor([False,  True])
    """
def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Return whether shapes and all elements are equal, as a Python bool; NaN is not equal to NaN.

    Raises  TypeError if other is not a tensor

    Args:
        input: A tensor of any shape and dtype. Numbers of different dtypes are compared by value;
            shapes do not broadcast.
        other: The tensor to compare with.

    Example:
        >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
        True
    """
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the error function of each element."""
def erf_(input: Tensor) -> Tensor:
    """Return the error function of each element."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 1 - erf(input), precise even where erf is nearly 1."""
def erfc_(input: Tensor) -> Tensor:
    """Return 1 - erf(input), precise even where erf is nearly 1."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse error function of each element."""
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return e to the power of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: The exponents, of any shape and dtype. exp(-inf) is 0, and results that are too large
            are inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.exp(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 2.7183])
    """
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 2 to the power of each element."""
def exp2_(input: Tensor) -> Tensor:
    """Return 2 to the power of each element."""
def exp_(input: Tensor) -> Tensor:
    """Return e to the power of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: The exponents, of any shape and dtype. exp(-inf) is 0, and results that are too large
            are inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.exp(torch.tensor([0.0, 1.0]))
        tensor([1.0000, 2.7183])
    """
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return exp(input) - 1, precise near 0."""
def expm1_(input: Tensor) -> Tensor:
    """Return exp(input) - 1, precise near 0."""
def eye(n: builtins.int, m: builtins.int | None = None, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return an (n, m) matrix with ones on the main diagonal and zeros elsewhere.

    Raises  RuntimeError if n or m is negative

    Args:
        n: The number of rows, from 0 on.
        m: The number of columns; n if None.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
def fill_(input: Tensor, value: Any) -> Tensor:
    """Write `value`, a number or a 0-d tensor, into every element.

    Raises  RuntimeError if value is a tensor with axes, or a number that the dtype cannot hold
    """
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return input rounded towards 0; the gradient is 0."""
def fix_(input: Tensor) -> Tensor:
    """Return input rounded towards 0; the gradient is 0."""
def flatten(input: Tensor, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
    """Return input with the axes from start_dim to end_dim merged, as a view where possible.

    Raises  IndexError if start_dim or end_dim is out of range; RuntimeError if start_dim comes
            after end_dim

    Args:
        input: A tensor of any dtype; a 0-d tensor gives a vector of one element.
        start_dim: The first axis to merge.
        end_dim: The last axis to merge.

    Example:
        >>> torch.zeros(2, 3, 4).flatten(1).shape
        fastdist.Size([2, 12])
    """
def flip(input: Tensor, *dims: Sizes) -> Tensor:
    """Return a copy with the order of elements along dims reversed.

    Raises  IndexError if an axis is out of range; RuntimeError if an axis is given twice

    Args:
        input: A tensor of any dtype. Unlike NumPy, the result is not a view.
        *dims: The axes, as numbers or as one tuple.

    Example:
        >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), dims=(1,))
        tensor([[2, 1],
                [4, 3]])
    """
def fliplr(input: Tensor) -> Tensor:
    """Return a copy with the order of columns reversed."""
def flipud(input: Tensor) -> Tensor:
    """Return a copy with the order of rows reversed."""
def float_power(input: Scalar, exponent: Scalar, *, out: Tensor | None = None) -> Tensor:
    """Return input to the power of exponent, computed in float64, or in complex128 if an operand is
    complex.
    """
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return each element rounded down to an integer; the gradient is 0.

    Raises  NotImplementedError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.floor(torch.tensor([1.8, -1.2]))
        tensor([ 1., -2.])
    """
def floor_(input: Tensor) -> Tensor:
    """Return each element rounded down to an integer; the gradient is 0.

    Raises  NotImplementedError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. The dtype is kept, so integers are unchanged.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.floor(torch.tensor([1.8, -1.2]))
        tensor([ 1., -2.])
    """
def floor_divide(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input / other rounded down.

    Raises  RuntimeError if an integer is divided by 0, and in a backward pass
    """
def fmax(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the larger of two elements; if one is NaN, return the other one."""
def fmin(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the smaller of two elements; if one is NaN, return the other one."""
def fmod(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input - trunc(input / other) * other; its sign is the sign of `input`, as in C."""
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the fractional part of each element; it has the sign of the element."""
def frac_(input: Tensor) -> Tensor:
    """Return the fractional part of each element; it has the sign of the element."""
def frexp(input: Tensor, *, out: Any = None) -> Any:
    """Return (mantissa, exponent), where input is mantissa * 2**exponent and 0.5 <= |mantissa| < 1.
    If input is not on the CPU, the call waits for the device.

    Dtype   exponent is int32
    Raises  RuntimeError for integers and bool
    """
def frobenius_norm(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the root of the sum of squares over dim, which is one axis or two axes."""
def from_numpy(array: NDArray) -> Tensor:
    """Return a Tensor that shares memory with a NumPy array.

    Raises  TypeError for an object that is not an array, or a dtype that fastdist does not have

    Args:
        array: The array, of a dtype that tensors have.

    Returns:
        A tensor. Writes into the tensor change the array, too.

    Example:
        >>> import numpy as np
        >>> torch.from_numpy(np.array([1.0, 2.0]))
        tensor([1., 2.], dtype=fastdist.float64)
    """
def full(size: Sequence[builtins.int], fill_value: Scalar, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return a tensor of this size, filled with fill_value.

    Raises  TypeError if size is not a tuple of integers, or fill_value is not a number;
            RuntimeError if a length is negative

    Args:
        size: The lengths of the axes, as a tuple.
        fill_value: The number; without dtype, an int gives int64, a bool gives bool, and a float
            the default dtype.
        dtype: The dtype of the result; if None, int64 for an integer, bool for a bool, and
            otherwise the default dtype.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.full((2, 2), 7)
        tensor([[7, 7],
                [7, 7]])
    """
def full_like(input: Tensor, fill_value: Scalar, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: MemoryFormat | None = None) -> Tensor:
    """Return a tensor filled with fill_value, with the shape, strides, dtype and device of input.

    Raises  TypeError if fill_value is not a number

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        fill_value: The number; for an integer dtype, a fraction is cut off: 2.7 becomes 2.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.full_like(torch.zeros(2), 7)
        tensor([7., 7.])
    """
def gather(input: Tensor, dim: builtins.int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return elements of input at index along dim: `out[i][j] = input[index[i][j]][j]` for dim 0.

    Raises  RuntimeError if an index is out of range, or index has a wrong dtype or number of axes;
            IndexError if dim is out of range

    Args:
        input: A tensor of any dtype, with as many axes as index.
        dim: The axis to which the indices apply.
        index: Indices along dim, int64 or int32. Only axis dim may be longer than in input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the shape of index and the dtype of input.

    Example:
        >>> x = torch.tensor([[1, 2], [3, 4]])
        >>> torch.gather(x, 1, torch.tensor([[0, 0], [1, 0]]))
        tensor([[1, 1],
                [4, 3]])
    """
def gcd(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the greatest common divisor of integers. The result is never negative."""
def gcd_(input: Tensor, other: Operand) -> Tensor:
    """Return the greatest common divisor of integers. The result is never negative."""
def ge(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether input >= other."""
def geqrf(input: Tensor, *, out: Any = None) -> return_types.geqrf:
    """Return (a, tau), the arguments of householder_product. a holds R and, below R's diagonal, the
    Householder vectors; tau holds the scales of the reflections.

    Note    this function has no derivatives, as in PyTorch
    """
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the outer product: each element of one vector times each element of another.

    Raises  RuntimeError if an argument does not have one axis

    Args:
        input: The first vector, of any dtype.
        vec2: The second vector, of any length; the dtypes are promoted.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A matrix of shape (n, m), for vectors of n and m elements.

    Example:
        >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor([[3, 4],
                [6, 8]])
    """
def get_rng_state() -> Tensor:
    """Return the state of the CPU's default generator, for set_rng_state."""
def greater(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether input > other."""
def greater_equal(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether input >= other."""
def gru(data: Tensor, *given: object) -> tuple[Tensor, Tensor]:
    """Return the outputs and the last h of GRU layers. See lstm for `given`."""
def gru_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """Return h after one step of a GRU cell."""
def gt(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether input > other."""
def hardshrink(input: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Return input, with elements in [-lambd, lambd] set to 0."""
def heaviside(input: Operand, values: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return 0 for negative input, 1 for positive input, and `values` where input is 0."""
def histc(input: Tensor, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0, *, out: Tensor | None = None) -> Tensor:
    """Return the number of elements in each of `bins` equal intervals from min to max. If min and
    max are equal, the intervals range from the smallest to the largest element. Elements outside
    the intervals are ignored.
    """
def histogram(input: Tensor, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: builtins.bool = False, out: Any = None) -> return_types.histogram:
    """Return (hist, bin_edges). hist holds the number of elements in each interval, or the sum of
    their weights. bins is a number of equal intervals, or a tensor of edges.
    """
def histogramdd(input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: builtins.bool = False) -> Any:
    """Return (hist, bin_edges). hist holds the number of points in each box, or the sum of their
    weights. The last axis of input holds the coordinates of a point.

    bins is a number of equal intervals for all axes, or a sequence with one item for each axis: a
    number of intervals, or a tensor of edges. range holds the outermost edges of all axes in one
    sequence.

    Shape   (..., D) -> D axes
    Raises  RuntimeError if a sequence bins does not have D items, or range does not have 2 * D
    """
def hsplit(input: Tensor, indices_or_sections: Sizes | Tensor) -> tuple[Tensor, ...]:
    """Return views of parts along the second axis, or along the only axis of a vector."""
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Join tensors horizontally: vectors along axis 0, all others along axis 1."""
def hypot(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return sqrt(input**2 + other**2) without intermediate overflow.

    Raises  RuntimeError for integers
    """
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0."""
def i0_(input: Tensor) -> Tensor:
    """Return the modified Bessel function of the first kind of order 0."""
def igamma(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the regularised lower incomplete gamma function P(a, x) for a = input, x = other."""
def igammac(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the regularised upper incomplete gamma function Q(a, x) for a = input, x = other."""
def imag(input: Tensor) -> Tensor:
    """Return a view of the imaginary parts of complex numbers.

    Raises  RuntimeError for real numbers
    """
def index_add(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: builtins.float = 1, out: Tensor | None = None) -> Tensor:
    """Return input with slices of source, times alpha, added at the indices `index` along dim."""
def index_copy(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return input with the slices of source written at the indices `index` along dim."""
def index_fill(input: Tensor, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
    """Return input with value written to its slices at the indices `index` along dim."""
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: builtins.bool = False) -> Tensor:
    """Return a copy of input with values written, or added, at indices."""
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: builtins.bool = False) -> Tensor:
    """Write values into input[indices] or, if accumulate is true, add them; return input."""
def index_reduce(input: Tensor, dim: builtins.int, index: Tensor, source: Tensor, reduce: str, *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:
    """Return input with the slices of source combined at the indices `index` along dim. Slices with
    the same index are reduced by prod, mean, amax or amin. The old values of input are reduced with
    them, unless include_self is False.
    """
def index_select(input: Tensor, dim: builtins.int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of the slices of input at the indices `index` along dim.

    Raises  IndexError if dim or an index is out of range; RuntimeError if index is neither int32
            nor int64, or has several axes

    Args:
        input: A tensor of any dtype; the result has index.numel() slices along dim.
        dim: The axis to which the indices apply.
        index: The indices of slices, a vector of int64 or int32.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.index_select(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([1, 1]))
        tensor([[2, 2],
                [4, 4]])
    """
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the sums of products along the last axes of both tensors."""
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse; an alias of linalg.inv.

    Raises  RuntimeError if the matrices are not square, or one is singular

    Args:
        input: A square matrix, or a batch of square matrices.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
def is_complex(input: Tensor) -> builtins.bool:
    """Return whether the dtype of input is complex."""
def is_conj(input: Tensor) -> builtins.bool:
    """Return whether the tensor is a lazily conjugated view."""
def is_floating_point(input: Tensor) -> builtins.bool:
    """Return whether the dtype of input is floating.

    Raises  TypeError if input is not a tensor

    Args:
        input: A tensor. float16 and bfloat16 are floating; complex dtypes are not.

    Example:
        >>> torch.is_floating_point(torch.ones(1))
        True
    """
def is_neg(input: Tensor) -> builtins.bool:
    """Return whether the tensor is a lazily negated view, such as `imag` of a conjugated view."""
def is_nonzero(input: Tensor) -> builtins.bool:
    """Return whether the only element of input is not 0.

    Raises  RuntimeError if input does not have exactly one element
    """
def is_same_size(input: Tensor, other: Tensor) -> builtins.bool:
    """Return whether the shapes are equal."""
def is_signed(input: Tensor) -> builtins.bool:
    """Return whether the dtype of input can represent negative numbers."""
def is_tensor(obj: Any) -> builtins.bool:
    """Return whether obj is a Tensor.

    Args:
        obj: Any object.

    Example:
        >>> torch.is_tensor(torch.ones(1)), torch.is_tensor([1.0])
        (True, False)
    """
def isclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
    """Return whether |input - other| <= atol + rtol * |other|, element by element.

    Raises  RuntimeError if the dtypes differ, or the shapes do not broadcast

    Args:
        input: A tensor of any dtype. An infinity is close only to itself.
        other: The tensor to compare with.
        rtol: The tolerance relative to |other|, so input and other are not interchangeable; not
            negative.
        atol: The absolute tolerance, which matters near 0; not negative.
        equal_nan: Whether NaN is close to NaN.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]))
        tensor([ True, False])
    """
def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return whether input is neither infinite nor NaN.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any dtype. A complex number is finite if both parts are; integers always
            are.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool of the same shape.

    Example:
        >>> torch.isfinite(torch.tensor([1.0, float("inf"), float("nan")]))
        tensor([ True, False, False])
    """
def isin(elements: Any, test_elements: Any, *, assume_unique: builtins.bool = False, invert: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return whether each of `elements` occurs in `test_elements`; NaN never does."""
def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return whether input is inf or -inf.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any dtype. A complex number is infinite if one of its parts is.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool of the same shape.

    Example:
        >>> torch.isinf(torch.tensor([1.0, float("-inf")]))
        tensor([False,  True])
    """
def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return whether input is NaN.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any dtype. A complex number is NaN if one of its parts is; integers are
            not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool of the same shape.

    Example:
        >>> torch.isnan(torch.tensor([1.0, float("nan")]))
        tensor([False,  True])
    """
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return whether input is -inf."""
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return whether input is +inf."""
def isreal(input: Tensor) -> Tensor:
    """Return True where the imaginary part is 0, which includes all real numbers."""
def istft(input: Tensor, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False) -> Tensor:
    """Return the signal for which stft, with the same arguments, returns input. If there is no such
    signal, return the least-squares approximation.

    `length` truncates the signal, or pads it with zeros
    Shape   (batch, frequencies, frames) or (frequencies, frames) -> (batch, samples)
    Raises  RuntimeError if a sample is under no window, or only under windows that are 0 there
    """
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the Kronecker product: each element of input times all of other."""
def kthvalue(input: Tensor, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: Any = None) -> return_types.kthvalue:
    """Return (values, indices) of the k-th smallest element along dim; NaN sorts last."""
def layer_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05, cudnn_enable: builtins.bool = True) -> Tensor:
    """Return input normalized to mean 0 and variance 1 over its last axes, times weight, plus bias.

    Raises  RuntimeError if the last axes of input are not normalized_shape

    Args:
        input: A floating-point tensor of shape (..., *normalized_shape). Equal elements become 0,
            before weight and bias.
        normalized_shape: The lengths of the axes to normalize, which are the last axes of input.
        weight: A factor for each element, or None.
        bias: A summand for each element, or None.
        eps: Added to the variance, to avoid division by 0.
        cudnn_enable: Ignored.

    Example:
        >>> F.layer_norm(torch.tensor([[1.0, 2.0, 3.0]]), (3,))
        tensor([[-1.2247,  0.0000,  1.2247]])
    """
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the least common multiple of integers. The result is never negative. It is 0 if an
    operand is 0.
    """
def lcm_(input: Tensor, other: Tensor) -> Tensor:
    """In-place version of lcm: writes the result into this tensor and returns it."""
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return input * 2**other.

    Dtype   a floating input keeps its dtype if other is an integer
    """
def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """In-place version of ldexp: writes the result into this tensor and returns it."""
def le(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether input <= other."""
def lerp(input: Operand, end: Operand, weight: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input + weight * (end - input).

    Raises  RuntimeError if input has an integer dtype, if input and end have different dtypes, or
            if weight has axes and a different dtype than input

    Args:
        input: The result for weight 0, a floating-point or complex tensor. Weights outside of [0,
            1] extrapolate.
        end: The result for weight 1.
        weight: A number or a tensor.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.lerp(torch.tensor([0.0]), torch.tensor([10.0]), 0.25)
        tensor([2.5000])
    """
def less(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether input < other."""
def less_equal(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether input <= other."""
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of the absolute value of gamma(input)."""
def linspace(start: Scalar, end: Scalar, steps: builtins.int, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return `steps` evenly spaced numbers from start to end, both included.

    Raises  RuntimeError if steps is negative

    Args:
        start: The first element, a number or a 0-d tensor.
        end: The last element, which is included; smaller than start for a descending sequence.
        steps: The number of elements: 0 gives none, 1 gives start alone.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the natural logarithm of each element: -inf at 0, NaN for negative numbers.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
            real numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log(torch.tensor([1.0, 2.0, 0.0]))
        tensor([0.0000, 0.6931,   -inf])
    """
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm to base 10 of each element: -inf at 0, NaN for negative numbers.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
            real numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log10(torch.tensor([100.0]))
        tensor([2.])
    """
def log10_(input: Tensor) -> Tensor:
    """Return the logarithm to base 10 of each element: -inf at 0, NaN for negative numbers.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
            real numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log10(torch.tensor([100.0]))
        tensor([2.])
    """
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the natural logarithm of 1 plus each element, precise near 0.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is -inf at -1, and NaN below.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log1p(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.6931])
    """
def log1p_(input: Tensor) -> Tensor:
    """Return the natural logarithm of 1 plus each element, precise near 0.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is -inf at -1, and NaN below.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log1p(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.6931])
    """
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm to base 2 of each element: -inf at 0, NaN for negative numbers.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
            real numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log2(torch.tensor([8.0, 1.0]))
        tensor([3., 0.])
    """
def log2_(input: Tensor) -> Tensor:
    """Return the logarithm to base 2 of each element: -inf at 0, NaN for negative numbers.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
            real numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log2(torch.tensor([8.0, 1.0]))
        tensor([3., 0.])
    """
def log_(input: Tensor) -> Tensor:
    """Return the natural logarithm of each element: -inf at 0, NaN for negative numbers.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a logarithm, negative
            real numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.log(torch.tensor([1.0, 2.0, 0.0]))
        tensor([0.0000, 0.6931,   -inf])
    """
def log_softmax(input: Tensor, dim: builtins.int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return log(softmax(input)) along dim, without overflow.

    Shape   (..., n, ...) -> (..., n, ...)
    Raises  NotImplementedError if input is not floating-point, and dtype is None; IndexError if dim
            is out of range

    Args:
        input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
            alone, gives NaN.
        dim: The axis along which the exponentials of the result add up to 1.
        dtype: The dtype to compute in, and of the result; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.log_softmax(torch.tensor([1.0, 2.0]), dim=0)
        tensor([-1.3133, -0.3133])
    """
def logaddexp(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return log(exp(input) + exp(other)) without overflow."""
def logaddexp2(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return log2(2**input + 2**other) without overflow."""
def logcumsumexp(input: Tensor, dim: builtins.int, *, out: Tensor | None = None) -> Tensor:
    """Return log(cumsum(exp(input))) along dim, without overflow."""
def logdet(input: Tensor) -> Tensor:
    """Return the logarithm of the determinant: -inf if the determinant is 0, NaN if the determinant
    is negative. For complex matrices, the imaginary part of the logarithm is in (-pi, pi].
    """
def logical_and(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether the elements of input and other are both nonzero.

    Raises  RuntimeError if the shapes do not broadcast

    Args:
        input: A tensor of any dtype. NaN counts as nonzero.
        other: The second tensor; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.logical_and(torch.tensor([1, 0]), torch.tensor([2, 3]))
        tensor([ True, False])
    """
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return whether each element is 0.

    Args:
        input: A tensor of any dtype. NaN is not 0.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool of the same shape.

    Example:
        >>> torch.logical_not(torch.tensor([1, 0]))
        tensor([False,  True])
    """
def logical_or(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether the element of input or the element of other is nonzero."""
def logical_xor(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether exactly one of the elements of input and other is nonzero."""
def logit(input: Tensor, eps: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return log(input / (1 - input)). If eps is given, input is clamped to eps ... 1 - eps first.
    If eps is above 1/2, that range is empty: then input below eps becomes eps, and all other input
    becomes 1 - eps.
    """
def logit_(input: Tensor, eps: builtins.float | None = None) -> Tensor:
    """In-place version of logit: writes the result into this tensor and returns it."""
def logspace(start: Scalar, end: Scalar, steps: builtins.int, base: builtins.float = 10.0, *, dtype: DTypeLike | None = None, device: DeviceLike = ..., requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return base raised to the powers linspace(start, end, steps)."""
def logsumexp(input: Tensor, dim: Sizes, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return log(sum(exp(input))) over dim, without overflow.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype; integers are converted to the default dtype. The result for no
            elements is -inf.
        dim: The axis, or several as a tuple.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.logsumexp(torch.tensor([1000.0, 1000.0]), dim=0)
        tensor(1000.6932)
    """
def lstm(data: Tensor, *given: object) -> tuple[Tensor, Tensor, Tensor]:
    """Return the outputs, the last h and the last c of LSTM layers.

    `given` is (hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first). For
    packed rows, `given` is (batch_sizes, hx, params, has_biases, num_layers, dropout, train,
    bidirectional).
    """
def lstm_cell(input: Tensor, hx: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return h and c after one step of an LSTM cell; hx is (h, c).

    Shape   (batch, n), ((batch, hidden), (batch, hidden)) -> ((batch, hidden), (batch, hidden))
    """
def lstsq(*args: Any, **kwargs: Any) -> Any:
    """Raise RuntimeError: removed from PyTorch; use linalg.lstsq, with its arguments the other way round."""
def lt(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether input < other."""
def lu(A: Tensor, pivot: builtins.bool = True, get_infos: builtins.bool = False, *, out: Any = None) -> tuple[Tensor, ...]:
    """Return (LU, pivots), and info if get_infos is true; replaced by linalg.lu_factor."""
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return X with A @ X = input; replaced by linalg.lu_solve."""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: builtins.bool = True, unpack_pivots: builtins.bool = True, *, out: Any = None) -> return_types.lu_unpack:
    """Return (P, L, U) from the result of lu_factor; parts that were not requested are empty."""
def masked_fill(input: Operand, mask: Operand, value: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input with the elements replaced by `value` where mask is true.

    Raises  RuntimeError if mask is not bool, the shapes do not broadcast, or value is not one
            number

    Args:
        input: A tensor of any shape and dtype. The result has the broadcast shape of input and
            mask.
        mask: A tensor of bool that broadcasts with input.
        value: A number or a 0-d tensor. It is converted to the dtype of input: 1.5 becomes 1 in
            int64.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.tensor([1.0, 2.0]).masked_fill(torch.tensor([True, False]), 0.0)
        tensor([0., 2.])
    """
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return input with the elements of source, in order, written where mask is true.

    Raises  ShapeError if source has too few elements; on a GPU missing elements are NaN: see
            Note [Places outside] in index_range.py
    """
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the elements of input where mask is true, as a vector. On a GPU, this waits for the
    number of these elements.

    Args:
        input: A tensor of any shape and dtype.
        mask: A tensor of bool that broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> x = torch.tensor([-1, 2, 3])
        >>> torch.masked_select(x, x > 0)
        tensor([2, 3])
    """
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the matrix product.

    Shape   (n), (n) -> (); (..., n, k), (..., k, m) -> (..., n, m), batch axes broadcast; a vector
            counts as a row on the left and as a column on the right, and its axis is dropped
    Raises  RuntimeError if the inner axes have different lengths, the batch axes do not broadcast,
            an operand has no axis (use mul), or the dtypes differ; NotImplementedError if the dtype
            is bool

    Args:
        input: The left operand, with at least one axis, of any dtype but bool.
        other: The right operand, of the same dtype, with at least one axis.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.matmul(torch.ones(2, 3), torch.ones(3)).shape
        fastdist.Size([2])
        >>> (torch.ones(5, 2, 3) @ torch.ones(3, 4)).shape
        fastdist.Size([5, 2, 4])
    """
def matrix_exp(input: Tensor) -> Tensor:
    """Return the exponential of matrices; an alias of linalg.matrix_exp."""
def matrix_power(input: Tensor, n: builtins.int, *, out: Tensor | None = None) -> Tensor:
    """Return the n-th power of each matrix; an alias of linalg.matrix_power."""
def matrix_rank(*args: Any, **kwargs: Any) -> Any:
    """Raise RuntimeError: removed from PyTorch; use linalg.matrix_rank, where `symmetric` is called `hermitian`."""
@overload
def max(input: Tensor, *, out: Tensor | None = ...) -> Tensor:
    """Return the maximum of all elements. With dim, return (values, indices) along dim; with a
    second tensor, return the elementwise maximum of both tensors.

    Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

    Args:
        input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
        dim: An axis, or a second tensor to compare with; None for all elements.
        keepdim: Whether the reduced axes stay, with length 1.
        other: A second tensor to compare with, element by element; None reduces input.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
        the result is NaN.

    Example:
        >>> x = torch.tensor([[1, 5], [7, 2]])
        >>> torch.max(x)
        tensor(7)
        >>> torch.max(x, dim=1).indices
        tensor([1, 0])
    """
@overload
def max(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ..., *, out: Any = ...) -> return_types.max:
    """Return the maximum of all elements. With dim, return (values, indices) along dim; with a
    second tensor, return the elementwise maximum of both tensors.

    Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

    Args:
        input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
        dim: An axis, or a second tensor to compare with; None for all elements.
        keepdim: Whether the reduced axes stay, with length 1.
        other: A second tensor to compare with, element by element; None reduces input.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
        the result is NaN.

    Example:
        >>> x = torch.tensor([[1, 5], [7, 2]])
        >>> torch.max(x)
        tensor(7)
        >>> torch.max(x, dim=1).indices
        tensor([1, 0])
    """
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor:
    """Return the maximum of all elements. With dim, return (values, indices) along dim; with a
    second tensor, return the elementwise maximum of both tensors.

    Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

    Args:
        input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
        dim: An axis, or a second tensor to compare with; None for all elements.
        keepdim: Whether the reduced axes stay, with length 1.
        other: A second tensor to compare with, element by element; None reduces input.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
        the result is NaN.

    Example:
        >>> x = torch.tensor([[1, 5], [7, 2]])
        >>> torch.max(x)
        tensor(7)
        >>> torch.max(x, dim=1).indices
        tensor([1, 0])
    """
@overload
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False) -> Tensor:
    """Return the largest element of each window over the last axis; with return_indices also its index."""
@overload
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last axis; with return_indices also its index."""
@overload
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each window over the last axis; with return_indices also its index."""
def max_pool1d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last axis, and its index in the plane."""
@overload
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False) -> Tensor:
    """Return the largest element of each window over the last two axes; with return_indices also its index."""
@overload
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last two axes; with return_indices also its index."""
@overload
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each window over the last two axes; with return_indices also its index."""
@overload
def max_pool3d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False) -> Tensor:
    """Return the largest element of each window over the last three axes; with return_indices also its index."""
@overload
def max_pool3d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last three axes; with return_indices also its index."""
@overload
def max_pool3d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each window over the last three axes; with return_indices also its index."""
def maximum(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the larger of two elements; NaN if either is NaN. Equal elements share the gradient.

    Raises  NotImplementedError if an argument is complex; RuntimeError if the shapes do not
            broadcast

    Args:
        input: A real tensor; numbers of different dtypes are compared in the promoted dtype.
        other: The second tensor; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.maximum(torch.tensor([1, 5]), torch.tensor([3, 2]))
        tensor([3, 5])
    """
def mean(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the mean over dim, or over all axes. The mean of no elements is NaN.

    Raises  RuntimeError for integers and bool, unless dtype is floating; IndexError if dim is out
            of range

    Args:
        input: A floating-point or complex tensor, or one of integers with dtype given.
        dim: The axis or axes to average over; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype of the computation and of the result; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor without the axes dim, or with length 1 for each of them if keepdim is true.

    Example:
        >>> torch.mean(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1)
        tensor([1.5000, 3.5000])
    """
@overload
def median(input: Tensor, *, out: Tensor | None = ...) -> Tensor:
    """Return the lower median of all elements, or along dim; NaN if any element is NaN.

    Raises  IndexError if dim is out of range, or the axis has no elements; RuntimeError if input is
            bool or complex

    Args:
        input: A real tensor of any dtype but bool. The median of no elements is NaN.
        dim: The axis; all elements if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`.

    Example:
        >>> torch.median(torch.tensor([3, 1, 4, 2]))
        tensor(2)
    """
@overload
def median(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ..., *, out: Any = ...) -> return_types.median:
    """Return the lower median of all elements, or along dim; NaN if any element is NaN.

    Raises  IndexError if dim is out of range, or the axis has no elements; RuntimeError if input is
            bool or complex

    Args:
        input: A real tensor of any dtype but bool. The median of no elements is NaN.
        dim: The axis; all elements if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`.

    Example:
        >>> torch.median(torch.tensor([3, 1, 4, 2]))
        tensor(2)
    """
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> tuple[Tensor, ...]:
    """Return one tensor per vector: the vector expanded to the shape of the grid, which has an axis
    for each vector. With indexing "xy", the first two axes are swapped.

    Raises  RuntimeError for tensors with more than one axis, or of different dtypes

    Args:
        *tensors: Vectors of one dtype, or one list of them.
        indexing: "ij", also if None: axes in the order of the vectors; "xy": the first two swapped.

    Example:
        >>> rows, columns = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
        >>> rows
        tensor([[0, 0, 0],
                [1, 1, 1]])
    """
@overload
def min(input: Tensor, *, out: Tensor | None = ...) -> Tensor:
    """Return the minimum of all elements. With dim, return (values, indices) along dim; with a
    second tensor, return the elementwise minimum of both tensors.

    Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

    Args:
        input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
        dim: An axis, or a second tensor to compare with; None for all elements.
        keepdim: Whether the reduced axes stay, with length 1.
        other: A second tensor to compare with, element by element; None reduces input.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
        the result is NaN.

    Example:
        >>> x = torch.tensor([[1, 5], [7, 2]])
        >>> torch.min(x)
        tensor(1)
        >>> torch.min(x, dim=1).values
        tensor([1, 2])
    """
@overload
def min(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ..., *, out: Any = ...) -> return_types.min:
    """Return the minimum of all elements. With dim, return (values, indices) along dim; with a
    second tensor, return the elementwise minimum of both tensors.

    Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

    Args:
        input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
        dim: An axis, or a second tensor to compare with; None for all elements.
        keepdim: Whether the reduced axes stay, with length 1.
        other: A second tensor to compare with, element by element; None reduces input.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
        the result is NaN.

    Example:
        >>> x = torch.tensor([[1, 5], [7, 2]])
        >>> torch.min(x)
        tensor(1)
        >>> torch.min(x, dim=1).values
        tensor([1, 2])
    """
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = ...) -> Tensor:
    """Return the minimum of all elements. With dim, return (values, indices) along dim; with a
    second tensor, return the elementwise minimum of both tensors.

    Raises  RuntimeError if the tensor has no elements; IndexError if dim is out of range

    Args:
        input: A real tensor of any dtype. Of equal extrema along dim, the first index is returned.
        dim: An axis, or a second tensor to compare with; None for all elements.
        keepdim: Whether the reduced axes stay, with length 1.
        other: A second tensor to compare with, element by element; None reduces input.
        out: Tensors into which the result is written; new ones if None.

    Returns:
        A tensor; with dim, a pair with the fields `values` and `indices`. If any element is NaN,
        the result is NaN.

    Example:
        >>> x = torch.tensor([[1, 5], [7, 2]])
        >>> torch.min(x)
        tensor(1)
        >>> torch.min(x, dim=1).values
        tensor([1, 2])
    """
def minimum(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the smaller of two elements; NaN if either is NaN. Equal elements share the gradient.

    Raises  NotImplementedError if an argument is complex; RuntimeError if the shapes do not
            broadcast

    Args:
        input: A real tensor; numbers of different dtypes are compared in the promoted dtype.
        other: The second tensor; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.minimum(torch.tensor([1, 5]), torch.tensor([3, 2]))
        tensor([1, 2])
    """
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the product of two matrices.

    Raises  RuntimeError if an argument is not a matrix, the inner axes differ, or the dtypes differ

    Args:
        input: The left matrix, of shape (n, k), of any dtype but bool. If k is 0, the product is 0.
        mat2: The right matrix, of shape (k, m).
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A matrix of shape (n, m), for an input of shape (n, k).

    Example:
        >>> torch.mm(torch.ones(2, 3), torch.ones(3, 1))
        tensor([[3.],
                [3.]])
    """
def mode(input: Tensor, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: Any = None) -> return_types.mode:
    """Return (values, indices): the most frequent value along dim, and its last index. Of several
    equally frequent values, the smallest is returned. A NaN is not equal to another NaN; in PyTorch
    the result depends on the positions of the NaNs.
    """
def moveaxis(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Return a view with the axes `source` moved to the positions `destination`.

    Raises  IndexError if an axis is out of range; RuntimeError if source and destination differ in
            length, or an axis is given twice

    Args:
        input: A tensor of any shape and dtype; its other axes keep their order.
        source: One axis or several axes.
        destination: The new position of each axis in `source`.

    Example:
        >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
        fastdist.Size([3, 4, 2])
    """
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Return a view with the axes `source` moved to the positions `destination`.

    Raises  IndexError if an axis is out of range; RuntimeError if source and destination differ in
            length, or an axis is given twice

    Args:
        input: A tensor of any shape and dtype; its other axes keep their order.
        source: One axis or several axes.
        destination: The new position of each axis in `source`.

    Example:
        >>> torch.movedim(torch.zeros(2, 3, 4), 0, -1).shape
        fastdist.Size([3, 4, 2])
    """
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return input sorted along its first axis."""
def mul(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input * other.

    Shape   (...), (...) -> broadcast
    Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
            nor a number

    Args:
        input: The left factor: a tensor of any dtype or a number. Integers wrap around.
        other: The right factor: a tensor or a number.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.mul(torch.tensor([1.0, 2.0]), 3)
        tensor([3., 6.])
    """
def multinomial(input: Tensor, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """Return indices into each row of input, with probabilities proportional to the row's values.

    Shape   (n,) -> (num_samples,); (m, n) -> (m, num_samples)
    Raises  RuntimeError for weights that are negative, not finite or all 0, and for more draws
            without replacement than a row has elements; weights on other devices than the CPU are
            not checked, because a check would wait for the device

    Args:
        input: The weights, one row or several rows; they must not be negative.
        num_samples: The number of indices for each row.
        replacement: Whether an index may be drawn twice.
        generator: The generator to draw from; the default one if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 1)
        tensor([1])
    """
def multiply(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input * other.

    Shape   (...), (...) -> broadcast
    Raises  RuntimeError if the shapes do not broadcast; TypeError if `other` is neither a tensor
            nor a number

    Args:
        input: The left factor: a tensor of any dtype or a number. Integers wrap around.
        other: The right factor: a tensor or a number.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.mul(torch.tensor([1.0, 2.0]), 3)
        tensor([3., 6.])
    """
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the product of a matrix and a vector."""
def mvlgamma(input: Tensor, p: builtins.int, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of the multivariate gamma function of dimension p."""
def nan_to_num(input: Tensor, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return input with NaN and infinities replaced by numbers.

    Raises  TypeError if nan, posinf or neginf is not a number

    Args:
        input: A tensor of any dtype. Integers are unchanged; both parts of complex numbers are
            replaced.
        nan: The replacement for NaN; 0 if None.
        posinf: The replacement for inf; the largest finite number of the dtype if None.
        neginf: The replacement for -inf; the smallest (negative) finite number if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.nan_to_num(torch.tensor([float("nan"), float("inf")]), posinf=9.0)
        tensor([0., 9.])
    """
def nan_to_num_(input: Tensor, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
    """In-place version of nan_to_num: writes the result into this tensor and returns it."""
def nanmean(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the mean over dim of the elements that are not NaN.

    Raises  RuntimeError for integers and bool
    """
@overload
def nanmedian(input: Tensor, *, out: Tensor | None = ...) -> Tensor:
    """Return the lower median of the elements that are not NaN. With dim, return (values, indices)
    along dim.
    """
@overload
def nanmedian(input: Tensor, dim: builtins.int, keepdim: builtins.bool = ..., *, out: Any = ...) -> return_types.nanmedian:
    """Return the lower median of the elements that are not NaN. With dim, return (values, indices)
    along dim.
    """
def nanquantile(input: Tensor, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = 'linear', out: Tensor | None = None) -> Tensor:
    """Return the quantiles, for the probabilities q, of the elements that are not NaN."""
def nansum(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the sum over dim of the elements that are not NaN."""
def narrow(input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
    """Return a view of `length` elements along dim, from index start on.

    Raises  IndexError if dim or start is out of range; RuntimeError if start + length is beyond the
            axis, or length is negative

    Args:
        input: A tensor of any dtype with at least one axis.
        dim: The axis to shorten; negative numbers count from the end.
        start: The first index, an int or a 0-d tensor; negative numbers count from the end of the
            axis.
        length: The number of indices, which may be 0; start + length must not exceed the axis.

    Example:
        >>> torch.narrow(torch.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
def narrow_copy(input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of `length` elements along dim, from index start on."""
def ne(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether elements differ; NaN differs from everything, including NaN.

    Args:
        input: A tensor of any dtype; numbers of different dtypes are compared by value.
        other: A tensor or a number; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.ne(torch.tensor([1, 2]), 2)
        tensor([ True, False])
    """
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return each element with the opposite sign.

    Raises  RuntimeError if input is bool

    Args:
        input: A tensor of any dtype but bool. Unsigned integers wrap around: 1 becomes 255 in
            uint8.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.neg(torch.tensor([1, -2]))
        tensor([-1,  2])
    """
def neg_(input: Tensor) -> Tensor:
    """Return each element with the opposite sign.

    Raises  RuntimeError if input is bool

    Args:
        input: A tensor of any dtype but bool. Unsigned integers wrap around: 1 becomes 255 in
            uint8.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.neg(torch.tensor([1, -2]))
        tensor([-1,  2])
    """
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return each element with the opposite sign.

    Raises  RuntimeError if input is bool

    Args:
        input: A tensor of any dtype but bool. Unsigned integers wrap around: 1 becomes 255 in
            uint8.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.neg(torch.tensor([1, -2]))
        tensor([-1,  2])
    """
def negative_(input: Tensor) -> Tensor:
    """Return each element with the opposite sign.

    Raises  RuntimeError if input is bool

    Args:
        input: A tensor of any dtype but bool. Unsigned integers wrap around: 1 becomes 255 in
            uint8.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.neg(torch.tensor([1, -2]))
        tensor([-1,  2])
    """
def nextafter(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the next floating-point number after input in the direction of `other`, or `other`
    where both are equal. The derivative by input is 1, or 0 where both are equal.
    """
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor:
    """Return the indices of nonzero elements. On a GPU, this waits for the number of elements.

    Raises  TypeError if input is not a tensor

    Args:
        input: A tensor of any dtype. NaN counts as nonzero; a 0-d tensor gives rows without
            columns.
        as_tuple: Whether to return one tensor for each axis instead of one row for each element.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64 of shape (count, number of axes), or a tuple of tensors of shape (count,).

    Example:
        >>> torch.nonzero(torch.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True], out: Any = None) -> tuple[Tensor, ...]:
    """Return the indices of nonzero elements. On a GPU, this waits for the number of elements.

    Raises  TypeError if input is not a tensor

    Args:
        input: A tensor of any dtype. NaN counts as nonzero; a 0-d tensor gives rows without
            columns.
        as_tuple: Whether to return one tensor for each axis instead of one row for each element.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64 of shape (count, number of axes), or a tuple of tensors of shape (count,).

    Example:
        >>> torch.nonzero(torch.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
@overload
def nonzero(input: Tensor, *, as_tuple: builtins.bool = False, out: Any = None) -> Any:
    """Return the indices of nonzero elements. On a GPU, this waits for the number of elements.

    Raises  TypeError if input is not a tensor

    Args:
        input: A tensor of any dtype. NaN counts as nonzero; a 0-d tensor gives rows without
            columns.
        as_tuple: Whether to return one tensor for each axis instead of one row for each element.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of int64 of shape (count, number of axes), or a tuple of tensors of shape (count,).

    Example:
        >>> torch.nonzero(torch.tensor([[0, 1], [2, 0]]))
        tensor([[0, 1],
                [1, 0]])
    """
def nonzero_static(input: Tensor, *, size: builtins.int, fill_value: builtins.int = -1, out: Tensor | None = None) -> Tensor:
    """Return `size` rows: the indices of the first nonzero elements, then rows of fill_value."""
def norm(input: Tensor, p: builtins.float | str | None = 'fro', dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, out: Tensor | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Return the vector norm of order p over dim. "fro" means order 2, and "nuc" the sum of the
    singular values of a matrix.

    Raises  RuntimeError for integers and bool; IndexError if dim is out of range

    Args:
        input: A floating-point or complex tensor. The norm of no elements is 0.
        p: The order: a number, inf, "fro" or "nuc".
        dim: The axis or axes to reduce; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        out: A tensor into which the result is written; a new one if None.
        dtype: The dtype to compute in; None means the dtype of input.

    Example:
        >>> torch.norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
def normal(mean: Any, std: Any = 1.0, size: Sizes | None = None, *, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike = ..., out: Tensor | None = None) -> Tensor:
    """Return normal numbers. If `size` is given, `mean` and `std` are numbers. Otherwise, at least
    one is a tensor, and the two are broadcast.
    """
def not_equal(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return whether elements differ; NaN differs from everything, including NaN.

    Args:
        input: A tensor of any dtype; numbers of different dtypes are compared by value.
        other: A tensor or a number; it broadcasts with input.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of bool.

    Example:
        >>> torch.ne(torch.tensor([1, 2]), 2)
        tensor([ True, False])
    """
def nuclear_norm(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = ..., keepdim: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return the nuclear norm, the sum of the singular values."""
def numel(input: Tensor) -> builtins.int:
    """Return the number of elements."""
def ones(*size: Sizes, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return a tensor filled with ones.

    Raises  RuntimeError if a length is negative; TypeError if a length is not an integer

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.ones(2, 3)
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
def ones_like(input: Tensor, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: MemoryFormat | None = None) -> Tensor:
    """Return a tensor of ones with the shape, strides, dtype and device of input.

    Raises  TypeError if input is not a tensor

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.ones_like(torch.zeros(2, dtype=torch.int64))
        tensor([1, 1])
    """
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the first n columns of a product of reflections; an alias of
    linalg.householder_product.
    """
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: builtins.bool = True, transpose: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """Return Q @ input3, or input3 @ Q if `left` is false. If `transpose` is true, Q.H replaces Q.
    Q has all m columns of the product of the reflections; see linalg.householder_product.

    Shape   (..., m, n), (..., n), (..., m, k) -> (..., m, k)
    """
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the outer product: each element of one vector times each element of another.

    Raises  RuntimeError if an argument does not have one axis

    Args:
        input: The first vector, of any dtype.
        vec2: The second vector, of any length; the dtypes are promoted.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A matrix of shape (n, m), for vectors of n and m elements.

    Example:
        >>> torch.outer(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor([[3, 4],
                [6, 8]])
    """
def pairwise_distance(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False) -> Tensor:
    """Return the norms of x1 - x2 + eps along the last axis."""
def pca_lowrank(A: Tensor, q: builtins.int | None = None, center: builtins.bool = True, niter: builtins.int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return (U, S, V) of svd_lowrank for A. If `center` is true, the mean of A's rows is first
    subtracted from each row. The columns of V are the principal directions.

    Raises  ValueError for a `q` larger than the smaller of m and n, or for a negative `q` or
            `niter`
    """
def pdist(input: Tensor, p: builtins.float = 2.0) -> Tensor:
    """Return the distance of order p between each row of input and each later row."""
def permute(input: Tensor, *dims: Sizes) -> Tensor:
    """Return a view with the axes in the order dims.

    Raises  RuntimeError if an axis is missing or given twice

    Args:
        input: A tensor of any shape and dtype.
        *dims: All axes in their new order, as numbers or as one tuple.

    Example:
        >>> torch.zeros(2, 3, 4).permute(2, 0, 1).shape
        fastdist.Size([4, 2, 3])
    """
def pinverse(input: Tensor, rcond: builtins.float = 1e-15, *, out: Tensor | None = None) -> Tensor:
    """Return the pseudoinverse; see linalg.pinv, with rcond as its rtol."""
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor:
    """Return images with r times the height and width and 1 / r**2 times the channels, where r is
    upscale_factor.

    Shape   (..., c * r**2, h, w) -> (..., c, h * r, w * r)
    """
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor:
    """Return images with 1 / r times the height and width and r**2 times the channels, where r is
    downscale_factor. This is the inverse of pixel_shuffle.

    Shape   (..., c, h * r, w * r) -> (..., c * r**2, h, w)
    """
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Return Poisson numbers with the rates in input, in input's dtype.

    Raises  RuntimeError for a rate that is negative or NaN. Rates on other devices than the CPU are
            not checked; there, such a rate gives NaN
    """
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return complex numbers with the given absolute values, and the given angles in radians.

    Raises  RuntimeError in the same cases as `complex`
    """
def polygamma(n: builtins.int, input: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return the n-th derivative of digamma.

    Raises  RuntimeError for n < 0
    """
def positive(input: Tensor) -> Tensor:
    """Return input itself.

    Raises  RuntimeError for bool
    """
def pow(input: Operand, exponent: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input to the power of exponent.

    Raises  RuntimeError if an integer is raised to a negative integer that is a Python number;
            RuntimeError if the shapes do not broadcast

    Args:
        input: The base: a tensor or a number.
        exponent: A tensor or a number.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and exponent.

    Example:
        >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
        tensor([1., 4., 9.])
    """
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return input where it is positive, and weight * input elsewhere. weight is one number, or one
    number for each channel.
    """
def prod(input: Tensor, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the product over dim, or over all axes.

    Dtype   integers and bool are multiplied in int64; floating -> the same
    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. The product of no elements is 1.
        dim: The axis to multiply along; all axes if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype of the products and of the result; int64 for integers if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.prod(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
        tensor([3., 8.])
    """
def promote_types(type1: DTypeLike, type2: DTypeLike) -> DType:
    """Return the dtype to which tensors of two dtypes promote.

    Args:
        type1: The first dtype.
        type2: The second dtype.

    Example:
        >>> torch.promote_types(torch.int32, torch.float32)
        fastdist.float32
    """
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
    """Return input with source written at flat indices, or added there if `accumulate` is true."""
def qr(input: Tensor, some: builtins.bool = True, *, out: Any = None) -> return_types.qr:
    """Return (Q, R); replaced by linalg.qr."""
def quantile(input: Tensor, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: str = 'linear', out: Tensor | None = None) -> Tensor:
    """Return the quantiles for the probabilities q, of all elements or along dim. A quantile is NaN
    if any element is NaN.

    Args:
        input: A tensor of float32 or float64 that is not empty.
        q: A probability from 0 to 1, or a tensor of probabilities.
        dim: The axis; all elements if None.
        keepdim: Whether the reduced axes stay, with length 1.
        interpolation: How to interpolate: "linear", "lower", "higher", "midpoint" or "nearest".
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.quantile(torch.tensor([1.0, 2.0, 3.0]), 0.5)
        tensor(2.)
    """
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Convert angles from radians to degrees."""
def rad2deg_(input: Tensor) -> Tensor:
    """Convert angles from radians to degrees."""
def rand(*size: Sizes, generator: Generator | None = None, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return numbers drawn from the uniform distribution over [0, 1).

    Raises  RuntimeError for a negative length or an integer dtype, TypeError for a length like 2.5

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        generator: The generator to draw from; the default one if None.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.rand(2, 3).max() < 1
        tensor(True)
    """
def rand_like(input: Tensor, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: MemoryFormat | None = None) -> Tensor:
    """Return uniform numbers over [0, 1), with the shape, dtype and device of input.

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.rand_like(torch.zeros(2, 3)).shape
        fastdist.Size([2, 3])
    """
def randint(low: builtins.int | None = None, high: Sizes | None = None, size: Sizes | None = None, *, generator: Generator | None = None, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return integers drawn uniformly from [low, high); randint(high, size) starts at 0.

    Raises  RuntimeError if low >= high or dtype is too small, TypeError if size is not a tuple

    Args:
        low: The smallest number that can be drawn; 0 if None.
        high: The upper bound, which is excluded; None: low is the upper bound.
        size: The lengths of the axes, as a tuple. If None, the arguments are (high, size).
        generator: The generator to draw from; the default one if None.
        dtype: The dtype of the result; int64 if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.randint(0, 10, (2, 3)).shape
        fastdist.Size([2, 3])
    """
def randint_like(input: Tensor, low: builtins.int, high: Any = None, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: MemoryFormat | None = None) -> Tensor:
    """Return integers as randint does, with the shape, dtype and device of input."""
def randn(*size: Sizes, generator: Generator | None = None, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return numbers drawn from the normal distribution with mean 0 and standard deviation 1.

    Raises  RuntimeError for a negative length or an integer dtype, TypeError for a length like 2.5

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        generator: The generator to draw from; the default one if None.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> torch.randn(2, 3, generator=generator).shape
        fastdist.Size([2, 3])
    """
def randn_like(input: Tensor, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: MemoryFormat | None = None) -> Tensor:
    """Return normal numbers of mean 0 and standard deviation 1, with the shape, dtype and device of
    input.

    Raises  RuntimeError if the dtype is neither floating-point nor complex

    Args:
        input: The tensor whose shape, dtype and device are taken, floating-point or complex.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.randn_like(torch.zeros(2, 3)).shape
        fastdist.Size([2, 3])
    """
def randperm(n: builtins.int, *, generator: Generator | None = None, dtype: DTypeLike = ..., layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return the integers from 0 to n - 1 in random order.

    Raises  RuntimeError if n is negative, or if dtype cannot hold each integer below n

    Args:
        n: The number of integers: the result has 0 to n - 1, each once.
        generator: The generator to draw from; the default one if None.
        dtype: The dtype of the result; int64 by default.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
def range(start: Scalar = 0, end: Scalar = ..., step: Scalar = 1, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
    """Return start, start + step, ... up to and including end, in the default dtype. Deprecated in
    favor of arange.

    Raises  RuntimeError for a step that is 0 or leads away from end
    """
def ravel(input: Tensor) -> Tensor:
    """Return input as a vector, as a view where possible.

    Args:
        input: A tensor of any shape and dtype.

    Example:
        >>> torch.zeros(2, 3).ravel().shape
        fastdist.Size([6])
    """
def real(input: Tensor) -> Tensor:
    """Return a view of the real parts of complex numbers; real tensors are returned unchanged."""
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 1 divided by each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result for 0 is inf, and for -0 it is -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.reciprocal(torch.tensor([2.0, 4.0]))
        tensor([0.5000, 0.2500])
    """
def reciprocal_(input: Tensor) -> Tensor:
    """Return 1 divided by each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result for 0 is inf, and for -0 it is -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.reciprocal(torch.tensor([2.0, 4.0]))
        tensor([0.5000, 0.2500])
    """
def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the larger of 0 and each element; the gradient at 0 is 0.

    Raises  RuntimeError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. NaN stays NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.relu(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
def relu_(input: Tensor) -> Tensor:
    """Return the larger of 0 and each element; the gradient at 0 is 0.

    Raises  RuntimeError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. NaN stays NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.relu(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
def remainder(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input - floor(input / other) * other; its sign is that of `other`, as in Python."""
def renorm(input: Tensor, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Tensor | None = None) -> Tensor:
    """Return input, where each slice along dim with a norm of order p above maxnorm is scaled down
    to the norm maxnorm.
    """
def repeat_interleave(input: Tensor, repeats: Any = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
    """Return input with each element, or each slice along dim, repeated. With a single argument,
    which holds counts, return each index as often as its count.

    Raises  RuntimeError if a count is negative or not an integer, or there is not one count for
            each slice; IndexError if dim is out of range

    Args:
        input: The tensor; or the counts, if repeats is left out.
        repeats: A count for all, or a tensor with one count for each element or slice. If None,
            input has the counts, and the result is indices.
        dim: The axis; if None, input is flattened.
        output_size: The length of the result; computed if None, for which the call waits for a GPU.

    Example:
        >>> torch.repeat_interleave(torch.tensor([1, 2]), 2)
        tensor([1, 1, 2, 2])
        >>> torch.tensor([1, 2]).repeat_interleave(torch.tensor([1, 3]))
        tensor([1, 2, 2, 2])
    """
def reshape(input: Tensor, *sizes: Sizes, shape: Sizes | None = None) -> Tensor:
    """Return the elements with another shape, as a view if strides allow it, otherwise as a copy.

    Raises  RuntimeError if the number of elements differs

    Args:
        input: A tensor of any dtype with as many elements as the new shape.
        *sizes: The lengths of the axes of the result, as numbers or as one tuple. One length may be
            -1, which is replaced by the length that follows from the others.
        shape: The same as sizes, under NumPy's name; None: sizes are given.

    Example:
        >>> torch.arange(6).reshape(2, -1)
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: MemoryFormat | None = None) -> Tensor:
    """Resize this tensor to the sizes of the_template. With preserve_format, also use the order of
    the_template if that is channels_last. The errors are those of `resize_`.
    """
def resolve_conj(input: Tensor) -> Tensor:
    """Return a copy of a conjugated view; any other tensor is returned unchanged."""
def resolve_neg(input: Tensor) -> Tensor:
    """Return a copy of a negated view; any other tensor is returned unchanged."""
def result_type(tensor1: Any, tensor2: Any) -> DType:
    """Return the dtype to which two tensors or numbers promote."""
def rms_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None = None, eps: builtins.float | None = None) -> Tensor:
    """Return input divided by the root of its mean square over the last axes, times weight."""
def rnn_relu(data: Tensor, *given: object) -> tuple[Tensor, Tensor]:
    """Return the outputs and the last h of layers of relu cells. See lstm for `given`."""
def rnn_relu_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """Return relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)."""
def rnn_tanh(data: Tensor, *given: object) -> tuple[Tensor, Tensor]:
    """Return the outputs and the last h of layers of tanh cells. See lstm for `given`."""
def rnn_tanh_cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
    """Return tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)."""
def roll(input: Tensor, shifts: Any, dims: Sizes | None = None) -> Tensor:
    """Return a copy with elements shifted along dims; elements shifted past the end reappear at the
    front.

    Args:
        input: A tensor of any shape and dtype.
        shifts: The number of positions to shift by: one number, or one for each axis in dims.
        dims: The axis or axes. If None, the tensor is shifted as a vector of all its elements.

    Example:
        >>> torch.roll(torch.tensor([1, 2, 3]), 1)
        tensor([3, 1, 2])
    """
def rot90(input: Tensor, k: builtins.int = 1, dims: Sizes = ...) -> Tensor:
    """Return a copy rotated by k * 90 degrees, from the first axis of dims towards the second."""
def round(input: Tensor, *, decimals: builtins.int = 0, out: Tensor | None = None) -> Tensor:
    """Return each element rounded to a number of decimals; ties are rounded to the even neighbour.

    Raises  NotImplementedError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool; with decimals other than 0, a floating-point
            tensor.
        decimals: The number of decimals; -1 rounds to tens, -2 to hundreds, and so on.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.round(torch.tensor([0.5, 1.5, 2.345]), decimals=0)
        tensor([0., 2., 2.])
    """
def round_(input: Tensor, *, decimals: builtins.int = 0) -> Tensor:
    """In-place version of round: writes the result into this tensor and returns it."""
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Join tensors vertically: along axis 0, with vectors as rows."""
def rrelu(input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False, inplace: builtins.bool = False) -> Tensor:
    """Return input where it is positive, and slope * input elsewhere. In training, the slope is
    drawn from [lower, upper) for each element; otherwise the slope is (lower + upper) / 2.
    """
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 1 divided by the square root of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is inf at 0, and NaN for negative real
            numbers.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.rsqrt(torch.tensor([4.0, 1.0]))
        tensor([0.5000, 1.0000])
    """
def rsqrt_(input: Tensor) -> Tensor:
    """Return 1 divided by the square root of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is inf at 0, and NaN for negative real
            numbers.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.rsqrt(torch.tensor([4.0, 1.0]))
        tensor([0.5000, 1.0000])
    """
def rsub(input: Operand, other: Operand, *, alpha: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """Return other - alpha * input."""
def scatter(input: Tensor, dim: builtins.int, index: Tensor, src: Any = None, *, value: Any = None, reduce: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return input with src, a tensor or a number, written at index along dim. With reduce "add" or
    "multiply", src is combined with the old values.

    Raises  IndexError if dim is out of range; RuntimeError if an index is out of range or not an
            integer, or the dtypes of input and src differ

    Args:
        input: A tensor of any dtype, which is not changed. Of several values for one element, any
            one may be written.
        dim: The axis to which the indices apply.
        index: Indices along dim, in int64.
        src: A tensor at least as large as index, or a number; None: value is given.
        value: A number, instead of src; None: src is given.
        reduce: "add" or "multiply" to combine with the elements of input; None to replace them.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), 1.0)
        tensor([[0., 0., 1.],
                [1., 0., 0.]])
    """
def scatter_add(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return input with src added at index along dim."""
def scatter_reduce(input: Tensor, dim: builtins.int, index: Tensor, src: Tensor, reduce: str, *, include_self: builtins.bool = True, out: Tensor | None = None) -> Tensor:
    """Return input with src combined at index along dim. Elements of src with the same index are
    reduced by sum, prod, mean, amax or amin. The old value of input is reduced with them, unless
    include_self is False.
    """
def searchsorted(sorted_sequence: Tensor, input: Tensor | builtins.float, *, out_int32: builtins.bool = False, right: builtins.bool = False, side: str | None = None, sorter: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Return the indices at which input would be inserted to keep sorted_sequence sorted. NaN is
    inserted at the end.

    Shape   (n,), (...) -> (...); or (..., n), (..., m) -> (..., m), row by row
    Raises  RuntimeError if the leading axes differ, or sorted_sequence has no axes

    Args:
        sorted_sequence: Rows in ascending order.
        input: The values to insert: a tensor or a number.
        out_int32: Whether the result is int32 instead of int64.
        right: Whether to insert after equal elements.
        side: "left" or "right", instead of right; None: right decides.
        sorter: Indices that sort the rows of sorted_sequence; None if the rows are sorted.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor in the shape of input; its dtype is int64 or, with out_int32, int32.

    Example:
        >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 6]))
        tensor([1, 3])
    """
def select(input: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
    """Return a view of the elements at one index along dim; the view does not have that axis.

    Raises  IndexError if dim or index is out of range

    Args:
        input: A tensor of any dtype with at least one axis.
        dim: The axis to remove; negative numbers count from the end.
        index: The index along dim; negative numbers count from the end.

    Example:
        >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
        tensor([1, 3])
    """
def select_scatter(input: Tensor, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
    """Return a copy of input with src written to the slice at index along dim."""
def selu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return elu(input), scaled so that the results of layers keep mean 0 and variance 1."""
def set_rng_state(new_state: Tensor) -> None:
    """Restore a state of the CPU's default generator that get_rng_state returned."""
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the signs of real numbers (-1, 0 or 1), or complex numbers divided by their absolute
    values.
    """
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 1 / (1 + exp(-x)) for each element x.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is 1 for inf, and 0 for -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sigmoid(torch.tensor([0.0, 2.0]))
        tensor([0.5000, 0.8808])
    """
def sigmoid_(input: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x)) for each element x.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is 1 for inf, and 0 for -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sigmoid(torch.tensor([0.0, 2.0]))
        tensor([0.5000, 0.8808])
    """
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the sign of each element as -1, 0 or 1; the gradient is 0.

    Raises  NotImplementedError if input is complex (use sgn)

    Args:
        input: A real tensor of any dtype. The sign of NaN is 0.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.sign(torch.tensor([-3.0, 0.0, 2.0]))
        tensor([-1.,  0.,  1.])
    """
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return whether the sign bit of each element is set, which includes -0.0."""
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the sine of each element; the elements are angles in radians.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result for inf is NaN.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sin(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8415])
    """
def sin_(input: Tensor) -> Tensor:
    """Return the sine of each element; the elements are angles in radians.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result for inf is NaN.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sin(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8415])
    """
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return sin(pi * input) / (pi * input), and 1 at 0."""
def sinc_(input: Tensor) -> Tensor:
    """Return sin(pi * input) / (pi * input), and 1 at 0."""
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the hyperbolic sine of each element."""
def sinh_(input: Tensor) -> Tensor:
    """Return the hyperbolic sine of each element."""
def slice_scatter(input: Tensor, src: Tensor, dim: builtins.int = 0, start: builtins.int | None = None, end: builtins.int | None = None, step: builtins.int = 1, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of input with src written to the slice start:end:step along dim."""
def slogdet(input: Tensor, *, out: Any = None) -> return_types.slogdet:
    """Return (sign, logabsdet); an alias of linalg.slogdet."""
def smm(input: Tensor, mat: Tensor) -> Tensor:
    """Return the product of a sparse and a dense matrix as a sparse matrix."""
def softmax(input: Tensor, dim: builtins.int, dtype: DTypeLike | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return exp(input) divided by its sum along dim, without overflow.

    Shape   (..., n, ...) -> (..., n, ...)
    Raises  IndexError if dim is out of range; NotImplementedError if input is not floating-point,
            and dtype is None

    Args:
        input: A floating-point tensor; integers need dtype. A slice with NaN or inf, or of -inf
            alone, gives NaN.
        dim: The axis along which the result adds up to 1.
        dtype: The dtype to compute in, and of the result; None means the dtype of input.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.softmax(torch.tensor([1.0, 2.0, 3.0]), dim=0)
        tensor([0.0900, 0.2447, 0.6652])
    """
def solve(*args: Any, **kwargs: Any) -> Any:
    """Raise RuntimeError: removed from PyTorch; use linalg.solve, with its arguments the other way round."""
def sort(input: Tensor, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False, *, out: Any = None) -> return_types.sort:
    """Return the elements sorted along dim. NaN counts as largest; equal elements keep their order.

    Raises  IndexError if dim is out of range; NotImplementedError if input is complex

    Args:
        input: A real tensor of any dtype.
        dim: The axis to sort along, by default the last.
        descending: Whether the largest element comes first.
        stable: Ignored: the order of equal elements is always kept.
        out: A pair of tensors into which the values and indices are written; new ones if None.

    Returns:
        A pair with the fields `values` and `indices`.

    Example:
        >>> torch.sort(torch.tensor([3, 1, 2]))
        fastdist.return_types.sort(
        values=tensor([1, 2, 3]),
        indices=tensor([1, 2, 0]))
    """
def sparse_coo_tensor(indices: Any = None, values: Any = None, size: Sizes = ..., *, dtype: DTypeLike | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, check_invariants: builtins.bool | None = None, is_coalesced: builtins.bool | None = None) -> Tensor:
    """Return the sparse tensor of `values` at the coordinates `indices`. The shape of `indices` is
    (sparse axes, n). Entries with equal coordinates represent their sum. If only a size is given,
    return a tensor without entries.

    Raises  RuntimeError if indices, values and size do not fit together
    Note    coordinates are checked even without check_invariants, because kernels rely on them
    """
def split(tensor: Tensor, split_size_or_sections: Any = None, dim: builtins.int = 0, *, split_size: Any = None) -> tuple[Tensor, ...]:
    """Return views of the parts along dim, either of one length or of a list of lengths. With one
    length, the last part may be shorter.

    Raises  RuntimeError if a size is negative, the sizes do not add up to the length of the axis,
            or the one length is 0 although that of the axis is not; IndexError if dim is out of
            range

    Args:
        tensor: A tensor of any dtype with at least one axis.
        split_size_or_sections: The length of each view, or a list of lengths; None: see split_size.
            The length may be 0 if that of the axis is 0: the result is then one empty view.
        dim: The axis to divide, by default the first.
        split_size: split_size_or_sections, under the name that the method uses; None: not used.

    Example:
        >>> [part.tolist() for part in torch.split(torch.arange(5), 2)]
        [[0, 1], [2, 3], [4]]
        >>> [part.tolist() for part in torch.split(torch.arange(5), [1, 4])]
        [[0], [1, 2, 3, 4]]
    """
def split_with_sizes(input: Tensor, split_sizes: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Return views of the parts of input whose lengths along dim are split_sizes."""
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices, the first of which is sparse."""
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the square root of each element; NaN below 0.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a root, negative real
            numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sqrt(torch.tensor([4.0, 2.0]))
        tensor([2.0000, 1.4142])
    """
def sqrt_(input: Tensor) -> Tensor:
    """Return the square root of each element; NaN below 0.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Negative complex numbers have a root, negative real
            numbers do not.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sqrt(torch.tensor([4.0, 2.0]))
        tensor([2.0000, 1.4142])
    """
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the square of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Squares of integers that are too large wrap around.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape and dtype; bool gives int64.

    Example:
        >>> torch.square(torch.tensor([1.0, -3.0]))
        tensor([1., 9.])
    """
def square_(input: Tensor) -> Tensor:
    """Return the square of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. Squares of integers that are too large wrap around.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape and dtype; bool gives int64.

    Example:
        >>> torch.square(torch.tensor([1.0, -3.0]))
        tensor([1., 9.])
    """
def squeeze(input: Tensor, dim: Sizes | None = None) -> Tensor:
    """Return a view without the axes of length 1. If dim is given, only axes in dim are removed.

    Raises  IndexError if an axis is out of range

    Args:
        input: A tensor of any dtype. Axes in dim whose length is not 1 stay.
        dim: The axis or axes to remove; if None, all axes of length 1.

    Example:
        >>> torch.zeros(1, 2, 1).squeeze().shape
        fastdist.Size([2])
        >>> torch.zeros(1, 2, 1).squeeze(0).shape
        fastdist.Size([2, 1])
    """
def stack(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return tensors of one shape joined along a new axis at dim.

    Raises  RuntimeError if there are no tensors, or their shapes differ; IndexError if dim is out
            of range

    Args:
        tensors: A list or tuple of tensors of one shape.
        dim: The position of the new axis in the result.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor with a new axis, whose length is the number of tensors. The dtype of the result is
        the dtype to which all tensors promote.

    Example:
        >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])], dim=1)
        tensor([[1, 3],
                [2, 4]])
    """
def std(input: Tensor, dim: Sizes | builtins.bool | None = None, unbiased: builtins.bool = True, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, out: Tensor | None = None) -> Tensor:
    """Return the standard deviation over dim, the square root of the variance; see var.

    Raises  RuntimeError for integers and bool; IndexError if dim is out of range

    Args:
        input: A floating-point or complex tensor. The result for one element is NaN, unless
            correction is 0.
        dim: The axis or axes; all if None.
        unbiased: Whether to divide by the number of elements minus 1; older than `correction`.
        keepdim: Whether the reduced axes stay, with length 1.
        correction: Subtracted from the number of elements; None means 1, or 0 if unbiased is False.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.std(torch.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
    """
def std_mean(input: Tensor, dim: Sizes | builtins.bool | None = None, unbiased: builtins.bool = True, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> tuple[Tensor, Tensor]:
    """Return std and the mean over dim."""
def stft(input: Tensor, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, pad_mode: str = 'reflect', normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None) -> Tensor:
    """Return the transforms of frames of n_fft samples, times the window. Frames begin hop_length
    samples apart, by default n_fft // 4.

    center=True pads both ends by pad_mode, so that the first frame is centered on the first sample;
    normalized=True divides by sqrt(n_fft); onesided=True omits the redundant half of each transform
    Shape   (batch, samples) or (samples) -> (batch, frequencies, frames)
    Raises  RuntimeError for lengths that do not fit together
    """
def sub(input: Operand, other: Operand, *, alpha: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """Return input - alpha * other.

    Raises  RuntimeError for a bool tensor: use logical_xor for two bool tensors; RuntimeError if
            the shapes do not broadcast

    Args:
        input: The minuend, a tensor or a number. Integers wrap around: 0 - 1 is 255 in uint8.
        other: The subtrahend, a tensor or a number.
        alpha: The number by which `other` is multiplied.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.sub(torch.tensor([3, 4]), 1, alpha=2)
        tensor([1, 2])
    """
def subtract(input: Operand, other: Operand, *, alpha: builtins.complex = 1, out: Tensor | None = None) -> Tensor:
    """Return input - alpha * other.

    Raises  RuntimeError for a bool tensor: use logical_xor for two bool tensors; RuntimeError if
            the shapes do not broadcast

    Args:
        input: The minuend, a tensor or a number. Integers wrap around: 0 - 1 is 255 in uint8.
        other: The subtrahend, a tensor or a number.
        alpha: The number by which `other` is multiplied.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other, in their promoted dtype.

    Example:
        >>> torch.sub(torch.tensor([3, 4]), 1, alpha=2)
        tensor([1, 2])
    """
def sum(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, keepdim: builtins.bool = False, *, dtype: DTypeLike | None = None, out: Tensor | None = None) -> Tensor:
    """Return the sum over dim, or over all axes.

    Shape   (..., n, ...) -> (..., ...), or (..., 1, ...) with keepdim
    Dtype   integers and bool are added in int64; floating -> the same
    Raises  IndexError if an axis does not exist

    Args:
        input: A tensor of any dtype. The sum of no elements is 0; one NaN makes the sum NaN.
        dim: The axis or axes to sum over; all if None.
        keepdim: Whether the reduced axes stay, with length 1.
        dtype: The dtype of the additions and of the result; int64 for integers if None.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor without the axes dim, or with length 1 for each of them if keepdim is true.

    Example:
        >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.sum(x)
        tensor(10.)
        >>> x.sum(dim=0, keepdim=True)
        tensor([[4., 6.]])
    """
def svd(input: Tensor, some: builtins.bool = True, compute_uv: builtins.bool = True, *, out: Any = None) -> return_types.svd:
    """Return (U, S, V), an older form of linalg.svd. Without compute_uv, U and V are zeros.

    Args:
        input: A floating-point or complex tensor of matrices, of shape (..., n, m).
        some: Whether U and V have only as many columns as there are singular values.
        compute_uv: Whether to compute U and V.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.svd(torch.diag(torch.tensor([3.0, 2.0]))).S
        tensor([3., 2.])
    """
def svd_lowrank(A: Tensor, q: builtins.int = 6, niter: builtins.int = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Return (U, S, V) so that U @ diag(S) @ V.mH approximates A, or A - M if M is given. `q`
    should be slightly larger than the rank of that matrix. `niter` is the number of subspace
    iterations that improve the approximation.

    Shape   (..., m, n) -> (..., m, q), (..., q), (..., n, q)
    Source  Halko, Martinsson and Tropp 2011, "Finding structure with randomness", algorithm 5.1
    """
def swapaxes(input: Tensor, axis0: builtins.int, axis1: builtins.int) -> Tensor:
    """Return a view with two axes swapped."""
def swapdims(input: Tensor, axis0: builtins.int, axis1: builtins.int) -> Tensor:
    """Return a view with two axes swapped."""
def symeig(*args: Any, **kwargs: Any) -> Any:
    """Raise RuntimeError: removed from PyTorch; use linalg.eigh, or linalg.eigvalsh for values alone; UPLO='U' for upper=True."""
def t(input: Tensor) -> Tensor:
    """Return a view of the transpose of a tensor with at most two axes.

    Raises  RuntimeError if input has more than two axes

    Args:
        input: A tensor of any dtype. The view of a vector or a 0-d tensor has the same shape.

    Example:
        >>> torch.zeros(2, 3).t().shape
        fastdist.Size([3, 2])
    """
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the elements of the flattened input at the indices `index`."""
def take_along_dim(input: Tensor, indices: Tensor, dim: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return elements of input at indices along dim, or of the flattened input if dim is None."""
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the tangent of each element; the elements are angles in radians.

    Args:
        input: A tensor of any shape and dtype. The result for inf is NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.tan(torch.tensor([0.0]))
        tensor([0.])
    """
def tan_(input: Tensor) -> Tensor:
    """Return the tangent of each element; the elements are angles in radians.

    Args:
        input: A tensor of any shape and dtype. The result for inf is NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.tan(torch.tensor([0.0]))
        tensor([0.])
    """
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the hyperbolic tangent of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is 1 for inf, and -1 for -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.tanh(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """
def tanh_(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is 1 for inf, and -1 for -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.tanh(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """
def tensor(data: Any, *, dtype: DTypeLike | None = None, device: DeviceLike = ..., requires_grad: builtins.bool = False) -> Tensor:
    """Return a new leaf with a copy of data: a number, nested lists of numbers, a NumPy array or a
    Tensor.

    Dtype   Python floats -> the default dtype, integers -> int64, bools -> bool; arrays keep
            their dtype; lists of typed numbers -> the dtype to which the numbers promote
    Raises  ValueError for lists of unequal length, TypeError for a value that is not a number

    Args:
        data: The values; tensors and arrays are copied.
        dtype: The dtype of the result; None means the dtype of the values, as above.
        device: The device of the result; if None, the device of data if data is a tensor, otherwise
            the default device.
        requires_grad: Whether autograd records what is computed from the result.

    Returns:
        A leaf of the graph. `as_tensor` avoids the copy where it can share memory.

    Example:
        >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        tensor([[1., 2.],
                [3., 4.]])
        >>> torch.tensor([1, 2], dtype=torch.float64, requires_grad=True)
        tensor([1., 2.], dtype=fastdist.float64, requires_grad=True)
    """
def tensor_split(input: Tensor, indices_or_sections: Sizes | Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Return views of the parts of input along dim. If indices_or_sections is an int, it is the
    number of parts; if they cannot be equal, the first parts are longer by 1. Otherwise, it holds
    the indices at which the second and later parts begin.
    """
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, *, out: Tensor | None = None) -> Tensor:
    """Return the sum of products over the axes `dims`. They are given as a number of axes (the last
    axes of a and the first axes of b), or as two lists of axes.
    """
def threshold(input: Tensor, threshold: builtins.float, value: builtins.float, *, out: Tensor | None = None) -> Tensor:
    """Return `input` where it is above `threshold`, and `value` elsewhere."""
def tile(input: Tensor, *dims: Sizes) -> Tensor:
    """Return input repeated along its axes.

    If there are fewer numbers than axes, the first axes are not repeated.

    Args:
        input: A tensor of any shape and dtype.
        *dims: The number of repetitions for each of the last axes, as numbers or as one tuple.

    Example:
        >>> torch.tile(torch.tensor([1, 2]), (2,))
        tensor([1, 2, 1, 2])
    """
def topk(input: Tensor, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True, *, out: Any = None) -> return_types.topk:
    """Return the k largest or smallest elements along dim, sorted.

    Raises  IndexError if dim is out of range, or the axis has fewer than k elements; RuntimeError
            if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. NaN counts as largest.
        k: The number of elements to return, from 0 to the length of the axis.
        dim: The axis to search along, by default the last.
        largest: Whether to return the largest elements, or the smallest ones.
        sorted: Ignored: the elements are always sorted.
        out: A pair of tensors into which the values and indices are written; new ones if None.

    Returns:
        A pair with the fields `values` and `indices`.

    Example:
        >>> torch.topk(torch.tensor([3, 1, 4, 1]), 2)
        fastdist.return_types.topk(
        values=tensor([4, 3]),
        indices=tensor([2, 0]))
    """
def trace(input: Any) -> Any:
    """Return the sum of a matrix's diagonal. If `input` is a function, return a function that calls
    `input` and returns a Trace of the call: `print(trace(fn)(x))` shows the ops of `fn(x)`, with
    shapes, dtypes and source lines.
    """
def transpose(input: Tensor, dim0: builtins.int, dim1: builtins.int) -> Tensor:
    """Return a view with two axes swapped.

    Raises  IndexError if an axis is out of range

    Args:
        input: A tensor of any shape and dtype.
        dim0: The first axis; negative numbers count from the end.
        dim1: The second axis; negative numbers count from the end.

    Example:
        >>> torch.zeros(2, 3, 4).transpose(0, 2).shape
        fastdist.Size([4, 3, 2])
    """
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: builtins.int = -1) -> Tensor:
    """Return the integral of y along dim by the trapezoidal rule. x holds the coordinates of the
    elements of y; without x, the distance between neighbours is dx, by default 1.
    """
def trapz(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: builtins.int = -1) -> Tensor:
    """Return the integral of y along dim by the trapezoidal rule. x holds the coordinates of the
    elements of y; without x, the distance between neighbours is dx, by default 1.
    """
def triangular_solve(input: Tensor, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False, *, out: Any = None) -> return_types.triangular_solve:
    """Return (X, copy of A) with A @ X = input; an older form of linalg.solve_triangular."""
def tril(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return a copy with zeros above the diagonal of each matrix."""
def tril_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: DTypeLike = ..., device: DeviceLike = ...) -> Tensor:
    """Return the rows and columns of a matrix's elements on and below a diagonal, row by row."""
def triu(input: Tensor, diagonal: builtins.int = 0, *, out: Tensor | None = None) -> Tensor:
    """Return a copy with zeros below the diagonal of each matrix.

    Raises  RuntimeError if input has fewer than two axes

    Args:
        input: Matrices of any dtype, of shape (..., n, m).
        diagonal: The lowest diagonal to keep: 0 is the main diagonal, positive ones are above it.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.triu(torch.ones(2, 2))
        tensor([[1., 1.],
                [0., 1.]])
    """
def triu_indices(row: builtins.int, col: builtins.int, offset: builtins.int = 0, *, dtype: DTypeLike = ..., device: DeviceLike = ...) -> Tensor:
    """Return the rows and columns of a matrix's elements on and above a diagonal, row by row."""
def true_divide(input: Operand, other: Operand, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:
    """Return input / other; rounding_mode "floor" or "trunc" rounds the quotient to an integer.

    Raises  RuntimeError if the shapes do not broadcast, or rounding_mode is unknown; RuntimeError
            if integers are divided by 0 with a rounding_mode

    Args:
        input: The dividend, a tensor or a number.
        other: The divisor, a tensor or a number.
        rounding_mode: None for the true quotient, "trunc" to round toward 0, "floor" to round down.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of input and other. For integers without a rounding_mode,
        the quotient has the default dtype.

    Example:
        >>> torch.div(torch.tensor([7, -7]), 2)
        tensor([ 3.5000, -3.5000])
        >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode="floor")
        tensor([ 3, -4])
    """
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return input rounded towards 0; the gradient is 0."""
def trunc_(input: Tensor) -> Tensor:
    """Return input rounded towards 0; the gradient is 0."""
def unbind(input: Tensor, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Return a view for each index along dim; the views do not have that axis.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. An axis without elements gives an empty tuple.
        dim: The axis to remove, by default the first.

    Example:
        >>> [row.tolist() for row in torch.tensor([[1, 2], [3, 4]]).unbind()]
        [[1, 2], [3, 4]]
    """
def unflatten(input: Tensor, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
    """Return input with the axis dim split into several axes."""
@overload
def unique(input: Tensor, sorted: builtins.bool = ..., return_inverse: Literal[False] = ..., return_counts: Literal[False] = ..., dim: builtins.int | None = ...) -> Tensor:
    """Return the distinct elements, or the distinct slices along dim, sorted. On a GPU, the call
    waits for the number of distinct elements.

    Raises  RuntimeError for slices without elements; IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. Each NaN counts as distinct.
        sorted: Ignored: the elements are always sorted.
        return_inverse: Whether to also return, for each element, its index in the result.
        return_counts: Whether to also return how often each element occurs.
        dim: The axis whose slices are compared; elements are compared if None.

    Returns:
        A tensor, or a tuple of this tensor, the inverse indices and the counts, as requested.

    Example:
        >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
@overload
def unique(input: Tensor, sorted: builtins.bool = ..., return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = ...) -> Any:
    """Return the distinct elements, or the distinct slices along dim, sorted. On a GPU, the call
    waits for the number of distinct elements.

    Raises  RuntimeError for slices without elements; IndexError if dim is out of range

    Args:
        input: A tensor of any dtype. Each NaN counts as distinct.
        sorted: Ignored: the elements are always sorted.
        return_inverse: Whether to also return, for each element, its index in the result.
        return_counts: Whether to also return how often each element occurs.
        dim: The axis whose slices are compared; elements are compared if None.

    Returns:
        A tensor, or a tuple of this tensor, the inverse indices and the counts, as requested.

    Example:
        >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
@overload
def unique_consecutive(input: Tensor, return_inverse: Literal[False] = ..., return_counts: Literal[False] = ..., dim: builtins.int | None = ...) -> Tensor:
    """Return the first element of each run of equal elements, or the first slice of each run of
    equal slices along dim. If input is not on the CPU, the call waits for the device.
    """
@overload
def unique_consecutive(input: Tensor, return_inverse: builtins.bool = ..., return_counts: builtins.bool = ..., dim: builtins.int | None = ...) -> Any:
    """Return the first element of each run of equal elements, or the first slice of each run of
    equal slices along dim. If input is not on the CPU, the call waits for the device.
    """
def unravel_index(indices: Tensor, shape: Sizes) -> tuple[Tensor, ...]:
    """Return one index per axis of shape for each flat index."""
def unsafe_chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Return at most `chunks` views along dim, all of the same length except the last one.

    Raises  RuntimeError if chunks is not positive, or input has no axes; IndexError if dim is out
            of range

    Args:
        input: A tensor of any dtype with at least one axis.
        chunks: The number of views to make; fewer, if the length is not enough: 6 elements in 4
            chunks give 3 views of 2.
        dim: The axis to divide, by default the first.

    Example:
        >>> [part.tolist() for part in torch.chunk(torch.arange(5), 2)]
        [[0, 1, 2], [3, 4]]
    """
def unsafe_split(tensor: Tensor, split_size_or_sections: Any = None, dim: builtins.int = 0, *, split_size: Any = None) -> tuple[Tensor, ...]:
    """Return views of the parts along dim, either of one length or of a list of lengths. With one
    length, the last part may be shorter.

    Raises  RuntimeError if a size is negative, the sizes do not add up to the length of the axis,
            or the one length is 0 although that of the axis is not; IndexError if dim is out of
            range

    Args:
        tensor: A tensor of any dtype with at least one axis.
        split_size_or_sections: The length of each view, or a list of lengths; None: see split_size.
            The length may be 0 if that of the axis is 0: the result is then one empty view.
        dim: The axis to divide, by default the first.
        split_size: split_size_or_sections, under the name that the method uses; None: not used.

    Example:
        >>> [part.tolist() for part in torch.split(torch.arange(5), 2)]
        [[0, 1], [2, 3], [4]]
        >>> [part.tolist() for part in torch.split(torch.arange(5), [1, 4])]
        [[0], [1, 2, 3, 4]]
    """
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Return views of the parts of input whose lengths along dim are split_sizes."""
def unsqueeze(input: Tensor, dim: builtins.int) -> Tensor:
    """Return a view with a new axis of length 1 at dim.

    Raises  IndexError if dim is out of range

    Args:
        input: A tensor of any shape and dtype.
        dim: The position of the new axis; -1 means after the last axis.

    Example:
        >>> torch.tensor([1, 2]).unsqueeze(1).shape
        fastdist.Size([2, 1])
    """
def vander(x: Tensor, N: builtins.int | None = None, increasing: builtins.bool = False) -> Tensor:
    """Return a matrix whose row i has the powers of x[i], in descending order by default."""
def var(input: Tensor, dim: Sizes | builtins.bool | None = None, unbiased: builtins.bool = True, keepdim: builtins.bool = False, *, correction: builtins.float | None = None, out: Tensor | None = None) -> Tensor:
    """Return the variance over dim: the sum of squared deviations divided by (number of elements -
    correction).

    Raises  RuntimeError for integers and bool; IndexError if dim is out of range

    Args:
        input: A floating-point or complex tensor. The result for one element is NaN, unless
            correction is 0.
        dim: The axis or axes; all if None.
        unbiased: Whether to divide by the number of elements minus 1; older than `correction`.
        keepdim: Whether the reduced axes stay, with length 1.
        correction: Subtracted from the number of elements; None means 1, or 0 if unbiased is False.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.var(torch.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
        >>> torch.var(torch.tensor([1.0, 3.0]), correction=0)
        tensor(1.)
    """
def var_mean(input: Tensor, dim: Sizes | builtins.bool | None = None, unbiased: builtins.bool = True, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> tuple[Tensor, Tensor]:
    """Return var and the mean over dim."""
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inner product of two vectors. If the first vector is complex, it is conjugated."""
def view_as_complex(input: Tensor) -> Tensor:
    """Return a complex view, in which each pair of real numbers along the last axis is one number.

    Raises  RuntimeError for a dtype other than float16, float32 and float64, or for strides that
            do not allow the view
    """
def view_as_real(input: Tensor) -> Tensor:
    """Return a view of complex numbers as pairs of real numbers along a new last axis.

    Raises  RuntimeError for real numbers

    Args:
        input: A complex tensor of shape (...); the result has the shape (..., 2).

    Example:
        >>> torch.view_as_real(torch.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """
def vsplit(input: Tensor, indices_or_sections: Sizes | Tensor) -> tuple[Tensor, ...]:
    """Return views of parts along the first axis; input must have at least two axes."""
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Join tensors vertically: along axis 0, with vectors as rows."""
@overload
def where(condition: Operand) -> tuple[Tensor, ...]:
    """Return input where condition is true, and other elsewhere. With condition alone, return the
    indices where it is true.

    Raises  TypeError if an argument is neither a tensor nor a number, or only one of input and
            other is given; RuntimeError if the shapes do not broadcast, or condition is neither
            bool nor uint8

    Args:
        condition: A tensor of bool, or of uint8 as in old programs: 0 is false. Without input and
            other, a tensor of any dtype.
        input: The values where condition is true, a tensor or a number; None: see Returns.
        other: The values elsewhere; None: see Returns.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of condition, input and other, in the dtype to which input
        and other promote. With condition alone, a tuple of index tensors, as
        `nonzero(as_tuple=True)` returns.

    Example:
        >>> x = torch.tensor([-1.0, 2.0])
        >>> torch.where(x > 0, x, 0.0)
        tensor([0., 2.])
    """
@overload
def where(condition: Operand, input: Operand, other: Operand, *, out: Tensor | None = ...) -> Tensor:
    """Return input where condition is true, and other elsewhere. With condition alone, return the
    indices where it is true.

    Raises  TypeError if an argument is neither a tensor nor a number, or only one of input and
            other is given; RuntimeError if the shapes do not broadcast, or condition is neither
            bool nor uint8

    Args:
        condition: A tensor of bool, or of uint8 as in old programs: 0 is false. Without input and
            other, a tensor of any dtype.
        input: The values where condition is true, a tensor or a number; None: see Returns.
        other: The values elsewhere; None: see Returns.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the broadcast shape of condition, input and other, in the dtype to which input
        and other promote. With condition alone, a tuple of index tensors, as
        `nonzero(as_tuple=True)` returns.

    Example:
        >>> x = torch.tensor([-1.0, 2.0])
        >>> torch.where(x > 0, x, 0.0)
        tensor([0., 2.])
    """
def xlogy(input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor:
    """Return input * log(other), or 0 where input is 0 and other is not NaN."""
def xlogy_(input: Tensor, other: Operand) -> Tensor:
    """Return input * log(other), or 0 where input is 0 and other is not NaN."""
def zero_(input: Tensor) -> Tensor:
    """Write 0 into every element."""
def zeros(*size: Sizes, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """Return a tensor filled with zeros.

    Raises  RuntimeError if a length is negative; TypeError if a length is not an integer

    Args:
        *size: The lengths of the axes, as numbers or as one tuple.
        dtype: The dtype of the result; the default dtype if None.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; the default device if None.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
        >>> torch.zeros((2,), dtype=torch.int64)
        tensor([0, 0])
    """
def zeros_like(input: Tensor, *, dtype: DTypeLike | None = None, layout: MemoryLayout | None = None, device: DeviceLike = ..., pin_memory: builtins.bool = False, requires_grad: builtins.bool = False, memory_format: MemoryFormat | None = None) -> Tensor:
    """Return a tensor of zeros with the shape, strides, dtype and device of input.

    Raises  TypeError if input is not a tensor

    Args:
        input: The tensor whose shape, dtype and device are taken; its elements are not read.
        dtype: The dtype of the result; None means the dtype of input.
        layout: The layout of the result; `strided` if None.
        device: The device of the result; None means the device of input.
        pin_memory: Whether to take page-locked memory, from which copies to a GPU are faster.
        requires_grad: Whether autograd records what is computed from the result.
        memory_format: The order of the elements in memory; None means input's order.

    Example:
        >>> torch.zeros_like(torch.ones(2, dtype=torch.float64))
        tensor([0., 0.], dtype=fastdist.float64)
    """
