"""How many text lines of a page does `find_lines` find whole, and how long does it take?

    python bench/lines.py                             made pages, born-digital pages, scans
    python bench/lines.py --part made --pages 60
    python bench/lines.py --part scans --overlay DIR  also draws the lines found on every page

Made and born-digital pages know their lines glyph by glyph. Scans are compared with Tesseract's lines
(`--psm 3`), a second opinion and not the truth: `--faults` lists where the two differ. Whether the crops
can be read is asked by `bench/accuracy.py --reader tesseract-lines`. The last line is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from lines_match import Atom, Match, match
from lines_pages import made_page
from lines_truth import pdf_atoms, tesseract_atoms
from PIL import Image, ImageDraw
from samples import GROUPS, SamplesNotFound, find_samples, image_file, load_items
from tesseract import cache_folder

SCANS = ("books", "borders", "test", "magazine", "receipts")
BORN_DPI = 200


@dataclass
class Tally:
    """Matches and times of one group of pages."""

    found: Match = field(default_factory=Match)
    seconds: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def to_dict(self) -> dict:
        counts = self.found.to_dict()
        return {
            "pages": len(self.seconds),
            **counts,
            "whole_share": counts["whole"] / max(1, counts["atoms"]),
            "median_share": float(np.median(self.shares)),
            "median_cpu_s": float(np.median(self.seconds)),
            "largest_cpu_s": float(np.max(self.seconds)),
        }


class Bench:
    """Runs `find_lines` on pages and keeps what came out, by group."""

    def __init__(self, arguments: argparse.Namespace):
        self.arguments = arguments
        self.groups: dict[str, Tally] = {}

    def page(self, group: str, name: str, gray: np.ndarray, atoms: list[Atom], dpi: float | None) -> None:
        from ocria.document.lines import find_lines

        start = time.process_time()
        result = find_lines(gray, dpi)
        seconds = time.process_time() - start
        found = match(result.lines, atoms)
        tally = self.groups.setdefault(group, Tally())
        tally.found.add(found)
        tally.seconds.append(seconds)
        tally.shares.append(found.whole / max(1, found.atoms))
        if self.arguments.faults and found.faults:
            print(f"{group} {name}")
            print("\n".join(f"    {fault}" for fault in found.faults))
        if self.arguments.overlay:
            draw(gray, result.lines, self.arguments.overlay / f"{group}_{name.replace('/', '_')}.png")


def draw(gray: np.ndarray, lines: list, target: Path) -> None:
    """The page with the lines' boxes and their order, at most 1800 px long."""
    target.parent.mkdir(parents=True, exist_ok=True)
    page = Image.fromarray(gray).convert("RGB")
    pen = ImageDraw.Draw(page)
    colours = ["red", "green", "blue", "purple", "orange"]
    for k, line in enumerate(lines):
        pen.rectangle(line.box, outline=colours[k % 5], width=max(1, page.width // 700))
        pen.text((line.box[0] - 20, line.box[1]), str(k), fill=colours[k % 5])
    page.thumbnail((1800, 1800))
    page.save(target)


def made(bench: Bench) -> None:
    for seed in range(bench.arguments.pages):
        gray, atoms, kind = made_page(seed)
        bench.page(f"made, {kind}", str(seed), gray, atoms, 200)


def born(bench: Bench, samples: Path) -> None:
    import pymupdf

    for item in load_items(samples, ["born"], pdf_pages=5):
        with pymupdf.open(item.path) as document:
            page = document[item.page - 1]
            atoms = pdf_atoms(page, BORN_DPI / 72)
            # The text layer of a scan is another program's reading, not the truth.
            picture = any(
                pymupdf.Rect(i["bbox"]).get_area() > 0.8 * page.rect.get_area() for i in page.get_image_info()
            )
            if page.rotation or picture or not atoms:
                continue
            pixels = page.get_pixmap(dpi=BORN_DPI, colorspace=pymupdf.csGRAY)
            gray = np.frombuffer(pixels.samples, np.uint8).reshape(pixels.height, pixels.width)
            bench.page("born-digital", item.name, gray, atoms, BORN_DPI)


def scans(bench: Bench, samples: Path) -> None:
    for item in load_items(samples, list(SCANS)):
        image = image_file(item, cache_folder())
        gray = np.asarray(Image.open(image).convert("L"))
        bench.page(f"Tesseract's lines, {GROUPS[item.group].title}", item.name, gray, tesseract_atoms(image), None)


def print_table(groups: dict[str, dict]) -> None:
    print(f"\n{'group':<52}{'pages':>6}{'lines':>7}{'whole':>8}{'median':>8}{'cut':>5}{'merged':>7}", end="")
    print(f"{'missed':>7}{'extra':>6}{'cpu s':>7}")
    for name, row in groups.items():
        print(
            f"{name:<52}{row['pages']:>6}{row['atoms']:>7}{row['whole_share']:>8.2%}{row['median_share']:>8.2%}", end=""
        )
        print(f"{row['cut']:>5}{row['merged']:>7}{row['missed']:>7}{row['extra']:>6}{row['median_cpu_s']:>7.2f}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", choices=["made", "born", "scans"], help="default: all")
    parser.add_argument("--pages", type=int, default=30, help="made pages")
    parser.add_argument("--samples", metavar="DIR", help="the real samples (default: OCRIA_SAMPLES)")
    parser.add_argument("--overlay", type=Path, metavar="DIR", help="draw the lines found on each page")
    parser.add_argument("--faults", action="store_true", help="list the lines not found whole")
    bench = Bench(parser.parse_args(argv))
    parts = bench.arguments.part or ["made", "born", "scans"]
    try:
        if "made" in parts:
            made(bench)
        if "born" in parts or "scans" in parts:
            samples = find_samples(bench.arguments.samples)
            if "born" in parts:
                born(bench, samples)
            if "scans" in parts:
                scans(bench, samples)
    except SamplesNotFound as error:
        print(f"lines: {error}", file=sys.stderr)
        return 2
    groups = {name: tally.to_dict() for name, tally in bench.groups.items()}
    print_table(groups)
    print(json.dumps({"bench": "lines", "groups": groups}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
