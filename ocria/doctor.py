"""What `ocria doctor` and `ocria models` print."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import TYPE_CHECKING

from ocria import __version__

if TYPE_CHECKING:
    from ocria.document.options import ParseOptions

_PACKAGES = ("torch", "triton", "safetensors", "tokenizers", "pymupdf", "pymupdf4llm", "pillow", "numpy")


def doctor_report() -> str:
    """Versions, processor, devices and the embedded model, one a line."""
    import torch

    from ocria.document.reader import NANO

    lines = [
        f"ocria {__version__}, Python {platform.python_version()}, {platform.platform()}",
        *(f"{name} {_version(name)}" for name in _PACKAGES),
        f"CPU: {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"vector instructions {torch.backends.cpu.get_cpu_capability()}",
    ]
    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            device = torch.cuda.get_device_properties(index)
            lines.append(f"cuda:{index}: {device.name}, {device.total_memory / 2**30:.0f} GiB")
    else:
        lines.append("CUDA: not available")
    lines.append(f"embedded model: {NANO if (NANO / 'config.json').is_file() else 'missing'}")
    return "\n".join(lines)


def memory_report(options: ParseOptions) -> str:
    """How a model would use the memory, part by part. Raises EngineError with the same numbers if it does not fit."""
    from ocria.document.reader import placement, plan_memory

    placed = placement(options)
    plan = plan_memory(options, placed)
    rows = {**plan.parts(), "together": plan.total, "limit": plan.limit}
    return "\n".join(
        [
            f"engine for {placed.model}: {placed}",
            f"memory for {plan.slots} requests at a time, of up to {plan.max_len} rows each:",
            *(f"  {name:<12}{amount / 2**20:>12,.1f} MiB" for name, amount in rows.items()),
        ]
    )


def models_report() -> str:
    """The built-in profiles: what each checkpoint expects, and which facts must be given."""
    from ocria.model.profiles import OPTIONS, built_in_profiles

    lines = []
    for profile in built_in_profiles():
        missing = sorted({OPTIONS[name] for name in profile.unknown() if name in OPTIONS})
        needs = f"; not publicly known: {', '.join(missing)}" if missing else ""
        lines.append(f"{profile.name}: reads a {_word(profile.unit)}, writes {_word(profile.dialect)}{needs}")
    return "\n".join(lines)


def _word(value: object) -> str:
    return value if isinstance(value, str) else "(unknown)"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
