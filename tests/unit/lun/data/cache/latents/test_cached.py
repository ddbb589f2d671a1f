"""The cache of moments: never stale, never torn, nothing computed twice."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from support.counting_first_stage import Halving
from support.runs import make_shapes

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.models.pixels import centred, shares
from lun.data.cache.cache_settings import Cache
from lun.data.cache.latents.contents import Contents
from lun.data.cache.latents.encoder import LatentEncoder
from lun.data.cache.shards.filling import Share
from lun.data.local import Local

ALL = {None: np.arange(6)}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return make_shapes(tmp_path / "pictures", [(8, 8)] * 6)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(folder=str(tmp_path / "cache"))


def filled(cache: Cache, data: Local, stage: Halving | None = None, sizes=ALL, share: Share | None = None):
    """(the cached dataset, how many pictures were encoded for it)."""
    stage = stage or Halving()
    made = cache.moments_of(data, sizes, LatentEncoder(stage, torch.device("cpu")), 0, share or Share())
    return made, stage.encoded


def local(root: Path, **params: object) -> Local:
    return Local(**{"data_root": str(root), "size": 8} | params)


def test_moments_are_those_of_the_picture_mirrored_as_drawn(cache, pictures):
    data = local(pictures)
    cached, encoded = filled(cache, data)
    assert encoded == 12
    flips = set()
    for slot in range(20):
        draws = Draws(0, slot)
        plain, kept = data.example(slot % 6, draws), cached.example(slot % 6, draws)
        flips.add(data.flipped(draws))
        assert kept["caption"] == plain["caption"]
        assert torch.equal(kept["moments"], Halving().encode_moments(centred(plain["image"]).movedim(-1, 0)[None])[0])
    assert flips == {False, True}


@pytest.mark.parametrize("size", [None, (4, 8)])
@pytest.mark.parametrize("settings", [{"size": 6}, {"size": None}, {"crop": False}])
def test_a_cached_example_says_what_became_of_its_picture(cache, tmp_path, size, settings):
    root = make_shapes(tmp_path / "odd", [(15, 8), (8, 13), (9, 8), (31, 16), (8, 8), (16, 11)])
    data = local(root, **settings)
    cached = filled(cache, data, sizes={size: np.arange(6)})[0]
    for slot in range(12):
        draws, asked = Draws(0, slot), {"size": size} if size else {}
        plain, kept = data.example(slot % 6, draws, **asked), cached.example(slot % 6, draws, **asked)
        for name in ("original_size", "crop", "target_size"):
            assert kept[name] == plain[name]
        assert plain["target_size"] == tuple(plain["image"].shape[:2])


def test_without_flips_one_way_round_is_kept(cache, pictures):
    assert filled(cache, local(pictures, flip_p=0.0))[1] == 6


def test_a_second_start_computes_nothing(cache, pictures):
    filled(cache, local(pictures))
    assert filled(cache, local(pictures))[1] == 0


def test_a_copy_of_the_pictures_elsewhere_is_known_by_what_it_holds(cache, pictures, tmp_path):
    filled(cache, local(pictures))
    make_shapes(tmp_path / "elsewhere", [(8, 8)] * 6)
    assert filled(cache, local(tmp_path / "elsewhere"))[1] == 0


def test_a_changed_picture_of_the_same_size_and_date_is_computed_anew(cache, pictures):
    data = local(pictures, flip_p=0.0)
    before = filled(cache, data)[0].example(2, Draws(0, 0))["moments"]
    path = pictures / "img/002.png"
    times = os.stat(path)
    other = (pictures / "img/003.png").read_bytes()
    path.write_bytes(other)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    cached, encoded = filled(cache, data)
    assert encoded == 0  # its new content is that of another picture, which is there
    assert not torch.equal(before, cached.example(2, Draws(0, 0))["moments"])
    assert torch.equal(cached.example(3, Draws(0, 0))["moments"], cached.example(2, Draws(0, 0))["moments"])


def test_a_changed_mask_is_computed_anew(cache, pictures):
    filled(cache, local(pictures, mask="folder"))
    (pictures / "mask/001.png").unlink()
    assert filled(cache, local(pictures, mask="folder"))[1] == 2


@pytest.mark.parametrize("change", [{"size": 4}, {"crop": False}, {"interpolation": "lanczos"}, {"mask": "folder"}])
def test_another_preparation_is_computed_anew(cache, pictures, change):
    filled(cache, local(pictures))
    assert filled(cache, local(pictures, **change))[1] == 12


def test_another_first_stage_is_never_served_these_moments(cache, pictures):
    one, two = (filled(cache, local(pictures), Halving(factor)) for factor in (1.0, 2.0))
    assert (one[1], two[1]) == (12, 12)
    draws = Draws(0, 0)
    assert torch.equal(two[0].example(1, draws)["moments"], 2 * one[0].example(1, draws)["moments"])


def test_each_size_has_its_own_moments(cache, pictures):
    sizes = {(8, 8): np.array([0, 1]), (12, 8): np.array([1, 1, 5])}
    cached, encoded = filled(cache, local(pictures), sizes=sizes)
    assert encoded == 8
    assert cached.example(1, Draws(0, 0), (12, 8))["moments"].shape == (4, 4, 6)
    assert cached.example(1, Draws(0, 0), (8, 8))["moments"].shape == (4, 4, 4)


def test_masks_are_kept_at_the_scale_of_the_moments(cache, pictures):
    data = local(pictures, mask="folder", flip_p=0.0)
    cached, _ = filled(cache, data)
    whole = data.picture(1, False)["mask"]
    assert torch.allclose(
        cached.example(1, Draws(0, 0))["mask"], torch.nn.functional.avg_pool2d(shares(whole)[None], 2)[0]
    )
    assert "mask" not in cached.example(0, Draws(0, 0))  # it counts in full


def test_half_precision_halves_the_file_and_rounds(cache, pictures):
    half = Cache("float16", cache.folder)
    exact, rounded = (filled(kind, local(pictures))[0].example(0, Draws(0, 0))["moments"] for kind in (cache, half))
    assert rounded.dtype == torch.float32
    assert torch.equal(rounded, exact.half().float())


def test_a_picture_that_cannot_be_read_is_a_fault_of_that_picture_alone(cache, pictures):
    (pictures / "img/004.png").write_bytes(b"no picture")
    cached, encoded = filled(cache, local(pictures))
    assert encoded == 10
    with pytest.raises(Fault, match="DAT06") as caught:
        cached.example(4, Draws(0, 0))
    assert "004.png" in caught.value.what


def test_ranks_share_the_work(cache, pictures):
    encoded = []

    def wait() -> None:
        if not encoded:  # while rank 0 waits for the first time, rank 1 does its share
            encoded.append(None)
            stage = Halving()
            _, encoded[0] = filled(cache, local(pictures), stage, share=Share(1, 2))

    _, own = filled(cache, local(pictures), share=Share(0, 2, wait))
    assert (own, encoded) == (6, [6])


def test_what_a_kill_leaves_behind_is_not_read(cache, pictures, caplog):
    filled(cache, local(pictures, flip_p=0.0))
    (shard,) = Path(cache.folder).rglob("*.safetensors")
    (shard.parent / ".1234.safetensors.tmp-1").write_bytes(shard.read_bytes()[:100])
    rows = next(Path(cache.folder).rglob("*.rows"))
    rows.write_bytes(rows.read_bytes()[:-5])
    assert filled(cache, local(pictures, flip_p=0.0))[1] == 0
    shard.write_bytes(shard.read_bytes()[:-200])
    assert filled(cache, local(pictures, flip_p=0.0))[1] == 6
    assert any("is damaged and is not used" in message for message in caplog.messages)


def test_moments_that_are_not_finite_stop_the_run(cache, pictures):
    with pytest.raises(Fault, match="not finite"):
        filled(cache, local(pictures), Halving(float("nan")))


def test_a_dataset_that_cannot_tell_pictures_from_draws_is_refused(cache):
    with pytest.raises(Fault, match="cannot be cached"):
        cache.moments_of(object(), ALL, LatentEncoder(Halving(), torch.device("cpu")), 0, Share())


def test_a_file_is_read_again_only_if_it_changed(tmp_path, monkeypatch):
    file = tmp_path / "a"
    file.write_text("one")
    contents = Contents(tmp_path / "kept")
    first = contents([file])
    contents.save()
    monkeypatch.setattr("hashlib.file_digest", lambda *_: pytest.fail("it was read again"))
    assert Contents(tmp_path / "kept")([file]) == first


@pytest.mark.parametrize("given", [None, False])
def test_nothing_is_cached_unasked(given):
    assert Cache.read(given) is None


@pytest.mark.parametrize(("given", "id"), [({"dtpye": "float16"}, "CFG03"), ({"dtype": "int8"}, "CFG08")])
def test_settings_that_make_no_sense_are_named(given, id):
    with pytest.raises(Fault, match=id):
        Cache.read(given)
