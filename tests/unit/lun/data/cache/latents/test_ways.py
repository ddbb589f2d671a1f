"""Several variants of each picture in a cache: drawn by what its file holds, met by the draws of a slot."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.runs import make_shapes

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.models.pixels import centred
from lun.data.cache.cache_settings import Cache
from lun.data.cache.latents.encoder import LatentEncoder
from lun.data.cache.latents.ways import Variants, require_effect, ways_of
from lun.data.cache.shards.filling import Share
from lun.data.local import Local

DRAWN: dict[str, Any] = {"crop": {"resized": [0.5, 1]}, "colour_jitter": {"brightness": 0.3}, "rotate": 5.0}
COUNT = 3


class Counting(torch.nn.Module):
    """A first stage whose moments are the picture itself; it counts what it encodes."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.ones(()))
        self.encoded = 0

    def encode_moments(self, x: torch.Tensor) -> torch.Tensor:
        self.encoded += len(x)
        return x.repeat(1, 2, 1, 1)[:, :4] * self.factor


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return make_shapes(tmp_path / "pictures", [(19, 12), (12, 17), (16, 16)])


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(folder=str(tmp_path / "cache"), variants=COUNT)


def local(root: Path, **params: Any) -> Local:
    return Local(str(root), **{"size": 8, "mask": "folder", **DRAWN, **params})


def filled(cache: Cache, data: Local) -> tuple[Any, int]:
    """(the cached dataset, how many pictures were encoded for it)"""
    stage = Counting()
    encoder = LatentEncoder(stage, torch.device("cpu"))
    return cache.moments_of(data, {None: np.arange(len(data))}, encoder, 0, Share()), stage.encoded


def test_a_cached_variant_is_the_picture_of_its_own_draws_and_tells_where_it_was_cut(cache, pictures):
    data = local(pictures)
    cached, encoded = filled(cache, data)
    assert encoded == COUNT * 3
    seen = set()
    for slot in range(40):
        index, draws = slot % 3, Draws(0, slot)
        kept = cached.example(index, draws)
        way = cached.ways.met(draws)
        flipped, own = cached.ways.look(cached.kept.content(index, None), way)
        plain = data.picture(index, flipped, None, own)
        assert torch.equal(kept["moments"][:3], centred(plain["image"]).movedim(-1, 0))
        assert (kept["crop"], kept["target_size"]) == (plain["crop"], plain["target_size"])
        assert ("mask" in kept) == ("mask" in plain)
        seen.add((index, way))
    assert len(seen) == COUNT * 3
    assert len({cached.example(index, Draws(0, slot))["crop"] for slot in range(30) for index in range(3)}) > COUNT


def test_a_copy_has_the_same_variants_and_more_of_them_keep_the_first(cache, pictures, tmp_path):
    filled(cache, local(pictures))
    copy = make_shapes(tmp_path / "elsewhere", [(19, 12), (12, 17), (16, 16)])
    assert filled(cache, local(copy))[1] == 0
    assert filled(replace(cache, variants=COUNT + 2), local(pictures))[1] == 2 * 3


@pytest.mark.parametrize("change", [{"rotate": 4.0}, {"colour_jitter": None}, {"crop": "random"}, {"flip_p": 0.0}])
def test_what_is_drawn_otherwise_is_computed_anew(cache, pictures, change):
    filled(cache, local(pictures))
    assert filled(cache, local(pictures, **change))[1] == COUNT * 3


def test_a_set_of_which_nothing_is_drawn_keeps_both_ways_round_beside_one_with_variants(cache, pictures):
    assert filled(cache, local(pictures, crop=True, colour_jitter=None, rotate=0.0))[1] == 2 * 3


def test_every_variant_is_as_likely(pictures):
    ways = Variants(local(pictures), 4)
    met = np.bincount([ways.met(Draws(0, slot)) for slot in range(800)])
    assert len(met) == 4 and met.min() > 150


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_that_are_drawn_anew_are_not_cut_once_and_for_all(pictures, name):
    with pytest.raises(Fault, match="CFG08") as caught:
        ways_of(Local(str(pictures), **{name: DRAWN[name]}), 1)
    assert "data.params.cache.variants=4" in caught.value.fix


def test_variants_of_nothing_are_refused():
    with pytest.raises(Fault, match="variants has no effect"):
        require_effect(2, [False, False])
    require_effect(2, [False, True])
    require_effect(1, [False])


@pytest.mark.parametrize("variants", [0, -1, 1.5, True, "many"])
def test_a_number_of_variants_that_makes_no_sense_is_refused(variants):
    with pytest.raises(Fault, match="CFG08.*variants"):
        Cache.read({"variants": variants})
