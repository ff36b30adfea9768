"""Typographic habits applied to plain text: curly quotes, dashes, hyphens at a line's end, marks of old books."""

import random
import re

from ocria.train.charset import SUPERSCRIPT

_OPEN_DOUBLE = re.compile(r'(^|[\s(\[—–\-‘])"(?=\S)')
_OPEN_SINGLE = re.compile(r"(^|[\s(\[—–“\-])'(?=\S)")
_ABROAD = (("«", "»"), ("« ", " »"), ("„", "“"), ("»", "«"), ("‹", "›"), ("„", "”"))
_TITLES = ("Mr.", "Mrs.", "Dr.", "St.", "viz.", "i.e.", "No.", "chap.", "p.", "vol.", "A.D.", "Esq.", "M.")


def smart_quotes(text: str) -> str:
    """Straight quotes as curly ones, `--` as an em dash, a back quote as an opening quote."""
    text = _OPEN_DOUBLE.sub(r"\1“", text).replace('"', "”")
    text = _OPEN_SINGLE.sub(r"\1‘", text).replace("'", "’")
    return text.replace(" -- ", "—").replace("--", "—").replace("`", "‘")


def foreign_quotes(text: str, rng: random.Random) -> str:
    """A few words of `text` in the quotation marks of another language."""
    words = text.split()
    if len(words) < 4:
        return text
    first = rng.randrange(len(words) - 1)
    last = rng.randint(first, min(len(words) - 1, first + 5))
    opening, closing = rng.choice(_ABROAD)
    words[first] = opening + words[first]
    words[last] += closing
    return " ".join(words)


def typewritten(text: str) -> str:
    """Dashes as a typewriter has them: faces of one width hardly tell — from – and -."""
    return text.replace("—", "--").replace("–", "-")


def hyphenate(text: str, limit: int) -> str | None:
    """`text` broken inside the word that crosses `limit`, with its hyphen; None where that word is short."""
    start = text.rfind(" ", 0, limit) + 1
    end = text.find(" ", limit)
    word = text[start : end if end > 0 else len(text)]
    core = re.match(r"[^\W\d_]+", word)
    if core is None or core.end() < 5 or limit - start < 3:
        return None
    return text[: start + max(2, min(limit - start - 1, core.end() - 2))] + "-"


def typeset_old(text: str, rng: random.Random) -> str:
    """One mark of old books somewhere in `text`: a dash, a quotation, a stop, a footnote's sign, a title."""
    words = text.split()
    if len(words) < 4:
        return text
    style, at = rng.random(), rng.randrange(1, len(words) - 1)
    bare = words[at].rstrip(",.;:")
    if style < 0.3:
        pauses = [i for i, word in enumerate(words[:-1]) if word[-1] in ",;:." and len(word) > 3]
        if pauses:
            at = rng.choice(pauses)
            kept = words[at] if rng.random() < 0.25 else words[at][:-1]
            words[at] = kept + rng.choice(("—", "—", "—", "–")) + words.pop(at + 1)
    elif style < 0.55:
        last = rng.randrange(at, len(words))
        words[at] = '"' + words[at].strip('"')
        if last < len(words) - 1 or rng.random() < 0.5:
            words[last] = words[last].rstrip(",.;:") + rng.choice((',"', '."', '!"', '?"', '"', '";'))
    elif style < 0.68:
        words[at] = bare + rng.choice((";", ":", ";—", ":—", "!", "?", ".—", ", &c.", "...", "…", "!—"))
    elif style < 0.75:
        words[at] = "(" + words[at].strip("()")
        last = rng.randrange(at, len(words))
        words[last] = words[last].rstrip(",.;:") + rng.choice((")", "),", ").", ");"))
    elif style < 0.82:
        words[at] = bare + rng.choice(
            ("*", "†", "‡", ".*", ",*", ".†", "," + str(rng.randint(1, 9)).translate(SUPERSCRIPT))
        )
    elif style < 0.9:
        words[at] = rng.choice(_TITLES) + " " + words[at].capitalize()
    else:
        words[-1] = words[-1].rstrip(",;:") + rng.choice(
            (".", ";", ",", ":", "!", "?", ":—", '."', ',"', ",—")
        )
    return " ".join(words)
