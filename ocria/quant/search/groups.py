"""The layers of a decoder in groups that get one format: what is computed as one product, and what follows it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ocria.quant.recipe import why_high

PARTS = {
    "mixer in": ("q_proj", "k_proj", "v_proj", "in_proj_qkv", "in_proj_z"),
    "mixer out": ("o_proj", "out_proj"),
    "mlp in": ("gate_proj", "up_proj"),
    "mlp out": ("down_proj",),
}
"""The parts of a decoder layer, by the last names of their modules."""
HEAD_PART = "head"

_LAYER = re.compile(r"(?:.*\.)?layers\.(\d+)\.[a-z_]+\.(\w+)")


@dataclass(frozen=True, slots=True)
class Group:
    """layer: its number, None for the head. part: one of `PARTS`, or `HEAD_PART`. modules: names of linear layers."""

    layer: int | None
    part: str
    modules: tuple[str, ...]

    def __str__(self) -> str:
        return self.part if self.layer is None else f"layer {self.layer} {self.part}"


def layer_groups(modules: Iterable[str]) -> list[Group]:
    """The groups of these linear layers, from the first layer to the head; what must stay high is in none."""
    found: dict[tuple[int, int], list[str]] = {}
    parts = list(PARTS)
    head = None
    for name in modules:
        match = _LAYER.fullmatch(name)
        if why_high(name) is not None:
            continue
        if name == "lm_head":
            head = Group(None, HEAD_PART, (name,))
        elif match:
            part = next((part for part, leaves in PARTS.items() if match[2] in leaves), None)
            if part is not None:
                found.setdefault((int(match[1]), parts.index(part)), []).append(name)
    groups = [Group(layer, parts[part], tuple(names)) for (layer, part), names in sorted(found.items())]
    return [*groups, *([head] if head else [])]
