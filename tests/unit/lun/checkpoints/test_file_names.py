import pytest

from ldm.errors import Fault
from lun.checkpoints.file_names import check_place, check_template, field_names, file_name


def test_fields_may_hold_slashes_and_names_may_hold_spaces_and_equals_signs():
    values = {"epoch": 7, "step": 20000, "val/loss_simple_ema": 0.12345}
    name = file_name("monitor/loss={val/loss_simple_ema:.3f} e={epoch:04d} gs={step:06d}", values)
    assert name == "monitor/loss=0.123 e=0007 gs=020000.ckpt"


def test_a_metric_that_was_not_measured_yet_is_nan():
    assert file_name("loss={val/loss:.3f}", {"step": 1}) == "loss=nan.ckpt"


def test_a_metric_with_dots_is_found_by_its_whole_name():
    assert file_name("{val/loss.t0:.1f}", {"val/loss.t0": 2.0}) == "2.0.ckpt"


def test_a_name_without_fields_has_none():
    assert field_names("every-2k-steps") == set()
    assert field_names("{epoch}/{val/loss:.2f}") == {"epoch", "val/loss"}


@pytest.mark.parametrize("template", ["loss={val/loss:.3f", "{step:.q}", "{val/loss:04d}"])
def test_a_template_that_cannot_be_filled_in_is_told_at_once(template):
    with pytest.raises(Fault, match="CFG08"):
        check_template(template)


@pytest.mark.parametrize("place", ["/etc/cron.d", "../elsewhere", "a/../../b", "~/x"])
@pytest.mark.parametrize("field", ["dirpath", "filename"])
def test_a_saver_does_not_leave_the_run_unless_that_is_spelt_out(place: str, field: str) -> None:
    given = {"dirpath": "checkpoints", "filename": "x", field: place}
    with pytest.raises(Fault, match="leads out of the run"):
        check_place(**given, outside=False)
    check_place(**given, outside=True)
