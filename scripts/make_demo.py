"""Render the demo's captioned pictures from the Noto Color Emoji font and Unicode's CLDR names.

The result is committed under configs/demo/data, so nobody needs to run this to train. To render it again:

    apt-get download fonts-noto-color-emoji unicode-cldr-core && for d in *.deb; do dpkg-deb -x "$d" debs; done
    python scripts/make_demo.py --font debs/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf \
        --names debs/usr/share/unicode/cldr/common/annotations/en.xml --out configs/demo/data
"""

import argparse
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SUBJECTS = [
    "🐶",
    "🐱",
    "🐸",
    "🦊",
    "🐼",
    "🐙",
    "🦋",
    "🐟",
    "🍎",
    "🍌",
    "🍄",
    "🍩",
    "🍕",
    "🌵",
    "🌻",
    "⭐",
    "❤",
    "🔥",
    "🚗",
    "🚀",
    "🏠",
    "🎈",
    "👻",
    "⚽",
]
NEW_SUBJECTS = ["🐧", "🍓"]  # for what a trained model is taught later
BACKGROUNDS = {
    "white": (250, 250, 250),
    "red": (214, 57, 57),
    "orange": (240, 148, 46),
    "yellow": (250, 222, 90),
    "green": (60, 160, 75),
    "blue": (66, 122, 222),
    "purple": (150, 88, 190),
    "black": (28, 28, 32),
}
STRIKE = 109  # the only size at which FreeType finds the font's colour bitmaps


def read_names(annotations: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """CLDR's short name and keywords of each emoji: ({emoji: name}, {emoji: [keyword, ...]})."""
    names, keywords = {}, {}
    for entry in ElementTree.parse(annotations).iter("annotation"):
        emoji, text = entry.attrib["cp"], entry.text or ""
        if entry.attrib.get("type") == "tts":
            names[emoji] = text
        else:
            keywords[emoji] = [word.strip() for word in text.split("|")]
    return names, keywords


def render(emoji: str, font: ImageFont.FreeTypeFont) -> Image.Image:
    """One emoji on a transparent square, cropped to its ink and centred: RGBA, 136 pixels a side."""
    canvas = Image.new("RGBA", (160, 160))
    ImageDraw.Draw(canvas).text((10, 10), emoji, font=font, embedded_color=True)
    ink = canvas.crop(canvas.getbbox())
    square = Image.new("RGBA", (136, 136))
    square.paste(ink, ((136 - ink.width) // 2, (136 - ink.height) // 2))
    return square


def compose(sprite: Image.Image, background: tuple[int, int, int], size: int, margin: float = 0.06) -> Image.Image:
    """The sprite over a plain colour: RGB, `size` pixels a side."""
    inner = round(size * (1 - 2 * margin))
    picture = Image.new("RGB", (size, size), background)
    small = sprite.resize((inner, inner), Image.Resampling.LANCZOS)
    picture.paste(small, ((size - inner) // 2, (size - inner) // 2), small)
    return picture


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--font", type=Path, required=True, help="NotoColorEmoji.ttf")
    parser.add_argument("--names", type=Path, required=True, help="CLDR's common/annotations/en.xml")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, default=32, help="pixels a side")
    args = parser.parse_args()

    font = ImageFont.truetype(str(args.font), STRIKE)
    names, keywords = read_names(args.names)
    colours = list(BACKGROUNDS)
    index = []
    for i, emoji in enumerate(SUBJECTS + NEW_SUBJECTS):
        sprite = render(emoji, font)
        held_out = colours[i % len(colours)]
        for colour in colours:
            split = "held-out" if colour == held_out else "train"
            split = split if emoji in SUBJECTS else f"new-{split}"
            stem = f"{names[emoji]} {colour}".replace(" ", "-")
            caption = f"{names[emoji]}, {colour} background"
            for folder in ("img", "txt"):
                (args.out / split / folder).mkdir(parents=True, exist_ok=True)
            compose(sprite, BACKGROUNDS[colour], args.size).save(
                args.out / split / "img" / f"{stem}.png", optimize=True
            )
            (args.out / split / "txt" / f"{stem}.txt").write_text(caption + "\n", encoding="utf-8")
        index.append({"emoji": emoji, "name": names[emoji], "keywords": keywords[emoji], "held_out": held_out})
    text = json.dumps(index, ensure_ascii=False, indent=1)
    (args.out / "subjects.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
