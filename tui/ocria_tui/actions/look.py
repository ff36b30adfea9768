"""What is shown: documents, pages, parts of the screen, themes, help."""

from __future__ import annotations

from ocria.errors import OutputError
from ocria_tui.actions.view import View, refuse, shown
from ocria_tui.kept import keep
from ocria_tui.screens.goto import GoTo
from ocria_tui.screens.help import Help


def step_document(app: View, step: int) -> None:
    """Show the next document, or the one before."""
    paths = list(app.state.documents)
    if not paths:
        refuse(app, "There is no document. Open one first.")
        return
    place = paths.index(app.document) + step if app.document in paths else 0
    if 0 <= place < len(paths):
        app.show(paths[place])


def step_page(app: View, step: int) -> None:
    """Show the next page of the document that was chosen, or the one before."""
    found = shown(app)
    if found is None:
        return
    document, page = found
    numbers = sorted(document.pages)
    if not numbers:
        return
    place = numbers.index(page.number) + step if page is not None else 0
    if 0 <= place < len(numbers):
        app.show(document.path, numbers[place])


def goto_page(app: View) -> None:
    """Ask for a number and show that page."""
    found = shown(app)
    if found is None:
        return
    document, _ = found
    if not document.pages:
        refuse(app, "The pages of this document are not known yet.")
        return

    def answered(number: int | None) -> None:
        if number is not None:
            app.show(document.path, number)

    app.push_screen(GoTo(sorted(document.pages)), answered)


def follow(app: View) -> None:
    """Show what is being read from now on, or stay where it is."""
    app.following = not app.following
    app.notify("Following what is being read." if app.following else "Staying on this page.")


def toggle(app: View, name: str) -> None:
    """Turn a part of the screen on or off."""
    setattr(app, name, not getattr(app, name))


def toggle_images(app: View) -> None:
    """Show or hide the image of the page, unless the command line forbids images."""
    if not app.settings.images:
        refuse(app, "Images are off: the app was started with --no-images.")
        return
    toggle(app, "images")


def cycle_theme(app: View) -> None:
    """Take the next of all themes and say its name."""
    names = sorted(app.available_themes)
    app.theme = names[(names.index(app.theme) + 1) % len(names)]
    app.notify(f"Theme {app.theme}", timeout=2)


def keep_theme(app: View) -> None:
    """Write the theme where the next start finds it."""
    try:
        path = keep(app.theme)
    except OutputError as error:
        app.notify(str(error), severity="error", markup=False)
    else:
        app.notify(f"{app.theme} is the theme from now on ({path}).", markup=False)


def help_screen(app: View) -> None:
    """All keys as they are bound at this moment."""
    app.push_screen(Help(list(app.screen.active_bindings.values())))
