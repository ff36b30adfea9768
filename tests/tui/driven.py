"""The app over a fake session, with keys pressed by a test."""

import asyncio
import functools
import time
from contextlib import asynccontextmanager

from fake_session import FakeSession, halfway
from ocria_tui.app import OcriaApp
from ocria_tui.settings import AppSettings
from textual.widgets import Input

SIZE = (120, 40)


def asynchronous(test):
    """A test that is a coroutine; its fixtures are found by its own arguments."""

    @functools.wraps(test)
    def run(*arguments, **named):
        asyncio.run(test(*arguments, **named))

    return run


@asynccontextmanager
async def app_of(session=None, settings=None, size=SIZE):
    """The app and its pilot, over a session that is halfway through its documents unless another one is given."""
    if session is None:
        session = FakeSession({"formats": ("md",), "output_dir": "ocria-out"})
        halfway(session)
    app = listened(OcriaApp(session, settings or AppSettings(animation=False)))
    async with app.run_test(size=size, notifications=True) as pilot:
        app.poll()
        await pilot.pause()
        yield app, pilot


def asked(app, name):
    """Arguments of the calls of the session under a name."""
    return [tuple(arguments) for called, *arguments in app.session.asked if called == name]


def listened(app):
    """The same app, whose notices are kept: on the screen they stay for some seconds."""
    notify, app.told = app.notify, []

    def keep(message, **options):
        app.told.append(message)
        notify(message, **options)

    app.notify = keep
    return app


def notices(app):
    """What the app told so far, as one text."""
    return "\n".join(app.told)


async def until(pilot, true, seconds=240):
    """Let the app run until something is so; the limit is for giving up."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it does not come"
        await pilot.pause(0.05)


def fill(app, name, text):
    """Write into a line of the screen that is on top."""
    app.screen.query_one(f"#{name}", Input).value = text


def problem(app):
    """What the screen on top complains about."""
    label = app.screen.query_one("#problem")
    return str(label.render()) if label.display else ""
