"""What the user does. `Actions` gives an app the `action_<name>` of every name in `ocria_tui.keymap`; what they ask of
it is `View`."""

from __future__ import annotations

from ocria_tui.actions import files, leave, look, output, reading, text


class Actions:
    """Mixed into the app, before `App`."""

    def action_open(self) -> None:
        files.open_files(self)

    def action_settings(self) -> None:
        files.settings(self)

    def action_next_document(self) -> None:
        look.step_document(self, 1)

    def action_previous_document(self) -> None:
        look.step_document(self, -1)

    def action_next_page(self) -> None:
        look.step_page(self, 1)

    def action_previous_page(self) -> None:
        look.step_page(self, -1)

    def action_goto_page(self) -> None:
        look.goto_page(self)

    def action_follow(self) -> None:
        look.follow(self)

    def action_pause(self) -> None:
        reading.pause(self)

    def action_cancel_page(self) -> None:
        reading.cancel_page(self)

    def action_cancel_document(self) -> None:
        reading.cancel_document(self)

    def action_cancel_all(self) -> None:
        reading.cancel_all(self)

    def action_retry(self) -> None:
        reading.retry(self)

    def action_retry_with(self) -> None:
        reading.retry_with(self)

    def action_restart(self) -> None:
        reading.restart(self)

    def action_search(self) -> None:
        text.search(self)

    def action_next_hit(self) -> None:
        text.step_hit(self, 1)

    def action_previous_hit(self) -> None:
        text.step_hit(self, -1)

    def action_copy_page(self) -> None:
        text.copy_page(self)

    def action_copy_document(self) -> None:
        text.copy_document(self)

    def action_export(self) -> None:
        output.export(self)

    def action_edit(self) -> None:
        output.edit(self)

    def action_toggle_raw(self) -> None:
        look.toggle(self, "raw")

    def action_toggle_boxes(self) -> None:
        look.toggle(self, "boxes")

    def action_toggle_images(self) -> None:
        look.toggle_images(self)

    def action_toggle_log(self) -> None:
        look.toggle(self, "log_shown")

    def action_cycle_theme(self) -> None:
        look.cycle_theme(self)

    def action_keep_theme(self) -> None:
        look.keep_theme(self)

    def action_help(self) -> None:
        look.help_screen(self)

    def action_help_quit(self) -> None:
        """Ctrl-C, where no text is selected that it would copy."""
        leave.quit_app(self)

    async def action_quit(self) -> None:
        leave.quit_app(self)
