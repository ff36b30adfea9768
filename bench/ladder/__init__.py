"""The ladder: each thing that makes ocria fast, measured on top of the ones before. Run `python -m bench.ladder`."""

import sys
from pathlib import Path

# Benches are scripts that import their neighbours by bare names; modules of this package have to see them too.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
