"""The variants as a picture."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from statistics import median

from ocria.benchmark.facts import Report
from ocria.errors import MissingDependencyError, OutputError


def need_matplotlib() -> None:
    """Raises MissingDependencyError where it is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MissingDependencyError("--plot needs the package matplotlib", cure="pip install matplotlib")


def plot(report: Report, path: Path) -> None:
    """Bars of pages a minute, with the spread of the turns, into a PNG file. Raises OutputError."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    measured = [speed for speed in report.speeds if speed.seconds]
    figure, axes = pyplot.subplots(figsize=(8, 1.2 + 0.35 * max(1, len(measured))), layout="constrained")
    for row, speed in enumerate(measured):
        middle, pace = median(speed.seconds), speed.pages_per_min or 0.0
        outside = 60 / pace - middle / speed.pages
        ends = [60 / (outside + seconds / speed.pages) for seconds in (max(speed.seconds), min(speed.seconds))]
        axes.barh(row, pace, color="tab:orange" if speed.base else "tab:blue",
                  xerr=[[max(0.0, pace - ends[0])], [max(0.0, ends[1] - pace)]], capsize=3)  # fmt: skip
    axes.set_yticks(range(len(measured)), [f"{speed.group} {speed.name}" for speed in measured])
    axes.invert_yaxis()
    axes.set(xlabel="pages a minute", title="" if report.model is None else report.model.name)
    try:
        figure.savefig(path, dpi=120, format="png")
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", path=path) from error
    finally:
        pyplot.close(figure)
