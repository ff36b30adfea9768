"""Tables of the accuracy bench: scores by group, worst places with truth beside output, confusions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from statistics import fmean, median

from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein
from samples import GROUPS
from scoring import Score, confusions, normalise, score, total_cer, total_wer


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reader made of one item. `seconds` is wall time; of lines read in batches an even share."""

    group: str
    name: str
    truth: str
    output: str
    seconds: float
    status: str = "ok"
    """The reader's own word on how the item ended."""

    @property
    def lower(self) -> bool:
        return GROUPS[self.group].lower

    @property
    def score(self) -> Score:
        return score(self.truth, self.output, lower=self.lower)


def shown(text: str) -> str:
    """A text that is safe to print: an untrained model writes control characters."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def summary(readings: list[Reading]) -> dict[str, float | str]:
    """Totals and medians of the readings of one group; all rates in 0..1, `measure` is what the group is scored by."""
    scores = [reading.score for reading in readings]
    return {
        "measure": GROUPS[readings[0].group].measure,
        "items": len(scores),
        "not_ok": sum(reading.status != "ok" for reading in readings),
        "cer": total_cer(scores),
        "cer_median": median(s.cer for s in scores),
        "wer": total_wer(scores),
        "f1": fmean(s.f1 for s in scores),
        "f1_median": median(s.f1 for s in scores),
        "seconds_mean": fmean(reading.seconds for reading in readings),
        "seconds_median": median(reading.seconds for reading in readings),
    }


def group_table(groups: dict[str, dict[str, dict[str, float]]], readers: list[str]) -> list[str]:
    """One line a group and reader; the median is that of the group's measure.

    Of a group scored by words CER and WER are left out: its truth has no order.
    """
    rates = " ".join(f"{name:>7}" for name in ("CER", "median", "WER"))
    head = f"{'group':<44} {'reader':<16} {'items':>5} {rates} {'F1':>6} {'s/item':>7} {'not ok':>6}"
    lines = [head, "-" * len(head)]
    for group, by_reader in groups.items():
        title = GROUPS[group].title
        for reader in readers:
            row = by_reader[reader]
            if GROUPS[group].measure == "cer":
                rates = f"{row['cer']:>7.2%} {row['cer_median']:>7.2%} {row['wer']:>7.2%} {row['f1']:>6.3f}"
            else:
                rates = f"{'':>7} {row['f1_median']:>7.3f} {'':>7} {row['f1']:>6.3f}"
            cost = f"{row['seconds_mean']:>7.2f} {row['not_ok']:>6}"
            lines.append(f"{title:<44} {reader:<16} {row['items']:>5} {rates} {cost}")
            title = ""
    return lines


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of an item, about one line long, with what was read there."""

    name: str
    edits: int
    truth: str
    output: str


def places(reading: Reading, width: int = 80) -> list[Place]:
    """Cut a reading into stretches of about `width` characters of truth and align the output to them."""
    truth = normalise(reading.truth, lower=reading.lower)
    output = normalise(reading.output, lower=reading.lower)
    # The output position that each truth position is aligned with.
    aligned = [0] * len(truth) + [len(output)]
    for op in Levenshtein.opcodes(truth, output):
        for step in range(op.src_end - op.src_start):
            aligned[op.src_start + step] = min(op.dest_start + step, op.dest_end)
    # What was inserted before a cut belongs to the stretch that ends there, and so do its edits.
    edited = [max(0, op.src_pos - (op.tag == "insert")) for op in Levenshtein.editops(truth, output)]
    cuts = [0, *_cuts(truth, width)]
    aligned[0] = 0
    return [
        Place(
            reading.name,
            sum(start <= place < end or start == end for place in edited),
            truth[start:end].strip(),
            output[aligned[start] : aligned[end]].strip(),
        )
        for start, end in pairwise(cuts)
    ]


def _cuts(truth: str, width: int) -> list[int]:
    """Ends of the stretches: after the last space within `width`, or at `width` where there is none."""
    cuts, start = [], 0
    while len(truth) - start > width:
        space = truth.rfind(" ", start, start + width)
        start = space + 1 if space > start else start + width
        cuts.append(start)
    return [*cuts, len(truth)]


def worst_places(readings: list[Reading], count: int) -> list[Place]:
    """The `count` places with the most edits; a line item is one place however long it is."""
    found: list[Place] = []
    for reading in readings:
        if GROUPS[reading.group].unit == "line":
            truth, output = normalise(reading.truth), normalise(reading.output)
            found.append(Place(reading.name, reading.score.char_edits, truth, output))
        elif GROUPS[reading.group].measure == "cer":
            found += places(reading)
    found = [place for place in found if place.edits]
    return sorted(found, key=lambda place: -place.edits)[:count]


def worst_words(readings: list[Reading], count: int) -> list[tuple[str, float, list[str], list[str]]]:
    """Of the items scored by words the `count` worst: name, F1, words missed and words made up."""
    rows = []
    for reading in readings:
        if GROUPS[reading.group].measure == "f1":
            truth = Counter(normalise(reading.truth, lower=reading.lower).split())
            output = Counter(normalise(reading.output, lower=reading.lower).split())
            missed, made_up = list((truth - output).elements()), list((output - truth).elements())
            rows.append((reading.name, reading.score.f1, missed, made_up))
    return sorted(rows, key=lambda row: row[1])[:count]


def time_ratios(readings: dict[str, dict[str, list[Reading]]], mine: str, peer: str) -> dict[str, float]:
    """By group the median over items of how many times as long `mine` took as `peer`."""
    return {
        group: median(a.seconds / b.seconds for a, b in zip(by_reader[mine], by_reader[peer], strict=True))
        for group, by_reader in readings.items()
    }


ERROR_KINDS = ("confused", "missed", "made up", "stretch missed", "stretch made up", "moved")
_STRETCH = 15  # characters at once that no misreading of letters explains: a line lost, cut or invented
_MOVED = 80.0  # likeness in per cent of a lost stretch to one that turns up elsewhere


def error_kinds(readings: list[Reading]) -> dict[str, float]:
    """Edits per 1000 characters of truth by ERROR_KINDS, over the readings of a group whose truth has an order.

    Stretches are what line finding or a loop does; a stretch missed here and made up there has moved: reading order.
    """
    edits: Counter[str] = Counter()
    size = 0
    for reading in readings:
        truth = normalise(reading.truth, lower=reading.lower)
        output = normalise(reading.output, lower=reading.lower)
        size += len(truth)
        lost, extra = [], []
        for op in Levenshtein.opcodes(truth, output):
            if op.tag == "replace":
                edits["confused"] += op.src_end - op.src_start
            elif op.tag == "delete":
                lost.append(truth[op.src_start : op.src_end])
            elif op.tag == "insert":
                extra.append(output[op.dest_start : op.dest_end])
        stretches = [text for text in extra if len(text) >= _STRETCH]
        for text in lost:
            if len(text) < _STRETCH:
                edits["missed"] += len(text)
            elif any(fuzz.partial_ratio(text, other) >= _MOVED for other in stretches):
                edits["moved"] += len(text)
            else:
                edits["stretch missed"] += len(text)
        edits["made up"] += sum(len(text) for text in extra if len(text) < _STRETCH)
        lost_stretches = [text for text in lost if len(text) >= _STRETCH]
        for text in stretches:
            moved = any(fuzz.partial_ratio(text, other) >= _MOVED for other in lost_stretches)
            edits["moved" if moved else "stretch made up"] += len(text)
    return {kind: 1000 * edits[kind] / max(1, size) for kind in ERROR_KINDS}


def error_table(kinds: dict[str, dict[str, dict[str, float]]], readers: list[str]) -> list[str]:
    """One line a group and reader."""
    head = f"{'group':<44} {'reader':<16}" + "".join(f"{kind:>16}" for kind in ERROR_KINDS)
    lines = [head, "-" * len(head)]
    for group, by_reader in kinds.items():
        title = GROUPS[group].title
        for reader in readers:
            cells = "".join(f"{by_reader[reader][kind]:>16.2f}" for kind in ERROR_KINDS)
            lines.append(f"{title:<44} {reader:<16}{cells}")
            title = ""
    return lines


def confusion_counts(readings: list[Reading]) -> Counter[tuple[str, str]]:
    """Confusions over the items whose truth has an order."""
    counts: Counter[tuple[str, str]] = Counter()
    for reading in readings:
        if GROUPS[reading.group].measure == "cer":
            counts += confusions(normalise(reading.truth), normalise(reading.output))
    return counts


def confusion_table(counts: Counter[tuple[str, str]], rows: int = 12) -> list[str]:
    """Most frequent substitutions, deletions and insertions side by side, with totals."""
    kinds = {
        "read as": [(f"{a!r} → {b!r}", n) for (a, b), n in counts.most_common() if a and b],
        "missed": [(repr(a), n) for (a, b), n in counts.most_common() if not b],
        "made up": [(repr(b), n) for (a, b), n in counts.most_common() if not a],
    }
    columns = [
        [f"{kind} ({sum(n for _, n in found)})", *(f"{n:>5} {what}" for what, n in found[:rows])]
        for kind, found in kinds.items()
    ]
    return ["".join(f"{cell:<30}" for cell in row).rstrip() for row in zip_longest(*columns, fillvalue="")]
