"""What is on the screen."""


def segments(app):
    """All that is drawn, row by row."""
    return [list(strip) for strip in app.screen._compositor.render_strips()]


def screen_text(app):
    """The screen as lines without blanks at their ends."""
    rows = ("".join(segment.text for segment in row).rstrip() for row in segments(app))
    return "".join(f"{row}\n" for row in rows)


async def settle(app, pilot):
    """The text of the screen once nothing changes any more."""
    before = None
    for _ in range(100):
        await pilot.pause(0.03)
        app.poll()
        await pilot.pause()
        text = screen_text(app)
        loading = any(worker.group == "image" and worker.is_running for worker in app.workers)
        if text == before and not loading:
            return text
        before = text
    raise AssertionError(f"the screen does not come to rest:\n{text}")
