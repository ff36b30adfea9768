"""What quantising did: module by module, as data and as a table."""

from dataclasses import asdict, dataclass, field
from typing import Any

from ocria.quant.calibration.awq import Choice
from ocria.quant.recipe import Recipe, pattern_of


@dataclass(frozen=True, slots=True)
class ModuleReport:
    """One weight. error: the root of the squared error over that of the squares, as the input meets it. output_error:
    likewise of what it computes from rows of calibration pages; None without pages."""

    name: str
    format: str
    shape: tuple[int, int]
    bytes_before: int
    bytes_after: int
    error: float
    output_error: float | None = None

    @property
    def bits(self) -> float:
        """Per weight, scales included."""
        return 8 * self.bytes_after / (self.shape[0] * self.shape[1])


@dataclass(slots=True)
class QuantizeReport:
    """A checkpoint. modules: those that were quantised. tokens: rows of calibration, 0 without pages. choices: what
    scaling chose. kv: of attention modules, the scales of cached keys and values. drafters: by folder. bytes: of all
    tensors of the model in the files, without drafters."""

    recipe: Recipe
    samples: int = 0
    tokens: int = 0
    modules: list[ModuleReport] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    kv: dict[str, tuple[float, float]] = field(default_factory=dict)
    drafters: dict[str, list[ModuleReport]] = field(default_factory=dict)
    bytes_before: int = 0
    bytes_after: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        found = asdict(self)
        found["recipe"] = {"name": self.recipe.name, "toml": self.recipe.to_toml()}
        return found

    def as_text(self) -> str:
        """A row for each kind of module: the format, bytes, and errors, the mean and the largest."""
        rows = [("modules", "", "format", "bits", "bytes before", "after", "error", "worst", "of outputs", "worst")]
        rows += _rows(self.modules)
        for name, modules in self.drafters.items():
            rows += [(f"{name}/{head}", *rest) for head, *rest in _rows(modules)]
        lines = table(rows, left={0, 2})
        pages = f"{self.samples} samples, {self.tokens} tokens" if self.samples else "none"
        lines += ["", f"recipe {self.recipe.name}; calibration: {pages}"]
        if self.choices:
            scaled = [choice for choice in self.choices if choice.form != "none"]
            lines.append(f"scaling: {len(scaled)} of {len(self.choices)} groups got factors")
        if self.kv:
            lines.append(f"scales of keys and values: {len(self.kv)} layers")
        lines.append(f"whole model: {told(self.bytes_before)} before, {told(self.bytes_after)} after")
        return "\n".join(lines)


def told(count: int) -> str:
    """Bytes for people, powers of 1000: `8.40 GB`."""
    for size, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def table(rows: list[tuple[str, ...]], left: set[int]) -> list[str]:
    """Rows with aligned columns; those in `left` begin at one place, the others end at one."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(f"{c:<{w}}" if i in left else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=True)))
        .rstrip()
        for row in rows
    ]  # fmt: skip


def _rows(modules: list[ModuleReport]) -> list[tuple[str, ...]]:
    """One row for the modules of one kind and format."""
    kinds: dict[tuple[str, str], list[ModuleReport]] = {}
    for module in modules:
        kinds.setdefault((pattern_of(module.name), module.format), []).append(module)
    rows = []
    for (pattern, format), alike in kinds.items():
        errors = [module.error for module in alike]
        outputs = [module.output_error for module in alike if module.output_error is not None]
        after = sum(module.bytes_after for module in alike)
        weights = sum(module.shape[0] * module.shape[1] for module in alike)
        rows.append((
            pattern, f"{len(alike)}x", format, f"{8 * after / weights:.2f}",
            told(sum(module.bytes_before for module in alike)), told(after),
            *_shares(errors), *_shares(outputs),
        ))  # fmt: skip
    return rows


def _shares(errors: list[float]) -> tuple[str, str]:
    """The mean and the largest, in %."""
    if not errors:
        return "-", "-"
    return f"{100 * sum(errors) / len(errors):.2f} %", f"{100 * max(errors):.2f} %"
