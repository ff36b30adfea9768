"""The step through torch.compile, with what it compiled kept for the next start.

Two graphs cover all steps: one for a single row, one for any number of rows; both take any length of the cache. A
network of many layers is compiled a kind of layer at a time, so that compiling does not grow with its depth.
"""

import hashlib
import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from ocria.model.network import Qwen35
from ocria.model.state import DecoderState
from ocria.runtime.buffers import SlotBuffers
from ocria.runtime.places import compiled_root
from ocria.runtime.step import EXACT, StepInput, StepOutput, step
from ocria.spec.chain import Chain

UNROLLED = 8
"""Up to this many layers are compiled as one piece, which runs a little faster."""
_ON_CPU = {
    # Inductor would compute an activation anew for every output of the product that follows it.
    "realize_opcount_threshold": 2,
    "realize_reads_threshold": 2,
    # Buffers allocated and kernels called from C++: a small step has sixty of them.
    "size_asserts": False,
    "cpp_wrapper": True,
}
_LEAST_KV = 2  # a dimension of size 1 cannot be dynamic
_TRACED_ROWS, _TRACED_KV = 2, 3


def compile_step(
    network: Qwen35,
    state: DecoderState,
    buffers: SlotBuffers,
    drafter: Chain | None = None,
    rule: str = EXACT,
    backend: str | Callable = "inductor",
) -> Callable[[StepInput], StepOutput]:
    """`step` over this state, compiled without graph breaks. Compiling happens at the first step of each kind."""
    use_cache(network)
    for each in (network, *(drafter.networks if drafter else ())):
        each.prepare_compiled()
    if network.config.text.num_hidden_layers > UNROLLED:
        network.model.language_model.compile_layers_once()
    graphs: dict[tuple, Callable] = {}
    # Its size is the length of the cache that a step looks at: sizes may change without compiling again.
    ruler = torch.empty(max(_TRACED_KV, state.max_len), dtype=torch.bool, device=network.device)

    def run(rows: StepInput) -> StepOutput:
        one = rows.slots.shape[0] == 1
        key = (one, rows.first_slot, rows.greedy, rows.rows, rows.network)
        if key not in graphs:
            graphs[key] = _compile(network, state, buffers, drafter, rule, rows, backend)
            trace(graphs[key], one, rows.first_slot)
        return graphs[key](rows.slots, ruler[: max(_LEAST_KV, rows.kv_len)])

    def trace(graph: Callable, one: bool, first_slot: int | None) -> None:
        """The first call, on the dummy, changes nothing. Its sizes are no limits of a tensor, because the tracer
        takes a dimension that is as long as it can be for a constant."""
        slots = torch.zeros(1 if one else _TRACED_ROWS, dtype=torch.int64, device=network.device)
        length = ruler[:_TRACED_KV]
        if state.max_len > _TRACED_KV:
            torch._dynamo.mark_dynamic(length, 0)
        if not one and (first_slot is None or first_slot + _TRACED_ROWS < buffers.done.shape[0]):
            torch._dynamo.mark_dynamic(slots, 0)
        graph(slots, length)

    return run


def _compile(network, state, buffers, drafter, rule, like, backend) -> Callable[..., StepOutput]:
    first_slot, greedy, rows, with_network = like.first_slot, like.greedy, like.rows, like.network

    def whole(slots: torch.Tensor, ruler: torch.Tensor) -> StepOutput:
        inputs = StepInput(slots, ruler.shape[0], first_slot, greedy, rows, with_network)
        return step(network, state, buffers, inputs, drafter, rule)

    # Dynamo keeps what it compiled with the code object, and without guards would take it for any closure over it.
    whole.__code__ = whole.__code__.replace()
    options: dict[str, Any] = {}
    if backend == "inductor":
        options = dict(_ON_CPU) if network.device.type == "cpu" else {}
        # Everything a guard could find changed is fixed here, or dynamic; looking would take half of a small step.
        options["guard_filter_fn"] = lambda guards: [False] * len(guards)
    return torch.compile(whole, fullgraph=True, backend=backend, options=options or None)


def use_cache(network: Qwen35) -> Path:
    """Keep compiled code in the user's cache, in a folder for these versions, this device and these shapes.

    What TORCHINDUCTOR_CACHE_DIR says wins. Returns the folder.
    """
    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or cache_folder(network))
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    os.environ.setdefault("TRITON_CACHE_DIR", str(folder / "triton"))
    return folder


def cache_folder(network: Qwen35) -> Path:
    """Where code for this network on this machine belongs."""
    device = network.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu()
    key = "\n".join([torch.__version__, _version("triton"), name, str(network.dtype), repr(network.config)])
    return compiled_root() / hashlib.sha256(key.encode()).hexdigest()[:16]


def cache_counts() -> tuple[int, int]:
    """Graphs of this process that were found in the cache, and that were not."""
    counters = torch._dynamo.utils.counters["inductor"]
    return counters["fxgraph_cache_hit"], counters["fxgraph_cache_miss"]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _cpu() -> str:
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
