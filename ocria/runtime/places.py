"""Where the engine keeps files of its own. Nothing heavy is imported here."""

import os
from pathlib import Path


def compiled_root() -> Path:
    """The folder of compiled code, one folder below it for each network and machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "ocria", "compiled")
