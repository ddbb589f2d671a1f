import pytest
from hypothesis import given
from hypothesis import strategies as st

from lun.run.data_changes import compare_data, next_epoch

STORED = {"n": 1507, "global_batch": 8, "fingerprint": "f00d", "seed": 0}


def test_the_same_data_is_no_fault():
    assert compare_data(STORED, dict(STORED)) is None


def test_everything_that_changed_is_listed():
    fault = compare_data(STORED, {"n": 1600, "global_batch": 16, "fingerprint": "beef", "seed": 1})
    assert fault.id == "RES03"
    for line in ("images: 1507 -> 1600", "(global batch): 8 -> 16", "seed: 0 -> 1", "files: other paths"):
        assert line in fault.why
    assert "--accept-change data --accept-change batch" in fault.fix


@pytest.mark.parametrize(
    ("devices", "accumulate", "setting"),
    [
        (2, 1, "data.params.batch_size=4 "),
        (2, 2, "data.params.batch_size=2 "),
        (2, 3, "data.params.batch_size=4 lightning.trainer.accumulate_grad_batches=1"),
        (3, 1, "a number of devices by which 8 can be divided"),
    ],
)
def test_the_setting_that_keeps_the_global_batch_is_shown(devices, accumulate, setting):
    fault = compare_data(STORED, STORED | {"global_batch": 99}, devices=devices, accumulate=accumulate)
    assert fault.fix.startswith(setting)


def test_a_change_of_data_alone_does_not_speak_of_batches():
    fault = compare_data(STORED, STORED | {"fingerprint": "beef"})
    assert "batch" not in fault.fix


def test_only_what_was_not_accepted_is_refused():
    now = STORED | {"n": 1600, "global_batch": 16}
    assert "images:" not in compare_data(STORED, now, accepted=["data"]).why
    assert compare_data(STORED, now, accepted=["data", "batch"]) is None


def test_a_begun_epoch_is_left_for_the_next():
    assert next_epoch(slot=23, n_before=10) == 3


def test_a_slot_that_begins_an_epoch_stays_its_beginning():
    assert next_epoch(slot=20, n_before=10) == 2


@given(st.integers(0, 10**9), st.integers(1, 10**6))
def test_the_next_epoch_is_the_one_after_all_that_was_begun(slot, n_before):
    epoch = next_epoch(slot, n_before)
    assert (epoch - 1) * n_before < slot <= epoch * n_before
