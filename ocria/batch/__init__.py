"""Many documents in one run: which inputs, where their outputs go, and what an earlier run has done already."""
