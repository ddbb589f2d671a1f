"""How much an example counts, asked for one by one."""

import pickle

import numpy as np
import pytest

from lun.data.dataset_protocol import DatasetAccess
from lun.data.sets.joined import JoinedSets
from lun.data.sets.set_settings import MixSettings
from lun.data.weigher import weigher_of


class Column:
    """Three examples, with a column of weights or without."""

    def __init__(self, weights: list[float] | None = None) -> None:
        self.given = weights

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> dict[str, object]:
        raise NotImplementedError

    def weights(self) -> np.ndarray | None:
        return None if self.given is None else np.array(self.given)


class OneByOne(Column):
    """Tells them one by one, and has no column."""

    def weights(self) -> np.ndarray | None:
        raise AssertionError("nobody asks for all of them")

    def weigher(self) -> object:
        return abs


def test_of_a_column_or_of_the_dataset_itself() -> None:
    assert weigher_of(DatasetAccess(Column())) is None
    found = weigher_of(DatasetAccess(Column([1.0, 0.25, 2.0])))
    assert found is not None and pickle.loads(pickle.dumps(found))(1) == 0.25
    own = weigher_of(DatasetAccess(OneByOne()))
    assert own is not None and own(2) == 2.0


@pytest.mark.parametrize("loss_weight", [1.0, 0.5])
def test_that_of_a_set_counts_in_those_of_its_examples(loss_weight: float) -> None:
    sets = {"a": {"target": "a.B", "weight": 1, "loss_weight": loss_weight}, "b": {"target": "a.B", "weight": 1}}
    settings = MixSettings.read({"sets": sets}).sets
    plain = JoinedSets(settings, [Column(), Column()]).weigher()
    assert (plain is None) == (loss_weight == 1)
    found = JoinedSets(settings, [Column([1.0, 0.25, 2.0]), OneByOne()]).weigher()
    assert found is not None and [found(index) for index in range(1, 6)] == [
        0.25 * loss_weight,
        2 * loss_weight,
        0,
        1,
        2,
    ]
