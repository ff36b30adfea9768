"""Put a trained run where the package ships it, with a model card of what was measured.

    python -m ocria.train.release --run runs/nano --to ocria/assets/nano [--accuracy accuracy.json]

Scores the weights on held-out synthetic lines (fonts and texts that training never saw), per kind of text and
of degradation, and takes the numbers on real scans from a JSON document of `bench/accuracy.py`.
"""

import argparse
import itertools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from ocria.train import corpus, vocabulary
from ocria.train.architecture import CONFIG, model_config
from ocria.train.batches import usable
from ocria.train.evaluate import distance, greedy
from ocria.train.export import export
from ocria.train.fonts import HELD_OUT_FAMILIES, font_set
from ocria.train.learner import Learner
from ocria.train.lines import LineStream


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path("runs/nano"))
    parser.add_argument("--to", type=Path, default=Path("ocria/assets/nano"))
    parser.add_argument("--accuracy", type=Path, help="JSON document of bench/accuracy.py on these weights")
    parser.add_argument("--lines", type=int, default=1500, help="held-out lines to score")
    parser.add_argument("--before", metavar="TEXT", help="of the runs whose weights this one went on with")
    args = parser.parse_args()

    saved = torch.load(args.run / "last.pt", weights_only=True)
    learner = Learner(model_config()).eval()
    learner.load_state_dict(saved["learner"])
    export(learner, args.to)
    for file in args.to.iterdir():
        file.chmod(0o644)  # safetensors writes files that only their owner may read
    with torch.no_grad():  # score what ships: the weights as rounded to bf16
        for name, p in learner.named_parameters():
            if not name.endswith(("A_log", "linear_attn.norm.weight")):
                p.copy_(p.bfloat16())
    scores = score(learner, itertools.islice(LineStream(11, "held_out"), args.lines))
    accuracy = json.loads(args.accuracy.read_text(encoding="utf-8")) if args.accuracy else None
    (args.to / "README.md").write_text(card(saved, scores, accuracy, args.before), encoding="utf-8")
    print(f"wrote {args.to}: {sum(f.stat().st_size for f in args.to.iterdir()) / 1e6:.1f} MB")


@torch.inference_mode()
def score(learner: Learner, samples) -> dict[str, tuple[int, int, int, int]]:
    """Group -> (lines, characters, errors of the CTC head, errors of greedy decoding)."""
    by_width = defaultdict(list)
    for sample in samples:
        line = usable(sample.image, sample.text)
        if line is not None:
            by_width[line.shape[1]].append((line, sample))
    totals = defaultdict(lambda: np.zeros(4, int))
    for group in by_width.values():
        for start in range(0, len(group), 16):
            lines, group_samples = zip(*group[start : start + 16], strict=True)
            features = learner.encode(torch.from_numpy(np.stack(lines)))
            paths = learner.ctc_logits(features).argmax(-1).tolist()
            for sample, path, read in zip(group_samples, paths, greedy(learner, features), strict=True):
                text = sample.text
                row = (1, len(text), distance(vocabulary.ctc_text(path), text), distance(read, text))
                length = "over 84 characters" if len(text) > 84 else "up to 84 characters"
                page = sample.font.rsplit("/", 1)[-1]
                for name in ("all", f"page: {page}", f"length: {length}", f"text: {sample.kind}"):
                    totals[name] += row
    return {name: tuple(map(int, row)) for name, row in sorted(totals.items())}


def card(saved: dict, scores: dict, accuracy: dict | None, before: str | None = None) -> str:
    """The model card in Markdown. before: what came before this run."""
    text, vision = CONFIG["text_config"], CONFIG["vision_config"]
    kinds = (corpus._PROSE, corpus._TECHNICAL, corpus._FOREIGN)
    sources, held_out = (sorted({name for kind in kinds for name in kind[split]}) for split in ("train", "held_out"))
    rows = [
        f"| {name} | {n} | {100 * decoder / chars:.2f} | {100 * ctc / chars:.2f} |"
        for name, (n, chars, ctc, decoder) in scores.items()
    ]
    parts = [
        "# ocria-nano",
        "",
        "A reader of printed text lines in English and other Latin-script languages, trained from nothing on "
        "synthetic lines, of the Qwen3.5 architecture. One request is one line image, "
        "40 px high; it answers with the line's text in UTF-8 bytes. It loads unchanged in transformers as "
        "`Qwen3_5ForConditionalGeneration`.",
        "",
        "## Shape",
        f"- Vision encoder: {vision['depth']} layers, width {vision['hidden_size']}, {vision['num_heads']} heads, "
        f"{vision['patch_size']} px patches, 2 x 2 merged: a token is 40 x 40 px, about two characters.",
        f"- Decoder: {text['num_hidden_layers']} layers ({', '.join(text['layer_types'])}), width "
        f"{text['hidden_size']}, {text['vocab_size']} tokens (bytes and specials), tied head.",
        "- `ctc.safetensors`, `ctc.json`: the auxiliary head of the training, a linear layer from each image token to "
        "six frames over characters (class 0 is the blank). It drafts whole lines for the decoder to verify, and is "
        "the second opinion on what the decoder wrote.",
        "",
        "## Training",
        f"- {before + '; then ' if before else ''}{saved['lines']:,} synthetic lines, {saved['steps']:,} steps of one "
        f"process, {saved['elapsed'] / 60:.0f} minutes on two shared CPU cores.",
        "- First CTC on the vision encoder (short lines, then whole ones), then decoder and CTC jointly (weight 0.3); "
        "Muon on matrices, AdamW on the rest; 8 % of the decoder's input bytes replaced; constant rate, linear decay.",
        f"- Fonts: {len({family for family, _ in font_set('train').faces})} families of Debian packages; held out: "
        f"{', '.join(sorted(HELD_OUT_FAMILIES))}.",
        f"- Texts (readers in `ocria/train/sources.py`, which names the packages): {', '.join(sources)}, word lists, "
        f"and generated numbers, prices, dates, addresses, code and table cells. Held out: {', '.join(held_out)}. "
        "Neither texts nor fonts are part of this package.",
        "- Degradations: blur, noise, thresholds, JPEG, skew, erosion and dilation, uneven light, ghost text, touching "
        "rules, tight and loose crops, thermal print.",
        "",
        "## Results on held-out synthetic lines",
        "Character error rate in percent, fonts and texts unseen in training.",
        "",
        "| lines | number | decoder | CTC head |",
        "|---|---|---|---|",
        *rows,
    ]
    if accuracy:
        parts += ["", "## Results on real scans", accuracy_table(accuracy)]
    parts += [
        "",
        "## Limits",
        "No handwriting, formulas, scripts other than Latin, or vertical text. A line of more than about 130 "
        "characters is split by the caller. Similar shapes (I l 1, O 0) are told apart by context only.",
        "",
        "Licence of the weights: Apache-2.0.",
        "",
    ]
    return "\n".join(parts)


def accuracy_table(accuracy: dict) -> str:
    """The groups of a `bench/accuracy.py` document, ocria beside its peer.

    A group scored by words has no CER: its truth has no order.
    """
    rows = ["", "| group | items | reader | CER % | WER % | word F1 |", "|---|---|---|---|---|---|"]
    for name, readers in accuracy["groups"].items():
        for reader, found in readers.items():
            ordered = found["measure"] == "cer"
            cer, wer = (f"{100 * found[key]:.2f}" if ordered else "" for key in ("cer", "wer"))
            rows.append(f"| {name} | {found['items']} | {reader} | {cer} | {wer} | {found['f1']:.3f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
