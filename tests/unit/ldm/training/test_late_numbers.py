import torch

from ldm.training.late_numbers import LateNumbers


def test_numbers_are_those_of_the_moment_at_which_they_were_sent() -> None:
    numbers = torch.tensor([1.0, float("inf")])
    late = LateNumbers(numbers)
    numbers.zero_()
    assert late.read() == [1.0, float("inf")]
