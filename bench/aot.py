"""Does every kernel compile for Hopper and Blackwell at the shapes of the 4B model, without spilled registers?

    python bench/aot.py                     every variant, sm_90 and sm_100; no GPU is needed
    python bench/aot.py --only replay       variants whose module, kernel or name contains "replay"
    python bench/aot.py --quick             of each kernel and its flags only the variant with the largest tiles

Exit code 1 when a variant does not compile, spills, or lacks the tensor-core instruction it needs, and when a
kernel of the package is in no variant. The last line of standard output is one JSON document.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import json
import math
import multiprocessing
import os
import pkgutil
import sys
import textwrap
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from types import ModuleType


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", help="variants whose module, kernel or name contains this")
    parser.add_argument("--quick", action="store_true", help="of each kernel and its flags only the largest tiles")
    parser.add_argument("--capability", type=int, nargs="+", default=[90, 100], metavar="N")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that compile side by side")
    parser.add_argument("--file", type=Path, metavar="FILE", help="kernels of this file, not those of the package")
    return parser.parse_args(argv)


def kernel_modules(file: Path | None = None) -> list[ModuleType]:
    """The modules of `ocria.ops.kernels`, or `file` alone, imported."""
    if file is not None:
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[file.stem] = module
        spec.loader.exec_module(module)
        return [module]
    import ocria.ops.kernels as package

    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]


def variants(module: ModuleType) -> list:
    """The AotVariants a module exports; none where it exports no list."""
    return module.aot_variants() if hasattr(module, "aot_variants") else []


def callees(function) -> set:
    """The jitted functions that a jitted function calls by name."""
    from triton.runtime.jit import JITFunction

    tree = ast.parse(textwrap.dedent(function.src))
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and hasattr(node.func, "id")}
    space = function.fn.__globals__
    return {space[name] for name in calls if isinstance(space.get(name), JITFunction)}


def multiplies(function) -> bool:
    """Whether a kernel, or what it calls, has a matrix product."""
    return "tl.dot" in function.src or any(multiplies(called) for called in callees(function))


def launched(modules: list[ModuleType]) -> set:
    """The kernels of the modules: their jitted functions that no other jitted function calls."""
    from triton.runtime.jit import JITFunction

    jitted = {value for module in modules for value in vars(module).values() if isinstance(value, JITFunction)}
    return jitted - {called for function in jitted for called in callees(function)}


def uncovered(modules: list[ModuleType]) -> list[str]:
    """Kernels that are in no variant, as module.kernel."""
    covered = {variant.kernel for module in modules for variant in variants(module)}
    return sorted(f"{kernel.__module__}.{kernel.__name__}" for kernel in launched(modules) - covered)


def largest(found: list) -> list:
    """Of each kernel, and each setting of its flags, the variant with the largest product of integer constants."""
    best: dict = {}
    for variant in found:
        flags = tuple((name, value) for name, value in variant.constexprs.items() if isinstance(value, bool))
        size = math.prod(v for v in variant.constexprs.values() if type(v) is int and v > 0)
        kind = (variant.kernel, flags)
        if kind not in best or size > best[kind][0]:
            best[kind] = (size, variant)
    return [variant for _, variant in best.values()]


def tasks(arguments: argparse.Namespace) -> list[tuple[str, str, int]]:
    """(module, variant, capability) of everything to be compiled."""
    found = []
    for module in kernel_modules(arguments.file):
        of_module = largest(variants(module)) if arguments.quick else variants(module)
        for variant in of_module:
            label = f"{module.__name__} {variant.kernel.__name__} {variant.name}"
            if arguments.only is None or arguments.only in label:
                wanted = [capability for capability in arguments.capability if capability in variant.capabilities]
                found += [(module.__name__, variant.name, capability) for capability in wanted]
    return found


def compile_one(task: tuple[str, str, int], file: Path | None = None) -> dict:
    """Compile one variant; a row of the table, with `faults` naming what is wrong with it."""
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources, PTXASError

    from ocria.errors import OcriaError
    from ocria.ops.kernels.aot import compile_variant

    name, label, capability = task
    module = kernel_modules(file)[0] if file is not None else importlib.import_module(name)
    (variant,) = (v for v in variants(module) if v.name == label)
    row = {
        "module": name.rpartition(".")[2],
        "kernel": variant.kernel.__name__,
        "variant": label,
        "capability": capability,
    }
    try:
        report = compile_variant(variant, capability)
    except (OcriaError, CompilationError, PTXASError, OutOfResources, RuntimeError) as error:
        return row | {"faults": [f"does not compile: {error}"]}
    faults = []
    if report.spill_bytes:
        faults.append(f"{report.spill_bytes} bytes of spilled registers")
    if variant.needs_dot and not report.dot_instructions:
        faults.append("no tensor-core instruction")
    if multiplies(variant.kernel) and not variant.needs_dot:
        faults.append("a product, but needs_dot is not set")
    return row | asdict(report) | {"faults": faults}


def compile_all(todo: list[tuple[str, str, int]], jobs: int, file: Path | None) -> list[dict]:
    if jobs == 1:
        return [compile_one(task, file) for task in todo]
    # Processes are started afresh: triton's compiler holds threads and locks that a fork would copy.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(compile_one, todo, [file] * len(todo)))


def families(instructions: tuple[str, ...]) -> str:
    """Tensor-core instructions as short names: wgmma, mma.sync or tcgen05.mma, with the operands' type."""
    short = set()
    for name in instructions:
        parts = name.split(".")
        head = "wgmma" if parts[0] == "wgmma" else ".".join(parts[:2])
        kinds = [p for p in parts if p in ("bf16", "f16", "tf32", "e4m3", "e5m2") or p.startswith("kind::")]
        short.add(f"{head} {kinds[0].removeprefix('kind::')}" if kinds else head)
    return ", ".join(sorted(short)) or "-"


def print_table(rows: list[dict]) -> None:
    print(f"{'arch':<7} {'kernel':<28} {'variant':<34} {'regs':>5} {'shared':>7} {'spill':>6}  tensor cores")
    for row in rows:
        head = f"sm_{row['capability']:<4} {row['kernel']:<28} {row['variant']:<34}"
        if "registers" in row:
            sizes = f"{row['registers']:>5} {row['shared_bytes']:>7} {row['spill_bytes']:>6}"
            print(f"{head} {sizes}  {families(row['dot_instructions'])}")
        for fault in row["faults"]:
            print(f"{head} FAULT: {fault}")


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    # Triton decides when a kernel is defined whether it is compiled or interpreted; nothing of it is imported yet.
    os.environ.pop("TRITON_INTERPRET", None)
    import triton

    todo = tasks(arguments)
    missing = uncovered(kernel_modules(arguments.file)) if arguments.only is None else []
    which = ", of each kernel and its flags the largest" if arguments.quick else ""
    how = (
        f"triton {triton.__version__}, its own ptxas; registers per thread, shared memory and spilled registers per "
        f"thread in bytes. {len(todo)} compilations{which}."
    )
    print(how + "\n")
    rows = compile_all(todo, arguments.jobs, arguments.file)
    print_table(rows)
    for name in missing:
        print(f"FAULT: {name} is in no variant")
    faults = sum(len(row["faults"]) for row in rows) + len(missing)
    print(f"\n{len(rows)} compilations, {faults} faults")
    print(json.dumps({"bench": "aot", "method": how, "rows": rows, "uncovered": missing, "faults": faults}))
    return 1 if faults or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
