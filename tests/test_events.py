"""Events as plain data and back."""

import json
import random
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from ocria import events
from ocria.errors import InputError
from ocria.events import Event, event_from_dict
from ocria.runtime.acceptance import Acceptance


@pytest.fixture
def rng():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return random.Random(seed)


def anything(rng, hint):
    """A random value of an annotated type."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is typing.Any:
        return rng.choice([None, acceptance(rng)])
    if origin is tuple:
        each = inner[:1] * rng.randrange(4) if inner[-1] is ... else inner
        return tuple(anything(rng, one) for one in each)
    if inner:
        return anything(rng, rng.choice(inner))
    if hint is str:
        return "".join(chr(rng.choice([9, 10, 0x22, 0x5D0, 0x1F600, 0xDC80, *range(32, 127)])) for _ in range(9))
    if hint is type(None):
        return None
    numbers = {int: rng.randrange(-9, 1 << 40), float: rng.choice([0.0, rng.random() * 1e9]), bool: rng.random() < 0.5}
    return numbers[hint]


def acceptance(rng):
    counted = Acceptance()
    for _ in range(rng.randrange(1, 9)):
        drafted = rng.randrange(4)
        counted.add(rng.choice(["lookup", "network"]), drafted, rng.randint(0, drafted))
    return counted


def made(rng, kind):
    hints = typing.get_type_hints(kind)
    event = kind(**{field.name: anything(rng, hints[field.name]) for field in fields(kind)})
    return replace(event, **{name: None for name in ("result", "document") if name in hints})


def test_all_kinds_are_there():
    text = Path(events.__file__).read_text(encoding="utf-8")
    assert [kind.__name__ for kind in events.EVENTS] == re.findall(r"^class (\w+)\(Event\)", text, re.MULTILINE)
    assert len(events.EVENTS) > 15


@pytest.mark.parametrize("kind", events.EVENTS)
def test_what_is_told_is_read_back(kind, rng):
    for _ in range(20):
        event = made(rng, kind)
        told = event.to_dict()
        for data in (told, json.loads(json.dumps(told))):
            again = event_from_dict(data)
            assert type(again) is kind
            assert again.to_dict() == told
            assert getattr(again, "acceptance", None) == told.get("acceptance")
            if "acceptance" in told:
                again = replace(again, acceptance=event.acceptance)
            assert again == event


def test_documents_and_pages_are_not_told():
    done = events.PageDone("a.pdf", 1, "ok", "text", 0.5, 0, "words", None, object())
    assert event_from_dict(done.to_dict()) == replace(done, result=None)
    assert "result" not in done.to_dict()
    done = events.DocumentDone("a.pdf", "ok", 0.5, object())
    assert done.to_dict() == {"type": "document_done", "path": "a.pdf", "status": "ok", "seconds": 0.5}
    assert event_from_dict({**done.to_dict(), "document": 5}).document is None


@pytest.mark.parametrize("kind", events.EVENTS)
def test_what_a_newer_version_adds_is_passed_over(kind, rng):
    event = made(rng, kind)
    assert event_from_dict({**event.to_dict(), "colour": [1, {"a": 2}]}) == event_from_dict(event.to_dict())


def test_fields_with_a_default_may_be_missing():
    assert event_from_dict({"type": "note", "level": "info", "message": "x"}) == events.Note("info", "x")
    with pytest.raises(InputError, match="event 'note': message is missing"):
        event_from_dict({"type": "note", "level": "info"})


@pytest.mark.parametrize("kind", ["page_undone", "event", "", None, 7, [], {}])
def test_unknown_kinds_are_named(kind):
    with pytest.raises(InputError, match=re.escape(f"unknown kind of event {kind!r}")):
        event_from_dict({"type": kind})
    with pytest.raises(InputError, match="unknown kind of event None"):
        event_from_dict({})


@pytest.mark.parametrize(
    ("name", "value"),
    [("page", "1"), ("page", True), ("page", 1.5), ("page", None), ("path", 3), ("boxes", [[1, 2, 3]]),
     ("boxes", "abcd"), ("boxes", [["a", 1, 2, 3]]), ("boxes", {}), ("boxes", None)],
)  # fmt: skip
def test_values_of_another_type_are_refused(name, value):
    told = events.LinesFound("a.pdf", 1, ((0.0, 1, 2.5, 3),)).to_dict()
    assert event_from_dict(told).boxes == ((0.0, 1, 2.5, 3),)
    with pytest.raises(InputError, match=f"event 'lines_found': {name} cannot be"):
        event_from_dict({**told, name: value})


@dataclass(frozen=True, slots=True)
class LampLit(Event):
    lamps: tuple[int, ...] | None = None
    seen: Mapping[str, float] | None = None


def test_kinds_of_other_modules_are_given():
    lit = LampLit((3, 4), {"far": 2.0})
    assert event_from_dict(json.loads(json.dumps(lit.to_dict())), also=[LampLit]) == lit
    with pytest.raises(InputError, match="'lamp_lit'"):
        event_from_dict(lit.to_dict())
    with pytest.raises(InputError, match="seen cannot be"):
        event_from_dict({**lit.to_dict(), "seen": [1]}, also=[LampLit])
