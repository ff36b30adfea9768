"""Whether the engine can run here: the device, what computes, the model and its memory."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from ocria.doctor.check import FAIL, OK, WARN, Check
from ocria.doctor.models import drafters_of
from ocria.doctor.sizes import folder_bytes, told
from ocria.errors import OcriaError

if TYPE_CHECKING:
    import torch

    from ocria.document.options import ParseOptions
    from ocria.document.reader import Placement


def engine_checks(options: ParseOptions) -> list[Check]:
    """All of them for the options of a run; later ones are left out where an earlier one says why."""
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a library that it is linked with is missing
        cure = "Install torch 2.11 or newer for this machine, see https://pytorch.org/get-started/locally/"
        return [Check("torch", FAIL, f"cannot be imported: {error}", cure, engine=True)]
    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    found = [_processor(), _device(device)]
    if found[-1].status == FAIL:
        return found
    found += [_kernels(device), _compiler(device, options.compile), _compiled()]
    return found if any(check.status == FAIL for check in found) else [*found, *_model(options)]


def _processor() -> Check:
    import torch

    from ocria.runtime.memory import free_memory

    free = free_memory(torch.device("cpu"))
    facts = {"cores": os.cpu_count(), "threads": torch.get_num_threads(), "free_bytes": free}
    capability = torch.backends.cpu.get_cpu_capability()
    said = f"{facts['cores']} cores, {facts['threads']} threads, vector instructions {capability}, {told(free)} free"
    return Check("CPU", OK, said, facts={**facts, "vector_instructions": capability})


def _device(device: torch.device) -> Check:
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.type == "cuda" and (device.index or 0) >= count:
        cure = "Use --device cpu, or install a build of torch for your GPU and its driver."
        return Check("device", FAIL, f"{device} is not there; torch finds {count} CUDA devices", cure, engine=True)
    gpus = []
    for index in range(count):
        properties = torch.cuda.get_device_properties(index)
        gpus.append({"device": f"cuda:{index}", "name": properties.name, "bytes": properties.total_memory})
    details = tuple(f"{gpu['device']}: {gpu['name']}, {told(int(gpu['bytes']))}" for gpu in gpus)
    said = f"{device} is used; " + (f"CUDA devices: {count}" if count else "no CUDA device")
    return Check("device", OK, said, details=details, facts={"device": str(device), "gpus": gpus})


def _kernels(device: torch.device) -> Check:
    """Which form of the operations would run."""
    from ocria.ops.register import INTERPRETED

    try:
        version = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        version = None
    facts = {"triton": version, "form": "kernels" if device.type == "cuda" else "torch"}
    triton = "triton is not installed" if version is None else f"triton {version}"
    if device.type == "cuda" and version is None:
        cure = "Install triton 3.6 or newer; the CUDA builds of torch bring it along."
        return Check("kernels", FAIL, "a GPU needs triton, which is not installed", cure, engine=True, facts=facts)
    if device.type == "cuda" and INTERPRETED:
        cure = "Unset TRITON_INTERPRET, which is for tests."
        return Check("kernels", FAIL, "TRITON_INTERPRET=1 keeps kernels off the GPU", cure, engine=True, facts=facts)
    form = "Triton kernels run" if device.type == "cuda" else "the torch forms of all operations run, no kernels"
    return Check("kernels", OK, f"{form}; {triton}", facts=facts)


def _compiler(device: torch.device, wanted: bool) -> Check:
    """What torch.compile needs on the CPU, and Triton on a GPU."""
    cuda = device.type == "cuda"
    names = (os.environ.get("CC"), "gcc", "clang", "cc") if cuda else (os.environ.get("CXX"), "g++", "clang++", "c++")
    compiler = next((found for name in names if name and (found := shutil.which(name))), None)
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    facts = {"compiler": compiler, "python_headers": header.is_file()}
    lacking = [] if compiler else [f"no {'C' if cuda else 'C++'} compiler"]
    lacking += [] if header.is_file() else [f"no {header}"]
    if not lacking:
        return Check("compiler", OK, f"{compiler}, for {'kernels' if cuda else '--compile'}", facts=facts)
    purpose = "kernels cannot be built" if cuda else "--compile cannot work"
    cure = "Install a compiler and the headers of Python, such as `apt install g++ python3-dev`."
    needed = cuda or wanted
    said = f"{' and '.join(lacking)}: {purpose}"
    return Check("compiler", FAIL if needed else WARN, said, cure, engine=needed, facts=facts)


def _compiled() -> Check:
    from ocria.runtime.places import compiled_root

    folder = Path(os.environ.get("TORCHINDUCTOR_CACHE_DIR") or compiled_root())
    size = folder_bytes(folder)
    facts = {"folder": str(folder), "bytes": size}
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(there, os.W_OK):
        cure = "Name another folder with TORCHINDUCTOR_CACHE_DIR or XDG_CACHE_HOME."
        return Check("compiled code", WARN, f"{folder} cannot be written: --compile cannot work", cure, facts=facts)
    return Check("compiled code", OK, f"{folder}, {told(size)}", facts=facts)


def _model(options: ParseOptions) -> list[Check]:
    """The model, and how it would use the memory; its weights are not loaded."""
    from ocria.document.reader import placement, plan_memory
    from ocria.model.hub import find_model

    try:
        source = find_model("nano" if options.model is None else options.model)
        placed = placement(options)
    except OcriaError as error:
        return [Check("model", FAIL, _without_cure(error), error.cure, engine=True)]
    drafts = drafters_of(source.folder)
    said = f"{source.name} in {source.folder}"
    details = (f"brings drafts: {', '.join(drafts) or 'none'}", f"would run as: {placed}")
    facts = {"name": source.name, "folder": str(source.folder), "drafts": list(drafts), "placement": str(placed)}
    model = Check("model", OK, said, details=details, facts=facts)
    try:
        plan = plan_memory(options, placed)
    except OcriaError as error:
        return [model, Check("memory", FAIL, _without_cure(error), error.cure, engine=True)]
    rows = {**plan.parts(), "together": plan.total, "limit": plan.limit}
    return [
        model,
        Check(
            "memory",
            OK,
            f"{plan.slots} requests at a time, of up to {plan.max_len} rows each",
            details=tuple(f"{name:<12}{amount / 2**20:>12,.1f} MiB" for name, amount in rows.items()),
            facts={"requests": plan.slots, "rows": plan.max_len, "bytes": rows, "free_bytes": _free(placed)},
        ),
    ]


def _free(placed: Placement) -> int:
    from ocria.runtime.memory import free_memory

    return free_memory(placed.device)


def _without_cure(error: OcriaError) -> str:
    return error.message if error.path is None else f"{error.path}: {error.message}"
