"""One thing that was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """What was found, and what helps where something is amiss."""

    name: str
    status: str
    """`ok`; `warn`: something that may be wanted is not there; `fail`: ocria cannot do its work."""
    found: str
    cure: str | None = None
    engine: bool = False
    """Whether the engine cannot run where this fails."""
    details: tuple[str, ...] = ()
    """Lines with more, for people."""
    facts: dict[str, Any] = field(default_factory=dict)
    """The same for programs."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"name": self.name, "status": self.status, "found": self.found, "cure": self.cure, "facts": self.facts}


def as_text(checks: Sequence[Check]) -> str:
    """A line for each check, marks in front, and what helps below."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        mark = check.status.upper() if check.status == FAIL else check.status
        lines.append(f"{mark:<4}  {check.name:<{width}}  {check.found}")
        indent = " " * (width + 8)
        lines += [indent + line for line in check.details]
        if check.cure is not None:
            lines.append(f"{indent}-> {check.cure}")
    return "\n".join(lines)
