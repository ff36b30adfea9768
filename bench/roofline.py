"""How fast could one step of the 4B model be? Bytes, operations and floor time of every op of a step.

    python bench/roofline.py                                     plain decoding, bf16, B200 and H200, batch 1 to 32
    python bench/roofline.py --weights mix --drafts 15 --accept 12
    python bench/roofline.py --config folder/config.json --kv-len 8192 --kv fp8

The floor of an op is the longer of its bytes at the memory's speed and its operations at the unit's; a step is the
sum of its ops, as they run one after the other. Nothing is measured. The last line of standard output is one JSON
document.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from ocria.errors import OcriaError
from ocria.model.config import ModelConfig


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
        {"bf16": 2.25e15, "fp8": 4.5e15, "tf32": 1.1e15, "fp32": 75e12},
        "NVIDIA DGX B200 and HGX B200 data sheets: 64 TB/s and 72 PFLOPS of sparse FP8 for 8 GPUs; 75 TFLOPS FP32",
    ),
    "h200": Device(
        "H200",
        4.8e12,
        {"bf16": 989e12, "fp8": 1979e12, "tf32": 494e12, "fp32": 67e12},
        "NVIDIA H200 data sheet, SXM: 4.8 TB/s; sparse 1979 TFLOPS BF16 and 3958 FP8; 67 TFLOPS FP32",
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
    parser.add_argument("--device", nargs="+", choices=list(DEVICES), default=list(DEVICES))
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 12, 32])
    mixes = "mix: MLP in NVFP4, mixers in FP8, head in bf16; mix-head: the head in NVFP4 too"
    parser.add_argument("--weights", choices=["bf16", "fp8", "mix", "mix-head"], default="bf16", help=mixes)
    parser.add_argument("--kv", choices=["bf16", "fp8"], default="bf16")
    parser.add_argument("--kv-len", type=int, default=4096, metavar="N", help="rows that attention sees")
    parser.add_argument("--drafts", type=int, default=0, metavar="N", help="drafts verified beside the last token")
    parser.add_argument("--accept", type=float, metavar="N", help="tokens per step and request; default 1 + drafts")
    parser.add_argument(
        "--ring", type=int, metavar="N", help="rows of the replay ring; default 64 with drafts, else 0: none"
    )
    return parser.parse_args(argv)


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
    try:
        return report(parse_arguments(argv))
    except OcriaError as error:
        print(f"roofline: {error}", file=sys.stderr)
        return error.exit_code


def report(arguments: argparse.Namespace) -> int:
    from step_load import Step, step_loads

    config = config_4b() if arguments.config is None else ModelConfig.from_file(arguments.config)
    rows = 1 + arguments.drafts
    accepted = float(rows) if arguments.accept is None else arguments.accept
    ring = (64 if arguments.drafts else 0) if arguments.ring is None else arguments.ring
    steps = [
        Step(batch, rows, accepted, arguments.kv_len, ring, arguments.weights, 1 if arguments.kv == "fp8" else 2)
        for batch in arguments.batch
    ]
    how = [
        f"Counted, not measured: {config.text.num_hidden_layers} layers, {rows} rows per request, {accepted:g} tokens "
        f"accepted per step, weights {arguments.weights}, KV {arguments.kv} of {arguments.kv_len} rows, "
        f"{f'replay ring of {ring} rows' if ring else 'no replay ring: the state is read and written every step'}.",
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
            ops = floors(step_loads(config, step), DEVICES[name])
            total = summary(ops, step.batch, step.accepted)
            print_table(DEVICES[name], step.batch, ops, total)
            found.append({"device": name, **asdict(step), "total": total, "ops": ops})
    print(json.dumps({"bench": "roofline", "method": how, "steps": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
