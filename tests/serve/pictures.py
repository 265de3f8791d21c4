"""Images for the tests, good ones and hostile ones, as data addresses."""

import base64
import io
import struct
import zlib
from typing import Any

from PIL import Image, ImageDraw


def address(raw: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(raw).decode()}"


def saved(image: Image.Image, kind: str, **settings: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return file.getvalue()


def digit() -> Image.Image:
    image = Image.new("L", (40, 40), 0)
    ImageDraw.Draw(image).line([(10, 8), (30, 8), (18, 34)], fill=230, width=5)
    return image


def shown(image: Image.Image | None = None) -> dict[str, Any]:
    return {"kind": "image", "png": address(saved(image or digit(), "png"))}


def huge_header(width: int = 65535, height: int = 65535) -> bytes:
    """A PNG that promises more pixels than there are bytes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    )


def hostile() -> dict[str, str]:
    """By name."""
    good = saved(digit(), "png")
    photo = digit().convert("RGB")
    frames = [Image.new("L", (20, 20), i % 255) for i in range(300)]
    found = {
        "65535 x 65535": address(huge_header()),
        "one too many": address(huge_header(4001, 4000)),
        "no pixels": address(huge_header(0, 0)),
        "cut off": address(good[: len(good) // 2]),
        "cut off jpeg": address(saved(photo, "jpeg")[:300], "jpeg"),
        "cmyk": address(saved(photo.convert("CMYK"), "jpeg"), "jpeg"),
        "16 bit": address(saved(Image.new("I;16", (12, 9), 40000), "png")),
        "animated": address(saved(frames[0], "gif", save_all=True, append_images=frames[1:]), "gif"),
        "svg": address(b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'),
        "1 x 1": address(saved(Image.new("L", (1, 1), 7), "png")),
        "one line": address(saved(Image.new("RGB", (16000, 1), "red"), "png")),
        "transparent": address(saved(Image.new("RGBA", (9, 9), (1, 2, 3, 0)), "png")),
        "palette": address(saved(photo.convert("P"), "png")),
        "webp": address(saved(photo, "webp"), "webp"),
        "tiff": address(saved(photo, "tiff")),
        "bmp": address(saved(photo, "bmp")),
        "empty": address(b""),
        "letters": address(b"hello"),
        "wrong name": address(saved(photo, "jpeg"), "png"),
        "broken sums": address(good[:-20] + bytes(20)),
    }
    return found
