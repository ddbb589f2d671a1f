"""The moments of packed sets: files by shard, the same numbers as those of loose files, nothing computed twice."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.counting_first_stage import Halving
from support.runs import make_shapes

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.models.pixels import centred
from lun.data.cache.cache_settings import Cache
from lun.data.cache.latents import shard_layout
from lun.data.cache.latents.encoder import LatentEncoder
from lun.data.cache.shards.filling import Share
from lun.data.local import Local
from lun.data.packed import PackedSet
from lun.data.packs.destination import FolderDestination
from lun.data.packs.packing import Packing, PackSettings

COUNT = 11
DRAWN: dict[str, Any] = {"crop": {"resized": [0.5, 1]}, "colour_jitter": {"brightness": 0.3}}
ALL: dict[Any, Any] = {None: np.arange(COUNT)}
BUCKETS: dict[Any, Any] = {(8, 8): np.array([0, 1, 4, 9, 10]), (12, 8): np.array([1, 2, 2, 7])}


def pack(loose: Path, where: Path, append: bool = False) -> Path:
    """Shards of four pictures or so."""
    data = Local(str(loose), size=8, mask="folder")
    Packing(data, FolderDestination(where), PackSettings(12_000, "given"), append).run()
    return where


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same pictures loose and packed, some with masks."""
    root = tmp_path_factory.mktemp("sets")
    loose = make_shapes(root / "loose", [(8 + number % 3, 8 + number % 4) for number in range(COUNT)])
    return loose, pack(loose, root / "packed")


@pytest.fixture(autouse=True)
def short_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_layout, "ROWS", 3)


def filled(
    folder: Path, data: Any, sizes: Any = ALL, stage: Halving | None = None, share: Share | None = None, **settings: Any
) -> tuple[Any, int]:
    """(the cached dataset, how many pictures were encoded for it)"""
    stage = stage or Halving()
    encoder = LatentEncoder(stage, torch.device("cpu"))
    made = Cache(folder=str(folder / "cache"), **settings).moments_of(data, sizes, encoder, 0, share or Share())
    return made, stage.encoded


def packed(where: Path, **params: Any) -> PackedSet:
    return PackedSet(str(where), **{"size": 8, "mask": "folder", **params})


def files(folder: Path) -> list[Path]:
    return sorted((folder / "cache").rglob("*.safetensors"))


def same(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(torch.as_tensor(one[key]), torch.as_tensor(other[key])) for key in one.keys() - {"caption"}
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("sizes", [ALL, BUCKETS])
def test_examples_are_those_of_loose_files_to_the_bit(tmp_path: Path, places: Any, sizes: Any, dtype: str) -> None:
    loose, where = places
    one, _ = filled(tmp_path / "a", Local(str(loose), size=8, mask="folder"), sizes, dtype=dtype)
    made, encoded = filled(tmp_path / "b", packed(where), sizes, dtype=dtype)
    assert encoded == sum(2 * len(np.unique(examples)) for examples in sizes.values())
    assert len(packed(where).shard_lengths()) > 2
    for other in (made, pickle.loads(pickle.dumps(made))):  # as a worker process gets it
        masked = []
        for size, examples in sizes.items():
            for slot, index in enumerate([*examples, *examples]):
                wanted, found = (data.example(int(index), Draws(0, slot), size) for data in (one, other))
                assert same(wanted, found)
                masked.append("mask" in found)
        assert {True, False} == set(masked)


def test_variants_are_pictures_of_draws_that_follow_from_the_shard(tmp_path: Path, places: Any) -> None:
    data = packed(places[1], **DRAWN)
    cached, encoded = filled(tmp_path, data, variants=2)
    assert encoded == 2 * COUNT
    met = set()
    for slot in range(3 * COUNT):
        index, way = slot % COUNT, cached.ways.met(Draws(0, slot))
        flipped, draws = cached.ways.look(cached.kept.content(index, None), way)
        picture = torch.as_tensor(data.picture(index, flipped, None, draws)["image"])
        wanted = Halving().encode_moments(centred(picture).movedim(-1, 0)[None])[0]
        assert torch.equal(cached.example(index, Draws(0, slot))["moments"], wanted)
        met.add((index, way))
    assert len(met) > COUNT


def test_a_copy_of_the_set_and_another_start_compute_nothing(tmp_path: Path, places: Any) -> None:
    loose, where = places
    filled(tmp_path, packed(where))
    assert filled(tmp_path, packed(where))[1] == 0
    assert filled(tmp_path, packed(pack(loose, tmp_path / "again")))[1] == 0
    assert filled(tmp_path, packed(where), stage=Halving(2.0))[1] == 2 * COUNT
    assert filled(tmp_path, packed(where, size=4))[1] == 2 * COUNT
    assert filled(tmp_path, packed(where), BUCKETS)[1] == 16


def test_pictures_that_are_appended_are_all_that_is_computed(tmp_path: Path) -> None:
    make_shapes(tmp_path / "loose", [(8, 8)] * 5)
    where = pack(tmp_path / "loose", tmp_path / "packed")
    filled(tmp_path, packed(where), {None: np.arange(5)})
    make_shapes(tmp_path / "loose", [(8, 8)] * 7)
    pack(tmp_path / "loose", where, append=True)
    cached, encoded = filled(tmp_path, packed(where), {None: np.arange(7)})
    assert encoded == 4
    fresh, _ = filled(tmp_path / "fresh", packed(where), {None: np.arange(7)})
    assert all(same(cached.example(i, Draws(0, i)), fresh.example(i, Draws(0, i))) for i in range(7))


@pytest.mark.parametrize("after", [0, 7, 17])
def test_filling_that_was_killed_goes_on_with_the_file_at_work(
    tmp_path: Path, places: Any, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, stage = Halving.encode_moments, Halving()

    def dying(self: Halving, x: torch.Tensor) -> torch.Tensor:
        if self.encoded >= after:
            raise KeyboardInterrupt
        return encode(self, x)

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(Halving, "encode_moments", dying)
        filled(tmp_path, packed(places[1]), stage=stage)
    kept = len(files(tmp_path))
    cached, encoded = filled(tmp_path, packed(places[1]))
    assert stage.encoded - 3 <= 2 * COUNT - encoded <= stage.encoded and (kept > 0) == (after > 3)
    whole, _ = filled(tmp_path / "whole", packed(places[1]))
    assert all(same(cached.example(i, Draws(0, i)), whole.example(i, Draws(0, i))) for i in range(COUNT))


def test_ranks_share_the_files(tmp_path: Path, places: Any) -> None:
    encoded: list[int] = []

    def wait() -> None:
        if not encoded:  # while rank 0 waits for the first time, rank 1 does its share
            encoded.append(0)
            encoded[0] = filled(tmp_path, packed(places[1]), share=Share(1, 2))[1]

    own = filled(tmp_path, packed(places[1]), share=Share(0, 2, wait))[1]
    assert own + encoded[0] == 2 * COUNT and min(own, encoded[0]) > 5


def test_pictures_that_cannot_be_read_are_told_and_not_tried_again(tmp_path: Path) -> None:
    root = make_shapes(tmp_path / "loose", [(16, 16)] * 4)
    for number in (1, 3):
        path = root / f"img/00{number}.png"
        path.write_bytes(path.read_bytes()[:60])  # a head that tells its size, and nothing else
    data, sizes = packed(pack(root, tmp_path / "packed")), {None: np.arange(4), (8, 8): np.array([3])}
    cached, encoded = filled(tmp_path, data, sizes)
    assert encoded == 4 and filled(tmp_path, data, sizes)[1] == 0
    for index, size in ((1, None), (3, None), (3, (8, 8))):
        with pytest.raises(Fault, match="DAT06"):
            cached.example(index, Draws(0, 0), size)
    assert "moments" in cached.example(2, Draws(0, 0))


def test_a_damaged_file_is_computed_anew_and_never_read(
    tmp_path: Path, places: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard_layout, "MOST_OPEN", 1)
    cached, _ = filled(tmp_path, packed(places[1]))
    path = cached.kept.layout.stretch(None, 0, 0).file(tmp_path)
    path = next(file for file in files(tmp_path) if file.name == path.name)
    whole = path.read_bytes()
    for broken in (whole[:-100], whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(broken)
        with pytest.raises(Fault, match="DAT11"):
            for slot in range(40):
                cached.example(slot % 3, Draws(0, slot))
        path.write_bytes(whole)
    path.write_bytes(whole[:-100])
    assert filled(tmp_path, packed(places[1]))[1] == 3
    assert "is damaged and is not used" in caplog.text


def test_sets_whose_pictures_keep_their_sizes_are_found_by_name(tmp_path: Path, places: Any) -> None:
    cached, encoded = filled(tmp_path, packed(places[1], size=None, mask=None))
    shapes = {cached.example(index, Draws(0, 0))["moments"].shape for index in range(COUNT)}
    assert encoded == 2 * COUNT and len(shapes) > 1
