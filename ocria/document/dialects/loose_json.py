"""JSON as models write it: cut off, with quotes and backslashes that nobody escaped, with words around it."""

from __future__ import annotations

import json
import re
from typing import Any

NO_JSON = "no JSON"
"""Said of an answer without an object or an array."""
_START = re.compile(r"\[(?=\s*(?:[\[{\]\"]|\Z))|\{(?=\s*(?:[\"}]|\Z))")
_SPACE = re.compile(r"\s*")
_FILLER = re.compile(r"[\s,]*")
_WORD = re.compile(r"[^\s,:\[\]{}\"]+")
_STRING = re.compile(r'[^"\\]+|\\.|\\\Z|"', re.DOTALL)
# What follows the quote that ends a value, and not one inside it.
_AFTER_VALUE = re.compile(
    r"\s*(?:[\]}]|\Z|,\s*(?:[\"{\[\]}\d-]|true|false|null|\Z))|[^\"]{0,24}\"(?:bbox|category|text)\"\s*:"
)
_NAME = re.compile(r'"(?:[^"\\{}\[\]:,\n]|\\.)+"|[^\s,:\[\]{}"]+')
_KEY = re.compile(r'"[\w -]{1,40}"\s*:')
_ESCAPE = re.compile(r'\\(?:u([0-9a-fA-F]{4})|(["\\/bfnrt]))')
_CUT_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")
_CHARACTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
# LaTeX whose backslash was not doubled: no page holds these control characters before these letters.
_LATEX = re.compile(
    r"[\b\f](?=[A-Za-z])|\r(?=ho|ight|angle|m\b|brace)|\t(?=imes|heta|ext|au\b|an\b|ilde|riangle|frac|o\b)|\n(?=abla)"
)
_LETTERS = {"\b": "\\b", "\f": "\\f", "\r": "\\r", "\t": "\\t", "\n": "\\n"}
_DEEPEST = 60


def read_json(text: str) -> tuple[Any, str | None]:
    """The values in the text, a list of them where there are several, and what the last one ends in the middle of.

    None where the text holds no object and no array.
    """
    values = []
    at, cut = 0, None
    strict = json.JSONDecoder(strict=False, parse_int=float)
    while cut is None and (start := _START.search(text, at)):
        try:
            value, at = strict.raw_decode(text, start.start())
        except (ValueError, RecursionError):
            reader = _Reader(text, start.start())
            value = reader.value()
            at, cut = reader.at, reader.cut
        values.append(value)
    if not values:
        return None, None
    return values[0] if len(values) == 1 else values, cut


def restored(text: str) -> str:
    """With the backslashes of LaTeX commands that JSON took for control characters: a form feed and `rac` was
    `\\frac`."""
    return _LATEX.sub(lambda match: _LETTERS[match[0]], text)


class _Reader:
    """Reads one value. Every step moves on, so that each text comes to an end."""

    def __init__(self, text: str, at: int):
        self.text, self.at = text, at
        self.cut: str | None = None

    def value(self, depth: int = 0) -> Any:
        self._skip(_SPACE)
        start = self._here()
        if start in ("[", "{") and depth > _DEEPEST:
            self.at += 1
            return None
        if start == "[":
            return self._array(depth)
        if start == "{":
            return self._object(depth)
        if start == '"':
            return self._string()
        word = _WORD.match(self.text, self.at)
        if word is None:
            if start == "":
                self._cut_in("a value")
            return None
        self.at = word.end()
        if self.at == len(self.text):
            # More digits may have been to come.
            self._cut_in("a value")
            return None
        return self._literal(word[0])

    def _array(self, depth: int) -> list[Any]:
        self.at += 1
        values: list[Any] = []
        while True:
            self._skip(_FILLER)
            start = self.at
            here = self._here()
            if here == "":
                self._cut_in("an array")
                return values
            if here == "]":
                self.at += 1
                return values
            if here == "}" or _KEY.match(self.text, self.at):
                # The end of the array is missing; the object around goes on.
                return values
            value = self.value(depth + 1)
            if value is not None:
                values.append(value)
            self.at = max(self.at, start + 1)

    def _object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        found: dict[str, Any] = {}
        nameless: str | None = None
        while True:
            self._skip(_FILLER)
            here = self._here()
            if here == "":
                self._cut_in("an object")
                return found
            if here == "}":
                self.at += 1
                return found
            if here in ("]", "{"):
                return found
            name = _NAME.match(self.text, self.at)
            if name is None:
                # A stray mark, such as a quote too many.
                self.at += 1
                continue
            self.at = name.end()
            key = name[0].strip('"')
            if self._follows((":", "[", "{")):
                self._skip(_SPACE)
                self.at += self._here() == ":"
                value = self._value_of_key(depth)
                if value is not None:
                    found[key] = value
            elif nameless is None:
                nameless = key
            else:
                found.setdefault(nameless, _decoded(key))
                nameless = None

    def _value_of_key(self, depth: int) -> Any:
        """The value, although marks of another language may stand before it."""
        value = self.value(depth + 1)
        self._skip(_SPACE)
        if not isinstance(value, (list, dict)) and self._here() in ("[", "{", '"'):
            before = self.text[: self.at].rstrip()[-1:]
            if before not in ('"', ",") and not _KEY.match(self.text, self.at):
                return self.value(depth + 1)
        return value

    def _string(self) -> str:
        self.at += 1
        start = self.at
        while match := _STRING.match(self.text, self.at):
            self.at = match.end()
            if match[0] == '"' and _AFTER_VALUE.match(self.text, self.at):
                return _decoded(self.text[start : match.start()])
        self._cut_in("a string")
        return _decoded(_CUT_ESCAPE.sub(r"\1", self.text[start:]))

    def _here(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self, pattern: re.Pattern) -> None:
        self.at = pattern.match(self.text, self.at).end()

    def _follows(self, marks: tuple[str, ...]) -> bool:
        return self.text.startswith(marks, _SPACE.match(self.text, self.at).end())

    def _cut_in(self, what: str) -> None:
        self.cut = self.cut or what

    @staticmethod
    def _literal(word: str) -> Any:
        if word in ("true", "false", "null"):
            return {"true": True, "false": False, "null": None}[word]
        try:
            return float(word)
        except ValueError:
            return word


def _decoded(text: str) -> str:
    """Escapes that JSON does not know keep their backslash."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _CHARACTERS.get(match[2], match[2]), text)
