"""Colours come out as sRGB whatever the file: every mode and format against a decode in plain numpy, and profiles."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms
from support.profiles import D50, DISPLAY_P3, GREY_18, SRGB, SRGB_TO_XYZ, encoded, in_srgb

from ldm.errors import Fault
from lun.data.images.colours import eight_bits, profile_kind, to_rgb
from lun.data.images.decode import decode, header_size
from lun.data.local import Local

SIZE = (24, 16)
FORMATS = (
    "PNG",
    "JPEG",
    "BMP",
    "WEBP",
    "AVIF",
    "TIFF",
    "TIFF lzw",
    "GIF",
    "JPEG2000",
    "PPM",
    "TGA",
    "DDS",
    "ICO",
    "PCX",
)
MODES = ("1", "CMYK", "F", "HSV", "I", "I;16", "I;16B", "L", "LA", "LAB", "P", "PA", "RGB", "RGBA", "RGBX", "YCbCr")
PROFILES = (None, DISPLAY_P3, SRGB, GREY_18, b"broken")
TOLERATED = {"LAB": 3, "YCbCr": 8}
"""Levels; Pillow's own rounding of YCbCr grows in dark colours of P3."""


def painted(mode: str) -> Image.Image:
    """Smooth colours in `mode`."""
    noise = np.random.default_rng(0).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    image = Image.fromarray(noise).resize(SIZE, Image.Resampling.BICUBIC)
    grey = np.asarray(image.convert("L"))
    if mode in ("F", "I", "I;16", "I;16B"):
        kind = {"F": np.float32, "I": np.int32, "I;16": np.uint16, "I;16B": np.dtype(">u2")}[mode]
        return Image.fromarray((grey / 255).astype(kind) if mode == "F" else (grey.astype(np.int64) * 257).astype(kind))
    if mode == "LAB":
        srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        found = ImageCms.profileToProfile(image, srgb, lab, outputMode="LAB")
        assert found is not None
        return found
    if mode in ("RGBA", "LA", "PA"):
        image = image.convert("LA" if mode == "LA" else "RGBA")
        image.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, SIZE[0]).astype(np.uint8), (SIZE[1], 1))))
    return image.convert(mode)


def turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """Table 6 of Exif 2.32."""
    across = pixels.swapaxes(0, 1)
    return [
        pixels,
        pixels[:, ::-1],
        pixels[::-1, ::-1],
        pixels[::-1],
        across,
        across[:, ::-1],
        across[::-1, ::-1],
        across[::-1],
    ][orientation - 1]


def over_white(colours: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return colours * (alpha[..., None] / 255) + 255 - alpha[..., None]


def of_lab(lab: np.ndarray) -> np.ndarray:
    """CIE L*a*b* as TIFF has it, a and b as signed bytes, in sRGB."""
    light, (a, b) = lab[..., 0] / 255 * 100, lab[..., 1:].view(np.int8).transpose(2, 0, 1).astype(np.float64)
    y = (light + 16) / 116
    steps = np.stack([y + a / 500, y, y - b / 200], -1)
    xyz = np.where(steps > 6 / 29, steps**3, 3 * (6 / 29) ** 2 * (steps - 4 / 29)) * D50
    return 255 * encoded(xyz @ np.linalg.inv(SRGB_TO_XYZ).T)


def reference(image: Image.Image, profile: bytes | None) -> np.ndarray:
    """The pixels of a file in float64, from the numbers that Pillow finds in it by arithmetic alone."""
    mode = image.mode
    if mode in ("P", "PA"):
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    numbers = np.asarray(image).astype(np.float64)
    scale = {"1": 255.0, "F": 255.0}.get(mode, 1 / 257 if mode.startswith("I") else 1.0)
    if mode == "LAB":
        return of_lab(np.array(image))
    if mode == "CMYK":
        return (255 - numbers[..., :3]) * (255 - numbers[..., 3:]) / 255
    if mode == "YCbCr":
        y, blue, red = numbers[..., 0], numbers[..., 1] - 128, numbers[..., 2] - 128
        rgb = np.stack([y + 1.402 * red, y - 0.344136 * blue - 0.714136 * red, y + 1.772 * blue], -1)
        return in_srgb(rgb.round().clip(0, 255), profile)
    if numbers.ndim == 2:
        grey = np.repeat((numbers * scale)[..., None], 3, -1)
        return in_srgb(grey, profile)
    if numbers.shape[-1] in (2, 4) and image.has_transparency_data:
        colours = np.repeat(numbers[..., :1], 3, -1) if numbers.shape[-1] == 2 else numbers[..., :3]
        return over_white(in_srgb(colours, profile), numbers[..., -1])
    return in_srgb(numbers[..., :3], profile)


def heeded(image: Image.Image, profile: bytes | None) -> bytes | None:
    """The profile as far as the file kept it and it speaks of such pixels."""
    is_grey = image.mode in ("1", "L", "LA") or image.mode.startswith(("I", "F"))
    fits = (profile in (DISPLAY_P3, SRGB) and image.mode not in ("CMYK", "LAB")) or (profile == GREY_18 and is_grey)
    return profile if fits and image.info.get("icc_profile") == profile else None


def test_every_mode_in_every_format_turned_and_profiled_is_decoded_to_its_colours(tmp_path: Path) -> None:
    tried, wrong = 0, []
    for number, (mode, form) in enumerate((mode, form) for mode in MODES for form in FORMATS):
        for extra in range(2):
            orientation, profile = (number + 3 * extra) % 8 + 1, PROFILES[(number + extra) % len(PROFILES)]
            path, exif = tmp_path / "picture.png", Image.Exif()
            exif[0x0112] = orientation
            options = (
                {"compression": "tiff_lzw"} if form == "TIFF lzw" else {"lossless": True} if form == "WEBP" else {}
            )
            try:
                painted(mode).save(path, form.split()[0], exif=exif, icc_profile=profile, **options)
            except (OSError, ValueError, TypeError):
                continue  # Pillow has no such file
            with path.open("rb") as file, Image.open(file) as image:  # not by its path: see `opened`
                was_turned = image.getexif().get(0x0112, 1) if image.format != "TIFF" else 1
                image.load()
                expected = turned(reference(image, heeded(image, profile)), was_turned)
            label = f"{mode} as {form} ({image.mode}), orientation {orientation}, profile {PROFILES.index(profile)}"
            found = decode(path)
            tried += 1
            if found.mode != "RGB" or np.asarray(found).shape != expected.shape or header_size(path) != found.size:
                wrong.append(
                    f"{label}: {found.mode} {found.size}, expected {expected.shape}, header {header_size(path)}"
                )
            elif (error := np.abs(np.asarray(found) - expected).max()) > TOLERATED.get(image.mode, 2.01):
                wrong.append(f"{label}: off by {error:.1f}")
    print(f"{tried} files")
    assert not wrong, "\n".join(wrong)
    assert tried > 150


def test_a_colour_of_display_p3_is_the_one_that_srgb_calls_so(tmp_path: Path) -> None:
    Image.new("RGB", (16, 16), (200, 60, 40)).save(tmp_path / "a.jpg", quality=100, icc_profile=DISPLAY_P3)
    expected = in_srgb(np.array([200.0, 60, 40]), DISPLAY_P3).round()
    assert expected.tolist() == [217, 42, 23]
    assert np.abs(np.subtract(decode(tmp_path / "a.jpg").getpixel((8, 8)), expected)).max() <= 2
    assert np.abs(np.subtract(decode(tmp_path / "a.jpg", icc="ignore").getpixel((8, 8)), (200, 60, 40))).max() <= 2


@pytest.mark.parametrize(
    ("mode", "profile", "kind"),
    [
        ("RGB", None, "none"),
        ("RGB", SRGB, "sRGB"),
        ("L", SRGB, "sRGB"),
        ("RGB", ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes(), "sRGB"),
        ("RGBA", DISPLAY_P3, "other"),
        ("L", GREY_18, "other"),
        ("RGB", GREY_18, "broken"),
        ("CMYK", DISPLAY_P3, "broken"),
        ("RGB", DISPLAY_P3[:200], "broken"),
        ("RGB", b"\0" * 500, "broken"),
    ],
)
def test_a_profile_is_told_by_what_it_does(mode: str, profile: bytes | None, kind: str) -> None:
    image = painted(mode)
    image.info["icc_profile"] = profile
    assert profile_kind(image) == kind
    if kind != "other":
        assert np.array_equal(np.asarray(to_rgb(image)), np.asarray(to_rgb(image, "ignore")))


def numbers(kind: str, *values: float) -> Image.Image:
    return Image.fromarray(np.array([values], kind))


@pytest.mark.parametrize(
    ("image", "levels"),
    [
        (numbers("float32", 0, 0.5, 1), [0, 128, 255]),
        (numbers("float32", 0, 128, 255), [0, 128, 255]),
        (numbers("float32", 0, 32896, 65535), [0, 128, 255]),
        (numbers("int32", 0, 1), [0, 255]),
        (numbers("int32", 0, 128, 255), [0, 128, 255]),
        (numbers("int32", 0, 300, 65535), [0, 1, 255]),
        (numbers("uint16", 0, 255, 65535), [0, 1, 255]),
    ],
)
def test_numbers_are_scaled_by_what_they_can_mean(image: Image.Image, levels: list[int]) -> None:
    assert np.asarray(eight_bits(image)).ravel().tolist() == levels


@pytest.mark.parametrize("values", [(-0.1, 1), (0, 1.5), (0, 70000), (float("nan"), 1), (0, float("inf"))])
def test_numbers_without_a_scale_are_refused_with_their_range(tmp_path: Path, values: tuple[float, ...]) -> None:
    numbers("float32", *values).save(tmp_path / "a.tiff")
    with pytest.raises(Fault) as caught:
        decode(tmp_path / "a.tiff")
    assert caught.value.id == "DAT06"
    assert "nothing says what is white" in caught.value.why


@pytest.mark.parametrize(
    ("values", "tag", "levels"),
    [((0x0F00, 0x00FF), (258, 16, 12), [0, 255]), ((0, 65535), (262, 1, 0), [255, 0])],  # packed 00 0F FF; inverted
)
def test_a_tiff_of_twelve_bits_or_with_white_as_zero_is_read_by_its_tags(
    tmp_path: Path, values: tuple[int, int], tag: tuple[int, int, int], levels: list[int]
) -> None:
    file = io.BytesIO()
    numbers("uint16", *values).save(file, "TIFF")
    number, before, after = tag
    entry = struct.pack("<HHI", number, 3, 1)
    assert file.getvalue().count(entry + struct.pack("<I", before)) == 1
    path = tmp_path / "a.tiff"
    path.write_bytes(file.getvalue().replace(entry + struct.pack("<I", before), entry + struct.pack("<I", after)))
    assert np.asarray(decode(path))[0, :, 0].tolist() == levels


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("compression", ["raw", "tiff_lzw"])
def test_a_tiff_on_its_side_with_alpha_gives_a_mask_that_fits(
    tmp_path: Path, orientation: int, compression: str
) -> None:
    image = painted("RGBA")
    exif = Image.Exif()
    exif[0x0112] = orientation
    image.save(tmp_path / "a.tiff", exif=exif, compression=compression)
    (tmp_path / "a.txt").write_text("a")
    data = Local(str(tmp_path), size=None, crop=False, mask="alpha")
    example, alpha = data.picture(0, False), turned(np.asarray(image)[..., 3], orientation)
    assert tuple(example["image"].shape[:2]) == alpha.shape == tuple(data.sizes()[0][::-1])
    assert np.array_equal(example["mask"].numpy(), alpha)


def test_a_cache_never_mixes_pixels_of_two_ways_to_decode(tmp_path: Path) -> None:
    painted("RGB").save(tmp_path / "a.png")
    (tmp_path / "a.txt").write_text("a")
    ways = {Local(str(tmp_path), icc=icc).preparation() for icc in ("convert", "ignore")}
    assert len(ways) == 2
    assert all("decoding=2" in way for way in ways)
