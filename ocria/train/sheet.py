"""A contact sheet of line samples with their truths, for the eye."""

from PIL import Image, ImageDraw

from ocria.train.fonts import font_set, load


def contact_sheet(samples, width: int = 1500) -> Image.Image:
    """All `samples` (LineSample) below one another, shrunk to `width` where wider, truths under them."""
    caption = (
        load(font_set("train").faces["DejaVu Sans", "regular"][0].path, 13)
        if ("DejaVu Sans", "regular") in font_set("train").faces
        else None
    )
    rows = []
    for sample in samples:
        line = Image.fromarray(sample.image)
        if line.width > width:
            line = line.resize(
                (width, max(1, round(line.height * width / line.width))), Image.Resampling.LANCZOS
            )
        rows.append((line, f"{sample.text}   [{sample.kind}, {sample.font}, {sample.image.shape[0]} px]"))
    sheet = Image.new("RGB", (width, sum(line.height + 24 for line, _ in rows)), (200, 205, 225))
    draw, y = ImageDraw.Draw(sheet), 0
    for line, text in rows:
        sheet.paste(line.convert("RGB"), (0, y))
        draw.text((2, y + line.height + 2), text, fill=(160, 0, 0), font=caption)
        y += line.height + 24
    return sheet
