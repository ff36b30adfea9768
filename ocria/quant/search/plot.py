"""The frontier as a picture."""

from pathlib import Path

from ocria.quant.search.report import SearchReport


def has_matplotlib() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def plot(report: SearchReport, path: Path) -> None:
    """Draw the recipes that were measured, and the groups alone, into a PNG file. Needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    measured = sorted((p for p in report.points if p.loss.kl > 0), key=lambda p: p.nbytes)  # the axis has no zero
    searched = [p for p in measured if p.predicted]
    left.plot([p.nbytes / 1e6 for p in searched], [p.loss.kl for p in searched], "o-", label="searched")
    left.plot([p.nbytes / 1e6 for p in searched], [p.predicted for p in searched], ":", color="0.5",
              label="sum of the groups alone")  # fmt: skip
    for point in measured:
        if point.predicted is None:
            left.plot(point.nbytes / 1e6, point.loss.kl, "s", label=point.recipe.name)
    chosen = report.chosen
    if chosen.loss.kl > 0:
        left.plot(chosen.nbytes / 1e6, chosen.loss.kl, "*", color="k", ms=14, label="chosen")
    if report.bound.measure == "kl":
        left.axhline(report.bound.limit, color="0.3", lw=0.8)
    left.set(xlabel="MB of weights a decode step reads", ylabel="KL divergence, nats a token", yscale="log")
    left.legend(fontsize=7)
    left.set_title("Recipes as a whole")

    formats = list(dict.fromkeys(one.format.name for one in report.sensitivities))
    names = list(dict.fromkeys(str(one.group) for one in report.sensitivities))
    for i, name in enumerate(formats):
        rows = {str(one.group): one.loss.kl for one in report.sensitivities if one.format.name == name}
        places = [names.index(group) + (i - (len(formats) - 1) / 2) * 0.8 / len(formats) for group in rows]
        right.barh(places, list(rows.values()), 0.8 / len(formats), label=name)
    right.set_yticks(range(len(names)), names, fontsize=max(3, min(8, 280 // max(1, len(names)))))
    right.invert_yaxis()
    right.set(xlabel="KL divergence with this group alone, nats a token")
    right.legend(fontsize=7)
    right.set_title("Groups")
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
