"""Names of modules as configurations speak of them: regular expressions, globs, and shortened names.

Reading is generous about the front of a name, which tools spell in several ways. Writing looks for few patterns that
match what they should and nothing else.
"""

import fnmatch
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

_FRONTS = ("", "model.", "language_model.", "model.language_model.", "language_model.model.")
_LEAF = re.compile(r"(?P<head>re:.+\\\.)(?P<leaf>\w+)\$")


@cache
def spellings(module: str) -> tuple[str, ...]:
    """A module's name in the file first, then with the other fronts that are in use."""
    tail = re.sub(r"^((model|language_model)\.)+", "", module)
    return tuple(dict.fromkeys((module, *(front + tail for front in _FRONTS))))


def names_regex(target: str, module: str) -> bool:
    """Whether a target of compressed-tensors names a module: `re:` and an expression for its beginning, or its name."""
    if target.startswith("re:"):
        return any(re.match(target[3:], name) for name in spellings(module))
    return target in spellings(module)


def names_glob(pattern: str, module: str) -> bool:
    """Whether a pattern of ModelOpt matches a module or one that contains it."""
    return any(fnmatch.fnmatchcase(name, pattern) for name in _containers(module))


def names_part(key: str, module: str) -> bool:
    """Whether an entry of modules_to_not_convert means a module: its end, or an expression for whole leading parts."""
    return any(
        name.endswith(key) or re.match(rf"(?:{key})(?:(?<=\.)|(?=\.|$))", name) is not None
        for name in spellings(module)
    )


def regexes(wanted: Sequence[str], others: Sequence[str], *, contained: bool) -> list[str]:
    """Few targets for compressed-tensors that match all of `wanted`, and none of `others` in any spelling.

    contained: whether an expression may name whatever lies inside a module; for lists of what is left out.
    """
    found = _cover(wanted, others, lambda name: _regexes_for(name, wanted, contained), _is_regex_of, names_regex)
    leaves: dict[str, list[str]] = defaultdict(list)
    for pattern in found:
        match = _LEAF.fullmatch(pattern)
        leaves[match["head"] if match else pattern].append(match["leaf"] if match else "")
    return sorted(head + _any_of(sorted(group)) + "$" if group[0] else head for head, group in leaves.items())


def globs(wanted: Sequence[str], others: Sequence[str]) -> list[str]:
    """Few globs that match all of `wanted`, and none of `others` in any spelling."""
    return sorted(
        _cover(wanted, others, _globs_for, lambda pattern, name: fnmatch.fnmatchcase(name, pattern), names_glob)
    )


@cache
def _containers(module: str) -> tuple[str, ...]:
    """A module in all spellings, and all that it lies in."""
    every = (name[:end] for name in spellings(module) for end in [m.start() for m in re.finditer(r"\.|$", name)])
    return tuple(dict.fromkeys(every))


def _is_regex_of(target: str, name: str) -> bool:
    return re.match(target[3:], name) is not None if target.startswith("re:") else target == name


def _regexes_for(name: str, wanted: Iterable[str], contained: bool) -> Iterator[str]:
    parts = [re.escape(part) for part in name.split(".")]
    if len(parts) == 1:
        yield name
        return
    if not any(part.isdigit() for part in parts[-2:]):
        yield rf"re:.*\.{parts[-2]}\.{parts[-1]}$"
    if contained:
        yield from (f"re:.*{part}.*" for part in parts[:-1] if not part.isdigit())
        yield rf"re:.*\.{parts[-1]}$"
    number = next((index for index, part in enumerate(parts) if part.isdigit()), None)
    if number is None:
        yield name
        return
    before, after = r"\.".join(parts[:number]), r"\.".join(parts[number + 1 :])
    like = re.compile(rf"{before}\.(\d+)\.{after}")
    numbers = sorted({int(match[1]) for other in wanted if (match := like.fullmatch(other))})
    chosen = _any_of([str(number) for number in numbers])
    yield rf"re:.*\.{parts[number - 1]}\.{chosen}\.{after}$"
    yield rf"re:^{before}\.{chosen}\.{after}$"


def _any_of(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"({'|'.join(words)})"


def _globs_for(name: str) -> Iterator[str]:
    parts = name.split(".")
    if len(parts) > 1:
        yield from (f"*{part}*" for part in parts[:-1] if not part.isdigit())
        yield f"*.{parts[-1]}"
        yield ".".join("*" if part.isdigit() else part for part in parts)
    yield name


def _cover(
    wanted: Sequence[str],
    others: Sequence[str],
    candidates: Callable[[str], Iterator[str]],
    matches: Callable[[str, str], bool],
    may_match: Callable[[str, str], bool],
) -> list[str]:
    """Patterns chosen greedily: the one that matches most of what is left, of equal ones the shortest. None of them
    `may_match` any of `others`."""
    reach = {}
    for pattern in dict.fromkeys(pattern for name in wanted for pattern in candidates(name)):
        if not any(may_match(pattern, other) for other in others):
            reach[pattern] = {name for name in wanted if matches(pattern, name)}
    left, chosen = set(wanted), []
    while left:
        best = max(reach, key=lambda pattern: (len(reach[pattern] & left), -len(pattern), pattern))
        chosen.append(best)
        left -= reach[best]
    return chosen
