"""YAML with comments that says what was meant."""

import yaml

from lun.new.commented_yaml import Line, commented


def test_what_is_written_reads_back_as_it_was() -> None:
    settings = {
        "extends": Line(["sdxl", "lora"], "presets"),
        "a.b": Line(2, "two"),
        "a.c": Line("# no comment: 1"),
        "a.d.e": Line({"x": [1, None]}),
        "a.f": Line(True),
    }
    text = commented(["above", "all"], settings)
    assert yaml.safe_load(text) == {
        "extends": ["sdxl", "lora"],
        "a": {"b": 2, "c": "# no comment: 1", "d": {"e": {"x": [1, None]}}, "f": True},
    }
    assert text.startswith("# above\n# all\nextends: [sdxl, lora] # presets\na:\n  b: 2 # two\n")
