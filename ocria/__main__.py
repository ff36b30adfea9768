"""`python -m ocria` is the `ocria` command."""

import sys

from ocria.cli import main

sys.exit(main())
