"""How long training waits for a checkpoint that is written at once or in the background, and what its SHA-256 costs.

    python tests/bench/saving.py [megabytes] [repeats] [folder]

The state is that of Adam: weights and two moments in fp32, in tensors of 4 MB. Each row is a median; variants take
turns, so that a busy machine is busy for all of them. Steps are products of matrices on one thread.
"""

import statistics
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from lun.checkpoints import atomic
from lun.checkpoints.atomic import AtomicIO
from lun.checkpoints.manifest import HashedFile, Manifest

PIECE = 1 << 20  # numbers in a tensor
Times = dict[str, list[float]]
ROWS = (
    "written at once: training waits",
    "the same without SHA-256",
    "in the background: training waits for the copy",
    "in the background: until the file is there",
    "a step with no save",
    "a step meanwhile",
    "a resume compares SHA-256",
    "a resume without a manifest: the file's checksums",
)


class UnhashedFile(HashedFile):
    """As the file that is hashed, without that."""

    def write(self, data: Any) -> int:
        self.size += memoryview(data).nbytes
        return self.file.write(data)


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def adam(megabytes: int) -> dict[str, Any]:
    count = max(1, megabytes * 1_000_000 // (3 * 4 * PIECE))
    weights = {f"layer_{i}": torch.randn(PIECE) for i in range(count)}
    moments = {i: {"exp_avg": torch.randn(PIECE), "exp_avg_sq": torch.rand(PIECE)} for i in range(count)}
    return {"state_dict": weights, "optimizer_states": [{"state": moments}], "global_step": 1}


def step(matrix: torch.Tensor) -> None:
    torch.mm(matrix, matrix)


def speed_beside(writing: Callable[[], bool], matrix: torch.Tensor) -> float:
    """Seconds of a step as long as a file is being written."""
    start, count = time.perf_counter(), 0
    while writing():
        step(matrix)
        count += 1
    return (time.perf_counter() - start) / max(count, 1)


def once(writer: AtomicIO, state: dict[str, Any], path: Path, times: Times) -> None:
    matrix = torch.randn(512, 512)
    times["a step with no save"].append(statistics.median(seconds(lambda: step(matrix)) for _ in range(50)))
    times["written at once: training waits"].append(seconds(lambda: writer.save_checkpoint(state, path)))
    with patch.object(atomic, "HashedFile", UnhashedFile):
        times["the same without SHA-256"].append(seconds(lambda: writer.save_checkpoint(state, path)))
    start = time.perf_counter()
    written = writer.background.write(writer.save_checkpoint, state, path)
    times["in the background: training waits for the copy"].append(time.perf_counter() - start)
    times["a step meanwhile"].append(speed_beside(lambda: not written.done(), matrix))
    times["in the background: until the file is there"].append(time.perf_counter() - start)
    written.result()
    manifest = Manifest.read(path)
    assert manifest is not None
    times["a resume compares SHA-256"].append(seconds(lambda: manifest.differs(path)))
    with zipfile.ZipFile(path) as archive:
        times["a resume without a manifest: the file's checksums"].append(seconds(archive.testzip))


def main(megabytes: int, repeats: int, folder: Path) -> None:
    torch.set_num_threads(1)
    state, writer, path = adam(megabytes), AtomicIO(), folder / "last.ckpt"
    writer.save_checkpoint(state, path)  # the first of a process is read again
    times: Times = {name: [] for name in ROWS}
    for _ in range(repeats):
        once(writer, state, path, times)
    size = path.stat().st_size / 1e6
    print(f"{size:.0f} MB, torch {torch.__version__}, one thread, median of {repeats} (least, most)\n")
    print("| | seconds |\n|---|---|")
    for name, values in times.items():
        print(f"| {name} | {statistics.median(values):.4f} ({min(values):.4f}, {max(values):.4f}) |")


if __name__ == "__main__":
    words = dict(enumerate(sys.argv))
    with tempfile.TemporaryDirectory(dir=words.get(3)) as temporary:
        main(int(words.get(1, 800)), int(words.get(2, 7)), Path(temporary))
