"""Errors that are another rank's."""

import os
from pathlib import Path

import pytest

from ldm.errors import Fault
from lun.loop.rank_failures import is_from_another_rank, last_saved, rank_failure


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RuntimeError("[tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:3"), True),
        (RuntimeError("Timed out waiting 30000ms for send operation to complete"), True),
        (RuntimeError("CUDA out of memory"), False),
        (ValueError("Connection closed by peer"), False),
        (Fault("TRN03", "another rank failed"), True),
        (Fault("TRN01", "not finite"), False),
    ],
)
def test_a_lost_rank_is_told_from_an_error_of_ones_own(error: Exception, expected: bool) -> None:
    assert is_from_another_rank(error) is expected


def test_the_message_names_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    assert last_saved(tmp_path) is None
    assert "nothing was saved before" in str(rank_failure(tmp_path, 1))
    (tmp_path / "checkpoints").mkdir()
    for age, name in enumerate(["every-2k-steps.ckpt", "old.ckpt", ".last.ckpt.tmp-1"]):
        (tmp_path / "checkpoints" / name).touch()
        os.utime(tmp_path / "checkpoints" / name, (1000 - age, 1000 - age))
    os.utime(tmp_path / "checkpoints" / ".last.ckpt.tmp-1", (2000, 2000))
    assert "checkpoints/every-2k-steps.ckpt" in str(rank_failure(tmp_path, 1))
