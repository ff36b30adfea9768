"""README.txt of a prepared folder."""

_TEXT = """A prepared training run of ocria-nano: {size:.1f} MB. Nothing is fetched.

    python3 run.py --out RESULTS

on a machine with CUDA trains for eight minutes of wall time, this command from its start to its end, and leaves in
RESULTS (default $OUT, else ./out):

    export.tar     weights in the shipped format (bf16), with their CTC head; written again every 45 seconds. Files over
                   15 MB come in parts: cat export.tar.* > export.tar
    log.txt        losses, rates, what bound the run
    scores.json    the same numbers, and error rates on held-out lines

`tar xf export.tar` gives `export/`, which `--init` of ocria.train.nano takes, as does ocria as a model.

Without CUDA the same command trains on the CPU. SIGTERM ends it early and saves. `python3 run.py --help` lists minutes,
batch size, rates, rendering processes. {start}

Needs there: Python 3.11 or later with torch 2.11 or later, numpy, Pillow, safetensors, tokenizers, jinja2. run.py says
what is missing before it does anything. To bring a missing package along, for Python 3.12:

    pip download --no-deps --only-binary=:all: --python-version 3.12 --platform manylinux_2_28_x86_64 -d wheels pillow
    python3 -m pip install --no-index --no-deps --target site wheels/*.whl; PYTHONPATH=site python3 run.py

Texts: {texts}.
Fonts: {fonts} files. From which packages, and under what licences: manifest.json, licences.txt. The folder is for your
own machines: texts and fonts are not part of ocria.
"""


def readme(manifest: dict) -> str:
    start = "It starts from the weights in init/ (--from-nothing: does not)." if manifest["init"] else (
        "It starts from nothing: the vision encoder alone by CTC on short lines first, then the decoder joins.")
    return _TEXT.format(size=sum(manifest["bytes"].values()) / 1e6, start=start, fonts=len(manifest["fonts"]),
                        texts=", ".join(manifest["texts"]))  # fmt: skip
