"""YAML with comments reads back as what was written."""

import yaml

from lun.config.commented_yaml import Comments, written

SETTINGS = {
    "seed": 7,
    "model": {"params": {"a": {"target": "x.Y", "params": {"b": 1e-5, "c": ["d: e", None]}}, "text": "a # b\nc"}},
}


def test_it_reads_back_as_it_was():
    above = {("model", "params", "text"): ["why\nso", "word " * 50]}
    text = written(SETTINGS, Comments(above), ["head"], {"Notes": ["one"], "-": []})
    assert yaml.safe_load(text) == SETTINGS
    lines = text.splitlines()
    assert lines[0] == "# head" and "    # why so" in lines and lines[-2:] == ["# Notes", "#   - one"]
    assert max(map(len, lines)) <= 120 and "    a: {target: x.Y, params: {b: 1.0e-05, c: ['d: e', null]}}" in lines


def test_a_comment_opens_the_map_that_it_stands_in():
    text = written({"m": {"p": {"a": {"b": {"c": 1}}}}}, Comments({("m", "p", "a", "b", "c"): ["here"]}))
    assert "        # here\n        c: 1" in text and yaml.safe_load(text) == {"m": {"p": {"a": {"b": {"c": 1}}}}}


def test_a_comment_stands_beside_a_value_and_beside_the_name_of_a_map():
    settings = {"extends": ["sdxl", "lora"], "a": {"b": 2, "c": "# no comment: 1", "d": {"e": {"x": [1, None]}}}}
    beside = {("extends",): "presets", ("a",): "all", ("a", "b"): "two", ("a", "d", "e", "x"): "inner"}
    text = written(settings, Comments(beside=beside), ["above", "all"])
    assert yaml.safe_load(text) == settings
    assert text.startswith("# above\n# all\nextends: [sdxl, lora] # presets\na: # all\n  b: 2 # two\n")
    assert text.endswith("    e:\n      x: [1, null] # inner\n")
