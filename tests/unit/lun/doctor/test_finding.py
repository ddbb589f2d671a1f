"""Lines that can be pasted anywhere."""

import pytest

from lun.doctor.finding import Finding, pasteable


def test_a_fix_stands_below_what_is_not_well() -> None:
    assert Finding("FAIL", "disk", "full", "tidy up").lines() == [
        "[FAIL] disk        full",
        "                   fix: tidy up",
    ]


def test_what_is_well_needs_no_fix() -> None:
    assert Finding("OK", "disk", "82 GB", "tidy up").lines() == ["[OK]   disk        82 GB"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/jane/lun/.venv/lib/libtorch.so.2: undefined symbol", "(path)/libtorch.so.2: undefined symbol"),
        ("cannot open '/mnt/jane/secret'", "cannot open '(path)'"),
        (r"C:\Users\jane\torch\lib\c10.dll is missing", "(path)/c10.dll is missing"),
        ("~/lun/x", "(path)"),
        ("/dev/kfd may not be used", "/dev/kfd may not be used"),
        ("bash scripts/setup.sh, see docs/amd.md", "bash scripts/setup.sh, see docs/amd.md"),
        ("operator torchvision::nms and 1/2", "operator torchvision::nms and 1/2"),
    ],
)
def test_paths_are_hidden_and_libraries_stay_readable(text: str, shown: str) -> None:
    assert pasteable(text) == shown


def test_names_are_hidden_as_whole_words() -> None:
    assert pasteable("jane-pc of jane, and janet", ["jane", "jane-pc"]) == "(name) of (name), and janet"
