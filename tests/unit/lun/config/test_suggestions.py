import pytest

from ldm.errors import Fault
from lun.config.suggestions import did_you_mean, nearest, raise_all


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("batchsize", "batch_size"),
        ("Batch-Size", "batch_size"),
        ("num_worker", "num_workers"),
        ("qqq", None),
    ],
)
def test_the_nearest_name_ignores_case_dashes_and_underscores(word, expected):
    assert nearest(word, ["batch_size", "num_workers", "train"]) == expected


def test_nothing_near_suggests_nothing():
    assert did_you_mean("qqq", ["train"]) == ""


def test_a_single_fault_is_raised_as_it_is():
    fault = Fault("CFG01", "x")
    with pytest.raises(Fault) as caught:
        raise_all([fault])
    assert caught.value is fault


def test_several_faults_are_raised_together():
    with pytest.raises(ExceptionGroup) as caught:
        raise_all([Fault("CFG01", "x"), Fault("CFG02", "y")])
    assert [fault.id for fault in caught.value.exceptions] == ["CFG01", "CFG02"]


def test_what_two_checks_meet_in_the_same_words_is_told_once():
    with pytest.raises(Fault, match="x"):
        raise_all([Fault("CFG01", "x"), Fault("CFG01", "x")])


def test_no_fault_is_not_raised():
    raise_all([])
