"""Names of solvers."""

from typing import get_args

import pytest

from ldm.diffusion.sampling.sampler import solver_class
from ldm.scheduler_names import Scheduler, scheduler_named


@pytest.mark.parametrize("name", get_args(Scheduler))
def test_each_name_is_its_own_and_a_solvers(name: Scheduler) -> None:
    assert scheduler_named(name) == name and solver_class(name)


def test_kohyas_words_for_the_same_solvers_are_understood_and_no_others() -> None:
    assert (scheduler_named("k_euler"), scheduler_named("dpmsolver++")) == ("euler", "dpmpp")
    with pytest.raises(ValueError, match="ddim, euler, dpmpp"):
        scheduler_named("euler_a")
