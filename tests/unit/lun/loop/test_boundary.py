from typing import Any

import pytest

from lun.loop.boundary import AtStepBoundary


class Noting(AtStepBoundary):
    def __init__(self) -> None:
        self.calls: list[tuple[int, bool, bool]] = []

    def at_step(self, trainer: Any, pl_module: Any, step: int, final: bool) -> None:
        self.calls.append((step, self.first, final))


class NotingValidations(Noting):
    def at_step(self, trainer: Any, pl_module: Any, step: int, final: bool) -> None:
        self.calls.append((step, bool(pl_module.validated) and pl_module.validated[-1] == step, final))


@pytest.mark.parametrize("accumulate", [1, 3])
def test_each_step_is_visited_once_and_the_last_one_at_the_end(training, accumulate):
    noting = Noting()
    training(3, noting, accumulate=accumulate).fit()
    assert noting.calls == [(0, True, False), (1, False, False), (2, False, False), (3, False, True)]


def test_a_validation_due_at_a_step_has_run_before_it_is_visited(training):
    noting = NotingValidations()
    training(4, noting, validate_every=2).fit()
    assert noting.calls == [(0, False, False), (1, False, False), (2, True, False), (3, False, False), (4, True, True)]


def test_a_callback_can_be_used_for_a_second_fit(training):
    noting = Noting()
    training(1, noting).fit()
    noting.calls.clear()
    training(1, noting).fit()
    assert noting.calls == [(0, True, False), (1, False, True)]
