"""The step through torch.compile, with what it compiled kept for the next start."""

import hashlib
import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from ocria.model.network import Qwen35
from ocria.model.state import DecoderState
from ocria.runtime.buffers import SlotBuffers
from ocria.runtime.step import Drafter, StepInput, StepOutput, step


def compile_step(
    network: Qwen35, state: DecoderState, buffers: SlotBuffers, drafter: Drafter | None = None
) -> Callable[[StepInput], StepOutput]:
    """`step` over this state as one compiled graph (no graph breaks) for any number of rows above one, and for one."""
    use_cache(network)

    def whole(slots: torch.Tensor, kv_len: int, greedy: bool) -> StepOutput:
        return step(network, state, buffers, StepInput(slots, kv_len, None, greedy), drafter)

    compiled = torch.compile(whole, fullgraph=True, dynamic=None)

    def run(rows: StepInput) -> StepOutput:
        slots = rows.slots
        if slots.shape[0] > 1:
            torch._dynamo.maybe_mark_dynamic(slots, 0)
        return compiled(slots, rows.kv_len, rows.greedy)

    return run


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
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    device = network.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu()
    key = "\n".join([torch.__version__, _version("triton"), name, str(network.dtype), repr(network.config)])
    return root / "ocria" / "compiled" / hashlib.sha256(key.encode()).hexdigest()[:16]


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
