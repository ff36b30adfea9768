"""The projected ladder for people: what was assumed, tables, the gap to the original and to the limit, a picture."""

from __future__ import annotations

import json
from pathlib import Path

import roofline_ladder as ladder
from roofline import DEVICES
from roofline_ladder import BY_KEY, MIX, ORIGINAL, RUNGS, Assumptions, Projected

from ocria.errors import OutputError

DOCS = Path(__file__).resolve().parents[1] / "docs"
BEGIN, END = "<!-- begin: written by python bench/roofline.py --ladder --write -->", "<!-- end -->"
REASONS = {
    "bandwidth": "of the data sheet's bytes a second, reached by kernels that stream weights",
    "arithmetic": "of the dense peak, in products of few rows",
    "least_kernel": "least time of a kernel",
    "gap": "between two kernels of a graph",
    "launch": "host, for each kernel launched without a graph",
    "launch_transformers": "the same in transformers",
    "launch_compiled": "the same in code that Inductor wrote",
    "compiled_kernels": "kernels that Inductor leaves of those of the torch forms",
    "host": "host around a step",
    "host_request": "the same, for each request",
    "kv_len": "rows that attention sees",
    "accept_dflash": "accept length with DFlash, as the original publishes it",
    "accept_dflash2": "accept length with DFlash2, likewise",
    "accept_lookup": "accept length of look-up, by ocria-nano on lines with a text layer",
}


def shown(name: str, value: float) -> str:
    """An assumption with its unit."""
    if name in ("bandwidth", "arithmetic", "compiled_kernels"):
        return f"{100 * value:.0f} %"
    return f"{value:g}" if name.startswith("accept") or name == "kv_len" else f"{1e6 * value:g} µs"


def method(devices: list[str], a: Assumptions) -> list[str]:
    """What the numbers are."""
    counted = ladder.launches()
    sheets = [f"{DEVICES[name].name}: {DEVICES[name].source}." for name in devices]
    return [
        "Projected, not measured: no GPU took part. Bytes are those of tensors and operations those of the ops "
        "(`bench/step_load.py`), for Qwen3.5-4B and drafters of published shapes; kernels are those of a step that was "
        "run and counted on a CPU (`bench/launches.py`: transformers "
        f"{counted['transformers']}, torch forms {counted['torch']['none']}, ours {counted['kernels']['none']}, with "
        f"DFlash {counted['kernels']['dflash']}, with DFlash2 {counted['kernels']['dflash2']}), for the mix with "
        f"{ladder.quantised_kernels()} more by hand, as a CPU decodes its weights.",
        "A kernel takes the longest of its bytes, its operations and the least time; kernels run one after the other. "
        "Without graphs a step takes the longer of that and of the host's launches, and the host's work around it; "
        "with graphs and overlap the longer of the two. Decoding alone: no encoder, no prompts, every slot busy.",
        "Torch forms are what the engine would run without its kernels; on a GPU it never does. Steps with a network "
        "have 16 rows, with look-up 32. The network is in the formats of the like layers of the model, and reads its "
        f"head once more. Mix: {MIX}.",
        *sheets,
    ]  # fmt: skip


def assumed(a: Assumptions) -> list[str]:
    """A table of all assumptions."""
    rows = [f"| `{name}` | {shown(name, value)} | {REASONS[name]} |" for name, value in ladder.stated(a).items()]
    return ["| assumption | value | what |", "|---|---|---|", *rows]


def tables(found: list[Projected], device: str, batches: list[int]) -> list[str]:
    """Tokens a second of a user and of all, and what the step of each rung is like at the middle batch."""
    name = DEVICES[device].name
    of = {(one.rung, batch): one for batch in batches for one in found_at(found, name, batch)}
    lines = [
        f"### {name}", "", "Tokens a second of one user, and in brackets of all:", "",
        "| rung | " + " | ".join(f"batch {batch}" for batch in batches) + " |", "|---|" + "---|" * len(batches),
    ]  # fmt: skip
    for rung in RUNGS:
        cells = [f"{of[rung.key, b].per_user:,.0f} ({of[rung.key, b].total:,.0f})" for b in batches]
        lines.append(f"| {rung.title} | " + " | ".join(cells) + " |")
    middle = 8 if 8 in batches else batches[0]
    lines += ["", f"One step at batch {middle}:", "",
              "| rung | rows | accepted | GB | GFLOP | kernels | floor ms | device ms | host ms | step ms | limit |",
              "|---|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for rung in RUNGS:
        one = of[rung.key, middle]
        lines.append(
            f"| {rung.title} | {one.batch} x {ladder.ROWS[rung.draft]} | {one.accepted:g} | {one.bytes / 1e9:.2f} | "
            f"{one.operations / 1e9:,.0f} | {one.kernels} | {1e3 * one.floor:.2f} | {1e3 * one.device_seconds:.2f} | "
            f"{1e3 * one.host_seconds:.2f} | {1e3 * one.seconds:.2f} | {one.limited} |"
        )
    return [*lines, ""]


def found_at(found: list[Projected], device: str, batch: int) -> list[Projected]:
    """Those of a device at a batch, in the order of the rungs: rungs of one request are in each."""
    position = [one for one in found if one.device == device]
    per_batch = len(RUNGS)
    blocks = [position[i : i + per_batch] for i in range(0, len(position), per_batch)]
    return next(block for block in blocks if max(one.batch for one in block) == batch)


def gap(found: list[Projected], device: str, batches: list[int], a: Assumptions) -> list[str]:
    """To the original, and to the limit."""
    name = DEVICES[device].name
    lines = []
    for batch in batches:
        by_rung = {one.rung: one for one in found_at(found, name, batch)}
        top, first = by_rung["graphs"], by_rung["transformers"]
        lines.append(
            f"- batch {batch}: {first.per_user:,.0f} → {top.per_user:,.0f} tokens/s of one user "
            f"({top.per_user / first.per_user:.0f} times), {top.total:,.0f} of all; of a step's "
            f"{1e3 * top.seconds:.2f} ms {100 * top.floor / top.seconds:.0f} % are bytes and arithmetic at the data "
            f"sheet's speed, the rest is what is assumed above."
        )
    counted = ladder.launches()["kernels"]
    own = counted["dflash2"] - counted["none"]
    lines.append(
        f"- What holds it is the number of kernels: {own} of the {top.kernels} of a step with DFlash2 are the "
        f"drafter's, which has no kernels of its own yet. Without them a step at batch {batches[-1]} would take "
        f"{1e3 * own * (a.least_kernel + a.gap):.1f} ms less at most."
    )
    bounds = [ladder.limit(DEVICES[device], accepted) for accepted in (a.accept_dflash, a.accept_dflash2)]
    best = {one.rung: one for one in found_at(found, name, batches[0])}["graphs"].per_user
    lines.append(
        "- The limit: the weights of the mix `nvfp4-mlp+fp8`, read once a step and nothing else, allow "
        f"{bounds[0]:,.0f} tokens/s of one user at an accept length of {a.accept_dflash:g} and {bounds[1]:,.0f} at "
        f"{a.accept_dflash2:g}; the top rung is at {100 * best / bounds[1]:.0f} % of the latter at batch {batches[0]}."
    )
    if device == "b200":
        mid = [one for batch in batches if batch in (8, 12) for one in found_at(found, name, batch)]
        tops = [one.per_user for one in mid if one.rung == "graphs"]
        if tops:
            lines.append(
                f"- The original, measured on a B200: {ORIGINAL['start']:g} → {ORIGINAL['end']:,.0f} tokens/s, and at "
                f"batch 8 to 12 of one user about {ORIGINAL['user_start']:g} → more than {ORIGINAL['user_end']:,.0f}. "
                f"Projected there: {min(tops):,.0f} to {max(tops):,.0f} of one user. The original's numbers hold the "
                "encoder, prompts, queues and slots that stand empty; these do not, so that they are no claim to be "
                "faster."
            )
    return lines


def carried(device: str, batch: int) -> list[str]:
    """What each assumption carries."""
    base = ladder.stated(Assumptions())
    lines = [
        f"### What carries most ({DEVICES[device].name}, batch {batch}, {BY_KEY['graphs'].title})", "",
        "| assumption | value | from | to | times as fast | |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, one, other in ladder.sensitivity(device, batch):
        ends = [shown(name, value) for value in ladder.VARIED[name]]
        lines.append(f"| `{name}` | {shown(name, base[name])} | {ends[0]} | {ends[1]} | {one:.2f} | {other:.2f} |")
    return [*lines, ""]


def report_ladder(devices: list[str], batches: list[int], write: bool) -> int:
    """Print, and with `write` put it into docs/roofline.md between its markers, with the picture."""
    a = Assumptions()
    found = ladder.climb(devices, batches, a)
    how = method(devices, a)
    middle = 8 if 8 in batches else batches[0]
    lines = [*(f"{line}\n" for line in how), *assumed(a), ""]
    for device in devices:
        lines += [*tables(found, device, batches), *gap(found, device, batches, a), ""]
    lines += carried(devices[0], middle)
    print("\n".join(lines))
    if write:
        picture(found, devices, batches, DOCS / "roofline.png")
        put(lines)
    carries = {device: ladder.sensitivity(device, middle) for device in devices}
    print(json.dumps({
        "bench": "roofline ladder", "method": how, "assumptions": ladder.stated(a), "original": ORIGINAL,
        "limit": {device: ladder.limit(DEVICES[device], a.accept_dflash2) for device in devices},
        "rungs": ladder.document(found, a), "sensitivity": carries,
    }))  # fmt: skip
    return 0


def put(lines: list[str], folder: Path = DOCS) -> None:
    """Between the markers of roofline.md; raises OutputError where there are none."""
    page = folder / "roofline.md"
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise OutputError("no place for the tables", path=page, cure=f"The page needs the lines {BEGIN} and {END}.")
    inside = ["", "![Projected tokens a second of one user on every rung](roofline.png)", "", *lines]
    page.write_text(before + begin + "\n".join(inside) + "\n" + end + after, encoding="utf-8")


def picture(found: list[Projected], devices: list[str], batches: list[int], path: Path) -> None:
    """Tokens a second of one user by rung, a panel for each device, a line for each batch. Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(devices), figsize=(6.2 * len(devices), 5.4), sharey=True, squeeze=False)
    titles = [rung.title for rung in RUNGS]
    for axis, device in zip(axes[0], devices, strict=True):
        for batch in batches:
            rows = found_at(found, DEVICES[device].name, batch)
            axis.plot([one.per_user for one in rows], marker="o", label=f"batch {batch}")
        bound = ladder.limit(DEVICES[device], Assumptions().accept_dflash2)
        axis.axhline(bound, color="grey", linestyle=":", label="limit: the weights of the mix")
        if device == "b200":
            axis.axhspan(ORIGINAL["user_end"], ORIGINAL["end"], color="orange", alpha=0.25,
                         label="the original's end, measured")  # fmt: skip
        axis.set_xticks(range(len(titles)), titles, rotation=38, ha="right", fontsize=8)
        axis.set_yscale("log")
        axis.set_title(f"{DEVICES[device].name}, projected")
        axis.grid(alpha=0.3, which="both")
        axis.legend(fontsize=8, loc="upper left")
    axes[0][0].set_ylabel("tokens a second of one user")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
