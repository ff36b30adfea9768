"""This run beside an earlier one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ocria.benchmark.facts import VERSION
from ocria.benchmark.report import table
from ocria.errors import InputError


def load_run(path: str) -> dict[str, Any]:
    """What `--save` wrote. Raises InputError for a file that is missing, or is something else."""
    cure = "Give a file that `ocria bench --save` wrote."
    try:
        told = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path, cure=cure) from error
    except ValueError as error:
        raise InputError("is no JSON", path=path, cure=cure) from error
    if not isinstance(told, dict) or told.get("bench") != "ocria bench":
        raise InputError("holds no run of ocria bench", path=path, cure=cure)
    if told.get("version") != VERSION:
        raise InputError(f"was written by another version of ocria ({told.get('ocria')})", path=path, cure=cure)
    return told


def as_text(earlier: dict[str, Any], now: dict[str, Any]) -> str:
    """Two columns of what both measured, and how many times as fast this run is."""
    rows = [("", "earlier", "now", "times")]
    rows.append(("machine", _machine(earlier), _machine(now), ""))
    rows.append(("model", _model(earlier), _model(now), ""))
    rows.append(("ocria", earlier["ocria"], now["ocria"], ""))
    mine = _figures(now)
    for name, before in _figures(earlier).items():
        if name in mine and before and mine[name]:
            rows.append((name, _told(before), _told(mine[name]), f"{mine[name] / before:.2f}x"))
    lines = table(rows)
    if earlier["source"] != now["source"]:
        lines.append("  the pages are not the same: the figures are not alike")
    return "Beside the earlier run (higher is better)\n" + "\n".join(lines)


def _figures(told: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    if told["limits"] is not None:
        found["memory, GB/s"] = told["limits"]["bytes_per_s"] / 1e9
        found["products, GFLOP/s"] = told["limits"]["flops_per_s"] / 1e9
    if told["page"] is not None:
        found["pages/min as it is"] = told["page"]["pages_per_min"]
    for speed in told["speeds"]:
        if speed["pages_per_min"] is not None:
            found[f"pages/min with {speed['group']} {speed['name']}"] = speed["pages_per_min"]
    return found


def _machine(told: dict[str, Any]) -> str:
    machine = told["machine"]
    return "-" if machine is None else f"{machine['name']} ({machine['gpu'] or machine['cpu']})"


def _model(told: dict[str, Any]) -> str:
    model = told["model"]
    return "-" if model is None else f"{model['name']}, {model['device']}, {model['dtype']}"


def _told(value: float) -> str:
    return f"{value:.1f}" if value < 1000 else f"{value:.0f}"
