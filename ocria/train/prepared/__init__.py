"""A training run in one folder, for a machine with CUDA and no network.

`pack` writes the folder; `launcher` is its run.py; everything else runs there: `rendering` makes lines in many
processes, `pool` hands them out in batches, `feed` does so beside the training, `augment` changes what was seen before,
`session` trains against the clock, `results` writes what comes back.
"""
