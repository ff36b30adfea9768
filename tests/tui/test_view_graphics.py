"""The page on terminals that show pixels; half cells of textual-image stand in for them."""

import io
import sys

from driven import asynchronous
from fake_session import FakeSession, halfway
from ocria_tui.app import OcriaApp
from ocria_tui.graphics import image_widget
from ocria_tui.settings import AppSettings
from screens_seen import screen_text, settle
from textual_image.widget import HalfcellImage


def test_without_a_terminal_nobody_is_asked(monkeypatch):
    for stream in (None, io.StringIO()):
        monkeypatch.setattr(sys, "__stdout__", stream)
        assert image_widget() is None


@asynchronous
async def test_pixels_stand_where_the_page_is(tmp_path):
    session = FakeSession(images=tmp_path)
    halfway(session)
    app = OcriaApp(session, AppSettings(animation=False), HalfcellImage)
    async with app.run_test(size=(120, 40)) as pilot:
        app.poll()
        await settle(app, pilot)
        pane, pixels = app.query_one("#page"), app.query_one("#pixels")
        assert pixels.display
        assert pane.content_region.contains_region(pixels.region)
        assert "▀▀▀" in screen_text(app)
        image = pixels.image
        assert image.width > 2 * pixels.region.width, "pixels, not cells"
        app.boxes = False
        await pilot.pause(1.1)  # they are sent once a second at most
        await settle(app, pilot)
        assert pixels.image.size == image.size
        assert pixels.image.tobytes() != image.tobytes(), "without its boxes"
        app.show("next.pdf")
        await pilot.pause(1.1)
        await settle(app, pilot)
        assert not pixels.display, "nothing of the other page is left"
        assert "▀" not in screen_text(app)
