"""Count how many of the demo's samples show what their prompts name, above all where no such picture was trained on.

    python scripts/check_demo.py logs/latest [--word "<new>" frog]

Each newest sample is compared with all 208 pictures of the set: the nearest one (least squared error) should have the
prompt's subject, and the colour of the sample's border should be nearest to the prompt's background.
A word of one's own in prompts stands for the subject that `--word` gives it.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from lun.previews.samples import SampleRecord

DATA = Path(__file__).parents[1] / "configs" / "demo" / "data"


def pictures() -> tuple[list[str], np.ndarray]:
    """Captions and pixels of the whole set, train and held out: (n,), (n, h, w, 3) float."""
    files = sorted(DATA.glob("*/img/*.png"))
    captions = [caption(file.parents[1] / "txt" / f"{file.stem}.txt") for file in files]
    return captions, np.stack([np.asarray(Image.open(file).convert("RGB"), dtype=float) for file in files])


def held_out() -> set[str]:
    """Captions of what no training reads, neither the demo's nor that of new emoji."""
    return {caption(file) for file in DATA.glob("*held-out/txt/*.txt")}


def caption(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip()


def border(pixels: np.ndarray) -> np.ndarray:
    """Mean colour of the outermost pixels: (..., 3)."""
    rows = np.concatenate([pixels[..., 0, :, :], pixels[..., -1, :, :]], axis=-2)
    columns = np.concatenate([pixels[..., :, 0, :], pixels[..., :, -1, :]], axis=-2)
    return np.asarray(np.concatenate([rows, columns], axis=-2).mean(axis=-2))


def judge(samples: dict[str, np.ndarray]) -> tuple[int, int]:
    """How many samples, by prompt, have the right background and the right nearest subject."""
    captions, real = pictures()
    subjects, backgrounds = zip(*(caption.split(", ") for caption in captions), strict=True)
    colours = {name: border(real[backgrounds.index(name)]) for name in set(backgrounds)}
    right_background = right_subject = 0
    for prompt, pixels in samples.items():
        subject, background = prompt.split(", ")
        nearest = int(((real - pixels) ** 2).mean(axis=(1, 2, 3)).argmin())
        colour = min(colours, key=lambda name: float(((colours[name] - border(pixels)) ** 2).sum()))
        right_subject += subjects[nearest] == subject
        right_background += colour == background
    return right_background, right_subject


def newest_samples(run: Path) -> dict[str, np.ndarray]:
    """The samples of the last step by prompt, averaged weights where there are some: (h, w, 3) float each."""
    record = SampleRecord(run / "images" / "samples")
    known = record.read()
    last = [sample for sample in known if sample.step == known[-1].step]
    weights = "ema" if any(sample.weights == "ema" for sample in last) else "raw"
    wanted = [(sample.prompt, sample.seed) for sample in last if sample.weights == weights]
    tiles = record.tiles(known, known[-1].step, weights, wanted)
    return {prompt: np.asarray(tile, float) for (prompt, _), tile in zip(wanted, tiles, strict=True) if tile}


def meaning(samples: dict[str, np.ndarray], subjects: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The samples by prompts whose first part, where it is a word of `subjects`, is that subject instead.

    Exits with a message for a word that no prompt starts with.
    """
    parted = {prompt: prompt.partition(", ") for prompt in samples}
    if idle := subjects.keys() - {word for word, _, _ in parted.values()}:
        sys.exit(f"--word: no prompt starts with {', '.join(sorted(idle))}")
    return {subjects.get(word, word) + comma + rest: samples[prompt] for prompt, (word, comma, rest) in parted.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, nargs="?", default=Path("logs/latest"))
    about = "the subject that a word of one's own in prompts stands for"
    parser.add_argument("--word", nargs=2, action="append", default=[], metavar=("WORD", "SUBJECT"), help=about)
    asked = parser.parse_args()
    samples = meaning(newest_samples(asked.run), dict(asked.word))
    unseen = held_out()
    for kind, prompts in {"held-out": samples.keys() & unseen, "trained": samples.keys() - unseen}.items():
        background, subject = judge({prompt: samples[prompt] for prompt in prompts})
        if n := len(prompts):
            print(f"{kind} combinations: background right in {background} of {n}, subject right in {subject} of {n}")


if __name__ == "__main__":
    main()
