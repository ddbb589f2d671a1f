"""ICC profiles of known primaries and curves, made byte by byte after ICC.1:2022, and their closed form."""

import struct

import numpy as np

SRGB_TO_XYZ = np.array([[0.4361, 0.3851, 0.1431], [0.2225, 0.7169, 0.0606], [0.0139, 0.0971, 0.7141]])
"""Linear sRGB to XYZ under D50, as profiles have it."""

P3_TO_XYZ = np.array([[0.5151, 0.2920, 0.1571], [0.2412, 0.6922, 0.0666], [-0.0011, 0.0419, 0.7841]])

D50 = (0.9642, 1.0, 0.8249)


def _number(value: float) -> bytes:
    return struct.pack(">i", round(value * 65536))


def _xyz(*values: float) -> bytes:
    return b"XYZ \0\0\0\0" + b"".join(map(_number, values))


def _srgb_curve() -> bytes:
    numbers = (2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045)
    return b"para\0\0\0\0" + struct.pack(">HH", 3, 0) + b"".join(map(_number, numbers))


def _profile(space: bytes, tags: dict[bytes, bytes]) -> bytes:
    text = b"mluc\0\0\0\0" + struct.pack(">IIHHII", 1, 12, 0x656E, 0x5553, 2, 28) + b"\0x"
    tags = {b"desc": text, b"cprt": text, b"wtpt": _xyz(*D50), **tags}
    place = 128 + 4 + 12 * len(tags)
    table, data = struct.pack(">I", len(tags)), b""
    for name, content in tags.items():
        table += name + struct.pack(">II", place + len(data), len(content))
        data += content + b"\0" * (-len(content) % 4)
    head = struct.pack(">I4sI4s4s4s", place + len(data), b"\0\0\0\0", 0x04000000, b"mntr", space, b"XYZ ")
    head = (head.ljust(36, b"\0") + b"acsp").ljust(68, b"\0") + b"".join(map(_number, D50))
    return head.ljust(128, b"\0") + table + data


def of_primaries(to_xyz: np.ndarray) -> bytes:
    """A profile for RGB with these primaries and the curve of sRGB."""
    colours = {name: _xyz(*column) for name, column in zip((b"rXYZ", b"gXYZ", b"bXYZ"), to_xyz.T, strict=True)}
    return _profile(b"RGB ", {**colours, **dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), _srgb_curve())})


def of_grey(gamma: float) -> bytes:
    """A profile for greyscale with a plain power as its curve."""
    return _profile(b"GRAY", {b"kTRC": b"para\0\0\0\0" + struct.pack(">HH", 0, 0) + _number(gamma)})


SRGB, DISPLAY_P3, GREY_18 = of_primaries(SRGB_TO_XYZ), of_primaries(P3_TO_XYZ), of_grey(1.8)


def linear(encoded: np.ndarray) -> np.ndarray:
    """IEC 61966-2-1 in [0, 1]"""
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def encoded(light: np.ndarray) -> np.ndarray:
    """The inverse of `linear`, clipped to what sRGB can show."""
    light = light.clip(0, 1)
    return np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)


def in_srgb(rgb: np.ndarray, profile: bytes | None) -> np.ndarray:
    """(..., 3) numbers of 0 to 255 under one of the profiles above as numbers of sRGB."""
    if profile == DISPLAY_P3:
        return 255 * encoded(linear(rgb / 255) @ (np.linalg.inv(SRGB_TO_XYZ) @ P3_TO_XYZ).T)
    if profile == GREY_18:
        return 255 * encoded((rgb / 255) ** 1.8)
    return rgb
