"""What this machine is, and what it can do at best."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch

from ocria.benchmark.facts import Limits, Machine
from ocria.runtime.memory import free_memory

_INSTRUCTIONS = {
    "avx2": "AVX2", "avx512f": "AVX-512", "avx512_bf16": "AVX-512 BF16", "avx512_vnni": "AVX-512 VNNI",
    "amx_tile": "AMX", "amx_bf16": "AMX BF16", "asimd": "NEON", "sve": "SVE", "i8mm": "I8MM", "bf16": "BF16",
}  # fmt: skip
"""By the flag in /proc/cpuinfo."""
_BUFFER = {"cpu": 256 << 20, "cuda": 2 << 30}
"""Bytes that are read for the bandwidth: many times what caches hold."""
_SIDE = {"cpu": 1024, "cuda": 8192}
"""Rows of the square matrices that are multiplied."""


def describe(device: torch.device) -> Machine:
    """The host, its CPU, and the GPU if the engine runs on one."""
    lines = _read(Path("/proc/cpuinfo"))
    flags = set(_value(lines, "flags", "Features").split())
    gpu = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    return Machine(
        name=platform.node(),
        cpu=_value(lines, "model name") or platform.processor() or platform.machine(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=torch.get_num_threads(),
        instructions=tuple(name for flag, name in _INSTRUCTIONS.items() if flag in flags),
        memory_bytes=_total_memory(),
        free_bytes=free_memory(device),
        gpu=None if gpu is None else gpu.name,
        gpu_bytes=None if gpu is None else gpu.total_memory,
        torch=torch.__version__,
    )


def measure_limits(device: torch.device, dtype: torch.dtype, seconds: float = 1.0) -> Limits:
    """Bandwidth by reading a buffer, arithmetic by a product of matrices, the best of what fits into `seconds` each."""
    size = min(_BUFFER[device.type], free_memory(device) // 4)
    buffer = torch.ones(size // 4, dtype=torch.float32, device=device)
    read = _best(lambda: buffer.sum(), device, seconds)
    n = _SIDE[device.type]
    a, b = (torch.randn(n, n, dtype=dtype, device=device) for _ in range(2))
    return Limits(buffer.nbytes / read, 2 * n**3 / _best(lambda: a @ b, device, seconds))


def _best(work: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Least seconds of one call, after a first one that does not count."""
    least, until = float("inf"), None
    while until is None or time.perf_counter() < until:
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        ended = time.perf_counter()
        if until is None:
            until = ended + seconds
        else:
            least = min(least, ended - began)
    return least


def _total_memory() -> int | None:
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    return os.sysconf(names[0]) * os.sysconf(names[1]) if set(names) <= os.sysconf_names.keys() else None


def _read(path: Path) -> list[str]:
    """Lines of a file of the system, none where it does not have one."""
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []


def _value(lines: list[str], *names: str) -> str:
    found = (line.partition(":") for line in lines)
    return next((value.strip() for name, _, value in found if name.strip() in names), "")
