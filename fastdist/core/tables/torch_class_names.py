"""PyTorch's modules for fastdist's classes: as-torch shows them as the `__module__` of the classes.

Each row is (module below fastdist, module below torch, classes). "Device>device" means that the
class `Device` is shown as `device`; core/moved_names.py has rows for such names.
"""

from __future__ import annotations

from typing import Final

ROWS: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "",
        "",
        (
            "BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor "
            "CharStorage CharTensor ComplexDoubleStorage ComplexFloatStorage DoubleStorage "
            "DoubleTensor FloatStorage FloatTensor HalfStorage HalfTensor IntStorage IntTensor "
            "LongStorage LongTensor ShortStorage ShortTensor"
        ),
    ),
    (
        "_C",
        "",
        (
            "Block BoolType DictType FloatType Graph IntType ListType Node NoneType OptionalType "
            "PyTorchFileReader PyTorchFileWriter ScriptModule StringType TensorType TupleType "
            "Type UnionType Value"
        ),
    ),
    ("_ops", "_ops", "OpOverload"),
    ("accelerator", "", "Stream"),
    ("amp.autocast_mode", "amp.autocast_mode", "autocast"),
    ("amp.grad_scaler", "amp.grad_scaler", "GradScaler"),
    ("autograd.anomaly_mode", "autograd.anomaly_mode", "detect_anomaly set_detect_anomaly"),
    ("autograd.forward_ad", "autograd.forward_ad", "UnpackedDualTensor dual_level"),
    ("autograd.function", "autograd.function", "Function"),
    ("autograd.function_ctx", "autograd.function", "FunctionCtx"),
    ("autograd.graph", "autograd.graph", "save_on_cpu saved_tensors_hooks"),
    ("autograd.profiler", "autograd.profiler", "emit_itt profile"),
    ("autograd.variable", "autograd.variable", "Variable"),
    ("concurrency.future", "", "Future"),
    ("core.device", "", "Device>device"),
    ("core.quantization_schemes", "", "qscheme"),
    ("core.dispatch_keys", "", "DispatchKey DispatchKeySet"),
    ("core.dtypes", "", "BorrowedDType>dtype DType>dtype"),
    ("core.errors", "", "KernelError>AcceleratorError OutOfMemoryError"),
    ("core.named_dtypes", "", "NamedDType>dtype"),
    ("core.memory_format", "", "MemoryFormat>memory_format MemoryLayout>layout"),
    ("core.torch_function", "_C", "DisableTorchFunctionSubclass"),
    ("cpu.amp", "cpu.amp.grad_scaler", "GradScaler"),
    ("cpu.amp", "cpu.amp.autocast_mode", "autocast"),
    (
        "cuda",
        "cuda",
        (
            "BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor "
            "CharStorage CharTensor ComplexDoubleStorage ComplexFloatStorage DoubleStorage "
            "DoubleTensor FloatStorage FloatTensor HalfStorage HalfTensor IntStorage IntTensor "
            "LongStorage LongTensor ShortStorage ShortTensor"
        ),
    ),
    ("cuda.amp", "cuda.amp.grad_scaler", "GradScaler"),
    ("cuda.amp", "cuda.amp.autocast_mode", "autocast"),
    ("cuda.event", "cuda.streams", "CudaEvent"),
    ("cuda.event", "", "Event"),
    ("cuda.gpus", "cuda", "device device_of"),
    ("cuda.graphs", "cuda.graphs", "CUDAGraph graph"),
    ("cuda.pools", "cuda.memory", "MemPool"),
    ("cuda.runtime", "cuda", "CudaError DeferredCudaCallError cudaStatus"),
    ("cuda.streams", "cuda", "stream"),
    (
        "data.dataset",
        "utils.data.dataset",
        "ChainDataset ConcatDataset Dataset IterableDataset StackDataset Subset TensorDataset",
    ),
    ("data.loader", "utils.data.dataloader", "DataLoader"),
    (
        "data.passes",
        "utils.data.dataloader",
        ("Pass PassElsewhere PassHere"),
    ),
    (
        "data.sampler",
        "utils.data.sampler",
        (
            "BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler "
            "WeightedRandomSampler"
        ),
    ),
    ("data.sampler", "utils.data.distributed", "DistributedSampler"),
    ("devices.cuda.stream", "cuda.streams", "CudaStream>Stream ExternalStream"),
    ("distributions.bernoulli", "distributions.bernoulli", "Bernoulli"),
    ("distributions.bernoulli", "distributions.continuous_bernoulli", "ContinuousBernoulli"),
    ("distributions.bernoulli", "distributions.geometric", "Geometric"),
    ("distributions.categorical", "distributions.categorical", "Categorical"),
    ("distributions.categorical", "distributions.multinomial", "Multinomial"),
    (
        "distributions.categorical",
        "distributions.one_hot_categorical",
        "OneHotCategorical OneHotCategoricalStraightThrough",
    ),
    (
        "distributions.constraint_registry",
        "distributions.constraint_registry",
        "ConstraintRegistry",
    ),
    (
        "distributions.constraints",
        "distributions.constraints",
        (
            "Constraint MixtureSameFamilyConstraint _Boolean _Cat _CorrCholesky _Dependent "
            "_DependentProperty _GreaterThan _GreaterThanEq _HalfOpenInterval "
            "_IndependentConstraint _IntegerGreaterThan _IntegerInterval _Interval _LessThan "
            "_LowerCholesky _LowerTriangular _Multinomial _OneHot _PositiveDefinite "
            "_PositiveSemidefinite _Real _Simplex _Square _Stack _Symmetric"
        ),
    ),
    ("distributions.counts", "distributions.binomial", "Binomial"),
    ("distributions.counts", "distributions.negative_binomial", "NegativeBinomial"),
    ("distributions.counts", "distributions.poisson", "Poisson"),
    ("distributions.distribution", "distributions.distribution", "Distribution"),
    ("distributions.exp_family", "distributions.exp_family", "ExponentialFamily"),
    ("distributions.gamma", "distributions.beta", "Beta"),
    ("distributions.gamma", "distributions.chi2", "Chi2"),
    ("distributions.gamma", "distributions.dirichlet", "Dirichlet"),
    ("distributions.gamma", "distributions.exponential", "Exponential"),
    ("distributions.gamma", "distributions.fishersnedecor", "FisherSnedecor"),
    ("distributions.gamma", "distributions.gamma", "Gamma"),
    ("distributions.gamma", "distributions.studentT", "StudentT"),
    ("distributions.generalized_pareto", "distributions.generalized_pareto", "GeneralizedPareto"),
    ("distributions.independent", "distributions.independent", "Independent"),
    (
        "distributions.mixture_same_family",
        "distributions.mixture_same_family",
        "MixtureSameFamily",
    ),
    (
        "distributions.multivariate_normal",
        "distributions.lowrank_multivariate_normal",
        "LowRankMultivariateNormal",
    ),
    (
        "distributions.multivariate_normal",
        "distributions.multivariate_normal",
        "MultivariateNormal",
    ),
    ("distributions.normal", "distributions.cauchy", "Cauchy"),
    ("distributions.normal", "distributions.laplace", "Laplace"),
    ("distributions.normal", "distributions.normal", "Normal"),
    ("distributions.normal", "distributions.uniform", "Uniform"),
    ("distributions.normal", "distributions.von_mises", "VonMises"),
    (
        "distributions.number_transforms",
        "distributions.transforms",
        (
            "AbsTransform AffineTransform CumulativeDistributionTransform ExpTransform "
            "PowerTransform SigmoidTransform SoftplusTransform TanhTransform"
        ),
    ),
    ("distributions.relaxed", "distributions.relaxed_bernoulli", "RelaxedBernoulli"),
    ("distributions.relaxed", "distributions.relaxed_categorical", "RelaxedOneHotCategorical"),
    (
        "distributions.transform",
        "distributions.transforms",
        "ComposeTransform IndependentTransform ReshapeTransform Transform _InverseTransform",
    ),
    (
        "distributions.transformed_distribution",
        "distributions.transformed_distribution",
        "TransformedDistribution",
    ),
    ("distributions.transformed_families", "distributions.gumbel", "Gumbel"),
    ("distributions.transformed_families", "distributions.half_cauchy", "HalfCauchy"),
    ("distributions.transformed_families", "distributions.half_normal", "HalfNormal"),
    ("distributions.transformed_families", "distributions.inverse_gamma", "InverseGamma"),
    ("distributions.transformed_families", "distributions.kumaraswamy", "Kumaraswamy"),
    ("distributions.transformed_families", "distributions.log_normal", "LogNormal"),
    ("distributions.transformed_families", "distributions.logistic_normal", "LogisticNormal"),
    ("distributions.transformed_families", "distributions.pareto", "Pareto"),
    ("distributions.transformed_families", "distributions.weibull", "Weibull"),
    ("distributions.utils", "distributions.utils", "lazy_property"),
    (
        "distributions.vector_transforms",
        "distributions.transforms",
        (
            "CatTransform CorrCholeskyTransform LowerCholeskyTransform PositiveDefiniteTransform "
            "SoftmaxTransform StackTransform StickBreakingTransform"
        ),
    ),
    ("distributions.wishart", "distributions.lkj_cholesky", "LKJCholesky"),
    ("distributions.wishart", "distributions.wishart", "Wishart"),
    ("graph.gradient_edge", "autograd.graph", "GradientEdge"),
    ("graph.lazy_conj_neg", "", "LazyConjNeg>Tensor"),
    ("graph.modes", "autograd.grad_mode", "enable_grad inference_mode no_grad set_grad_enabled"),
    ("graph.node", "autograd.graph", "Node"),
    ("graph.node", "utils.hooks", "RemovableHandle"),
    ("jit", "jit._script", "Attribute RecursiveScriptModule ScriptModule ScriptWarning"),
    ("jit", "jit", "Error ScriptFunction"),
    ("jit", "jit._trace", "TracerWarning"),
    ("library", "_library.custom_ops", "CustomOpDef"),
    ("library", "library", "Library"),
    ("namespace.control_flow", "", "SymBool SymFloat SymInt"),
    ("namespace.typed_tensors", "", "_TypedTensor>tensortype _TypedCudaTensor>tensortype"),
    ("namespace.limits", "", "finfo iinfo"),
    (
        "ops.return_types",
        "return_types",
        (
            "_Printed aminmax cummax cummin frexp geqrf histogram histogramdd kthvalue "
            "linalg_cholesky_ex "
            "linalg_eig linalg_eigh linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex "
            "linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_qr linalg_slogdet "
            "linalg_solve_ex linalg_svd lu_unpack max median min mode nanmedian qr slogdet sort "
            "svd topk triangular_solve"
        ),
    ),
    (
        "nn.activation",
        "nn.modules.activation",
        (
            "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid "
            "LogSoftmax Mish PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin "
            "Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
        ),
    ),
    ("nn.adaptive", "nn.modules.adaptive", "AdaptiveLogSoftmaxWithLoss"),
    (
        "nn.adaptive_pooling",
        "nn.modules.pooling",
        (
            "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d "
            "AdaptiveMaxPool2d AdaptiveMaxPool3d FractionalMaxPool2d FractionalMaxPool3d "
            "_AdaptiveAvgPool _AdaptiveMaxPool"
        ),
    ),
    ("nn.attention", "nn.attention", "SDPBackend"),
    (
        "nn.batch_norm",
        "nn.modules.batchnorm",
        "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm _BatchNorm _Norm",
    ),
    (
        "nn.batch_norm",
        "nn.modules.instancenorm",
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d _InstanceNorm",
    ),
    ("nn.container", "nn.modules.container", "ModuleDict ModuleList Sequential"),
    (
        "nn.convolution",
        "nn.modules.conv",
        (
            "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d _ConvNd "
            "_ConvTransposeNd"
        ),
    ),
    (
        "nn.dropout",
        "nn.modules.dropout",
        ("AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout _Dropout"),
    ),
    ("nn.embedding", "nn.modules.sparse", "Embedding EmbeddingBag"),
    ("nn.flatten", "nn.modules.flatten", "Flatten Unflatten"),
    ("nn.fold", "nn.modules.fold", "Fold Unfold"),
    (
        "nn.lazy",
        "nn.modules.batchnorm",
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d _LazyNorm",
    ),
    (
        "nn.lazy",
        "nn.modules.conv",
        (
            "LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
            "LazyConvTranspose3d _LazyConv"
        ),
    ),
    (
        "nn.lazy",
        "nn.modules.instancenorm",
        "LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d",
    ),
    ("nn.lazy", "nn.modules.linear", "LazyLinear"),
    ("nn.lazy", "nn.modules.lazy", "LazyModuleMixin"),
    ("nn.linear", "nn.modules.linear", "Bilinear Identity Linear"),
    (
        "nn.loss",
        "nn.modules.loss",
        (
            "BCELoss BCEWithLogitsLoss CTCLoss CrossEntropyLoss GaussianNLLLoss HuberLoss "
            "KLDivLoss L1Loss LinearCrossEntropyLoss MSELoss NLLLoss NLLLoss2d PoissonNLLLoss "
            "SmoothL1Loss _Loss _WeightedLoss"
        ),
    ),
    (
        "nn.margin_loss",
        "nn.modules.loss",
        (
            "CosineEmbeddingLoss HingeEmbeddingLoss MarginRankingLoss MultiLabelMarginLoss "
            "MultiLabelSoftMarginLoss MultiMarginLoss SoftMarginLoss TripletMarginLoss "
            "TripletMarginWithDistanceLoss"
        ),
    ),
    ("nn.margin_loss", "nn.modules.distance", "CosineSimilarity PairwiseDistance"),
    ("nn.module", "nn.modules.module", "Module"),
    ("nn.multihead_attention", "nn.modules.activation", "MultiheadAttention"),
    ("nn.multihead_attention", "nn.modules.linear", "NonDynamicallyQuantizableLinear"),
    (
        "nn.normalization",
        "nn.modules.normalization",
        "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    ),
    (
        "nn.padding",
        "nn.modules.padding",
        (
            "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
            "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d "
            "ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d _CircularPadNd _ConstantPadNd "
            "_ReflectionPadNd _ReplicationPadNd"
        ),
    ),
    ("nn.parallel.data_parallel", "nn.parallel.data_parallel", "DataParallel"),
    ("nn.parallel.distributed", "nn.parallel.distributed", "DistributedDataParallel"),
    (
        "nn.parameter",
        "nn.parameter",
        "UninitializedBuffer UninitializedParameter UninitializedTensorMixin",
    ),
    ("nn.parameter_container", "nn.modules.container", "ParameterDict ParameterList"),
    (
        "nn.pooling",
        "nn.modules.pooling",
        (
            "AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d "
            "MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d _AvgPool _LPPool "
            "_MaxPool _MaxUnpool"
        ),
    ),
    ("nn.rnn", "nn.modules.rnn", "GRU LSTM RNN RNNBase"),
    ("nn.rnn_cell", "nn.modules.rnn", "GRUCell LSTMCell RNNCell RNNCellBase"),
    ("nn.state_dict", "nn.modules.module", "IncompatibleKeys"),
    (
        "nn.transformer",
        "nn.modules.transformer",
        (
            "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
            "TransformerEncoderLayer"
        ),
    ),
    ("nn.upsampling", "nn.modules.channelshuffle", "ChannelShuffle"),
    ("nn.upsampling", "nn.modules.pixelshuffle", "PixelShuffle PixelUnshuffle"),
    (
        "nn.upsampling",
        "nn.modules.upsampling",
        "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    ),
    (
        "nn.utils.parametrizations",
        "nn.utils.parametrizations",
        "_Orthogonal _SpectralNorm _WeightNorm",
    ),
    ("nn.utils.parametrize", "nn.utils.parametrize", "ParametrizationList"),
    (
        "nn.utils.prune",
        "nn.utils.prune",
        (
            "BasePruningMethod CustomFromMask Identity L1Unstructured LnStructured "
            "PruningContainer RandomStructured RandomUnstructured"
        ),
    ),
    ("nn.utils.rnn", "nn.utils.rnn", "PackedSequence"),
    ("optim._adafactor", "optim", "Adafactor"),
    ("optim._muon", "optim", "Muon"),
    ("optim.adadelta", "optim.adadelta", "Adadelta"),
    ("optim.adagrad", "optim.adagrad", "Adagrad"),
    ("optim.adam", "optim.adam", "Adam"),
    ("optim.adamax", "optim.adamax", "Adamax"),
    ("optim.adamw", "optim.adamw", "AdamW"),
    ("optim.asgd", "optim.asgd", "ASGD"),
    ("optim.lbfgs", "optim.lbfgs", "LBFGS"),
    (
        "optim.lr_scheduler.by_epoch",
        "optim.lr_scheduler",
        (
            "ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts ExponentialLR LambdaLR "
            "LinearLR MultiStepLR MultiplicativeLR PolynomialLR StepLR"
        ),
    ),
    ("optim.lr_scheduler.cyclic", "optim.lr_scheduler", "CyclicLR"),
    ("optim.lr_scheduler.one_cycle", "optim.lr_scheduler", "OneCycleLR"),
    ("optim.lr_scheduler.plateau", "optim.lr_scheduler", "ReduceLROnPlateau"),
    ("optim.lr_scheduler.scheduler", "optim.lr_scheduler", "LRScheduler _LRScheduler"),
    ("optim.lr_scheduler.sequential", "optim.lr_scheduler", "ChainedScheduler SequentialLR"),
    ("optim.nadam", "optim.nadam", "NAdam"),
    ("optim.optimizer", "optim.optimizer", "Optimizer _RequiredParameter"),
    ("optim.radam", "optim.radam", "RAdam"),
    ("optim.rmsprop", "optim.rmsprop", "RMSprop"),
    ("optim.rprop", "optim.rprop", "Rprop"),
    ("optim.sgd", "optim.sgd", "SGD"),
    ("optim.sparse_adam", "optim.sparse_adam", "SparseAdam"),
    ("optim.swa_utils", "optim.swa_utils", "AveragedModel SWALR"),
    ("overrides", "overrides", "BaseTorchFunctionMode TorchFunctionMode"),
    ("profiler.activities", "_C._autograd", "DeviceType"),
    ("profiler.activities", "_C._profiler", "ProfilerActivity"),
    ("profiler.emitted", "autograd.profiler", "emit_nvtx"),
    ("profiler.events", "autograd.profiler_util", "EventList"),
    ("profiler.function_event", "autograd.profiler_util", "FunctionEvent"),
    ("profiler.profile", "profiler.profiler", "profile"),
    ("profiler.record_function", "autograd.profiler", "record_function"),
    ("profiler.schedule", "profiler.profiler", "ProfilerAction"),
    ("random_numbers.generator", "_C", "Generator"),
    ("tensor.layout", "", "Size"),
    ("tensor.parameter", "nn.parameter", "Buffer Parameter"),
    ("tensor.subclasses", "_C", "TensorType>_TensorMeta"),
    ("tensor.tensor", "", "Tensor"),
    ("tensor.typed_storage", "storage", "TypedStorage UntypedStorage"),
    ("utils.checkpoint", "utils.checkpoint", "CheckpointFunction"),
    ("utils.data._utils.fetch", "utils.data.dataloader", "_DatasetKind"),
    ("utils.data.dataloader", "utils.data.dataloader", "_InfiniteConstantSampler"),
    ("utils.flop_counter", "utils.flop_counter", "FlopCounterMode"),
    ("utils.recomputation", "utils.checkpoint", "CheckpointError _Holder"),
)
