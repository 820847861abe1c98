"""Reading images of every layout, the errors for bad ones, and writing."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest

from gridstride.errors import UnsupportedError, UsageError
from gridstride.pipeline import images
from pipeline import encode

Image = pytest.importorskip("PIL.Image")


def write_grey(path: Path, image: np.ndarray) -> None:
    images.write_whole(path, lambda file: file.write(images.encoded(image)))


def random_image(*shape: int, dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(7).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def saved(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_png_of_every_layout_keeps_every_bit(tmp_path: Path, channels: int, dtype: type) -> None:
    expected = random_image(9, 7, channels, dtype=dtype)
    read = images.read_image(saved(tmp_path / "a.png", encode.png(expected)))
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, expected[..., 0] if channels == 1 else expected)


def test_png_of_16_bit_grey_with_alpha_keeps_the_grey(tmp_path: Path) -> None:
    expected = random_image(5, 6, 2, dtype=np.uint16)
    np.testing.assert_array_equal(images.read_image(saved(tmp_path / "a.png", encode.png(expected))), expected[..., 0])


@pytest.mark.parametrize("deflate", [False, True])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_tiff_of_every_layout_keeps_every_bit(tmp_path: Path, channels: int, dtype: type, order: str, deflate: bool) -> None:
    expected = random_image(9, 7, channels, dtype=dtype)
    content = encode.tiff(expected, order, deflate, extra=2 if channels == 4 else None)
    read = images.read_image(saved(tmp_path / "a.tif", content))
    assert read.dtype == dtype
    np.testing.assert_array_equal(read, expected[..., 0] if channels == 1 else expected)


@pytest.mark.parametrize("extra", [0, 1])
def test_tiff_with_padding_or_premultiplied_alpha_keeps_the_stored_colours(tmp_path: Path, extra: int) -> None:
    expected = random_image(5, 6, 4, dtype=np.uint16)
    read = images.read_image(saved(tmp_path / "a.tif", encode.tiff(expected, extra=extra)))
    np.testing.assert_array_equal(read[..., :3], expected[..., :3])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(("orientation", "turns", "mirrored"), [(1, 0, False), (2, 0, True), (3, 2, False), (6, -1, False), (8, 1, False)])
def test_tiff_orientation_is_applied(tmp_path: Path, dtype: type, orientation: int, turns: int, mirrored: bool) -> None:
    stored = random_image(4, 7, 3, dtype=dtype)
    read = images.read_image(saved(tmp_path / "a.tif", encode.tiff(stored, orientation=orientation)))
    upright = np.rot90(stored, turns)
    np.testing.assert_array_equal(read, upright[:, ::-1] if mirrored else upright)


def test_jpeg_exif_orientation_is_applied(tmp_path: Path) -> None:
    stored = np.zeros((16, 32), np.uint8)
    stored[:, :16] = 255  # bright on the left; orientation 6 turns it clockwise: bright at the top
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(stored).save(tmp_path / "a.jpg", exif=exif, quality=95)
    read = images.read_image(tmp_path / "a.jpg")
    assert read.shape == (32, 16)
    assert read[:8].min() > 200 and read[-8:].max() < 50


@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.bmp"])
def test_palette_becomes_colour(tmp_path: Path, name: str) -> None:
    colours = random_image(4, 3)
    palette = Image.new("P", (4, 1))
    palette.putpalette(colours.tobytes())
    palette.putdata([2, 0, 3, 1])
    palette.save(tmp_path / name)
    np.testing.assert_array_equal(images.read_image(tmp_path / name), colours[[2, 0, 3, 1]][None])


def test_one_bit_becomes_black_and_white(tmp_path: Path) -> None:
    Image.fromarray(np.array([[True, False, True]])).save(tmp_path / "a.png")
    np.testing.assert_array_equal(images.read_image(tmp_path / "a.png"), [[255, 0, 255]])


def test_grey_with_alpha_becomes_grey(tmp_path: Path) -> None:
    both = random_image(3, 5, 2)
    np.testing.assert_array_equal(images.read_image(saved(tmp_path / "a.png", encode.png(both))), both[..., 0])


def test_cmyk_jpeg_becomes_rgb(tmp_path: Path) -> None:
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(tmp_path / "a.jpg", quality=100)
    read = images.read_image(tmp_path / "a.jpg").astype(int)
    assert read.shape == (8, 8, 3)
    assert np.abs(read - (255, 0, 0)).max() <= 3


def test_missing_file_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        images.read_image(tmp_path / "no.png")
    assert str(caught.value) == f"{tmp_path / 'no.png'}: there is no such file"


def test_not_an_image_wrong(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", b"a shopping list")
    with pytest.raises(UsageError) as caught:
        images.read_image(path)
    assert str(caught.value) == f"{path} is not an image that can be read (PNG, JPEG, TIFF, WebP and BMP can)"


def test_empty_file_wrong(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.jpg", b"")
    with pytest.raises(UsageError, match="is not an image that can be read"):
        images.read_image(path)


def test_folder_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        images.read_image(tmp_path)
    assert str(caught.value) == f"{tmp_path} is a folder, not an image"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_truncated_file_wrong(tmp_path: Path, kind: str, dtype: type) -> None:
    image = random_image(64, 64, 3, dtype=dtype)
    if kind == "JPEG":
        buffer = io.BytesIO()
        Image.fromarray(random_image(64, 64, 3)).save(buffer, "JPEG")
        content = buffer.getvalue()
    else:
        content = encode.png(image) if kind == "PNG" else encode.tiff(image)
    path = saved(tmp_path / "a", content[: len(content) // 2])
    with pytest.raises(UsageError, match=r"^.*a is (broken and cannot be decoded: .+|not an image that can be read.*)$"):
        images.read_image(path)


@pytest.mark.parametrize("shape", [(0, 5, 3), (5, 0, 1)])
def test_no_pixels_wrong(tmp_path: Path, shape: tuple[int, ...]) -> None:
    for name, encoded in (("a.png", encode.png(np.zeros(shape, np.uint8))), ("a.tif", encode.tiff(np.zeros(shape, np.uint8)))):
        with pytest.raises(UsageError, match=rf"{name} (has no pixels|is not an image|is broken)"):
            images.read_image(saved(tmp_path / name, encoded))


def test_too_many_pixels_wrong(tmp_path: Path) -> None:
    content = bytearray(encode.png(np.zeros((1, 1, 1), np.uint8)))
    content[16:24] = (20_000).to_bytes(4, "big") * 2  # IHDR's width and height; the checksum is left wrong, so mend it
    content[29:33] = __import__("zlib").crc32(bytes(content[12:29])).to_bytes(4, "big")
    path = saved(tmp_path / "a.png", bytes(content))
    with pytest.raises(UsageError) as caught:
        images.read_image(path)
    assert str(caught.value) == f"{path} claims more than 268,435,456 pixels, the most that can be processed"


def test_pillows_own_limit_is_put_back(tmp_path: Path) -> None:
    before = Image.MAX_IMAGE_PIXELS
    images.read_image(saved(tmp_path / "a.png", encode.png(random_image(2, 2, 3))))
    assert before == Image.MAX_IMAGE_PIXELS


@pytest.mark.parametrize(("dtype", "kind", "word"), [(np.float32, 3, "floating-point"), (np.uint32, 1, "signed or 32-bit integer")])
def test_other_samples_wrong(tmp_path: Path, dtype: type, kind: int, word: str) -> None:
    path = saved(tmp_path / "a.tif", encode.tiff(np.ones((3, 3, 1), dtype), kind=kind))
    with pytest.raises(UnsupportedError) as caught:
        images.read_image(path)
    assert str(caught.value) == f"{path} has {word} samples; images of 8 and 16 bits a channel can be processed"


def test_pillow_missing_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UnsupportedError) as caught:
        images.read_image(tmp_path / "a.png")
    assert str(caught.value) == "images are read and written with Pillow, which is not installed: pip install 'gridstride[image]'"


def test_folder_gives_its_images_by_name(tmp_path: Path) -> None:
    for name in ("b.PNG", "a.jpg", "c.tiff", "notes.txt", ".hidden.png"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "folder.png").mkdir()
    assert [path.name for path in images.images_in(tmp_path)] == ["a.jpg", "b.PNG", "c.tiff"]


def test_folder_without_images_wrong(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no image: no file ends in .bmp, .jpe, .jpeg"):
        images.images_in(tmp_path)


def test_written_png_is_read_back_and_leaves_nothing_else(tmp_path: Path) -> None:
    expected = random_image(17, 33)
    target = tmp_path / "deep" / "er" / "a.png"
    write_grey(target, expected)
    write_grey(target, expected)  # over an older one
    np.testing.assert_array_equal(images.read_image(target), expected)
    assert list(target.parent.iterdir()) == [target]


def test_unwritable_target_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match=r"^cannot write .*a\.png: "):
        write_grey(tmp_path / "file" / "a.png", random_image(2, 2))


def test_failed_writing_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a.png"
    target.write_bytes(b"old")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(UsageError, match=r"cannot write .*a\.png: No space left on device"):
        write_grey(target, random_image(2, 2))
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def content_of(kind: str) -> bytes:
    if kind == "JPEG":
        buffer = io.BytesIO()
        Image.fromarray(random_image(24, 24, 3)).save(buffer, "JPEG")
        return buffer.getvalue()
    image = random_image(12, 12, 3, dtype=np.uint16)
    return encode.png(image) if kind == "PNG" else encode.tiff(image, deflate=True)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF"])
def test_corrupt_files_give_an_image_or_one_sentence(tmp_path: Path, kind: str) -> None:
    content = np.frombuffer(content_of(kind), np.uint8)
    random = np.random.default_rng(11)
    refused = 0
    for _ in range(100):
        corrupt = content.copy()
        places = random.integers(0, corrupt.size, random.integers(1, 5))
        corrupt[places] = random.integers(0, 256, places.size, np.uint8)
        path = saved(tmp_path / "a", corrupt.tobytes())
        try:
            assert images.read_image(path).dtype in (np.uint8, np.uint16)
        except (UsageError, UnsupportedError) as error:
            refused += 1
            assert str(error).startswith(str(path)) and "\n" not in str(error)
    assert refused > 5
