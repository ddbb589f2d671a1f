"""Who watches single examples: rows of all ranks, and refusals by name."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ldm.errors import Fault
from lun.callbacks import LossBySize
from lun.callbacks.numbers.example_numbers import of_all_ranks

CPU = torch.device("cpu")


def test_rows_of_ranks_with_unequally_many_come_together_in_order() -> None:
    ranks = [
        {"loss": np.array([1.0, 2.0]), "example": np.array([4.0, 5.0])},
        {"loss": np.array([3.0]), "example": np.array([6.0])},
    ]
    sent: list[Tensor] = []

    def gather(table: Tensor) -> Tensor:
        sent.append(table)
        return torch.stack([*sent, table][:2])

    def longest(mine: Tensor, reduce_op: str) -> Tensor:
        return torch.tensor(2.0)

    of_all_ranks(ranks[0], gather, longest, CPU)
    rows = of_all_ranks(ranks[1], gather, longest, CPU)
    assert rows["loss"].tolist() == [1.0, 2.0, 3.0] and rows["example"].tolist() == [4, 5, 6]


@pytest.mark.parametrize(
    ("every", "model", "told"),
    [(0, SimpleNamespace(), "nothing is logged"), (50, SimpleNamespace(), "diffusion model")],
)
def test_where_it_would_do_nothing_it_is_refused(every: int, model: Any, told: str) -> None:
    with pytest.raises(Fault, match=told):
        LossBySize().setup(SimpleNamespace(log_every_n_steps=every), model, "fit")  # type: ignore[arg-type]
