"""Preview of images: decoding within limits, and drawing with half blocks, two pixels in each cell."""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING

from rich.color import Color
from rich.segment import Segment, Segments
from rich.style import Style
from textual.widgets import Static

from svc_tui.client import SvcError

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 16 << 20
"""Maximum size of an image that is shown."""
MAX_PIXELS = 64_000_000
"""Maximum number of its pixels, of up to 4 bytes while they are decoded."""
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
_BEGINNING = re.compile(rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}WEBP", re.DOTALL)
_DECODED = 512, 512
"""Maximum width and height of the decoded image. Terminals have fewer cells."""
_ROTATED = 5
"""Value of the field Orientation from which width and height are exchanged."""


def is_image(beginning: bytes | bytearray) -> bool:
    return _BEGINNING.match(beginning) is not None


def decode(data: bytes, size: int) -> tuple["Image", tuple[int, int]]:
    """Return a small copy of an image, and the size of the image in pixels. It computes.

    `size` is that of the file. Raises `SvcError` with the reason if it cannot be shown.
    """
    if size > MAX_BYTES:
        raise SvcError(f"an image of more than {MAX_BYTES >> 20} MiB: x downloads it")
    from PIL import ExifTags, Image, ImageOps

    Image.MAX_IMAGE_PIXELS = None  # Pillow warns on the terminal.
    try:
        image: Image.Image = Image.open(BytesIO(data), formats=_FORMATS)
        width, height = image.size
        if width * height > MAX_PIXELS:
            pixels = f"an image of {width:,} × {height:,} pixels"
            raise SvcError(f"{pixels}, {MAX_PIXELS // 10**6} million can be shown: x downloads it")
        image.draft("RGB", _DECODED)
        if image.mode.startswith("I"):
            image = image.point(lambda value: value / 256).convert("L")
        if image.mode not in ("L", "RGB", "RGBA") or "transparency" in image.info:
            image = image.convert("RGBA")
        image.thumbnail(_DECODED)
        if image.getexif().get(ExifTags.Base.Orientation, 1) >= _ROTATED:
            width, height = height, width
        return ImageOps.exif_transpose(image).convert("RGBA"), (width, height)
    except SvcError:
        raise
    except Exception as error:  # Decoders raise errors of many kinds.
        raise SvcError("a damaged or incomplete image: x downloads it") from error


class Picture(Static):
    """An image as large as the dialog permits, at most a pixel of it in half a cell."""

    def __init__(self, image: "Image") -> None:
        super().__init__()
        self._image = image

    def fit(self, columns: int, rows: int) -> int:
        """Draw the image into cells; return the columns that it takes."""
        width, height = self._image.size
        scale = min(1, columns / width, 2 * rows / height)
        columns, rows = max(1, round(width * scale)), max(1, round(height * scale / 2))
        self.styles.width, self.styles.height = columns, rows
        self.update(Segments(self._draw(columns, rows)))
        return columns

    def _draw(self, columns: int, rows: int) -> Iterator[Segment]:
        pixels = self._image.resize((columns, 2 * rows))
        below = pixels.copy()
        below.paste((*self.background_colors[1].rgb, 255), (0, 0, *pixels.size))
        below.alpha_composite(pixels)
        data = below.convert("RGB").tobytes()
        row = 3 * columns
        for top in range(0, len(data), 2 * row):
            for at in range(top, top + row, 3):
                upper, lower = (Color.from_rgb(*data[each : each + 3]) for each in (at, at + row))
                yield Segment("▀", Style(color=upper, bgcolor=lower))
            yield Segment.line()
