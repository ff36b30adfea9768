"""Typographic habits applied to plain text: curly quotes, dashes, hyphens at a line's end, old spellings."""

import random
import re

_OPEN_DOUBLE = re.compile(r'(^|[\s(\[—–\-‘])"(?=\S)')
_OPEN_SINGLE = re.compile(r"(^|[\s(\[—–“\-])'(?=\S)")


def smart_quotes(text: str) -> str:
    """Straight quotes as curly ones, `--` as an em dash, `...` as it stands."""
    text = _OPEN_DOUBLE.sub(r"\1“", text).replace('"', "”")
    text = _OPEN_SINGLE.sub(r"\1‘", text).replace("'", "’")
    return text.replace(" -- ", "—").replace("--", "—").replace("`", "‘")


def hyphenate(text: str, limit: int, rng: random.Random) -> str | None:
    """`text` broken inside the word that crosses `limit`, with its hyphen; None where that word is short."""
    start = text.rfind(" ", 0, limit) + 1
    end = text.find(" ", limit)
    word = text[start:end if end > 0 else len(text)]
    core = re.match(r"[^\W\d_]+", word)
    if core is None or core.end() < 5 or limit - start < 3:
        return None
    at = min(limit - start - 1, core.end() - 2)
    return text[:start + max(2, at)] + "-"


def typeset_old(text: str, rng: random.Random) -> str:
    """Marks of old books: dashes, quotation marks, em dash after a stop, &c., roman numerals."""
    style = rng.random()
    words = text.split()
    if len(words) < 4:
        return text
    at = rng.randrange(1, len(words) - 1)
    if style < 0.25:
        words[at] = words[at].rstrip(",.;:") + "—" + words.pop(at + 1)
    elif style < 0.5:
        last = rng.randrange(at, len(words))
        words[at] = '"' + words[at].strip('"')
        if last < len(words) - 1 or rng.random() < 0.5:
            words[last] = words[last].rstrip(",.;:") + rng.choice((',"', '."', '!"', '?"', '"'))
    elif style < 0.6:
        words[at] = words[at].rstrip(",.;:") + rng.choice((";", ":", ";—", ":—", "!", "?", ".—", ", &c."))
    elif style < 0.66:
        words[at] = "(" + words[at].strip("()")
        last = rng.randrange(at, len(words))
        words[last] = words[last].rstrip(",.;:") + ")"
    elif style < 0.72:
        words[at] = words[at].rstrip(",.;:") + rng.choice(("*", "†", "‡", ".*", ",*"))
    elif style < 0.8:
        words[at] = rng.choice(("Mr.", "Mrs.", "Dr.", "St.", "viz.", "i.e.", "No.", "chap.", "p.", "vol.", "A.D.")) \
            + " " + words[at].capitalize()
    return " ".join(words)
