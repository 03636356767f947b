"""Preview of images: limits, damaged files, orientation, transparency, and drawing."""

import struct
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from PIL import Image
from textual.app import App, ComposeResult
from textual.color import Color

from screens.work.picture import MAX_BYTES, Picture, decode, is_image
from svc_tui.client import SvcError

RED, GREEN = (255, 0, 0), (0, 255, 0)


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def halves(width: int = 40, height: int = 20) -> Image.Image:
    """Return an image that is red at the left and green at the right."""
    image = Image.new("RGB", (width, height), RED)
    image.paste(GREEN, (width // 2, 0, width, height))
    return image


def png_head(width: int, height: int) -> bytes:
    """Return the beginning of a PNG."""
    chunk = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    head = struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return b"\x89PNG\r\n\x1a\n" + head + struct.pack(">I", 1000) + b"IDAT"


def shown(data: bytes) -> tuple[Image.Image, tuple[int, int]]:
    assert is_image(data)
    return decode(data, len(data))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_formats_are_decoded_and_made_small(kind: str) -> None:
    image, size = shown(encoded(halves(2000, 1000), kind))
    assert (size, image.size, image.mode) == ((2000, 1000), (512, 256), "RGBA")
    assert image.getpixel((10, 10))[0] > 240 and image.getpixel((500, 10))[1] > 240  # type: ignore[index]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK", "I;16"])
def test_modes_are_decoded_to_colors(mode: str) -> None:
    if mode == "I;16":
        source = Image.new(mode, (4, 4), 0x8000)
    else:
        source = Image.new("L", (4, 4), 153).convert("RGB").convert(mode)
    image, _ = shown(encoded(source, "JPEG" if mode == "CMYK" else "PNG"))
    pixel = image.getpixel((1, 1))
    assert isinstance(pixel, tuple) and (
        mode == "1" or all(abs(each - (128 if mode == "I;16" else 153)) < 3 for each in pixel[:3])
    )


def test_photo_is_turned_by_its_orientation() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    image, size = shown(encoded(halves(), "JPEG", exif=exif, quality=95))
    assert (size, image.size) == ((20, 40), (20, 40))
    assert image.getpixel((10, 2))[0] > 240  # type: ignore[index]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lambda: png_head(30_000, 30_000), "30,000 × 30,000 pixels, 64 million can be shown"),
        (lambda: png_head(2**31 - 1, 2**31 - 1), "pixels, 64 million can be shown"),
        (lambda: png_head(0, 5), "damaged or incomplete"),
        (lambda: encoded(halves(400, 400), "PNG")[:-40], "damaged or incomplete"),
        (lambda: encoded(halves(400, 400), "JPEG")[:900], "damaged or incomplete"),
        (lambda: b"RIFF\x10\0\0\0WEBPVP8X" + b"\xff" * 40, "damaged or incomplete"),
        (lambda: b"GIF89a", "damaged or incomplete"),
    ],
)
def test_image_that_cannot_be_shown_has_a_reason(data: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(SvcError, match=reason):
        shown(data())


def test_file_above_the_limit_is_not_decoded() -> None:
    with pytest.raises(SvcError, match="more than 16 MiB"):
        decode(b"", MAX_BYTES + 1)


def test_other_files_are_no_images() -> None:
    assert not any(map(is_image, (b"", b"a text", b"<svg/>", b"\x89PNG", b"RIFF\0\0\0\0WAVE", b"BM\0\0")))


@pytest.mark.anyio
async def test_picture_has_two_pixels_in_each_cell_and_the_background_behind_it() -> None:
    image = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    image.paste((*RED, 255), (0, 0, 4, 2))
    picture = Picture(image)

    class Frame(App[None]):
        CSS = "Picture { background: #102030; }"

        def compose(self) -> ComposeResult:
            yield picture

    app = Frame()
    async with app.run_test() as pilot:
        assert picture.fit(80, 20) == 4
        await pilot.pause()
        assert picture.size == (4, 2)
        background = Color.parse("#102030").rgb
        for y, expected in enumerate((RED, background)):
            (*cells,) = picture.render_line(y)
            assert len(cells) == 4
            for cell in cells:
                assert cell.text == "▀" and cell.style is not None
                for color in (cell.style.color, cell.style.bgcolor):
                    assert color is not None and color.triplet == expected
        assert picture.fit(2, 20) == 2
        await pilot.pause()
        assert picture.size == (2, 1)
