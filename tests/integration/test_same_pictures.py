"""The same pictures loose, packed, over HTTP and over S3 are the same batches to the bit, killed and resumed or not."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
from PIL import Image
from support.fault_server import serving
from support.object_server import lead_to, serving_objects
from support.reading import MICRO_BATCHES, batches

from lun.data.local import Local
from lun.data.packs import remote
from lun.data.packs.destination import FolderDestination
from lun.data.packs.packing import Packing, PackSettings

pytest.importorskip("obstore")
MANY = pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])
SHAPES = [(12, 8), (8, 12), (10, 10)]
BUCKETS = {"resolutions": [8], "step": 2}
STEP = 16
"""Examples."""


@pytest.fixture(scope="module", params=[200, MANY])
def root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`loose` pictures with tags to shuffle, and the same ones `packed`."""
    root = tmp_path_factory.mktemp("same")
    (root / "loose").mkdir()
    for number in range(request.param):
        width, height = SHAPES[number % len(SHAPES)]
        values = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(values).save(root / f"loose/{number:04}.png")
        (root / f"loose/{number:04}.txt").write_text(f"number {number}, a, b, {{c|d}}")
    Packing(Local(str(root / "loose")), FolderDestination(root / "packed"), PackSettings(120_000, "given")).run()
    return root


def recipe(medium: str, where: str) -> dict[str, Any]:
    params = {"data_root": where, "size": 8, "captions": {"shuffle_tag_p": 0.5, "wildcards": True}}
    if medium == "loose":
        return {"target": "lun.data.local.Local", "params": params}
    return {"target": "lun.data.packed.PackedSet", "params": {**params, "window": None}}


@contextmanager
def served(medium: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where the pictures lie."""
    if medium in ("loose", "packed"):
        yield str(root / medium)
    elif medium == "http":
        with serving(root / "packed") as server:
            yield server.url
    elif medium == "s3":
        with serving_objects(root, monkeypatch):
            yield "s3://packed"
    else:
        with moto(root, monkeypatch) as url:
            yield url


@contextmanager
def moto(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The set in a bucket of moto, an S3 that somebody else wrote: `pip install "moto[s3]" flask flask-cors`."""
    servers = pytest.importorskip("moto.server", reason="moto is not installed")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = servers.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        lead_to(url, monkeypatch)
        urlopen(Request(f"{url}/pictures", method="PUT")).close()
        for file in (root / "packed").iterdir():
            with file.open("rb") as content:
                remote.Remote("s3://pictures/set").put(file.name, content)
        yield "s3://pictures/set"
    finally:
        server.stop()


MOTO = pytest.param("moto", marks=pytest.mark.slow)


@pytest.fixture(params=["packed", "http", "s3", MOTO])
def medium(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process fetches the first files."""
    monkeypatch.setattr(remote, "fetched_elsewhere", lambda url, names: remote.Remote(url).fetch(names))
    monkeypatch.setattr(remote, "_used_in", None)


@pytest.fixture(scope="module")
def straight(root: Path) -> dict[bool, list[str]]:
    """Whether in buckets -> the batches of more than an epoch of the loose pictures, read on one rank at a stretch."""
    count = steps_of(root) * MICRO_BATCHES[1]
    loose = recipe("loose", str(root / "loose"))
    return {cut: list(islice(batches(loose, 1, 0, 0, **settings(cut)), count)) for cut in (False, True)}


def steps_of(root: Path) -> int:
    return len(list((root / "loose").glob("*.png"))) // STEP + 3


def settings(cut: bool) -> dict[str, Any]:
    return {"buckets": BUCKETS} if cut else {}


def in_turn(ranks: list[list[str]]) -> list[str]:
    """The batches of a run, of those of its ranks."""
    return [one for together in zip(*ranks, strict=True) for one in together]


@pytest.mark.parametrize(
    ("cut", "worlds"), [(False, (2, 1)), (True, (1, 2))], ids=["squares on fewer ranks", "buckets on more ranks"]
)
def test_batches_are_those_of_the_loose_pictures_before_and_after_a_resume(
    root: Path,
    straight: dict[bool, list[str]],
    medium: str,
    cut: bool,
    worlds: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = steps_of(root)
    found: list[str] = []
    with served(medium, root, monkeypatch) as where:
        for world, first, end in ((worlds[0], 0, steps // 3), (worlds[1], steps // 3, steps)):
            count = (end - first) * MICRO_BATCHES[world]
            ranks = (batches(recipe(medium, where), world, rank, first, **settings(cut)) for rank in range(world))
            found += in_turn([list(islice(rank, count)) for rank in ranks])
    assert found == straight[cut]


def reading(where: Any, world: int, rank: int, step: int, count: int, **more: Any) -> subprocess.Popen[str]:
    asked = {"recipe": where, "of": {"world": world, "rank": rank, "step": step}, "count": count, "settings": more}
    words = [sys.executable, "-m", "support.reading", json.dumps(asked)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_processes_that_are_killed_and_started_again_read_on_as_if_nothing_had_happened(
    root: Path, straight: dict[bool, list[str]], medium: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, killed = steps_of(root), 4
    with served(medium, root, monkeypatch) as where:
        told = recipe(medium, where)
        ranks = [reading(told, 2, rank, 0, 1 << 20, num_workers=2) for rank in range(2)]
        read = [[rank.stdout.readline().strip() for _ in range(killed * 2)] for rank in ranks if rank.stdout]
        for rank in ranks:
            rank.kill()
            rank.communicate()
        again = reading(told, 1, 0, killed, (steps - killed) * MICRO_BATCHES[1], num_workers=2)
        rest = again.communicate()[0].split()
    assert again.returncode == 0 and in_turn(read) + rest == straight[False]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("workers", [0, 2, 8])
@pytest.mark.parametrize("context", ["fork", "forkserver"])
def test_workers_of_every_kind_read_s3(
    root: Path, straight: dict[bool, list[str]], workers: int, context: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served("moto", root, monkeypatch) as where:
        told = recipe("moto", where)
        if workers:
            told["dataloader_params"] = {"multiprocessing_context": context, "timeout": 400}
        reader = reading(told, 1, 0, 0, 24, num_workers=workers)
        found = reader.communicate(timeout=900)[0].split()
    assert reader.returncode == 0 and found == straight[False][:24]
