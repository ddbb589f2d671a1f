"""YAML with comments reads back as what was written."""

import yaml

from lun.migrate.annotated_yaml import written

SETTINGS = {
    "seed": 7,
    "model": {"params": {"a": {"target": "x.Y", "params": {"b": 1e-5, "c": ["d: e", None]}}, "text": "a # b\nc"}},
}


def test_it_reads_back_as_it_was():
    text = written(
        SETTINGS, {("model", "params", "text"): ["why\nso", "word " * 50]}, ["head"], {"Notes": ["one"], "-": []}
    )
    assert yaml.safe_load(text) == SETTINGS
    lines = text.splitlines()
    assert lines[0] == "# head" and "    # why so" in lines and lines[-2:] == ["# Notes", "#   - one"]
    assert max(map(len, lines)) <= 120 and "    a: {target: x.Y, params: {b: 1.0e-05, c: ['d: e', null]}}" in lines


def test_a_comment_opens_the_map_that_it_stands_in():
    text = written({"m": {"p": {"a": {"b": {"c": 1}}}}}, {("m", "p", "a", "b", "c"): ["here"]})
    assert "        # here\n        c: 1" in text and yaml.safe_load(text) == {"m": {"p": {"a": {"b": {"c": 1}}}}}
