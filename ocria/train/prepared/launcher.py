"""run.py of a prepared folder: checks this machine, unpacks, starts the training. Needs nothing but Python itself."""

import importlib.util
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

STARTED = time.time()
FOLDER = Path(__file__).resolve().parent
NEEDED = ("torch", "numpy", "PIL", "safetensors", "tokenizers", "jinja2")


def main() -> int:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"{sys.executable} lacks {', '.join(missing)}: install them, or unpack wheels and name their folder in "
              "PYTHONPATH (README.txt says how)", file=sys.stderr)  # fmt: skip
        return 7
    with tempfile.TemporaryDirectory(prefix="ocria-run-") as work:
        for archive in sorted(FOLDER.glob("*.tar.xz")):
            with tarfile.open(archive) as tar:
                tar.extractall(work, filter="data")
        process = subprocess.Popen([sys.executable, "-m", "ocria.train.prepared", *sys.argv[1:]], env=environment(work))
        return wait(process)


def environment(work: str) -> dict[str, str]:
    """This process's, with the unpacked source first and nothing of an ocria that may be installed."""
    paths = [f"{work}/source", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    env = {name: value for name, value in os.environ.items() if not name.startswith("OCRIA_")}
    env |= {
        "PYTHONPATH": os.pathsep.join(paths),
        "OCRIA_TRAIN_CACHE": f"{work}/texts",
        "OCRIA_FONTS": f"{work}/fonts",
        "OCRIA_RUN_STARTED": str(STARTED),
        "OMP_NUM_THREADS": "1",  # of the rendering processes
        "PYTHONUNBUFFERED": "1",
    }
    if (FOLDER / "init").is_dir():
        env["OCRIA_RUN_INIT"] = str(FOLDER / "init")
    return env


def wait(process: subprocess.Popen) -> int:
    """The exit code; SIGTERM and SIGINT are handed on, so that the training saves."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: process.send_signal(number))
    code = process.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    raise SystemExit(main())
