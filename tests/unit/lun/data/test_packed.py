"""A packed set against the folder that it was made of: the same examples to the bit, in the order that the law says."""

import json
import os
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.position import Position
from lun.data.dataset_protocol import DatasetAccess, ShardedDataset
from lun.data.local import Local
from lun.data.module import DataModuleFromConfig
from lun.data.order.position_sampler import Window
from lun.data.overlap import count_overlap
from lun.data.packed import PackedSet
from lun.data.packs.destination import FolderDestination
from lun.data.packs.packing import Packing, PackSettings
from lun.data.rejects import OF_ONE_EXAMPLE

SHAPES = [(20, 16), (16, 20), (18, 18)]
SMALL = PackSettings(shard_bytes=6000, order="given")


def picture(path: Path, number: int, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = SHAPES[number % 3]
    values = np.random.default_rng(number).integers(0, 256, (height, width, len(mode)), dtype=np.uint8)
    Image.fromarray(values, mode).save(path)


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captions of several kinds: tags, several lines, one that is empty."""
    root = tmp_path_factory.mktemp("loose")
    for number in range(20):
        picture(root / f"p{number:02}.png", number)
        (root / f"p{number:02}.txt").write_text(f"z{number}, a, {{red|blue}} b\nline two" if number else "")
    return root


@pytest.fixture(scope="module")
def packed(loose: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed") / "set"
    Packing(Local(str(loose), size=8), FolderDestination(folder), SMALL).run()
    return folder


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[key], other[key]) if isinstance(one[key], torch.Tensor) else one[key] == other[key]
        for key in one
    )


@pytest.mark.parametrize(
    "captions",
    [
        {},
        {"shuffle_tag_p": 0.5, "tag_dropout_p": 0.3, "keep_tags": 1},
        {"several_captions": True},
        {"wildcards": True, "prefix": "sks, "},
        {"words": "text", "tag_order": "sorted"},
    ],
)
def test_examples_are_those_of_the_folder_to_the_bit(loose: Path, packed: Path, captions: dict[str, Any]) -> None:
    sets = [kind(str(root), size=8, captions=captions) for kind, root in ((Local, loose), (PackedSet, packed))]
    assert len(sets[0]) == len(sets[1]) == 20
    assert np.array_equal(sets[0].sizes(), sets[1].sizes())
    for index in range(20):
        for size in (None, (8, 12)):
            assert same(*(one.example(index, Draws(3, index), size) for one in sets))
        assert sets[0].settled_captions(index) == sets[1].settled_captions(index)
        assert same(*(one.picture(index, True) for one in sets))


def test_what_chance_makes_of_a_picture_is_the_same_as_in_its_folder(loose: Path, packed: Path) -> None:
    drawn: dict[str, Any] = {
        "crop": {"resized": [0.4, 1]},
        "colour_jitter": {"contrast": 0.3, "hue": 0.1},
        "rotate": 8.0,
        "decode": "exact",
    }
    one, other = (kind(str(root), size=8, **drawn) for kind, root in ((Local, loose), (PackedSet, packed)))
    for slot in range(12):
        for size in (None, (8, 12)):
            assert same(one.example(slot, Draws(3, slot), size), other.example(slot, Draws(3, slot), size))


def test_descriptions_scores_weights_repeats_and_masks_survive(tmp_path: Path) -> None:
    for number in range(6):
        picture(tmp_path / f"loose/img/{number}.png", number)
        picture(tmp_path / f"loose/mask/img/{number}.png", 9 + number)
    rows = [
        {"path": f"img/{n}.png", "tags": ["b", f"t{n}"], "score": 100.0 * n, "weight": 1 + n / 2, "repeats": 1 + n % 2}
        for n in range(6)
    ]
    (tmp_path / "loose/rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    params: dict[str, Any] = {"size": 8, "mask": "folder"}
    rules = {"score_tags": [100, 300], "shuffle_tag_p": 0.5}
    local = Local(str(tmp_path / "loose"), layout="jsonl", metadata_params=rules, **params)
    facts = Packing(local, FolderDestination(tmp_path / "packed"), SMALL).run()
    assert (facts.samples, facts.tags, facts.masks, facts.weighted) == (9, True, True, True)
    packed = PackedSet(str(tmp_path / "packed"), captions=rules, **params)
    rows_of = np.repeat(np.arange(6), local.repeats()).tolist()
    weigher, own = packed.weigher(), local.weights()
    assert weigher is not None and own is not None
    assert [weigher(index) for index in range(9)] == own[rows_of].tolist()
    for index, row in enumerate(rows_of):
        assert same(packed.example(index, Draws(0, row)), local.example(row, Draws(0, row)))


def batches(module: DataModuleFromConfig, window: Window, slot: int, count: int) -> list[Any]:
    module.follow(Position(slot=slot), window, seed=7, total_steps=99)
    return list(islice(module.train_dataloader(), count))


def module_of(target: str, root: Path, buckets: dict[str, Any] | None = None, **params: Any) -> DataModuleFromConfig:
    recipe: Any = {"target": target, "params": {"data_root": str(root), "size": 8, **params}}
    return DataModuleFromConfig(batch_size=2, train=recipe, num_workers=0, buckets=buckets)


BUCKETS: dict[str, Any] = {"resolutions": [8], "step": 2}


@pytest.mark.parametrize("buckets", [None, BUCKETS])
def test_batches_are_those_of_the_folder_under_the_same_order(
    loose: Path, packed: Path, buckets: dict[str, Any] | None
) -> None:
    one = module_of("lun.data.local.Local", loose, buckets)
    other = module_of("lun.data.packed.PackedSet", packed, buckets, window=None)
    for mine, theirs in zip(*(batches(m, Window(2), 0, 14) for m in (one, other)), strict=True):
        assert same(mine, theirs)


@pytest.mark.parametrize("buckets", [None, BUCKETS])
def test_windows_read_the_same_on_two_ranks_and_after_a_resume(packed: Path, buckets: dict[str, Any] | None) -> None:
    straight = batches(module_of("lun.data.packed.PackedSet", packed, buckets, window=2), Window(2, 2), 0, 12)
    assert {slot for batch in straight[:10] for slot in batch["slot"].tolist()}.__len__() == 20
    again = batches(module_of("lun.data.packed.PackedSet", packed, buckets, window=2), Window(2, 2), 12, 6)
    assert all(same(one, other) for one, other in zip(straight[6:], again, strict=True))
    ranks = [
        batches(module_of("lun.data.packed.PackedSet", packed, buckets, window=2), Window(2, 1, 2, rank), 0, 6)
        for rank in (0, 1)
    ]
    taken = [batch for pair in zip(*ranks, strict=True) for batch in pair]
    assert all(same(one, other) for one, other in zip(straight, taken, strict=True))


def test_another_window_is_other_data_for_a_resumed_run(packed: Path) -> None:
    two = [module_of("lun.data.packed.PackedSet", packed, window=window).fingerprint() for window in (2, 3)]
    assert two[0] != two[1]


def test_its_fingerprint_is_that_of_the_one_file_that_names_all_others(packed: Path) -> None:
    import hashlib

    expected = hashlib.sha256((packed / "set.json").read_bytes()).hexdigest()
    assert DatasetAccess(PackedSet(str(packed), size=8)).fingerprint() == expected


def test_overlap_is_told_by_shards(packed: Path, loose: Path) -> None:
    one = PackedSet(str(packed), size=8)
    assert count_overlap(one, PackedSet(str(packed), size=16)) == 20
    assert count_overlap(one, Local(str(loose))) == 0


def copied(packed: Path, tmp_path: Path) -> Path:
    for file in packed.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def cut(root: Path) -> None:
    os.truncate(root / "000001.tar", 512)


def flip_a_bit(root: Path) -> None:
    data = bytearray((root / "000001.tar").read_bytes())
    data[700] ^= 1
    (root / "000001.tar").write_bytes(data)


def write_anew(root: Path) -> None:
    (root / "000001.tar").write_bytes((root / "000000.tar").read_bytes() + bytes(512))


def other_index(root: Path) -> None:
    (root / "000001.idx").write_bytes((root / "000000.idx").read_bytes())


def other_table(root: Path) -> None:
    next(root.glob("*.table")).write_bytes(b"")


def later_format(root: Path) -> None:
    (root / "set.json").write_text('{"format": 9}')


@pytest.mark.parametrize(
    ("spoil", "id", "told"),
    [
        (lambda root: (root / "000001.tar").unlink(), "DAT13", "No such file"),
        (lambda root: (root / "000001.idx").unlink(), "DAT13", "No such file"),
        (lambda root: (root / "set.json").unlink(), "DAT13", "No such file"),
        (lambda root: (root / "set.json").write_text("[]"), "DAT13", "does not describe a packed set"),
        (later_format, "DAT13", "another version"),
        (other_table, "DAT13", "another one"),
        (cut, "DAT14", "512 bytes"),
        (flip_a_bit, "DAT14", "checksum"),
        (write_anew, "DAT14", "when it was packed"),
        (other_index, "DAT14", "not the index"),
    ],
)
def test_a_set_that_is_not_as_it_was_packed_is_one_message_and_no_picture_is_replaced(
    packed: Path, tmp_path: Path, spoil: Any, id: str, told: str
) -> None:
    spoil(copied(packed, tmp_path))
    with pytest.raises(Fault) as found:
        one = PackedSet(str(tmp_path), size=8)
        for index in range(len(one)):
            one.example(index, Draws(0, index))
    assert found.value.id == id and told in found.value.render()
    assert id not in OF_ONE_EXAMPLE


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"window": 0}, "window of a data set cannot be 0"),
        ({"size": -1}, "size of a data set cannot be -1"),
        ({"mask": "folder"}, "has no masks"),
        ({"captions": {"abs_min_score": 1}}, "unknown setting captions.abs_min_score"),
    ],
)
def test_params_that_cannot_be_are_named(packed: Path, params: dict[str, Any], told: str) -> None:
    with pytest.raises(Fault) as found:
        PackedSet(str(packed), **params)
    assert told in found.value.render()


def test_a_picture_without_a_caption_is_a_fault_of_one_example(tmp_path: Path) -> None:
    picture(tmp_path / "loose/a.png", 1)
    Packing(
        Local(str(tmp_path / "loose"), allow_empty_captions=True), FolderDestination(tmp_path / "packed"), SMALL
    ).run()
    root = str(tmp_path / "packed")
    with pytest.raises(Fault, match="has no caption") as found:
        PackedSet(root, size=8).example(0, Draws(0, 0))
    assert found.value.id in OF_ONE_EXAMPLE
    assert PackedSet(root, size=8, default_caption="a cat").example(0, Draws(0, 0))["caption"] == "a cat"
    assert PackedSet(root, size=8, allow_empty_captions=True).example(0, Draws(0, 0))["caption"] == ""


def test_captions_for_further_encoders_are_packed_and_given(tmp_path: Path) -> None:
    for number in range(3):
        picture(tmp_path / f"loose/{number}.png", number)
        (tmp_path / f"loose/{number}.txt").write_text(f"number {number}")
    (tmp_path / "loose/1.txt2").write_text("one\nin full")
    facts = Packing(Local(str(tmp_path / "loose"), size=8), FolderDestination(tmp_path / "packed"), SMALL).run()
    assert facts.further is True
    kinds = ((Local, "loose"), (PackedSet, "packed"))
    local, packed = (kind(str(tmp_path / name), size=8, caption_per_encoder=True) for kind, name in kinds)
    for index in range(3):
        assert same(packed.example(index, Draws(3, index)), local.example(index, Draws(3, index)))
        assert packed.further_captions(index) == local.further_captions(index)
        assert packed.settled_captions(index) == local.settled_captions(index)
    assert packed.settled_captions(1) == [("number 1", "one in full")]
    assert "caption_2" not in PackedSet(str(tmp_path / "packed"), size=8).example(1, Draws(3, 1))


def test_captions_for_further_encoders_that_no_sample_has_are_refused(packed: Path) -> None:
    with pytest.raises(Fault, match="second or third text encoder") as raised:
        PackedSet(str(packed), size=8, caption_per_encoder=True)
    assert raised.value.id == "DAT04"


def test_a_packed_set_answers_what_is_asked_of_one_in_shards(packed: Path) -> None:
    data = PackedSet(str(packed), size=8)
    members = [name for name in vars(ShardedDataset) if not name.startswith("_")]
    assert [name for name in members if not hasattr(data, name)] == []
