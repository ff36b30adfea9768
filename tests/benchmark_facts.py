"""Made measurements."""

from dataclasses import replace

from ocria.benchmark.facts import Limits, Machine, ModelFacts, PageTimes, RecipeFact, Report, Speed

MACHINE = Machine("host", "A CPU", 4, 2, ("AVX2",), 16 << 30, 8 << 30, None, None, "2.11")
MODEL = ModelFacts("toy", "line", "cpu", "float32", 5_000_000, 1_000_000, 20_000_000, "", 16_000_000, 500_000)
PARTS = {"open": 0.1, "lines": 0.4, "encoder": 0.5, "prefill": 0.2, "steps": 0.6, "host": 0.1, "rest": 0.1}
PAGE = PageTimes(3, (2.0, 1.9, 2.2), PARTS, 300, 90, 0.9, 12.0, 34.0)


def speed(group, name, seconds, base=False, times=None, pages=2.0, **more):
    """A variant that took `seconds` a turn, in three turns; times: as fast as the base."""
    found = Speed(group, name, base, (seconds, seconds * 1.01, seconds * 0.99), (times or 1.0,) * 3, 400, 60, pages)
    return replace(found, first_token_s=0.2, pages_per_min=60 / (0.6 + seconds / pages), **more)


def group(name, base, **seconds):
    """Variants of a group by what they took."""
    return [speed(name, key, s, key == base, seconds[base] / s) for key, s in seconds.items()]


def unequal(of, name, answers=2):
    return Speed(of, name, False, pages=2.0, different=answers)


def recipe(name, size, fits=True, step=None):
    return RecipeFact(name, size, size, step or size, fits, name != "fp8")


def report(speeds=(), recipes=(), model=MODEL, page=PAGE, **more):
    return Report(
        "1.2.3", 120.0, MACHINE, model, "made", Limits(1e10, 1e11), page, list(speeds), list(recipes), **more
    )
