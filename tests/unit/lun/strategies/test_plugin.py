"""What is said of a precision before a run."""

import pytest

from lun.strategies.plugin import warn_if_slow


@pytest.mark.parametrize(("precision", "told"), [("16-mixed", True), (16, True), ("bf16", False), (None, False)])
def test_float16_on_a_cpu_is_said_to_be_slow(caplog: pytest.LogCaptureFixture, precision: object, told: bool) -> None:
    warn_if_slow({"accelerator": "cpu", "precision": precision})
    assert ("DEV04" in caplog.text and "precision=32" in caplog.text) is told
