import pytest

from ldm.errors import Fault
from lun.config.reading.interpolation import resolved


def doubling(times, step):
    """Forty settings, each of which refers to the one before twice."""
    return {"a0": "x" * 100} | {f"a{number + 1}": step(f"{times}a{number}") for number in range(40)}


@pytest.mark.parametrize("dots", ["", "."])
def test_texts_that_would_double_without_end_are_refused_before_they_do(dots):
    with pytest.raises(Fault, match="CFG06"):
        resolved(doubling(dots, lambda name: f"${{{name}}}${{{name}}}"), {})


def test_lists_that_would_double_without_end_are_refused_before_they_do():
    with pytest.raises(Fault, match="CFG06"):
        resolved(doubling("", lambda name: [f"${{{name}}}"] * 2), {})


def test_references_to_each_other_are_a_fault_and_no_hang():
    found, faults = resolved({"a": "${b}", "b": "${a}"}, {})
    assert found == {"a": "${b}", "b": "${a}"}
    assert {path: fault.id for path, fault in faults.items()} == {("a",): "CFG06", ("b",): "CFG06"}


def test_a_reference_may_lie_beside_its_setting_or_a_level_above():
    config = {"a": 1, "b": {"c": 2, "d": "${.c}", "e": "${..a}"}, "l": [5, "${l[0]}"]}
    assert resolved(config, {}) == ({"a": 1, "b": {"c": 2, "d": 2, "e": 1}, "l": [5, 5]}, {})
