"""How long threads of a product wait for each other before they sleep: set before torch is loaded."""

import os

_SPINS = "1000"
"""With GNU OpenMP's own choice, 300,000, a thread that waits keeps the very core that the one it waits for may need:
beside another busy process, steps with two threads on two cores took up to ninety times as long in some runs; with
this, two to three times. On an idle machine it costs a few percent."""


def spin_briefly() -> None:
    """Let threads sleep soon. Without effect once torch is loaded, or where the user has set `GOMP_SPINCOUNT` or
    `OMP_WAIT_POLICY`.

    Source: the manual of GNU libgomp, environment variables.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
