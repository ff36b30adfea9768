"""The ladder as a picture: a bar a rung, a panel for each batch size."""

from __future__ import annotations

from pathlib import Path

from .run import Climb
from .rungs import LADDER
from .table import rows_at

PEER, OURS, BESIDE = "#9aa5b1", "#2f6f9f", "#e0a458"


def plot(climb: Climb, path: Path) -> None:
    """Draw tokens a second of all rungs that have a speed, on a logarithmic axis, the spread as a thin line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = {
        batch: [(rung, row) for rung, row in rows_at(climb, batch) if row.tokens_per_s is not None]
        for batch in climb.batches
    }
    shown = {batch: rows for batch, rows in shown.items() if rows}
    titles = list(dict.fromkeys(rung.title for rows in shown.values() for rung, _ in rows))
    titles = [rung.title for rung in LADDER if rung.title in titles]
    place = {title: number for number, title in enumerate(titles)}
    figure, axes = pyplot.subplots(
        1, max(1, len(shown)), figsize=(3.2 + 3.6 * len(shown), 1.5 + 0.36 * len(titles)), sharey=True, squeeze=False
    )
    speeds = [row.tokens_per_s for rows in shown.values() for _, row in rows]
    for axis, (batch, rows) in zip(axes[0], shown.items(), strict=False):
        for rung, row in rows:
            speed, at = row.tokens_per_s, place[rung.title]
            colour = PEER if rung.peer else BESIDE if rung.beside else OURS
            axis.barh(at, speed.median, height=0.68, color=colour, zorder=2)
            axis.plot([speed.least, speed.greatest], [at, at], color="#1f2933", linewidth=1.1, zorder=3)
            times = "" if row.times is None or rung.peer else f"  {row.times.median:.1f}×"
            label = f"{speed.median:,.0f}" + (times if row.batch == batch else f"  (batch {row.batch})")
            axis.text(speed.greatest * 1.08, at, label, va="center", fontsize=8, zorder=4)
        axis.set_xscale("log")
        axis.set_xlim(min(s.least for s in speeds) / 2.5, max(s.greatest for s in speeds) * 6)
        axis.set_title(f"batch {batch}", fontsize=10, loc="left")
        axis.set_xlabel("output tokens a second", fontsize=9)
        axis.grid(axis="x", color="#e4e7eb", zorder=0)
        axis.tick_params(axis="both", labelsize=8.5, length=0)
        for side in ("top", "right", "left"):
            axis.spines[side].set_visible(False)
    axes[0][0].set_yticks(range(len(titles)), titles)
    axes[0][0].invert_yaxis()
    how = " (incomplete)" if climb.incomplete else ""
    figure.suptitle(
        f"{climb.subject}: what each rung brings{how}; × : times transformers at the same batch", fontsize=10.5, x=0.01,
        ha="left",
    )  # fmt: skip
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=colour) for colour in (PEER, OURS, BESIDE)]
    names = ["transformers", "ocria", "drafts given: beside the ladder"]
    figure.legend(handles, names, loc="lower right", ncols=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.04, 1, 0.99))
    figure.savefig(path, dpi=140)
    pyplot.close(figure)
