"""Pictures through the loader, and what the cache saves a step; run it as a script, see `--help`.

Every row is the median of interleaved repeats; speed-ups are over reading with plain Pillow, and over collating.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np
import program  # noqa: F401  # puts what is measured on the path
import torch
from PIL import Image
from report import Row, present

from ldm.diffusion.conditioning import Conditioning
from ldm.position import Position
from lun.data.cache.latents.encoder import LatentEncoder
from lun.data.cache.shards.filling import Share
from lun.data.cache.text.encoder import TextEncoder
from lun.data.example import collate
from lun.data.local import Local
from lun.data.module import DataModuleFromConfig
from lun.data.order.position_sampler import Window


class Pooling(torch.nn.Module):
    """Moments of Stable Diffusion's shape at no cost, since what is measured is reading them."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(8))

    def encode_moments(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.avg_pool2d(x, 8)[:, :1] * self.scale[:, None, None]


class Telling(torch.nn.Module):
    """States of CLIP ViT-L's shape at no cost."""

    def __init__(self) -> None:
        super().__init__()
        self.states = torch.nn.Parameter(torch.randn(77, 768))

    def forward(self, captions: list[str]) -> Conditioning:
        return Conditioning(self.states.expand(len(captions), -1, -1))


def pictures(folder: Path, count: int, width: int, height: int) -> Path:
    """`count` JPEG files of smooth colours with some noise, about as large as photographs are."""
    numbers = np.random.default_rng(0)
    for name in ("img", "txt"):
        (folder / name).mkdir(parents=True)
    for i in range(count):
        coarse = Image.fromarray(numbers.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((width, height))
        noise = numbers.integers(-12, 12, (height, width, 3))
        pixels = (np.asarray(coarse).astype(np.int16) + noise).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"img/{i}.jpg", quality=90)
        (folder / f"txt/{i}.txt").write_text(f"tag {i}, noise")
    return folder


def module(root: Path, size: int, workers: int, batch: int, **params: object) -> DataModuleFromConfig:
    recipe = {"target": "lun.data.local.Local", "params": {"data_root": str(root), "size": size}}
    made = DataModuleFromConfig(batch, train=recipe, num_workers=workers, **params)
    made.follow(Position(), Window(batch), 0, 10_000)
    return made


def loaded(made: DataModuleFromConfig, batches: int) -> Callable[[], int]:
    """Reads that many batches after one to warm up."""
    stream = iter(made.train_dataloader())
    next(stream)
    return lambda: sum(len(batch["slot"]) for batch in islice(stream, batches))


def plain_pillow(root: Path, size: int, count: int) -> Callable[[], int]:
    """What a script does that knows of nothing: open, crop the square, resize, to float."""
    files = sorted(root.glob("img/*.jpg"))

    def read() -> int:
        for number in range(count):
            with Image.open(files[number % len(files)]) as image:
                side = min(image.size)
                left, top = (image.width - side) // 2, (image.height - side) // 2
                square = image.convert("RGB").crop((left, top, left + side, top + side))
                torch.from_numpy(np.array(square.resize((size, size), Image.Resampling.BICUBIC))).float() / 127.5 - 1
        return count

    return read


def taken(rows: dict[str, Callable[[], int]], repeats: int) -> list[Row]:
    """ms of each, in turns: CPU of this process, wall, and how much faster than the first."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
    for _ in range(repeats):
        for name, run in rows.items():
            wall, cpu = perf_counter(), process_time()
            count = run()
            times[name].append(((perf_counter() - wall) / count, (process_time() - cpu) / count))
    found = {name: [1e3 * median(column) for column in zip(*each, strict=True)] for name, each in times.items()}
    first, _ = next(iter(found.values()))
    return [
        Row(name, cpu, "CPU ms", {"wall ms": wall, "speed-up": first / wall}) for name, (wall, cpu) in found.items()
    ]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=32, help="files")
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--height", type=int, default=1024)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        root = pictures(Path(scratch) / "data", args.count, args.width, args.height)
        cache = {"folder": str(Path(scratch) / "cache")}
        print(f"{args.count} JPEG of {args.width} x {args.height} to {args.size}, batches of {args.batch}, 1 thread")
        kept = module(root, args.size, 0, args.batch, cache=cache)
        begun = perf_counter()
        kept.cache_moments(LatentEncoder(Pooling(), torch.device("cpu")), Share())
        text = kept.cache_text(TextEncoder(Telling().requires_grad_(False), torch.device("cpu")), Share())
        print(
            f"cache filled in {perf_counter() - begun:.1f} s, {2 * args.count} entries of 8 x {args.size // 8} squared"
        )
        in_buckets = {"buckets": {"resolutions": [args.size]}}
        few = max(1, 16 // args.batch)
        rows = taken(
            {
                "plain Pillow, one process": plain_pillow(root, args.size, args.batch * few),
                "loader, 0 workers": loaded(module(root, args.size, 0, args.batch), few),
                "loader, 2 workers": loaded(module(root, args.size, 2, args.batch), few * 4),
                "loader in buckets, 0 workers": loaded(module(root, args.size, 0, args.batch, **in_buckets), few),
                "loader, cached moments": loaded(kept, 100),
            },
            args.repeats,
        )
        local = Local(str(root), size=args.size)
        examples = [{**local.picture(i, False), "caption": "", "slot": i} for i in range(args.batch)]
        moments = kept._cached["train"].kept
        captions = [local.caption(i) for i in range(args.count)]
        rows += taken(
            {
                "collate pictures": lambda: len(collate(examples)["slot"]),
                "map moments of the cache": lambda: len([moments.read(i, None, 0) for i in range(args.count)]),
                "moments of the cache as one batch": lambda: len(
                    torch.stack([moments.read(i, None, 0)["moments"] for i in range(args.count)])
                ),
                "captions of the cache as one batch": lambda: len(text(captions).context),
            },
            args.repeats,
        )
    present("pictures", rows, args.json)


if __name__ == "__main__":
    main()
