"""What a folder of pictures costs as it grows to a million: its start, a batch of it, memory.

    python tests/bench/data_growth.py [--largest 1000000] [--json FILE]

Pictures of 16 pixels with captions in the flat layout, hard links of a few files; CPU time of one process. The plain
loop lists the pictures, sorts them and looks for each one's caption, as scripts do at every start. Cold: no index is
there yet; warm: a later start. An example is read, decoded and collated, in shuffled order. Of the largest folder: by
how much a warm start makes a fresh process grow until its first batch.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from subprocess import PIPE
from time import process_time
from typing import Any

import torch
from PIL import Image
from program import HERE
from report import Row, present

from ldm.operating_system import resident_bytes
from ldm.position import Position
from lun.data.module import DataModuleFromConfig
from lun.data.order.position_sampler import Window

SIZES = (1_000, 10_000, 100_000, 1_000_000)
LINKS = 60_000  # a file system takes no more names of one file
BATCH = 16
HELD = "import data_growth as it, pathlib, sys; print(it.held(pathlib.Path(sys.argv[1])))"


def grow(root: Path, already: int, count: int) -> None:
    """Let the folder have `count` pictures with captions."""
    for folder in ("img", "txt"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for number in range(already, count):
        picture, caption = f"{root}/img/{number:07}.png", f"{root}/txt/{number:07}.txt"
        if number % LINKS == 0 or number == already:
            Image.new("RGB", (16, 16), number % 255).save(picture)
            Path(caption).write_text("a colour")
            of_picture, of_caption = picture, caption
        else:
            os.link(of_picture, picture)
            os.link(of_caption, caption)


def plain(root: Path) -> float:
    """CPU seconds of the loop that everyone writes first."""
    began = process_time()
    found = []
    for name in sorted(os.listdir(root / "img")):
        caption = os.path.join(root, "txt", os.path.splitext(name)[0] + ".txt")
        found.append((os.path.join(root, "img", name), caption if os.path.exists(caption) else None))
    return process_time() - began


def begun(root: Path) -> Iterator[Any]:
    """The batches after the first one."""
    recipe = {"target": "lun.data.local.Local", "params": {"data_root": str(root), "size": 16}}
    data = DataModuleFromConfig(BATCH, train=recipe, num_workers=0)
    data.follow(Position(), Window(BATCH), 0, 10_000)
    batches = iter(data.train_dataloader())
    next(batches)
    return batches


def held(root: Path) -> int:
    """Bytes by which this process grows until the first batch is there."""
    small = root.with_name("small")
    grow(small, 0, BATCH)
    begun(small)  # imports what reading takes
    before = resident_bytes() or 0
    _batches = begun(root)
    return (resident_bytes() or 0) - before


def ours(root: Path) -> tuple[float, float]:
    """CPU seconds until the first batch is there, and of each further example."""
    began = process_time()
    batches = begun(root)
    start = process_time() - began
    began = process_time()
    read = sum(len(batch["slot"]) for batch in islice(batches, 16))
    return start, (process_time() - began) / read


def measure(sizes: tuple[int, ...], root: Path) -> list[Row]:
    """A row for each size: cold start, warm start, the plain loop, and an example."""
    rows, already = [], 0
    for count in sizes:
        grow(root, already, count)
        already = count
        loop = min(plain(root), plain(root))
        shutil.rmtree(os.environ["LUN_CACHE"], ignore_errors=True)
        cold, _ = ours(root)
        warm, example = ours(root)
        columns = {
            "warm s": warm,
            "plain loop s": loop,
            "warm over the loop": warm / loop,
            "us an example": example * 1e6,
        }
        rows.append(Row(f"{count:,} pictures", cold, "cold s", columns))
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--largest", type=int, default=SIZES[-1])
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LUN_CACHE"] = f"{folder}/cache"
        sizes = tuple(size for size in SIZES if size <= told.largest)
        pictures = Path(folder) / "pictures"
        *rows, last = measure(sizes, pictures)
        grown = subprocess.run([sys.executable, "-c", HELD, str(pictures)], cwd=HERE, stdout=PIPE, check=True)
        rows.append(
            last._replace(beside={**last.beside, "MiB that a warm start adds": int(grown.stdout.split()[-1]) / 2**20})
        )
        present("data_growth", rows, told.json)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
