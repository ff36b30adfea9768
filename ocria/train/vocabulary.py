"""What ocria-nano writes: UTF-8 bytes and a few special tokens for the decoder, characters for the CTC head."""

from ocria.train.charset import CHARSET

SPECIALS = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>", "<|mask|>", *(f"<|reserved_{i}|>" for i in range(8)),
)  # fmt: skip
VOCAB = 256 + len(SPECIALS)
ENDOFTEXT, IM_START, IM_END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD, MASK = range(256, 264)

CTC_FRAMES = 6  # sub-frames of one image token, so that "ill" still fits
CTC_BLANK = 0
CTC_CLASSES = len(CHARSET) + 1
_INDEX = {char: i + 1 for i, char in enumerate(CHARSET)}


def ctc_labels(text: str) -> list[int]:
    """Class of each character. Raises KeyError for a character outside CHARSET."""
    return [_INDEX[char] for char in text]


def ctc_text(best: list[int]) -> str:
    """Collapse repeats and blanks of a frame-wise best path."""
    out, last = [], CTC_BLANK
    for label in best:
        if label != last and label != CTC_BLANK:
            out.append(CHARSET[label - 1])
        last = label
    return "".join(out)
