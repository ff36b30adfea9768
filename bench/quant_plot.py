"""The picture of `bench/quant.py`: what recipes lose, by the bytes that a step reads."""

from __future__ import annotations

from pathlib import Path


def plot(document: dict, path: Path) -> None:
    """Draw a document of the bench into `path` (PNG or SVG by its name). Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained", sharex=True)
    plain = document["rows"][0]["full"]["scores"]["all"]["cer"]
    for number, row in enumerate(document["rows"]):
        for inputs, marker in (("full", "o"), ("quantised", "x")):
            if inputs not in row:
                continue
            at, found = row["bytes"] / 1e6, row[inputs]
            label = row["recipe"] if inputs == "full" else None
            colour = f"C{number % 10}"
            if found["kl"] > 0:
                left.plot(at, found["kl"], marker, color=colour, label=label)
            if plain is not None:
                points = 100 * (found["scores"]["all"]["cer"] - plain)
                right.plot(at, points, marker, color=colour, label=label)
    left.set(yscale="log", xlabel="MB of weights a step reads", ylabel="KL divergence, nats a token")
    right.axhline(0.1, color="0.5", lw=0.8, ls=":")
    right.axhline(0, color="0.3", lw=0.8)
    right.set(xlabel="MB of weights a step reads", ylabel="points of CER more than plain")
    left.set_title("Distributions (x: inputs quantised too)")
    right.set_title("Errors")
    right.legend(fontsize=6)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
