"""Reading picture and caption from loose files and from a packed set: CPU a sample, as ratios within one run.

    python tests/bench/data_formats.py [--count 5000] [--repeats 5]

    python tests/bench/data_formats.py --side 512 --batch 32

Medians of interleaved repeats in one thread, files in the page cache; each row reads every sample once in the same
shuffled order and checks its length. Decoding is left out: it is the same for all. The second table is what a loader
does with decoded pictures until they are handed over: tensors, a batch of them, and a copy, as into pinned memory.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from PIL import Image

from ldm.models.pixels import centred
from lun.data.images.decode import to_bytes
from lun.data.index.dir_handle import open_file
from lun.data.local import Local
from lun.data.metadata.caption_files import CaptionReader
from lun.data.packed import PackedSet
from lun.data.packs.destination import FolderDestination
from lun.data.packs.packing import Packing, PackSettings


def pictures(folder: Path, count: int) -> Path:
    """`count` files of about 28 KB that begin as a picture does; what follows is noise."""
    numbers = np.random.default_rng(0)
    folder.mkdir()
    picture = folder / "picture.png"
    Image.new("RGB", (512, 512)).save(picture)
    head = picture.read_bytes()
    picture.unlink()
    for number in range(count):
        (folder / f"{number:06}.png").write_bytes(head + numbers.bytes(28_000 - len(head)))
        (folder / f"{number:06}.txt").write_text(f"picture number {number}, of noise, of nothing else")
    return folder


def readers(loose: Path, packed: Path) -> dict[str, Callable[[int], object]]:
    """What is compared: index -> picture and caption."""
    local, shards, caption = Local(str(loose)), PackedSet(str(packed)), CaptionReader()

    def plain(index: int) -> object:
        name = loose / f"{index:06}"
        return name.with_suffix(".png").read_bytes(), name.with_suffix(".txt").read_text()

    def as_local(index: int) -> object:
        path = local.path(index)
        with open_file(path) as file:
            return file.read(), caption(path.with_suffix(".txt"))

    return {
        "loose, pathlib": plain,
        "loose, lun.data.local.Local": as_local,
        "packed, lun.data.packed.PackedSet": shards.samples.__getitem__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--batch", type=int, default=32)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        loose, packed = pictures(Path(folder, "loose"), asked.count), Path(folder, "packed")
        Packing(Local(str(loose)), FolderDestination(packed), PackSettings(14 << 20, "given")).run()
        order = np.random.default_rng(1).permutation(asked.count).tolist()
        spent: dict[str, list[float]] = {}
        for _ in range(asked.repeats):
            for name, read in readers(loose, packed).items():
                begun = process_time()
                for index in order:
                    read(index)
                spent.setdefault(name, []).append((process_time() - begun) / asked.count * 1e6)
    show("reading", spent)
    show("handing over", handed_over(asked.side, asked.batch, asked.repeats))


def handed_over(side: int, batch: int, repeats: int) -> dict[str, list[float]]:
    """us of CPU a picture of `side` pixels, as float32 divided by a worker and as bytes divided on the device."""
    noise = np.random.default_rng(2)
    decoded = [Image.fromarray(noise.integers(0, 256, (side, side, 3), dtype=np.uint8)) for _ in range(batch)]
    kinds = {"float32": lambda image: centred(to_bytes(image)), "uint8": to_bytes}
    spent: dict[str, list[float]] = {name: [] for name in kinds}
    torch.set_num_threads(1)
    for _ in range(repeats):
        for name, make in kinds.items():
            begun = process_time()
            torch.stack([make(image) for image in decoded]).clone()
            spent[name].append((process_time() - begun) / batch * 1e6)
    return spent


def show(what: str, spent: dict[str, list[float]]) -> None:
    """A table of medians, and of their ratios to the first."""
    first = median(next(iter(spent.values())))
    print(f"| {what:<36} | us CPU a sample | ratio |\n|{'-' * 38}|{'-' * 17}|{'-' * 7}|")
    for name, times in spent.items():
        print(f"| {name:<36} | {median(times):>15.1f} | {median(times) / first:>5.2f} |")
    print()


if __name__ == "__main__":
    main()
