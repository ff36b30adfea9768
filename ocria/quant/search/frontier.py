"""From the loss of single groups to an order in which to quantise them: most bytes for the least loss first."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ocria.quant.recipe import BF16, Format
from ocria.quant.search.groups import Group


@dataclass(frozen=True, slots=True)
class Option:
    """A group in a format. loss: of the model with this change alone, in nats a token; nbytes: of the group then."""

    group: Group
    format: Format
    loss: float
    nbytes: int


@dataclass(frozen=True, slots=True)
class Stage:
    """A point on the way: the formats of all groups. predicted: the sum of the losses of single groups, which is no
    more than a hint, as losses do not add up. nbytes: of all groups."""

    formats: dict[Group, Format]
    predicted: float
    nbytes: int


def stages(options: Iterable[Option], plain_bytes: Mapping[Group, int]) -> list[Stage]:
    """The way from nothing to everything quantised. Each stage takes the change of one group that costs the least loss
    for a byte saved, among those that are worth it: of a group's formats those below the line between two others, or
    with more loss than a smaller one, are left out. plain_bytes: of each group as it is."""
    changes = []
    for group, plain in plain_bytes.items():
        own = [Option(group, BF16, 0.0, plain), *(option for option in options if option.group == group)]
        changes += [(_price(a, b), i, a, b) for i, (a, b) in enumerate(pairwise(_hull(own)))]
    changes.sort(key=lambda change: (change[0], str(change[2].group), change[1]))
    formats: dict[Group, Format] = dict.fromkeys(plain_bytes, BF16)
    loss, nbytes = 0.0, sum(plain_bytes.values())
    found = [Stage(dict(formats), loss, nbytes)]
    for _, _, a, b in changes:
        formats[b.group] = b.format
        loss, nbytes = loss + b.loss - a.loss, nbytes + b.nbytes - a.nbytes
        found.append(Stage(dict(formats), loss, nbytes))
    return found


def _hull(options: list[Option]) -> list[Option]:
    """The options from most bytes to fewest whose losses rise ever more steeply: the lower convex hull."""
    # Of equal sizes the one of least loss; what is larger than another without losing less is never taken.
    ordered = sorted(options, key=lambda option: (-option.nbytes, option.loss))
    kept: list[Option] = []
    for option in ordered:
        if kept and option.nbytes == kept[-1].nbytes:
            continue
        while len(kept) > 1 and (
            option.loss <= kept[-1].loss or _price(kept[-1], option) <= _price(kept[-2], kept[-1])
        ):
            kept.pop()
        kept.append(option)
    return kept


def _price(a: Option, b: Option) -> float:
    """Loss for a byte that is saved by going from a to b."""
    return (b.loss - a.loss) / (a.nbytes - b.nbytes)
