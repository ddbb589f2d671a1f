"""Who of the ranks keeps which averages."""

import pytest

from lun.strategies.shares import owners


def load(sizes: dict[str, int], ranks: int) -> list[int]:
    found = owners(sizes, ranks)
    assert list(found) == list(sizes)
    return [sum(sizes[name] for name, owner in found.items() if owner == rank) for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_ranks_have_about_as_much_each(ranks: int) -> None:
    sizes = {f"w{i}": 1 + (i * 7919) % 1000 for i in range(200)}
    loads = load(sizes, ranks)
    assert sum(loads) == sum(sizes.values()) and max(loads) - min(loads) <= 1000


def test_one_large_tensor_leaves_the_others_to_the_other_ranks() -> None:
    assert sorted(load({"a": 10, "b": 100, "c": 20, "d": 30}, 2)) == [60, 100]


def test_more_ranks_than_tensors_leave_some_without() -> None:
    assert sorted(load({"a": 3, "b": 2}, 4)) == [0, 0, 2, 3]
