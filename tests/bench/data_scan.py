"""How long a data set takes to start: reading descriptions, filtering, decoding; and what it takes of memory.

    python tests/bench/data_scan.py [--files 60000] [--pictures 12] [--json FILE]

Each row is a ratio within one run, of the CPU time of all processes and of the time that passed, against a plain loop
of the same job: `glob`, `open`, `json.load`, `os.path.exists` and dicts for the scan, Pillow's `open`, crop and
`resize` for pictures.
"""

import argparse
import glob
import io
import json
import logging
import os
import random
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import program  # noqa: F401  # puts what is measured on the path
import torch
from PIL import Image
from report import Row, present

from ldm.models.pixels import centred
from lun.data.images import decode
from lun.data.local import Local

FILTERS = {
    "aspect_range": [0.71, 1.42],
    "abs_min_score": 50,
    "min_score": 200,
    "blacklist_tags": ["tag7", "tag11"],
    "tag_bonus_scores": {"tag3": 100, "tag5": -75},
    "score_tags": [3200, 800, 200, 50],
}


def make_board(root: Path, count: int) -> None:
    """`count` descriptions of about 1 kB in folders of 1000, and an empty file for each picture."""
    lot = random.Random(0)
    for number in range(count):
        folder = f"{number // 1000:04}"
        if number % 1000 == 0:
            (root / "metadata" / folder).mkdir(parents=True)
            (root / "images" / folder).mkdir(parents=True)
        tags = [f"tag{min(int(lot.paretovariate(0.6)), 40000)}" for _ in range(30)]
        record = {
            "id": number,
            "tags": tags,
            "score": int(60 * lot.paretovariate(1)),
            "path": f"images/{folder}/{number}.png",
            "aspect_ratio": lot.choice([0.66, 0.75, 1.0, 1.33, 1.5]),
            "description": "x" * 400,
        }
        (root / "metadata" / folder / f"{number}.json").write_text(json.dumps(record))
        (root / "images" / folder / f"{number}.png").touch()


def plain_scan(root: Path) -> int:
    """The loop that everyone writes first."""
    kept = []
    for name in glob.glob(f"{root}/metadata/*/*.json"):
        with open(name) as file:
            record = json.load(file)
        if not 0.71 <= record["aspect_ratio"] <= 1.42 or record["score"] < 50:
            continue
        if not os.path.exists(os.path.join(root, record["path"])):
            continue
        tags = list(record["tags"])
        score = record["score"]
        for limit in FILTERS["score_tags"]:
            if score >= limit:
                tags.append(f"scr{limit}")
                break
        for tag, bonus in FILTERS["tag_bonus_scores"].items():
            score += bonus * tags.count(tag)
        if score < 200 or any(tag in FILTERS["blacklist_tags"] for tag in tags):
            continue
        kept.append({"path": record["path"], "tags": tags})
    return len(kept)


def seconds(job: Callable[[], object]) -> tuple[float, float]:
    """CPU time of this process and its children, so that other work on the machine does not count; and time passed."""
    began, clock = cpu(), time.perf_counter()
    job()
    return cpu() - began, time.perf_counter() - clock


def cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def scan(root: Path, count: int) -> list[Row]:
    """Plain loop, then ours without and with an index, three times in turn."""
    rows: dict[str, list[tuple[float, float]]] = {"plain": [], "cold": [], "warm": []}
    plain_scan(root)  # the names come into the page cache
    kept = 0
    for _ in range(3):
        rows["plain"].append(seconds(lambda: plain_scan(root)))
        shutil.rmtree(os.environ["LUN_CACHE"], ignore_errors=True)
        rows["cold"].append(seconds(lambda: Local(str(root), metadata_params=FILTERS)))
        rows["warm"].append(seconds(lambda: Local(str(root), metadata_params=FILTERS)))
    data = Local(str(root), metadata_params=FILTERS)
    kept = len(data)
    assert kept == plain_scan(root), (kept, plain_scan(root))
    middle = {name: tuple(map(statistics.median, zip(*times, strict=True))) for name, times in rows.items()}
    plain = middle["plain"]
    rows = [
        Row(f"scan: {name}", 1e6 * cpu / count, "CPU us", {"wall us": 1e6 * wall / count, "speed-up": plain[0] / cpu})
        for name, (cpu, wall) in middle.items()
    ]
    size = data.table.bytes
    print(
        f"memory   {size / count:.0f} bytes an example = {size / count * 1e6 / 2**20:.0f} MiB per million ({kept} kept)"
    )
    began = time.perf_counter()
    data.fingerprint()
    print(f"print    {1e6 * (time.perf_counter() - began) / kept:.1f} us an example for sizes on disk and fingerprint")
    from ldm.diffusion.draws import Draws

    made, _ = seconds(lambda: [data.caption(index % kept, Draws(0, index)) for index in range(5000)])
    print(f"caption  {made / 5000 * 1e6:.0f} us each")
    return rows


def photograph(width: int, height: int, seed: int) -> bytes:
    """A JPEG with detail at every scale."""
    noise = np.random.default_rng(seed)
    picture = np.zeros((height, width, 3))
    for side in (4, 16, 64, 256):
        layer = Image.fromarray(noise.integers(0, 256, (side, side, 3), dtype=np.uint8))
        picture += np.asarray(layer.resize((width, height), Image.Resampling.BICUBIC)) * (8 / side) ** 0.5
    picture = 255 * (picture - picture.min()) / (picture.max() - picture.min())
    buffer = io.BytesIO()
    Image.fromarray(picture.astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def plain_picture(path: Path) -> np.ndarray:
    """Open, crop the centre square, resize, to [-1, 1]: as training scripts do it."""
    image = Image.open(path).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    image = image.crop((left, top, left + side, top + side)).resize((512, 512), Image.Resampling.BICUBIC)
    return (np.array(image).astype(np.float32) / 127.5 - 1.0).astype(np.float32)


def our_picture(path: Path) -> torch.Tensor:
    image = decode.decode(path, (512, 512))
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    box = (left, top, left + side, top + side)
    return centred(decode.to_bytes(decode.fit(image, (512, 512), box, decode.RESAMPLING["bicubic"])))


def pictures(root: Path, count: int) -> list[Row]:
    """JPEG files of three shapes to squares of 512: a plain loop's CPU time each, and ours."""
    rows = []
    for width, height in ((1024, 1024), (1024, 1536), (1600, 1200)):
        paths = []
        for number in range(count):
            path = root / f"{width}x{height}-{number}.jpg"
            path.write_bytes(photograph(width, height, number))
            paths.append(path)
        times: dict[str, list[float]] = {"plain": [], "ours": []}
        for _ in range(3):
            for path in paths:
                for name, read in (("plain", plain_picture), ("ours", our_picture)):
                    began = time.process_time()
                    read(path)
                    times[name].append(time.process_time() - began)
        plain, ours = statistics.median(times["plain"]), statistics.median(times["ours"])
        difference = plain_picture(paths[0]) - our_picture(paths[0]).numpy()
        quality = 10 * np.log10(4 / np.square(difference).mean())
        name = f"JPEG of {width} x {height} to 512"
        rows.append(Row(f"{name}: plain", 1e6 * plain, "CPU us", {"speed-up": 1.0}))
        rows.append(Row(f"{name}: lun", 1e6 * ours, "CPU us", {"speed-up": plain / ours, "PSNR, dB": float(quality)}))
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--files", type=int, default=60_000)
    asked.add_argument("--pictures", type=int, default=12)
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    torch.set_num_threads(1)
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LUN_CACHE"] = f"{folder}/cache"
        rows = pictures(Path(folder), told.pictures)
        made, _ = seconds(lambda: make_board(Path(folder) / "board", told.files))
        print(f"{told.files} descriptions made in {made:.0f} s; {len(os.sched_getaffinity(0))} cores")
        present("scan", [*scan(Path(folder) / "board", told.files), *rows], told.json)


if __name__ == "__main__":
    main()
