"""The ladder as arithmetic: how many tokens a second would each rung give on a B200 and an H200?

`python bench/roofline.py --ladder`. Nothing is measured here on a GPU. Bytes and operations are those of
`bench/step_load.py`, kernels those that `bench/launches.py` counted, accept lengths those of the original; what turns
them into seconds stands in `Assumptions`, each with its reason, and `sensitivity` says how much each carries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from ladder.shapes import LARGE
from launches import FILE
from roofline import DEVICES, Device, config_4b, recipe_parts
from step_load import HEAD, Load, Step, Weights, step_loads, stored

from ocria.quant.recipe import load_recipe
from ocria.spec.config import DrafterConfig

BATCHES = (1, 8, 12, 32)
MIX = "nvfp4-mlp+fp8+head"
ORIGINAL = {"start": 285.0, "end": 2800.0, "user_start": 200.0, "user_end": 1400.0}
"""Tokens a second that the original publishes, on one B200: overall, and of one user at batch 8 to 12."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What nobody has measured here. Seconds where nothing else is said."""

    bandwidth: float = 0.80
    """Of the data sheet's bytes a second: what kernels that stream weights reach; copies of large tensors reach 0.9."""
    arithmetic: float = 0.60
    """Of the dense peak, in products of few rows."""
    least_kernel: float = 2.0e-6
    """A kernel takes at least this long, however little it does: its start, one trip to memory, its end."""
    gap: float = 0.8e-6
    """Between two kernels of a CUDA graph."""
    launch: float = 5.0e-6
    """Of the host for each kernel without a graph: torch's dispatcher, or Triton's launcher."""
    launch_transformers: float = 8.0e-6
    """The same in transformers, whose modules and checks are in Python around every few operations."""
    launch_compiled: float = 2.5e-6
    """The same in code that Inductor wrote."""
    compiled_kernels: float = 0.35
    """Kernels that Inductor leaves of those of the torch forms: it joins element-wise operations."""
    host: float = 0.4e-3
    """Of the host around a step: scheduler, records, text."""
    host_request: float = 10e-6
    """The same for each request in it."""
    kv_len: int = 2300
    """Rows that attention sees: 1700 of an image, the prompt, half of an answer of 1000."""
    accept_dflash: float = 9.0
    """Published by the original for its own documents; random weights or another model say nothing of it."""
    accept_dflash2: float = 12.0
    """Likewise, "over 12"."""
    accept_lookup: float = 13.9
    """Lines of PDFs with a text layer, by ocria-nano in windows of 32 rows (docs/speculation.md)."""


@dataclass(frozen=True, slots=True)
class Rung:
    """draft: none, lookup, dflash or dflash2. form: whose kernels: `transformers`, `torch` or `kernels`. batched: at
    the batch, else one request at a time. snapshots: the state is written after each token of a window."""

    key: str
    title: str
    form: str
    draft: str = "none"
    recipe: str = "bf16"
    compiled: bool = False
    graph: bool = False
    batched: bool = True
    snapshots: bool = False


RUNGS = (
    Rung("transformers", "transformers, eager", "transformers"),
    Rung("plain", "ocria plain, torch forms, one request", "torch", batched=False),
    Rung("compiled", "+ compiled step", "torch", compiled=True, batched=False),
    Rung("batching", "+ batching", "torch", compiled=True),
    Rung("snapshots", "+ DFlash, a snapshot per token", "torch", "dflash", compiled=True, snapshots=True),
    Rung("dflash", "+ ReplaySSM", "torch", "dflash", compiled=True),
    Rung("dflash2", "+ DFlash2", "torch", "dflash2", compiled=True),
    Rung("mix", "+ quantised mix", "torch", "dflash2", MIX, compiled=True),
    Rung("fused", "+ fused ops", "kernels", "dflash2", MIX, compiled=True),
    Rung("graphs", "+ graphs and overlap", "kernels", "dflash2", MIX, graph=True),
    Rung("lookup", "the same, lookup alone (PDFs with text)", "kernels", "lookup", MIX, graph=True),
)
BY_KEY = {rung.key: rung for rung in RUNGS}
ROWS = {"none": 1, "dflash": 16, "dflash2": 16, "lookup": 32}


@dataclass(frozen=True, slots=True)
class Projected:
    """Of one step, in seconds: floor: bytes and operations alone at the data sheet; device: kernels one after the
    other; host: of the host where it has to wait for nothing. limited: by what the step is."""

    rung: str
    device: str
    batch: int
    accepted: float
    bytes: float
    operations: float
    kernels: int
    floor: float
    device_seconds: float
    host_seconds: float
    seconds: float
    limited: str

    @property
    def per_user(self) -> float:
        """Tokens a second of one request."""
        return self.accepted / self.seconds

    @property
    def total(self) -> float:
        """Of all requests."""
        return self.batch * self.per_user


def launches() -> dict:
    """As counted by `bench/launches.py`."""
    return json.loads(Path(FILE).read_text(encoding="utf-8"))


def accepted_of(rung: Rung, a: Assumptions) -> float:
    """Tokens that a step gives a request."""
    return {"none": 1.0, "dflash": a.accept_dflash, "dflash2": a.accept_dflash2, "lookup": a.accept_lookup}[rung.draft]


def drafter_loads(config: DrafterConfig, step: Step, recipe: str, head: tuple[float, str]) -> list[Load]:
    """What the network moves and computes in a step: its block, the context of the rows before, the head of the target
    once more. head: bytes and unit of that. Layers are quantised as the like ones of the target are."""
    rows, e = step.batch * step.rows, 2
    chosen = load_recipe(recipe)
    q, kv = config.num_attention_heads * config.head_dim, 2 * config.num_key_value_heads * config.head_dim
    h, inner = config.hidden_size, config.intermediate_size

    def product(name: str, times: int, inputs: int, outputs: int, like: str | None) -> Load:
        kind = "bf16" if like is None else chosen.format_of(f"model.language_model.layers.0.{like}").kind
        bits = {"bf16": 16.0, "fp8": 8.0, "nvfp4": 4.5}[kind]
        unit = {"bf16": "bf16", "fp8": "fp8", "nvfp4": "bf16"}[kind]
        moved = inputs * outputs * bits / 8 + rows * (inputs + outputs) * e
        return Load(name, times, 1, moved, 2.0 * rows * inputs * outputs, unit)

    layers = config.num_hidden_layers
    seen = [step.kv_len if rule.window is None else min(step.kv_len, rule.window) for rule in config.layers]
    context = sum(step.batch * length * kv * e for length in seen)
    found = [
        product("drafter fc", 1, config.feature_size, h, None),
        product("drafter context", 1, h, layers * kv, "self_attn.k_proj"),
        product("drafter qkv", layers, h, q + kv, "self_attn.q_proj"),
        Load("drafter attention", 1, 1, context, 4.0 * rows * sum(seen) * q, "bf16"),
        product("drafter o", layers, q, h, "self_attn.o_proj"),
        product("drafter gate, up", layers, h, 2 * inner, "mlp.gate_proj"),
        product("drafter down", layers, inner, h, "mlp.down_proj"),
        Load("drafter head", 1, 1, head[0] + rows * config.vocab_size * e, 2.0 * rows * h * config.vocab_size, head[1]),
        Load("drafter choice", 1, 1, rows * config.vocab_size * e, 3.0 * rows * config.vocab_size),
    ]
    if config.version == 2:
        taps = 4 * config.conv_kernel_size * h // config.conv_group_size
        found.append(product("drafter convolutions", layers, h, taps, None))
        rank, k = config.selector_rank, config.selector_top_k
        found.append(Load("drafter selector", 1, 1, rows * 2 * k * rank * e, 2.0 * rows * k * k * rank, "bf16"))
    return found


def loads_of(rung: Rung, batch: int, weights: Weights, a: Assumptions) -> tuple[Step, list[Load]]:
    """The step of a rung and all that it moves and computes."""
    rows, accepted = ROWS[rung.draft], accepted_of(rung, a)
    step = Step(batch, rows, accepted, a.kv_len, 0 if rows == 1 else 64 if rows == 16 else 128)
    loads = step_loads(config_4b(), step, weights)
    if rung.snapshots:
        # A state is read, and one written for each row; nothing is replayed.
        (one,) = [load for load in step_loads(config_4b(), Step(batch, kv_len=a.kv_len), weights)
                  if load.name == "replay"]  # fmt: skip
        state = batch * state_bytes()
        moved = rows * (one.bytes - 2 * state) + (1 + rows) * state
        kept = replace(one, bytes=moved, operations=rows * one.operations)
        loads = [kept if load.name == "replay" else load for load in loads]
    if rung.draft in LARGE.drafters:
        config = DrafterConfig.from_dict(LARGE.drafters[rung.draft])
        head = weights[HEAD]
        loads += drafter_loads(config, step, rung.recipe, (head.bytes, head.unit))
    return step, loads


def state_bytes() -> int:
    """Of the state of one request in one layer, in fp32."""
    text = config_4b().text
    return 4 * text.linear_num_value_heads * text.linear_key_head_dim * text.linear_value_head_dim


def kernels_of(rung: Rung, counted: dict, a: Assumptions) -> int:
    """Kernels that a step launches."""
    if rung.form == "transformers":
        return counted["transformers"]
    kernels = counted[rung.form][rung.draft]
    if rung.form == "kernels" and rung.recipe != "bf16":
        kernels += quantised_kernels()
    return round(kernels * (a.compiled_kernels if rung.compiled and rung.form == "torch" else 1.0))


def quantised_kernels() -> int:
    """What quantised products launch beyond plain ones: the sum of the parts of K, the projections of a Gated DeltaNet
    that stay high, and the quantiser behind the output of attention, which no other kernel makes."""
    kinds = config_4b().text.layer_types
    deltanet, attention = (kinds.count(f"{kind}_attention") for kind in ("linear", "full"))
    products = 2 * deltanet + 2 * attention + 2 * len(kinds) + 1
    return products + deltanet + attention


def project(
    rung: Rung, device: Device, batch: int, weights: Weights, counted: dict, a: Assumptions
) -> Projected:
    """One step of a rung."""
    batch = batch if rung.batched else 1
    _, loads = loads_of(rung, batch, weights, a)
    kernels = kernels_of(rung, counted, a)
    floor = busy = 0.0
    for load in loads:
        memory, work = load.bytes / device.bandwidth, load.operations / device.peaks[load.peak]
        floor += load.times * max(memory, work)
        busy += load.times * max(memory / a.bandwidth, work / a.arithmetic, a.least_kernel)
    # Kernels that the counted ops do not name are small: each takes the least.
    named = sum(load.times for load in loads)
    busy += max(0, kernels - named) * a.least_kernel + kernels * a.gap
    around = a.host + batch * a.host_request
    each = a.launch_transformers if rung.form == "transformers" else a.launch_compiled if rung.compiled else a.launch
    if rung.graph:
        host, seconds = around, max(busy, around)  # the host is one step ahead
    else:
        launching = kernels * each
        host, seconds = around + launching, max(busy, launching) + around
    limited = "host" if host > busy else "device"
    return Projected(
        rung.key, device.name, batch, accepted_of(rung, a), sum(load.times * load.bytes for load in loads),
        sum(load.times * load.operations for load in loads), kernels, floor, busy, host, seconds, limited,
    )  # fmt: skip


def weights_of(recipes: Iterable[str]) -> dict[str, Weights]:
    """By recipe."""
    return {recipe: stored(recipe_parts(config_4b(), recipe)) for recipe in recipes}


def climb(
    devices: Iterable[str], batches: Iterable[int], a: Assumptions | None = None, counted: dict | None = None
) -> list[Projected]:
    """All rungs on all devices at all batch sizes."""
    a, counted = a or Assumptions(), counted or launches()
    weights = weights_of({rung.recipe for rung in RUNGS})
    batches = list(batches)
    return [
        project(rung, DEVICES[name], batch, weights[rung.recipe], counted, a)
        for name in devices for batch in batches for rung in RUNGS
    ]  # fmt: skip


def limit(device: Device, accepted: float) -> float:
    """Tokens a second of one request that the weights of the mix `nvfp4-mlp+fp8` alone allow at this accept length: the
    bytes of a step at the data sheet's bandwidth, no drafter, nothing else."""
    parts = recipe_parts(config_4b(), "nvfp4-mlp+fp8")
    return accepted * device.bandwidth / sum(part.nbytes for part in parts)


VARIED = {
    "bandwidth": (0.65, 0.9), "arithmetic": (0.4, 0.75), "least_kernel": (1.2e-6, 3.5e-6), "gap": (0.4e-6, 1.5e-6),
    "launch": (3e-6, 10e-6), "host": (0.2e-3, 1.0e-3), "host_request": (4e-6, 30e-6), "kv_len": (1200, 4500),
    "accept_dflash2": (6.0, 14.0),
}  # fmt: skip
"""From the better to the worse end of what is plausible, or the other way round."""


def sensitivity(
    device: str, batch: int, key: str = "graphs", counted: dict | None = None
) -> list[tuple[str, float, float]]:
    """How many times as fast as with `Assumptions` the rung is at either end of each of `VARIED`, what carries most
    first."""
    counted = counted or launches()
    rung = BY_KEY[key]
    weights = weights_of([rung.recipe])[rung.recipe]

    def speed(a: Assumptions) -> float:
        return project(rung, DEVICES[device], batch, weights, counted, a).per_user

    base = speed(Assumptions())
    found = [
        (name, *(speed(replace(Assumptions(), **{name: value})) / base for value in ends))
        for name, ends in VARIED.items()
    ]
    return sorted(found, key=lambda row: -abs(row[1] - row[2]))


def stated(a: Assumptions) -> dict[str, float]:
    """Every assumption by name."""
    return {field.name: getattr(a, field.name) for field in fields(a)}


def document(found: list[Projected], a: Assumptions) -> list[dict]:
    """Plain data."""
    return [asdict(one) | {"tokens_per_s": one.total, "per_user": one.per_user} for one in found]
