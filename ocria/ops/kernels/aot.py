"""Ahead-of-time compilation of kernels for NVIDIA GPUs that need not be present.

Every module of kernels exports `aot_variants() -> list[AotVariant]`: how its kernels are launched at the shapes of
the 4B model. `compile_variant` compiles one with the assembler that comes with triton and reads registers, stack
and tensor-core instructions out of the result.
"""

import re
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from ocria.errors import EngineError, UsageError

CAPABILITIES = (90, 100)
"""Hopper (H100, H200) and Blackwell (B200)."""

_DOT = re.compile(r"\b(?:wgmma\.mma_async|mma\.sync|tcgen05\.mma)\.[\w.:]+")
_USAGE = re.compile(r"REG:(?P<REG>\d+)\s+STACK:(?P<STACK>\d+)\s+SHARED:(?P<SHARED>\d+)")


@dataclass(frozen=True, slots=True)
class Shapes4B:
    """Shapes of the 4B model and of the engine's steps, as kernels see them."""

    hidden: int = 2560
    intermediate: int = 9216
    vocab: int = 248320
    linear_layers: int = 24  # Gated DeltaNet
    attention_layers: int = 8
    key_heads: int = 16  # of Gated DeltaNet
    value_heads: int = 32
    key_dim: int = 128  # of one head
    value_dim: int = 128
    conv_channels: int = 8192  # 2 * 16 * 128 + 32 * 128
    conv_kernel: int = 4
    heads: int = 16  # of attention
    kv_heads: int = 4
    head_dim: int = 256
    rotary: int = 64
    rows: tuple[int, ...] = (1, 8, 16)  # T
    rings: tuple[int, ...] = (16, 64)  # L
    conv_ring: int = 32  # Lc
    max_len: int = 16384


SHAPES_4B = Shapes4B()


@dataclass(frozen=True, slots=True)
class AotVariant:
    """One way a kernel is launched.

    kernel: the `@triton.jit` function. signature: the type of each argument that is no constant, as triton writes
    it ("*bf16", "*fp32", "*i64", "i32", "fp32", ...); pointers are taken to be 16-byte aligned, as every tensor of
    torch is, and an integer that is always a multiple of 16 is written "i32:16". constexprs: the values of all
    other arguments. needs_dot: whether the compiled kernel has to use the tensor cores. capabilities: the GPUs that it
    is launched on.
    """

    name: str
    kernel: Any
    signature: dict[str, str]
    constexprs: dict[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 2
    needs_dot: bool = False
    capabilities: tuple[int, ...] = CAPABILITIES


@dataclass(frozen=True, slots=True)
class AotReport:
    """What became of a variant. Registers are per thread; sizes in bytes.

    spill_bytes: local memory per thread. A kernel written in triton has no arrays of its own there, so all of it is
    spilled registers. dot_instructions: the distinct tensor-core instructions of the PTX.
    """

    registers: int
    shared_bytes: int
    spill_bytes: int
    dot_instructions: tuple[str, ...]
    ptx_bytes: int
    cubin_bytes: int
    seconds: float


def compile_variant(variant: AotVariant, capability: int) -> AotReport:
    """Compile for `capability` (90 = sm_90, 100 = sm_100, ...). Needs no GPU; triton's cache is used.

    Raises UsageError when kernels are interpreted in this process (TRITON_INTERPRET=1), or when signature and
    constexprs together are not exactly the arguments of the kernel; triton's CompilationError and PTXASError
    come through.
    """
    if not isinstance(variant.kernel, JITFunction):
        raise UsageError(
            f"{variant.name}: kernels are interpreted in this process, there is nothing to compile",
            cure="Start a process without TRITON_INTERPRET.",
        )
    source = _source(variant)
    options = {"num_warps": variant.num_warps, "num_stages": variant.num_stages}
    start = time.perf_counter()
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    seconds = time.perf_counter() - start
    ptx, cubin = compiled.asm["ptx"], compiled.asm["cubin"]
    registers, stack, static = _resources(cubin, variant.name)
    return AotReport(
        registers=registers,
        shared_bytes=max(compiled.metadata.shared, static),
        spill_bytes=stack,
        dot_instructions=tuple(sorted(set(_DOT.findall(ptx)))),
        ptx_bytes=len(ptx),
        cubin_bytes=len(cubin),
        seconds=seconds,
    )


def _source(variant: AotVariant) -> ASTSource:
    arguments = variant.kernel.arg_names
    both = variant.signature.keys() & variant.constexprs.keys()
    given = variant.signature.keys() | variant.constexprs.keys()
    wrong = sorted(both | (given ^ set(arguments)))
    if wrong:
        raise UsageError(
            f"{variant.name}: {', '.join(wrong)} missing, unknown or given twice; the kernel takes "
            f"{', '.join(arguments)}"
        )
    signature, attributes = {}, {}
    for index, name in enumerate(arguments):
        kind, _, multiple = variant.signature.get(name, "constexpr").partition(":")
        signature[name] = kind
        if kind.startswith("*") or multiple == "16":
            attributes[(index,)] = [["tt.divisibility", 16]]
    return ASTSource(variant.kernel, signature, variant.constexprs, attributes)


def _resources(cubin: bytes, name: str) -> tuple[int, int, int]:
    """Registers and bytes of local memory per thread, bytes of static shared memory."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        dump = subprocess.run(command, capture_output=True, text=True)
    found = _USAGE.search(dump.stdout)
    if dump.returncode or not found:
        raise EngineError(f"{name}: cuobjdump does not tell the resources: {dump.stderr or dump.stdout}")
    return int(found["REG"]), int(found["STACK"]), int(found["SHARED"])
