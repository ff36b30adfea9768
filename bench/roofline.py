"""How fast could one step of the 4B model be? Bytes, operations and floor time of every op of a step.

    python bench/roofline.py                                     plain decoding, bf16, B200 and H200, batch 1 to 32
    python bench/roofline.py --weights nvfp4-mlp+fp8 --drafts 15 --accept 12
    python bench/roofline.py --config folder/config.json --kv-len 8192 --kv fp8
    python bench/roofline.py --checkpoint folder                 what the files of a checkpoint hold
    python bench/roofline.py --ladder [--write]                  every rung of the ladder, and docs/roofline.md

Bytes of weights are those of tensors: the model is built without values and its layers are given the formats of a
recipe, or a checkpoint's own files decide. The floor of an op is the longer of its bytes at the memory's speed and its
operations at the unit's; a step is the sum of its ops, as they run one after the other. Nothing is measured. The last
line of standard output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from ocria.errors import OcriaError
from ocria.model.config import ModelConfig
from ocria.model.network import Qwen35
from ocria.quant.recipe import load_recipe, recipe_names
from ocria.quant.step_bytes import ROLES, Part, linear_shapes, parts_of_checkpoint, parts_of_plan, step_bytes


@dataclass(frozen=True, slots=True)
class Device:
    """Of one GPU: bytes per second of its memory, and dense operations per second by unit."""

    name: str
    bandwidth: float
    peaks: dict[str, float]
    source: str


DEVICES = {
    "b200": Device(
        "B200",
        8.0e12,
        {"bf16": 2.25e15, "fp8": 4.5e15, "fp4": 9e15, "tf32": 1.1e15, "fp32": 75e12},
        "NVIDIA DGX B200 and HGX B200 data sheets: 64 TB/s, 72 PFLOPS of sparse FP8 and 144 of sparse FP4 for 8 GPUs; "
        "75 TFLOPS FP32",
    ),
    "h200": Device(
        "H200",
        4.8e12,
        {"bf16": 989e12, "fp8": 1979e12, "fp4": 989e12, "tf32": 494e12, "fp32": 67e12},
        "NVIDIA H200 data sheet, SXM: 4.8 TB/s; sparse 1979 TFLOPS BF16 and 3958 FP8; 67 TFLOPS FP32; no unit for FP4, "
        "which is decoded to bf16",
    ),
}


def config_4b() -> ModelConfig:
    """The decoder of Qwen3.5-4B, as its published `config.json` has it."""
    return ModelConfig.from_dict(
        {
            "model_type": "qwen3_5_text",
            "vocab_size": 248320,
            "hidden_size": 2560,
            "intermediate_size": 9216,
            "num_hidden_layers": 32,
            "full_attention_interval": 4,
            "num_attention_heads": 16,
            "num_key_value_heads": 4,
            "head_dim": 256,
            "linear_num_key_heads": 16,
            "linear_num_value_heads": 32,
            "linear_key_head_dim": 128,
            "linear_value_head_dim": 128,
            "linear_conv_kernel_dim": 4,
            "tie_word_embeddings": True,
        },
        where="Qwen3.5-4B",
    )


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, metavar="FILE", help="config.json of another model of the family")
    parser.add_argument("--checkpoint", type=Path, metavar="FOLDER", help="take the weights from its files")
    parser.add_argument("--device", nargs="+", choices=list(DEVICES), default=list(DEVICES))
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 12, 32])
    recipes = f"a recipe: {', '.join(recipe_names())}, or a TOML file"
    parser.add_argument("--weights", metavar="RECIPE", default="bf16", help=recipes)
    parser.add_argument("--kv", choices=["bf16", "fp8"], default="bf16")
    parser.add_argument("--kv-len", type=int, default=4096, metavar="N", help="rows that attention sees")
    parser.add_argument("--drafts", type=int, default=0, metavar="N", help="drafts verified beside the last token")
    parser.add_argument("--accept", type=float, metavar="N", help="tokens per step and request; default 1 + drafts")
    parser.add_argument(
        "--ring", type=int, metavar="N", help="rows of the replay ring; default 64 with drafts, else 0: none"
    )
    parser.add_argument("--ladder", action="store_true", help="project the rungs of the ladder instead")
    parser.add_argument("--write", action="store_true", help="with --ladder: write docs/roofline.md and its picture")
    arguments = parser.parse_args(argv)
    if arguments.write and not arguments.ladder:
        parser.error("--write goes with --ladder")
    if arguments.checkpoint and (arguments.config or arguments.weights != "bf16"):
        parser.error("--checkpoint has weights and a configuration of its own")
    return arguments


def step_parts(arguments: argparse.Namespace) -> tuple[ModelConfig, list[Part], str]:
    """The configuration, the tensors that a step reads, and what they are."""
    if arguments.checkpoint:
        config = ModelConfig.from_file(arguments.checkpoint / "config.json")
        return config, parts_of_checkpoint(arguments.checkpoint), f"of {arguments.checkpoint}"
    config = config_4b() if arguments.config is None else ModelConfig.from_file(arguments.config)
    return config, recipe_parts(config, arguments.weights), f"by the recipe {arguments.weights}"


def recipe_parts(config: ModelConfig, recipe: str | Path) -> list[Part]:
    """The tensors that a step of a model of this configuration reads."""
    with torch.device("meta"):
        network = Qwen35(config)
    return parts_of_plan(network, load_recipe(recipe).plan(linear_shapes(network)))


def weight_summary(parts: list[Part]) -> dict:
    """Bytes of all tensors, and how many there are of each role with their bytes."""
    roles = {role: [part.nbytes for part in parts if part.role == role] for role in ROLES}
    counted = {role: {"tensors": len(sizes), "bytes": sum(sizes)} for role, sizes in roles.items() if sizes}
    return {"bytes": step_bytes(parts), "tensors": len(parts), "roles": counted}


def floors(loads: list, device: Device) -> list[dict]:
    """A row per op: what all of its kind move and compute in a step, and how long that takes at least."""
    rows = []
    for load in loads:
        memory = load.bytes / device.bandwidth
        compute = load.operations / device.peaks[load.peak]
        row = asdict(load) | {"bytes": load.times * load.bytes, "operations": load.times * load.operations}
        row |= {"launches": load.times * load.launches, "seconds": load.times * max(memory, compute)}
        rows.append(row | {"bound": "memory" if memory >= compute else load.peak})
    total = sum(row["seconds"] for row in rows)
    return [row | {"share": row["seconds"] / total} for row in rows]


def summary(rows: list[dict], batch: int, accepted: float) -> dict:
    """The whole step. tokens_per_s is a bound: nothing but the floor of every op, and no drafter."""
    seconds = sum(row["seconds"] for row in rows)
    return {
        "bytes": sum(row["bytes"] for row in rows),
        "operations": sum(row["operations"] for row in rows),
        "launches": sum(row["launches"] for row in rows),
        "seconds": seconds,
        "tokens_per_s": batch * accepted / seconds,
        "tokens_per_s_per_request": accepted / seconds,
        "largest": max(rows, key=lambda row: row["seconds"])["name"],
    }


def print_table(device: Device, batch: int, rows: list[dict], total: dict) -> None:
    print(f"{device.name}, batch {batch}")
    print(f"{'op':<16} {'times':>5} {'launches':>8} {'MB':>9} {'GFLOP':>9} {'floor µs':>9} {'share':>6}  bound by")
    for row in rows:
        sizes = f"{row['bytes'] / 1e6:>9.2f} {row['operations'] / 1e9:>9.2f} {row['seconds'] * 1e6:>9.2f}"
        print(f"{row['name']:<16} {row['times']:>5} {row['launches']:>8} {sizes} {row['share']:>6.1%}  {row['bound']}")
    sizes = f"{total['bytes'] / 1e6:>9.2f} {total['operations'] / 1e9:>9.2f} {total['seconds'] * 1e6:>9.2f}"
    print(f"{'step':<16} {'':>5} {total['launches']:>8} {sizes}")
    print(
        f"at most {total['tokens_per_s']:,.0f} tokens/s, {total['tokens_per_s_per_request']:,.0f} per request; "
        f"largest: {total['largest']}. A microsecond per launch that nothing hides would add {total['launches']} µs.\n"
    )


def main(argv: list[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    try:
        if arguments.ladder:
            from roofline_report import report_ladder

            return report_ladder(arguments.device, arguments.batch, arguments.write)
        return report(arguments)
    except OcriaError as error:
        print(f"roofline: {error}", file=sys.stderr)
        return error.exit_code


def report(arguments: argparse.Namespace) -> int:
    from step_load import Step, step_loads, stored

    config, parts, which = step_parts(arguments)
    weights, summed = stored(parts), weight_summary(parts)
    rows = 1 + arguments.drafts
    accepted = float(rows) if arguments.accept is None else arguments.accept
    ring = (64 if arguments.drafts else 0) if arguments.ring is None else arguments.ring
    steps = [
        Step(batch, rows, accepted, arguments.kv_len, ring, 1 if arguments.kv == "fp8" else 2)
        for batch in arguments.batch
    ]
    counted = ", ".join(f"{role} {one['tensors']} tensors {one['bytes'] / 1e9:.6f} GB"
                        for role, one in summed["roles"].items())  # fmt: skip
    how = [
        f"Counted, not measured: {config.text.num_hidden_layers} layers, {rows} rows per request, {accepted:g} tokens "
        f"accepted per step, weights {which}, KV {arguments.kv} of {arguments.kv_len} rows, "
        f"{f'replay ring of {ring} rows' if ring else 'no replay ring: the state is read and written every step'}.",
        f"Weights that a step reads, whatever the batch: {summed['bytes'] / 1e9:.3f} GB in {summed['tensors']} tensors "
        f"({counted}); the rows of embeddings that are looked up are not among them.",
        "Each operand of an op crosses memory once (no reuse in the L2 cache between ops; partial results of split "
        "attention left out), residual adds are part of the norms, projections of one input are one product. "
        "No drafter, vision encoder or host.",
        *(f"{d.name}: {d.bandwidth / 1e12:g} TB/s, dense peaks in TFLOPS "
          f"{', '.join(f'{unit} {peak / 1e12:g}' for unit, peak in d.peaks.items())}. {d.source}."
          for d in (DEVICES[name] for name in arguments.device)),
    ]  # fmt: skip
    print("\n".join(how) + "\n")
    found = []
    for name in arguments.device:
        for step in steps:
            ops = floors(step_loads(config, step, weights), DEVICES[name])
            total = summary(ops, step.batch, step.accepted)
            print_table(DEVICES[name], step.batch, ops, total)
            found.append({"device": name, **asdict(step), "total": total, "ops": ops})
    print(json.dumps({"bench": "roofline", "method": how, "weights": summed, "steps": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
