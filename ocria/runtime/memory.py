"""How much memory a run takes, part by part, known before anything is loaded or allocated."""

import math
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch

from ocria.errors import EngineError
from ocria.model.checkpoint import KEPT_FP32, LEFT_OUT
from ocria.model.config import ModelConfig, TextConfig, VisionConfig
from ocria.model.network import Qwen35
from ocria.model.prepared import PACK_BYTES
from ocria.model.quantized import WeightBytes
from ocria.model.state import DecoderState
from ocria.model.weights import DTYPES, list_tensors
from ocria.quant.formats import read_quantized
from ocria.quant.formats.contents import EMBEDDING
from ocria.runtime.options import ResolvedOptions

_SHARE = {"cpu": 0.5, "cuda": 0.9}
"""How much of the memory that is free beside the weights a run may take unless told otherwise: a GPU is ours, main
memory is shared with others."""
_OUT_OF_MEMORY = (
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA error: out of memory",  # the driver: a graph, a context
    "[CUDA]: out of memory",  # Triton, loading a kernel
    "CUBLAS_STATUS_ALLOC_FAILED",
)
_MIB, _GIB = 1 << 20, 1 << 30
_THREAD_SCRATCH = 128 << 10
_PER_SLOT = ("kv", "checkpoints", "rings", "conv", "drafter")
_STATE_PARTS = {"keys": "kv", "values": "kv", "checkpoint": "checkpoints", "conv_ring": "conv"}
CURE = "Raise --memory if the machine has more, or lower --batch, --max-pixels or --max-output-tokens."


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """`slots` requests of up to `max_len` rows each, the dummy slot beside them, and what that takes in bytes.

    limit: what all parts together may take. weights: those packed for the CPU included. kv: keys and values.
    checkpoints, rings, conv: Gated DeltaNet states in fp32, the rows replayed over them, and the inputs of the short
    convolution. drafter: what drafting remembers of the requests (its weights are among the weights). graphs: captured
    CUDA graphs. vision: the encoder's activations for
    the largest image. text: the decoder's, for the largest pass, embedded prompts, and the logits of a step.
    """

    slots: int
    max_len: int
    limit: int = 0
    weights: int = 0
    kv: int = 0
    checkpoints: int = 0
    rings: int = 0
    conv: int = 0
    drafter: int = 0
    graphs: int = 0
    vision: int = 0
    text: int = 0

    @classmethod
    def none(cls) -> "MemoryPlan":
        """Nothing is allocated."""
        return cls(0, 0)

    @property
    def bytes(self) -> int:
        """Of the state of all slots."""
        return sum(getattr(self, name) for name in _PER_SLOT)

    @property
    def total(self) -> int:
        return sum(self.parts().values())

    def parts(self) -> dict[str, int]:
        """Every part by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)[3:]}

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {size(amount)}" for name, amount in self.parts().items() if amount)
        return f"{self.slots} requests of {self.max_len} rows: {shown}; {size(self.total)} of {size(self.limit)}"


def shrink(plan: MemoryPlan) -> MemoryPlan:
    """The same plan for half the slots. Raises EngineError with the numbers when there is but one."""
    if plan.slots < 2:
        raise EngineError(f"out of memory with a single request ({plan})", cure=CURE)
    slots = plan.slots // 2
    state = {name: getattr(plan, name) * (slots + 1) // (plan.slots + 1) for name in _PER_SLOT}
    return replace(plan, slots=slots, **state)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a GPU or in main memory; torch has a type for those of its own on GPUs alone."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _OUT_OF_MEMORY)


def refusal(plan: MemoryPlan) -> EngineError:
    """What to raise for a plan that does not fit: every part with its size, and the options that change it."""
    return EngineError(f"not enough memory for {plan}", cure=CURE)


def state_parts(config: TextConfig, max_len: int, dtype: torch.dtype, options: ResolvedOptions) -> dict[str, int]:
    """Bytes of one slot by part of the plan, but for the drafter's; nothing is allocated."""
    state = DecoderState.allocate(config, 1, max_len, dtype, "meta", options.ring, options.rows, options.kv_dtype)
    parts = dict.fromkeys(_PER_SLOT, 0)
    for name, tensors in state.kinds().items():
        parts[_STATE_PARTS.get(name, "rings")] += sum(tensor.nbytes for tensor in tensors)
    return parts


def checkpoint_bytes(folder: Path, dtype: torch.dtype | None = None) -> WeightBytes:
    """What the weights in a folder take once they are loaded as `dtype` (None: as they are; decoded ones as the
    embedding), read from the headers of its files alone. Raises what `read_quantized` does, and CheckpointError for
    files that are missing or no safetensors."""
    stored, total = read_quantized(folder, list_tensors(folder)), WeightBytes()
    for info in stored.infos().values():
        if LEFT_OUT.fullmatch(info.name):
            continue
        kept = torch.float32 if KEPT_FP32.fullmatch(info.name) else dtype or DTYPES.get(info.dtype, torch.float32)
        size, module = math.prod(info.shape) * kept.itemsize, info.name.removesuffix(".weight")
        held = info.name not in stored.plain and not EMBEDDING.fullmatch(module)
        total += WeightBytes(0, size, stored.code_bytes(module)) if held else WeightBytes(size)
    return total


def network_bytes(config: ModelConfig, dtype: torch.dtype, encoder: bool = True) -> int:
    """The same for a network of these shapes, with its vision encoder or without."""
    with torch.device("meta"):
        network = Qwen35(config if encoder else replace(config, vision=None))
    sizes = {name: p.numel() for name, p in network.named_parameters()}
    return sum(n * (torch.float32 if KEPT_FP32.fullmatch(name) else dtype).itemsize for name, n in sizes.items())


def resident_bytes(weights: WeightBytes, device: torch.device, compiled: bool = False) -> int:
    """Memory that weights take. On the CPU plain ones of small models are there twice, once packed, and quantised ones
    decoded, in small models twice for compiled code. Elsewhere quantised ones stay as they are."""
    if device.type != "cpu":
        return weights.plain + weights.codes
    small = weights.plain + weights.decoded <= PACK_BYTES
    return (1 + small) * weights.plain + (1 + (small and compiled)) * weights.decoded


def vision_bytes(config: VisionConfig, patches: int, dtype: torch.dtype) -> int:
    """Most that the activations of one encoder pass over `patches` patch rows take at a time.

    The larger of the two halves of a block, beside the pixels, the positions and the residual stream: attention holds
    q, k and v, the first two also rotated in fp32, the MLP its inner width before and after the activation. Attention
    needs some scratch in every thread besides, measured in bf16 on the CPU.
    """
    width, inner, e = config.hidden_size, config.intermediate_size, dtype.itemsize
    attention = width * (6 * e + 5 * torch.float32.itemsize)
    mlp = width * e + 2 * inner * e
    around = 4 * config.patch_dim + 2 * 4 * config.head_dim + 3 * width * e + 48 * 8
    scratch = _THREAD_SCRATCH * (torch.get_num_threads() + 1)
    return patches * (around + max(attention, mlp)) + scratch


def text_bytes(config: TextConfig, rows: int, max_len: int, dtype: torch.dtype) -> int:
    """Most that the activations of one prefill pass over `rows` rows take at a time, in slots of `max_len` rows.

    The residual stream and the largest layer: Gated DeltaNet holds the inputs of its convolution and, a value head,
    q, k, v and what the chunks make of them in fp32; attention q, k, v and the output gate, some in fp32 too, the MLP
    its inner width. The mask of a pass over earlier rows has `max_len` keys.
    """
    e, fp32 = dtype.itemsize, torch.float32.itemsize
    heads = config.linear_num_value_heads * (config.linear_key_head_dim + config.linear_value_head_dim)
    delta = config.conv_dim * (e + 2 * fp32) + 6 * heads * fp32
    mlp = 3 * config.intermediate_size * e
    attention = 4 * config.num_attention_heads * config.head_dim * (e + fp32)
    return rows * (4 * config.hidden_size * e + max(delta, mlp, attention) + max_len * (fp32 + 1))


def request_bytes(config: TextConfig, prompt: int, dtype: torch.dtype) -> int:
    """What a request holds beside its state: `prompt` embedded rows with their positions until they are computed, and
    a row of logits, in fp32 beside the network's own dtype."""
    e, fp32 = dtype.itemsize, torch.float32.itemsize
    return prompt * (config.hidden_size * e + 3 * 8) + config.vocab_size * (e + 2 * fp32)


def free_memory(device: torch.device) -> int:
    """Bytes that may still be allocated on a GPU, or in main memory without swapping."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    # Not Linux: half of the installed memory.
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def used_memory(device: torch.device) -> int | None:
    """Bytes that this process has in use on a GPU, or in main memory; None where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.memory_allocated(device)
    statm = Path("/proc/self/statm")
    return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else None


def default_limit(weights: int, free: int, device: torch.device) -> int:
    """What a run may take unless told otherwise. `free`: bytes beside the weights, below 0 if they do not fit."""
    return weights + int(_SHARE[device.type] * free) if free > 0 else weights + free


def size(amount: int) -> str:
    """Bytes for people, such as `1.5 GiB` or `212.0 MiB`."""
    return f"{amount / _GIB:.1f} GiB" if amount >= _GIB else f"{amount / _MIB:.1f} MiB"
