from lun.config.reading.references import resolved


def test_references_to_each_other_are_a_fault_and_no_hang():
    found, faults = resolved({"a": "${b}", "b": "${a}"}, {})
    assert found == {"a": "${b}", "b": "${a}"}
    assert {path: fault.id for path, fault in faults.items()} == {("a",): "CFG06", ("b",): "CFG06"}


def test_a_reference_may_lie_beside_its_setting_or_a_level_above():
    config = {"a": 1, "b": {"c": 2, "d": "${.c}", "e": "${..a}"}, "l": [5, "${l[0]}"]}
    assert resolved(config, {}) == ({"a": 1, "b": {"c": 2, "d": 2, "e": 1}, "l": [5, 5]}, {})
