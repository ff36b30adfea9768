"""The terminal app, imported as `ocria_tui`. It sits on top of `ocria`, which never imports it."""
