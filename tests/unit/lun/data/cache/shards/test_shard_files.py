"""Entries in files: found by name, written whole or not at all."""

import pickle
import resource
import signal

import numpy as np
import pytest
import torch
from support.damage import flips

from ldm.errors import Fault
from lun.data.cache.shards.shard_files import ENTRY_BYTES, CacheShards, Writer


def names(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, ENTRY_BYTES), dtype=np.uint8)


@pytest.fixture
def small_files():
    """A limit on the size of files, which a write runs into as it would into a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    deaf = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, deaf)


def test_entries_are_found_among_many(tmp_path):
    entries = names(500)
    writer = Writer(tmp_path)
    for number, name in enumerate(entries[:400]):
        writer.add(name.tobytes(), {"moments": torch.full((2, 1, 1 + number % 2), float(number))})
    writer.flush()
    shards = CacheShards(tmp_path)
    places = shards.locate(entries)
    assert (places[400:] == -1).all()
    assert [shards.read(place)["moments"].mean().item() for place in places[:400]] == list(range(400))


def test_entries_of_several_tensors_of_other_types_and_names_share_a_folder(tmp_path):
    one, two = names(2)
    writer = Writer(tmp_path)
    writer.add(one.tobytes(), {"context": torch.arange(6.0).view(3, 2).half(), "sizes": torch.ones(6)})
    writer.add(two.tobytes(), {"context": torch.zeros(4, 2)})
    writer.flush()
    shards = CacheShards(tmp_path)
    first, second = (shards.read(place) for place in shards.locate(names(2)))
    assert first["context"].dtype == torch.float16 and first["context"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert first["sizes"].tolist() == [1] * 6
    assert second.keys() == {"context"} and second["context"].shape == (4, 2)


def test_a_shard_reaches_a_worker_by_its_path(tmp_path):
    writer = Writer(tmp_path)
    writer.add(bytes(16), {"x": torch.zeros(100_000)})
    writer.flush()
    (shard,) = CacheShards(tmp_path).shards
    sent = pickle.dumps(shard)
    assert len(sent) < 1000
    assert torch.equal(pickle.loads(sent).row(0)["x"], torch.zeros(100_000))


def test_a_disk_that_is_full_is_told_and_leaves_what_was_written_before(tmp_path, small_files):
    writer = Writer(tmp_path)
    kept, lost = names(2)
    writer.add(kept.tobytes(), {"x": torch.ones(10)})
    writer.flush()
    writer.add(lost.tobytes(), {"x": torch.ones(1 << 20)})
    with pytest.raises(Fault, match="DSK01") as caught:
        writer.flush()
    assert str(tmp_path) in caught.value.what and "LUN_CACHE" in caught.value.fix
    assert [path.suffix for path in tmp_path.iterdir()] == [".safetensors"]
    assert (CacheShards(tmp_path).locate(names(2))[:, 0] >= 0).tolist() == [True, False]


def test_any_flipped_bit_of_a_shard_is_noticed_or_makes_it_absent(tmp_path):
    """What is not noticed is of no consequence: the name of an entry that nobody asks for."""
    entries = names(3)
    writer = Writer(tmp_path / "whole")
    for number, name in enumerate(entries):
        writer.add(name.tobytes(), {"moments": torch.full((2, 3), float(number)), "mask": torch.ones(3)})
    writer.flush()
    (whole,) = (tmp_path / "whole").iterdir()
    (tmp_path / "harmed").mkdir()
    noticed = 0
    for position in flips(whole, tmp_path / "harmed" / whole.name, 300):
        shards = CacheShards(tmp_path / "harmed")
        for number, place in enumerate(shards.locate(entries)):
            if place[0] < 0:
                noticed += 1
                continue
            try:
                found = shards.read(place)
            except Fault as fault:
                assert fault.id == "DAT11"
                noticed += 1
                continue
            assert found.keys() == {"moments", "mask"}, position
            assert torch.equal(found["moments"], torch.full((2, 3), float(number))), position
    assert noticed > 200
