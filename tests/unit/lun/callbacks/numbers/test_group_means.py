"""Means of groups and their quotients to the first ones."""

import numpy as np

from lun.callbacks.numbers.group_means import GroupMeans, metric

ALL = np.ones(4, bool)


def test_a_mean_is_compared_with_the_first_examples_once_there_are_enough() -> None:
    means = GroupMeans()
    groups = {"a": ALL, "b": ~ALL}
    assert means.of("train/by", groups, np.full(4, 2.0), enough=5) == {"train/by/a": 2.0}
    assert means.of("train/by", groups, np.full(4, 4.0), enough=5) == {"train/by/a": 4.0}
    again = GroupMeans()
    again.load_state_dict(means.state_dict())
    assert again.of("train/by", groups, np.full(4, 1.5), enough=5) == {"train/by/a": 1.5, "train/by_rel/a": 0.5}


def test_a_loss_that_is_not_finite_is_nothing_to_compare_with() -> None:
    means = GroupMeans()
    means.of("train/by", {"a": ALL}, np.full(4, np.nan), enough=1)
    means.of("train/by", {"a": ALL}, np.full(4, 2.0), enough=1)
    assert means.of("train/by", {"a": ALL}, np.full(4, 1.0), enough=1)["train/by_rel/a"] == 0.5


def test_averaged_weights_are_named_as_in_other_metrics() -> None:
    assert metric("val_ema/loss_by_snr", "-2..0") == "val/loss_by_snr_ema/-2..0"
    assert metric("val/loss_by_snr", "-2..0", "_rel") == "val/loss_by_snr_rel/-2..0"
