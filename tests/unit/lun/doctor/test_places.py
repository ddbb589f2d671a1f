"""Each way in which room or rights may be missing."""

import pytest

from lun.doctor.places import GIB, examine_commit, examine_disk, examine_permissions, examine_shared_memory


@pytest.mark.parametrize(
    ("total", "level"), [(None, "OK"), (8 * GIB, "OK"), (GIB, "OK"), (GIB // 2, "WARN"), (64 * 2**20, "FAIL")]
)
def test_shared_memory_of_a_container_by_default_fails(total: int | None, level: str) -> None:
    assert examine_shared_memory(total).level == level


@pytest.mark.parametrize(("free", "level"), [(100e9, "OK"), (30e9, "WARN"), (0.5e9, "FAIL")])
def test_a_disk_has_to_hold_several_checkpoints(free: float, level: str) -> None:
    assert examine_disk(int(free)).level == level


def test_a_place_that_may_not_be_written_fails_by_its_purpose() -> None:
    finding = examine_permissions({"runs": False, "caches": True})
    assert (finding.level, finding.detail) == ("FAIL", "may not write runs")


def test_rights_to_everything_are_well() -> None:
    assert examine_permissions({"runs": True, "caches": True}).level == "OK"


@pytest.mark.parametrize(
    ("commit", "detail"),
    [
        (None, "0.1.0, not from a git checkout"),
        ("0123456789abcdef", "0.1.0, commit 0123456789ab"),
        ("0123456789abcdef+", "0.1.0, commit 0123456789ab, with changes of your own"),
    ],
)
def test_the_commit_is_told(commit: str | None, detail: str) -> None:
    assert examine_commit(commit, "0.1.0").detail == detail
