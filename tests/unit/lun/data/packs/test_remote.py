"""A packed set behind a URL: the same examples, and the network never decides what is trained on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from support.fault_server import FaultServer, serving

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.local import Local
from lun.data.packed import PackedSet
from lun.data.packs import remote
from lun.data.packs.destination import FolderDestination
from lun.data.packs.packing import Packing, PackSettings
from lun.data.packs.set_file import SET_FILE
from lun.data.rejects import OF_ONE_EXAMPLE

pytest.importorskip("obstore")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    loose, folder = tmp_path_factory.mktemp("loose"), tmp_path_factory.mktemp("packed") / "set"
    for number in range(9):
        values = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(values).save(loose / f"{number}.png")
        (loose / f"{number}.txt").write_text(f"picture {number}")
    Packing(Local(str(loose), size=8), FolderDestination(folder), PackSettings(5000)).run()
    return folder


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process fetches the first files, and whoever does not answer is not asked for long."""
    monkeypatch.setattr(remote, "fetched_elsewhere", lambda url, names: remote.Remote(url).fetch(names))
    monkeypatch.setattr(remote, "RETRIES", 4)
    monkeypatch.setattr(remote, "TIMEOUT_SECONDS", 1)
    monkeypatch.setattr(remote, "_used_in", None)


@pytest.fixture
def server(packed: Path) -> Iterator[FaultServer]:
    with serving(packed) as found:
        yield found


def seen(data_root: str, **params: Any) -> list[Any]:
    found = PackedSet(data_root, size=8, **params)
    found.fetch(range(5))
    return [found.example(index, Draws(0, index)) for index in range(len(found))]


def equal(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a["image"], b["image"]) and a["caption"] == b["caption"] for a, b in zip(one, other, strict=True)
    )


def test_examples_are_those_of_the_same_set_in_a_folder(server: FaultServer, packed: Path) -> None:
    assert equal(seen(server.url), seen(str(packed)))


@pytest.mark.parametrize("trouble", ["503", "cut", "stall", "flip"])
def test_what_goes_wrong_on_the_way_changes_nothing(packed: Path, trouble: str) -> None:
    def once(name: str, before: int) -> str | None:
        return trouble if name.endswith(("1.tar", "1.idx")) and before < (3 if trouble == "503" else 1) else None

    if trouble == "flip":  # an index is small, and only told by its hash
        with serving(packed, lambda name, before: "flip" if name.endswith("1.tar") and not before else None) as server:
            assert equal(seen(server.url), seen(str(packed)))
        return
    with serving(packed, once) as server:
        assert equal(seen(server.url), seen(str(packed)))
        assert server.asked.count("000001.idx") > 1


@pytest.mark.parametrize(
    ("trouble", "id", "told"),
    [
        ("404", "DAT13", "is not there"),
        ("403", "DAT13", "credentials"),
        ("503", "DAT15", "does not answer"),
        ("flip", "DAT14", "checksum"),
    ],
)
def test_what_stays_wrong_ends_the_run_and_replaces_nothing(
    packed: Path, trouble: str, id: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "RETRIES", 1)
    always = lambda name, before: trouble if name == "000001.tar" else None  # noqa: E731
    with serving(packed, always) as server, pytest.raises(Fault) as found:
        seen(server.url)
    assert found.value.id == id and told in found.value.render()
    assert id not in OF_ONE_EXAMPLE


def test_a_shard_that_was_written_anew_is_told(packed: Path, tmp_path: Path) -> None:
    for file in packed.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    with (tmp_path / "000001.tar").open("ab") as shard:
        shard.write(bytes(512))
    with serving(tmp_path) as server, pytest.raises(Fault, match="not the shard that was packed"):
        seen(server.url)


def test_a_set_that_is_not_there_and_a_server_that_is_not(packed: Path, server: FaultServer) -> None:
    with pytest.raises(Fault, match=r"set\.json is not there"):
        seen(f"{server.url}/nowhere")
    with pytest.raises(Fault, match="ftp:// URL"):
        seen("ftp://somewhere/set")


def test_a_cache_keeps_as_many_shards_as_fit_and_reads_them_from_there(
    server: FaultServer, packed: Path, tmp_path: Path
) -> None:
    whole = sum(file.stat().st_size for file in packed.glob("*.tar"))
    cache = tmp_path / "cache"
    assert equal(seen(server.url, cache_dir=str(cache), cache_gb=1), seen(str(packed)))
    assert sum(file.stat().st_size for file in cache.glob("*.tar")) == whole
    server.asked.clear()
    assert equal(seen(server.url, cache_dir=str(cache), cache_gb=1), seen(str(packed)))
    assert not any(name.endswith(".tar") for name in server.asked)
    for copy in cache.glob("*.tar"):  # a broken disk is noticed, and the shard fetched again
        copy.write_bytes(bytes(copy.stat().st_size))
    assert equal(seen(server.url, cache_dir=str(cache), cache_gb=1), seen(str(packed)))
    least = max(file.stat().st_size for file in packed.glob("*.tar"))
    assert equal(seen(server.url, cache_dir=str(tmp_path / "small"), cache_gb=least / 1e9), seen(str(packed)))
    assert sum(file.stat().st_size for file in (tmp_path / "small").glob("*.tar")) <= least


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"cache_dir": "x"}, "belong together"),
        ({"cache_gb": 1}, "belong together"),
        ({"cache_dir": "x", "cache_gb": -1}, "cache_gb cannot be -1"),
    ],
)
def test_caches_that_cannot_be_are_named(server: FaultServer, packed: Path, params: dict[str, Any], told: str) -> None:
    with pytest.raises(Fault, match=told):
        seen(server.url, **params)
    with pytest.raises(Fault, match=r"belong together|no effect"):
        seen(str(packed), **params)


def test_passwords_in_urls_are_not_shown() -> None:
    assert remote.without_password("https://me:secret@host/set?token=1") == "https://host/set"


def test_another_process_fetches_the_first_files_and_tells_what_is_missing(
    packed: Path, server: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(remote, "_used_in", None)
    assert remote.Remote(server.url).whole([SET_FILE]) == [(packed / SET_FILE).read_bytes()]
    assert remote._used_in is None
    with pytest.raises(Fault) as found:
        remote.Remote(server.url).whole(["nothing"])
    assert found.value.id == "DAT13" and "nothing is not there" in found.value.what


FORKED = """
import sys
from lun.data.keyed import Keyed
from lun.data.loader import Loader
from lun.data.order.law import Key
from lun.data.packed import PackedSet

dataset = PackedSet(sys.argv[1], size=8)
keys = [[Key(slot, slot) for slot in range(first, first + 3)] for first in range(0, 9, 3)]
for workers in (2, 0):
    batches = list(Loader(Keyed(dataset, 0), keys, num_workers=workers, timeout=60 if workers else 0))
    print(*(batch["image"].double().sum().item() for batch in batches))
"""


@pytest.mark.slow
def test_forked_workers_read_as_the_process_itself_would(server: FaultServer) -> None:
    """In a process of its own, since this one has the client's threads already."""
    words = [sys.executable, "-c", FORKED, server.url]
    answer = subprocess.run(
        words, capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": ":".join(sys.path)}
    )
    assert answer.returncode == 0, answer.stderr
    forked, alone = answer.stdout.splitlines()
    assert forked == alone


def test_a_fork_of_a_process_that_read_is_told_what_to_change(server: FaultServer) -> None:
    store = remote.Remote(server.url)
    store.fetch([SET_FILE])
    remote._used_in = os.getpid() + 1
    with pytest.raises(Fault, match="forkserver"):
        remote.Remote(server.url).fetch([SET_FILE])
