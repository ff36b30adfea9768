"""The picture of `bench/spec.py`: what holds at each position of a block, and what that is worth."""

from __future__ import annotations

from pathlib import Path


def plot(document: dict, path: Path) -> None:
    """Draw a document of the bench into `path` (PNG or SVG by its name). Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    styles = {"scans": "-", "born digital": "--"}
    colours = {name: f"C{i}" for i, name in enumerate(dict.fromkeys(row["draft"] for row in document["acceptance"]))}
    for row in document["acceptance"]:
        if row["drafted"]:
            held = [100 * part / whole for part, whole in zip(row["accepted_at"], row["verified_at"], strict=True)]
            label = f"{row['draft']}, {row['lines']}: {row['accept_length']:.1f} rows a step"
            places = range(1, len(held) + 1)
            left.plot(places, held, styles[row["lines"]], color=colours[row["draft"]], label=label)
    left.set(xlabel="position in the block", ylabel="% of drafts verified there that held", ylim=(0, 101))
    left.legend(fontsize=7, loc="lower left")
    left.set_title("Drafts that held")

    batches = list(dict.fromkeys(row["batch"] for row in document["speeds"]))
    names = list(dict.fromkeys(row["draft"] for row in document["speeds"]))
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        rows = [row for row in document["speeds"] if row["draft"] == name]
        places = [batches.index(row["batch"]) + (i - (len(names) - 1) / 2) * width for row in rows]
        heights = [row["ratio"]["median"] for row in rows]
        ends = [[h - row["ratio"]["least"] for h, row in zip(heights, rows, strict=True)],
                [row["ratio"]["greatest"] - h for h, row in zip(heights, rows, strict=True)]]  # fmt: skip
        colour = colours.get(name, "0.6")
        right.bar(places, heights, width * 0.9, yerr=ends, error_kw={"lw": 0.8}, color=colour, label=name)
    right.axhline(1, color="0.3", lw=0.8)
    right.set_xticks(range(len(batches)), [f"batch {batch}" for batch in batches])
    right.set(ylabel="times as fast as without drafts")
    right.legend(fontsize=7)
    right.set_title("From line images to text")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
