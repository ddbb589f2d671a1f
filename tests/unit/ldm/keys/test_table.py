"""Names of a module's tensors to those on disk and back, where tensors are joined or turned round on the way."""

import torch

from ldm.files.lazy_tensor import LazyShardedTensor, Run
from ldm.keys.table import KeyTable

TABLE = KeyTable(
    {"norm.weight": "adaLN.weight", "out.bias": "last.bias"},
    "network",
    joins={"qkv.weight": ("q.weight", "k.weight")},
    swaps={"norm.weight"},
)
OWN = {
    "network.q.weight": torch.arange(6.0).view(2, 3),
    "network.k.weight": torch.arange(6.0, 12.0).view(2, 3),
    "network.norm.weight": torch.arange(8.0).view(4, 2),
    "network.out.bias": torch.ones(3),
    "network.unheard.of": torch.zeros(1),
}


def test_joined_and_swapped_tensors_come_back_bit_for_bit_as_views() -> None:
    disk = TABLE.to_disk(OWN)
    assert disk.keys() == {"qkv.weight", "adaLN.weight", "last.bias", "network.unheard.of"}
    assert torch.equal(disk["qkv.weight"], torch.arange(12.0).view(4, 3))
    assert disk["adaLN.weight"].flatten().tolist() == [4, 5, 6, 7, 0, 1, 2, 3]
    back = TABLE.from_disk(disk)
    assert back.keys() == OWN.keys() and all(torch.equal(back[key], value) for key, value in OWN.items())
    memory = disk["qkv.weight"].untyped_storage().data_ptr()
    assert back["network.k.weight"].untyped_storage().data_ptr() == memory


def test_a_part_of_a_joined_tensor_keeps_its_name_both_ways() -> None:
    lone = {"network.q.weight": OWN["network.q.weight"]}
    assert TABLE.to_disk(lone).keys() == lone.keys() == TABLE.from_disk(lone).keys()


def test_a_joined_tensor_that_cannot_be_parted_keeps_its_name() -> None:
    odd = {"qkv.weight": torch.zeros(3, 3), "adaLN.weight": torch.zeros(5)}
    assert TABLE.from_disk(odd).keys() == {"qkv.weight", "network.norm.weight"}


def test_the_librarys_own_names_are_taken_as_they_are() -> None:
    given = {key.removeprefix("network."): value for key, value in OWN.items() if key != "network.unheard.of"}
    found = TABLE.from_disk(given)
    assert all(found[f"network.{key}"] is value for key, value in given.items())


def test_tensors_without_memory_stay_without() -> None:
    meta = {key: value.to("meta") for key, value in OWN.items()}
    back = TABLE.from_disk(TABLE.to_disk(meta))
    assert all(value.is_meta and value.shape == OWN[key].shape for key, value in back.items())


def test_tensors_that_lie_spread_are_read_by_nobody_on_the_way() -> None:
    def spread(value: torch.Tensor) -> LazyShardedTensor:  # of which this process holds but the first two elements
        return LazyShardedTensor(value.shape, value.dtype, [Run(0, value.flatten()[:2])])

    disk = TABLE.to_disk({key: spread(value) for key, value in OWN.items()})
    back = TABLE.from_disk(disk)
    assert all(isinstance(value, LazyShardedTensor) for value in (*disk.values(), *back.values()))
    assert all(value.shape == OWN[key].shape for key, value in back.items())
    assert [run.bounds for run in disk["adaLN.weight"].runs] == [(4, 6)]
    assert back["network.norm.weight"].between(0, 2).tolist() == [0, 1]
