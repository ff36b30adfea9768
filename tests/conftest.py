"""What must be set before torch and triton look, and what must not be set at all.

Kernels run in Triton's interpreter where there is no GPU: Triton decides when a kernel is defined. With several
workers (`pytest -n 2`) each computes on one thread, or they would wait for each other's cores.
"""

import os

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# Settings of whoever runs the tests are not those that they test.
_OF_THE_TESTS = ("OCRIA_SAMPLES", "OCRIA_FUZZ", "OCRIA_FONTS", "OCRIA_TRAIN")
for _name in list(os.environ):
    if _name.startswith("OCRIA_") and not _name.startswith(_OF_THE_TESTS):
        del os.environ[_name]
os.environ["XDG_CONFIG_HOME"] = "/nonexistent"
