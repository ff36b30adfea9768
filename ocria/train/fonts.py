"""The font families used for synthetic lines: where they lie, what they are, which are held out.

A family is listed here by the names of its files, so that a draw is the same on every machine which
has the files, and symbol, mathematical or display fonts cannot slip in. Files are looked for below
the usual font folders and every folder named in the environment variable OCRIA_FONTS.

Debian, names without `fonts-`: 3270, anonymous-pro, cardo, clear-sans, cmu, courier-prime, croscore,
crosextra-caladea, crosextra-carlito, dejavu-core, dejavu-extra, ebgaramond, ebgaramond-extra, freefont-ttf,
gfs-didot, glasstty, go, hack, inconsolata, junicode, lato, liberation2, linuxlibertine, lmodern, noto-mono, ocr-a,
ocr-b, oldstandard, open-sans, proggy, roboto-unhinted, sil-andika, sil-charis, sil-gentiumplus, spleen, stix,
terminus, texgyre, unifont, urw-base35, vollkorn.
"""

import json
import os
import random
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from PIL import ImageFont

from ocria.errors import MissingDependencyError
from ocria.train.charset import CHARSET
from ocria.train.corpus import cache_dir, sealed

_ROOTS = ("/usr/share/fonts", "/usr/local/share/fonts", "/usr/share/texmf/fonts",
          "/usr/share/texlive/texmf-dist/fonts", "~/.fonts", "~/.local/share/fonts")

# family: (group, weight, design, regular, italic, bold, bold italic); several files of one style: "|".
# Families of one design (clones of Times, Helvetica, Courier, Computer Modern) share the design's weight.
_FAMILIES: dict[str, tuple[str, float, str, str, str, str, str]] = {
    "Nimbus Roman": ("serif", 1.0, "times", "NimbusRoman-Regular.otf", "NimbusRoman-Italic.otf",
                     "NimbusRoman-Bold.otf", "NimbusRoman-BoldItalic.otf"),
    "TeX Gyre Termes": ("serif", 1.0, "times", "texgyretermes-regular.otf", "texgyretermes-italic.otf",
                        "texgyretermes-bold.otf", "texgyretermes-bolditalic.otf"),
    "Liberation Serif": ("serif", 1.2, "times", "LiberationSerif-Regular.ttf", "LiberationSerif-Italic.ttf",
                         "LiberationSerif-Bold.ttf", "LiberationSerif-BoldItalic.ttf"),
    "Tinos": ("serif", 0.5, "times", "Tinos-Regular.ttf", "Tinos-Italic.ttf", "Tinos-Bold.ttf",
              "Tinos-BoldItalic.ttf"),
    "FreeSerif": ("serif", 0.6, "times", "FreeSerif.ttf", "FreeSerifItalic.ttf", "FreeSerifBold.ttf",
                  "FreeSerifBoldItalic.ttf"),
    "STIX": ("serif", 0.8, "times", "STIX-Regular.otf", "STIX-Italic.otf", "STIX-Bold.otf",
             "STIX-BoldItalic.otf"),
    "C059": ("serif", 1.6, "century", "C059-Roman.otf", "C059-Italic.otf", "C059-Bold.otf", "C059-BdIta.otf"),
    "TeX Gyre Schola": ("serif", 1.2, "century", "texgyreschola-regular.otf", "texgyreschola-italic.otf",
                        "texgyreschola-bold.otf", "texgyreschola-bolditalic.otf"),
    "P052": ("serif", 0.8, "palatino", "P052-Roman.otf", "P052-Italic.otf", "P052-Bold.otf",
             "P052-BoldItalic.otf"),
    "TeX Gyre Pagella": ("serif", 0.8, "palatino", "texgyrepagella-regular.otf", "texgyrepagella-italic.otf",
                         "texgyrepagella-bold.otf", "texgyrepagella-bolditalic.otf"),
    "URW Bookman": ("serif", 0.8, "bookman", "URWBookman-Light.otf", "URWBookman-LightItalic.otf",
                    "URWBookman-Demi.otf", "URWBookman-DemiItalic.otf"),
    "TeX Gyre Bonum": ("serif", 0.6, "bookman", "texgyrebonum-regular.otf", "texgyrebonum-italic.otf",
                       "texgyrebonum-bold.otf", "texgyrebonum-bolditalic.otf"),
    "Latin Modern Roman": ("serif", 1.4, "cm", "lmroman10-regular.otf|lmroman8-regular.otf|lmroman12-regular.otf",
                           "lmroman10-italic.otf|lmroman12-italic.otf|lmromanslant10-regular.otf",
                           "lmroman10-bold.otf|lmroman12-bold.otf|lmromandemi10-regular.otf",
                           "lmroman10-bolditalic.otf"),
    "CMU Serif": ("serif", 1.0, "cm", "cmunrm.ttf", "cmunti.ttf|cmunsl.ttf", "cmunbx.ttf|cmunrb.ttf",
                  "cmunbi.ttf"),
    "CMU Concrete": ("serif", 0.4, "concrete", "cmunorm.ttf", "cmunoti.ttf", "cmunobx.ttf", "cmunobi.ttf"),
    "Linux Libertine": ("serif", 1.6, "libertine", "LinLibertine_R.otf", "LinLibertine_RI.otf",
                        "LinLibertine_RB.otf|LinLibertine_RZ.otf",
                        "LinLibertine_RBI.otf|LinLibertine_RZI.otf"),
    "EB Garamond": ("serif", 1.8, "garamond", "EBGaramond12-Regular.otf|EBGaramond08-Regular.otf",
                    "EBGaramond12-Italic.otf|EBGaramond08-Italic.otf", "EBGaramond12-Bold.otf", ""),
    "Junicode": ("serif", 1.2, "junicode", "JunicodeTwoBeta-Regular.otf|JunicodeTwoBeta-Medium.otf"
                 "|JunicodeTwoBeta-SemiCondensed.otf|JunicodeTwoBeta-Expanded.otf",
                 "JunicodeTwoBeta-Italic.otf|JunicodeTwoBeta-SemiExpandedItalic.otf",
                 "JunicodeTwoBeta-Bold.otf|JunicodeTwoBeta-Semibold.otf", "JunicodeTwoBeta-BoldItalic.otf"),
    "Old Standard": ("serif", 3.2, "scotch", "OldStandard-Regular.ttf", "OldStandard-Italic.ttf",
                     "OldStandard-Bold.ttf", ""),
    "Charis SIL": ("serif", 0.9, "charter", "CharisSIL-Regular.ttf", "CharisSIL-Italic.ttf",
                   "CharisSIL-Bold.ttf", "CharisSIL-BoldItalic.ttf"),
    "Gentium Plus": ("serif", 1.0, "gentium", "GentiumPlus-Regular.ttf|GentiumBookPlus-Regular.ttf",
                     "GentiumPlus-Italic.ttf", "GentiumPlus-Bold.ttf", "GentiumPlus-BoldItalic.ttf"),
    "Vollkorn": ("serif", 1.2, "vollkorn", "Vollkorn-Regular.ttf|Vollkorn-Medium.ttf",
                 "Vollkorn-Italic.ttf|Vollkorn-MediumItalic.ttf", "Vollkorn-Bold.ttf|Vollkorn-SemiBold.ttf",
                 "Vollkorn-BoldItalic.ttf"),
    "Cardo": ("serif", 1.4, "cardo", "Cardo104s.ttf", "Cardoi99.ttf", "Cardob101.ttf", ""),
    "GFS Didot": ("serif", 1.0, "didot", "GFSDidot.otf", "GFSDidotItalic.otf", "GFSDidotBold.otf",
                  "GFSDidotBoldItalic.otf"),
    "Caladea": ("serif", 0.8, "caladea", "Caladea-Regular.ttf", "Caladea-Italic.ttf", "Caladea-Bold.ttf",
                "Caladea-BoldItalic.ttf"),
    "DejaVu Serif": ("serif", 0.6, "dejavuserif", "DejaVuSerif.ttf|DejaVuSerifCondensed.ttf",
                     "DejaVuSerif-Italic.ttf|DejaVuSerifCondensed-Italic.ttf",
                     "DejaVuSerif-Bold.ttf|DejaVuSerifCondensed-Bold.ttf", "DejaVuSerif-BoldItalic.ttf"),
    "Nimbus Sans": ("sans", 1.4, "helvetica", "NimbusSans-Regular.otf", "NimbusSans-Italic.otf",
                    "NimbusSans-Bold.otf", "NimbusSans-BoldItalic.otf"),
    "TeX Gyre Heros": ("sans", 0.8, "helvetica", "texgyreheros-regular.otf", "texgyreheros-italic.otf",
                       "texgyreheros-bold.otf", "texgyreheros-bolditalic.otf"),
    "Nimbus Sans Narrow": ("sans", 0.7, "helvetica", "NimbusSansNarrow-Regular.otf",
                           "NimbusSansNarrow-Oblique.otf", "NimbusSansNarrow-Bold.otf",
                           "NimbusSansNarrow-BoldOblique.otf"),
    "Liberation Sans": ("sans", 1.4, "helvetica", "LiberationSans-Regular.ttf", "LiberationSans-Italic.ttf",
                        "LiberationSans-Bold.ttf", "LiberationSans-BoldItalic.ttf"),
    "Arimo": ("sans", 0.5, "helvetica", "Arimo-Regular.ttf", "Arimo-Italic.ttf", "Arimo-Bold.ttf",
              "Arimo-BoldItalic.ttf"),
    "FreeSans": ("sans", 0.5, "helvetica", "FreeSans.ttf", "FreeSansOblique.ttf", "FreeSansBold.ttf",
                 "FreeSansBoldOblique.ttf"),
    "Carlito": ("sans", 1.0, "carlito", "Carlito-Regular.ttf", "Carlito-Italic.ttf", "Carlito-Bold.ttf",
                "Carlito-BoldItalic.ttf"),
    "DejaVu Sans": ("sans", 1.0, "dejavu", "DejaVuSans.ttf|DejaVuSansCondensed.ttf",
                    "DejaVuSans-Oblique.ttf|DejaVuSansCondensed-Oblique.ttf",
                    "DejaVuSans-Bold.ttf|DejaVuSansCondensed-Bold.ttf", "DejaVuSans-BoldOblique.ttf"),
    "Open Sans": ("sans", 1.0, "opensans", "OpenSans-Regular.ttf|OpenSans-Light.ttf|OpenSans-CondLight.ttf",
                  "OpenSans-Italic.ttf", "OpenSans-Bold.ttf|OpenSans-Semibold.ttf|OpenSans-CondBold.ttf",
                  "OpenSans-BoldItalic.ttf"),
    "Lato": ("sans", 1.0, "lato", "Lato-Regular.ttf|Lato-Light.ttf|Lato-Medium.ttf", "Lato-Italic.ttf",
             "Lato-Bold.ttf|Lato-Heavy.ttf|Lato-Semibold.ttf", "Lato-BoldItalic.ttf"),
    "Roboto": ("sans", 1.0, "roboto", "Roboto-Regular.ttf|Roboto-Light.ttf|RobotoCondensed-Regular.ttf",
               "Roboto-Italic.ttf|RobotoCondensed-Italic.ttf",
               "Roboto-Bold.ttf|Roboto-Medium.ttf|RobotoCondensed-Bold.ttf", "Roboto-BoldItalic.ttf"),
    "Clear Sans": ("sans", 1.0, "clearsans", "ClearSans-Regular.ttf", "ClearSans-Italic.ttf",
                   "ClearSans-Bold.ttf", "ClearSans-BoldItalic.ttf"),
    "Go": ("sans", 0.6, "go", "Go-Regular.ttf", "Go-Italic.ttf", "Go-Bold.ttf|Go-Medium.ttf",
           "Go-Bold-Italic.ttf"),
    "Andika": ("sans", 0.5, "andika", "Andika-Regular.ttf", "Andika-Italic.ttf", "Andika-Bold.ttf",
               "Andika-BoldItalic.ttf"),
    "Linux Biolinum": ("sans", 0.6, "biolinum", "LinBiolinum_R.otf", "LinBiolinum_RI.otf",
                       "LinBiolinum_RB.otf", ""),
    "CMU Sans Serif": ("sans", 0.5, "cmss", "cmunss.ttf", "cmunsi.ttf", "cmunsx.ttf", "cmunso.ttf"),
    "Latin Modern Sans": ("sans", 0.4, "cmss", "lmsans10-regular.otf|lmsans8-regular.otf",
                          "lmsans10-oblique.otf", "lmsans10-bold.otf|lmsansdemicond10-regular.otf", ""),
    "CMU Bright": ("sans", 0.3, "cmbright", "cmunbmr.ttf", "cmunbmo.ttf", "cmunbsr.ttf", ""),
    "URW Gothic": ("sans", 0.5, "avantgarde", "URWGothic-Book.otf", "URWGothic-BookOblique.otf",
                   "URWGothic-Demi.otf", "URWGothic-DemiOblique.otf"),
    "Nimbus Mono PS": ("mono", 1.2, "courier", "NimbusMonoPS-Regular.otf", "NimbusMonoPS-Italic.otf",
                       "NimbusMonoPS-Bold.otf", "NimbusMonoPS-BoldItalic.otf"),
    "TeX Gyre Cursor": ("mono", 0.6, "courier", "texgyrecursor-regular.otf", "texgyrecursor-italic.otf",
                        "texgyrecursor-bold.otf", "texgyrecursor-bolditalic.otf"),
    "FreeMono": ("mono", 0.8, "courier", "FreeMono.ttf", "FreeMonoOblique.ttf", "FreeMonoBold.ttf",
                 "FreeMonoBoldOblique.ttf"),
    "Courier Prime": ("mono", 1.0, "courierprime", "Courier Prime.otf|Courier Prime Code.otf",
                      "Courier Prime Italic.otf", "Courier Prime Bold.otf", "Courier Prime Bold Italic.otf"),
    "Courier Prime Sans": ("mono", 0.6, "courierprimesans", "Courier Prime Sans.otf",
                           "Courier Prime Sans Italic.otf", "Courier Prime Sans Bold.otf",
                           "Courier Prime Sans Bold Italic.otf"),
    "Latin Modern Mono": ("mono", 1.0, "cmtt", "lmmono10-regular.otf|lmmono8-regular.otf|lmmonolt10-regular.otf"
                          "|lmmonoltcond10-regular.otf", "lmmono10-italic.otf|lmmonoslant10-regular.otf",
                          "lmmonolt10-bold.otf", "lmmonolt10-boldoblique.otf"),
    "CMU Typewriter": ("mono", 0.8, "cmtt", "cmuntt.ttf|cmunvt.ttf|cmunbtl.ttf", "cmunit.ttf|cmunst.ttf",
                       "cmuntb.ttf", "cmuntx.ttf"),
    "Liberation Mono": ("mono", 0.8, "cousine", "LiberationMono-Regular.ttf", "LiberationMono-Italic.ttf",
                        "LiberationMono-Bold.ttf", "LiberationMono-BoldItalic.ttf"),
    "Cousine": ("mono", 0.5, "cousine", "Cousine-Regular.ttf", "Cousine-Italic.ttf", "Cousine-Bold.ttf",
                "Cousine-BoldItalic.ttf"),
    "DejaVu Sans Mono": ("mono", 0.8, "dejavumono", "DejaVuSansMono.ttf", "DejaVuSansMono-Oblique.ttf",
                         "DejaVuSansMono-Bold.ttf", "DejaVuSansMono-BoldOblique.ttf"),
    "Hack": ("mono", 0.4, "dejavumono", "Hack-Regular.ttf", "Hack-Italic.ttf", "Hack-Bold.ttf",
             "Hack-BoldItalic.ttf"),
    "Inconsolata": ("mono", 0.8, "inconsolata", "Inconsolata.otf", "", "", ""),
    "Go Mono": ("mono", 0.5, "gomono", "Go-Mono.ttf", "Go-Mono-Italic.ttf", "Go-Mono-Bold.ttf",
                "Go-Mono-Bold-Italic.ttf"),
    "Anonymous Pro": ("mono", 0.4, "anonymous", "Anonymous Pro.ttf", "Anonymous Pro I.ttf", "Anonymous Pro B.ttf", ""),
    "Noto Mono": ("mono", 0.5, "notomono", "NotoMono-Regular.ttf", "", "NotoSansMono-Bold.ttf", ""),
    "Unifont": ("printer", 1.2, "unifont", "unifont.otf", "", "", ""),
    "Spleen": ("printer", 1.6, "spleen", "spleen-12x24.otf|spleen-16x32.otf|spleen-8x16.otf|spleen-6x12.otf",
               "", "", ""),
    "Glass TTY": ("printer", 0.8, "vt220", "Glass_TTY_VT220.ttf", "", "", ""),
    "Proggy": ("printer", 0.5, "proggy", "ProggyTiny.ttf", "", "", ""),
    "Terminus": ("printer", 1.0, "terminus", "TerminusTTF-4.46.0.ttf", "", "", ""),
    "OCR-B": ("other", 1.0, "ocrb", "OCRB.otf", "", "", ""),
    "OCR-A": ("other", 0.3, "ocra", "OCRA.ttf", "", "", ""),
    "3270": ("other", 0.5, "3270", "3270-Regular.ttf|3270SemiCondensed-Regular.ttf", "", "", ""),
}

# Whole designs, never a family whose clone is trained on.
HELD_OUT_FAMILIES = frozenset({"Gentium Plus", "GFS Didot", "Clear Sans", "Inconsolata", "Courier Prime",
                               "Terminus"})
LIGATURES = "ﬀﬁﬂﬃﬄ"
STYLES = ("regular", "italic", "bold", "bold_italic")
# "printer": drawn in the dots of tills and terminals.
GROUPS = ("serif", "sans", "mono", "other", "printer")


@dataclass(frozen=True)
class Face:
    """One font file: its `family`, `group` (of GROUPS), `style` (of STYLES) and path."""

    family: str
    group: str
    style: str
    path: str


@dataclass(frozen=True)
class Glyphs:
    """What a font file can draw: its code points and the tags of its OpenType substitutions."""

    chars: frozenset[str]
    features: frozenset[str]


class FontSet:
    """The installed families of one split, drawn by weight."""

    def __init__(self, split: str):
        files = _font_files()
        self.faces: dict[tuple[str, str], list[Face]] = {}
        self._weights: dict[str, list[tuple[str, float]]] = {group: [] for group in GROUPS}
        for family, (group, weight, _, *styles) in _FAMILIES.items():
            if (family in HELD_OUT_FAMILIES) != (split == "held_out"):
                continue
            for style, names in zip(STYLES, styles, strict=True):
                found = [files[name] for name in names.split("|") if name in files]
                if found:
                    self.faces[family, style] = [Face(family, group, style, path) for path in found]
            if (family, "regular") in self.faces:
                self._weights[group].append((family, weight))
        if not any(self._weights.values()):
            raise MissingDependencyError(
                f"no font of the {split} split is installed",
                cure="install Debian's fonts-liberation2 fonts-urw-base35 fonts-oldstandard fonts-ebgaramond "
                     "fonts-lmodern fonts-dejavu-core fonts-sil-gentiumplus fonts-clear-sans, "
                     "or name a folder of fonts in OCRIA_FONTS")

    @property
    def families(self) -> list[str]:
        return [family for pairs in self._weights.values() for family, _ in pairs]

    def draw(self, rng: random.Random, group: str, style: str) -> Face:
        """A face of `group` in `style`; a missing group or style falls to the nearest one that exists."""
        pairs = self._weights[group] or next(pairs for pairs in self._weights.values() if pairs)
        family = rng.choices([f for f, _ in pairs], [w for _, w in pairs])[0]
        return rng.choice(self.faces.get((family, style)) or self.faces[family, "regular"])

    def sibling(self, face: Face, style: str) -> Face:
        """The face of the same family in another style, or `face` itself where there is none."""
        return self.faces.get((face.family, style), [face])[0]


@lru_cache(maxsize=2)
def font_set(split: str) -> FontSet:
    return FontSet(split)


@lru_cache(maxsize=400)
def load(path: str, size: int) -> ImageFont.FreeTypeFont:
    """The font at `size` pixels to the em."""
    return ImageFont.truetype(path, size)


def glyphs_file(path: str) -> Path:
    """Where the glyphs of a font file are kept."""
    status = os.stat(path)
    return cache_dir() / "fonts" / f"{Path(path).name}-{status.st_size}-{int(status.st_mtime)}.json"


@cache
def glyphs(path: str) -> Glyphs:
    """The characters and substitution features of a font file (kept in the cache folder: reading is slow)."""
    kept = glyphs_file(path)
    if not kept.exists():
        from fontTools.ttLib import TTFont  # here alone: a prepared run brings what is kept along

        with TTFont(path, lazy=True) as font:
            features = set()
            if "GSUB" in font and font["GSUB"].table.FeatureList:
                features = {record.FeatureTag for record in font["GSUB"].table.FeatureList.FeatureRecord}
            chars = "".join(c for c in map(chr, sorted(font.getBestCmap())) if c in CHARSET or c in LIGATURES)
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(f".{os.getpid()}.part")
        partial.write_text(json.dumps([chars, sorted(features)]), encoding="utf-8")
        partial.replace(kept)  # several readers may fill the cache at once
    chars, features = json.loads(kept.read_text("utf-8"))
    return Glyphs(frozenset(chars), frozenset(features))


@lru_cache(maxsize=1)
def _font_files() -> dict[str, str]:
    """File name -> path of every OpenType or TrueType file below the font folders."""
    usual = () if sealed() else _ROOTS
    roots = [Path(r).expanduser() for r in (*usual, *os.environ.get("OCRIA_FONTS", "").split(os.pathsep)) if r]
    return {path.name: str(path) for root in roots if root.is_dir()
            for path in sorted(root.rglob("*")) if path.suffix.lower() in (".ttf", ".otf")}
