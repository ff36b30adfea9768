"""A page for a model to read, small enough for a test."""

from PIL import Image, ImageDraw, ImageFont


def scan(path):
    """A small page with three lines to be read from pixels."""
    image = Image.new("L", (620, 200), 255)
    font = ImageFont.load_default(26)
    lines = ("The tide gauge at the north", "pier was read at noon and", "again at six in the evening.")
    for row, line in enumerate(lines):
        ImageDraw.Draw(image).text((40, 30 + 45 * row), line, font=font, fill=0)
    image.save(path)
