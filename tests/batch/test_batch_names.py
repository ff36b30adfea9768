"""Names of outputs: none twice on any disk, the same whatever comes later, short enough."""

import os
import random
import unicodedata

import pytest

from ocria.batch.names import assign_stems, folded
from ocria.document.write import EXTENSIONS

ALPHABET = [*"aAbéßı文 \n'\"~1\udcff", "e\u0301", "SS", "x" * 60, "10"]
SUFFIXES = [".pdf", ".PDF", ".png", ".md", ".txt", ".json", "", ".pdf.md", ".images"]


def random_name(rng):
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 4))) + rng.choice(SUFFIXES)


def random_places(rng, count):
    """Distinct paths of files in a random tree: what is a file is no folder."""
    folders = [""] + [random_name(rng) + "/" for _ in range(3)]
    folders += [rng.choice(folders) + random_name(rng) + "/" for _ in range(3)]
    places = {rng.choice(folders) + random_name(rng) for _ in range(count)}
    return sorted(place for place in places if place + "/" not in folders)


def outputs_of(stems):
    return [stem + extension for stem in stems for extension in EXTENSIONS.values()]


@pytest.mark.parametrize("_", range(40))
def test_no_two_outputs_meet_and_later_files_change_nothing(_):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    places = random_places(rng, rng.randint(1, 60))
    names = {f"../in/{place}": place for place in places}
    known = {}
    left = list(names)
    rng.shuffle(left)
    while left:
        some = {name: names[name] for name in left[: rng.randint(1, len(left))]}
        left = left[len(some) :]
        again = {name: names[name] for name in rng.sample(sorted(known), rng.randint(0, len(known)))}
        stems = assign_stems({**some, **again}, known)
        assert all(stems[name] == known[name] for name in again)
        known.update(stems)
    outputs = [folded(output) for output in outputs_of(known.values())]
    assert len(set(outputs)) == len(outputs)
    folders = {output.rsplit("/", depth)[0] for output in outputs for depth in range(1, output.count("/") + 1)}
    assert not folders & set(outputs)
    for output in outputs_of(known.values()):
        assert all(len(os.fsencode(part)) <= 210 for part in output.split("/"))


def test_names_stay_whole_where_nothing_is_in_the_way():
    places = ["report.pdf", "report.png", "a/report.pdf", "Report.docx", "x\ny.pdf", "caf\udce9.pdf"]
    assert assign_stems({place: place for place in places}, {}) == {place: place for place in places}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a.pdf", "A.pdf"),
        ("A/x.pdf", "a/x.pdf"),
        ("caf\u00e9.pdf", "cafe\u0301.PDF"),
        ("stra\u00dfe.pdf", "STRASSE.pdf"),
    ],
)
def test_names_that_differ_in_case_alone(first, second):
    stems = assign_stems({first: first, second: second}, {})
    assert stems[first] == first
    tagged = stems[second]
    assert tagged.startswith(second.rsplit(".", 1)[0] + "~")
    assert tagged.endswith(second[-4:])
    assert unicodedata.normalize("NFD", tagged).casefold() != unicodedata.normalize("NFD", first).casefold()
    # Whoever came first in an earlier run keeps the name.
    assert assign_stems({first: first, second: second}, {second: second})[second] == second


def test_a_folder_and_an_output_of_one_name():
    stems = assign_stems({"1": "a.pdf", "2": "a.pdf.md/b.pdf"}, {})
    assert stems["1"] == "a.pdf"
    assert not stems["2"].startswith("a.pdf.md/")
    stems = assign_stems({"2": "a.pdf.md/b.pdf", "1": "a.pdf"}, {})
    assert stems["2"] == "a.pdf.md/b.pdf"
    assert stems["1"] != "a.pdf"


def test_long_names_are_cut_and_stay_apart():
    names = ["文" * 80 + f"{n}.pdf" for n in range(3)] + ["y" * 240 + ".PDF", "." * 250, "z" * 255]
    stems = assign_stems({name: name for name in names}, {})
    assert len(set(stems.values())) == len(names)
    for name, stem in stems.items():
        assert len(os.fsencode(stem)) <= 200
        assert stem[:10] == name[:10]
    assert stems[names[0]].endswith(".pdf")
