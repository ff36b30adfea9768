"""The ladder: each thing that makes ocria fast, measured on top of the ones before. Run `python -m bench.ladder`."""
