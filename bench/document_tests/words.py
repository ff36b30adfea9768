"""Plain English sentences of fresh words, so that no text of a test page is known to any model."""

from __future__ import annotations

import random


def _listed(words: str) -> list[str]:
    return words.split()


_ADJECTIVES = _listed(
    "quiet narrow golden distant wooden heavy simple ancient gentle bright northern frozen hollow careful steady "
    "crowded polished modern bitter empty broken patient curious foreign rural silver coastal summer public central"
)
_NOUNS = _listed(
    "harbour river market bridge engine garden letter window station valley farmer teacher captain kitchen library "
    "machine mountain village basket ladder painter museum railway orchard blanket chimney compass lantern merchant "
    "notebook pasture quarry shelter tunnel vessel workshop archive barrel canyon meadow"
)
_VERBS = _listed(
    "carries follows measures repairs watches crosses describes protects gathers remembers borders supplies replaces "
    "visits examines collects divides explains improves lowers"
)
_PLACES = (
    "before the winter", "after the harvest", "near the old gate", "along the western road", "without any delay",
    "behind the town hall", "during the long storm", "under the tall cliffs", "at the end of the week",
    "beside the stone wall", "within a few hours", "for the first time",
)  # fmt: skip


class Words:
    """Draws words of one page; no pair of adjective and noun comes twice, so that facts are found in one place."""

    def __init__(self, random_: random.Random):
        self.random = random_
        self._pairs = [(a, n) for a in _ADJECTIVES for n in _NOUNS]
        random_.shuffle(self._pairs)

    def thing(self) -> str:
        return " ".join(self._pairs.pop())

    def title(self) -> str:
        """A heading of four words or so."""
        return f"The {self.thing()} and the {self.thing()}".title().replace(" And The ", " and the ")

    def sentence(self) -> str:
        verb, place = self.random.choice(_VERBS), self.random.choice(_PLACES)
        return f"The {self.thing()} {verb} the {self.thing()} {place}."

    def sentences(self, count: int) -> list[str]:
        return [self.sentence() for _ in range(count)]

    def amount(self) -> str:
        return f"{self.random.randint(1, 999)}.{self.random.randint(0, 99):02}"
