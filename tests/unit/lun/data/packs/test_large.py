"""A set of a thousand million samples starts as fast as a small one: nothing is kept or read a sample."""

import os
from pathlib import Path
from time import process_time

import numpy as np
import pytest

from lun.data.keyed import Keyed
from lun.data.one_set import OneSet
from lun.data.order.law_start import BEGINNING
from lun.data.packed import PackedSet
from lun.data.packs.destination import FolderDestination
from lun.data.packs.set_file import SHARD
from lun.data.packs.set_writing import write_set
from lun.data.sets.joined import JoinedSets
from lun.data.sets.mix import Mix
from lun.data.sets.set_settings import MixSettings

SHARDS, OF_ONE = 400_000, 2_500


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of 10^9 samples, as far as its two files say."""
    folder = tmp_path_factory.mktemp("large")
    entries = np.zeros(SHARDS, SHARD)
    entries["samples"], entries["bytes"] = OF_ONE, 256 << 20
    entries["sha256"] = np.arange(SHARDS, dtype="<u8").repeat(4).view("V32")
    write_set(FolderDestination(folder), [entries])
    return folder


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read as Linux tells it")
def test_it_starts_within_two_seconds_and_500_mb_alone_and_among_other_sets(large: Path) -> None:
    memory, begun = resident(), process_time()
    dataset = PackedSet(str(large))
    one = OneSet(dataset, None)
    law = one.law(0, 4096, BEGINNING)
    assert one.n == SHARDS * OF_ONE and one.fingerprint()
    read = [law.key(place).example for place in (*range(500), 7 * one.n + 123_456_789)]
    assert len(set(read)) == len(read)
    sets = {"large": {"target": "a.B", "weight": 3, "loss_weight": 0.5}, "small": {"target": "a.B", "weight": 1}}
    settings = MixSettings.read({"sets": sets})
    mix = Mix(settings, JoinedSets(settings.sets, [dataset, _Small()]), None)
    mixed = mix.law(0, 4096)
    found = [mixed.key(place).example for place in range(64)]
    assert mix.n == SHARDS * OF_ONE + 100 and 8 <= sum(index >= SHARDS * OF_ONE for index in found) <= 24
    weigher = Keyed(mix.joined, 0).weigher
    assert weigher is not None and weigher(123_456_789) == 0.5 and weigher(SHARDS * OF_ONE) == 1
    assert process_time() - begun < 2
    assert resident() - memory < 500_000_000


class _Small:
    def __len__(self) -> int:
        return 100

    def example(self, index: int, draws: object) -> dict[str, object]:
        raise NotImplementedError
