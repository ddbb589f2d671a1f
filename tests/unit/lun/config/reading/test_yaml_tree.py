import pytest
from omegaconf import OmegaConf

from ldm.errors import Fault
from lun.config.reading.yaml_tree import parse

SCALARS = """
float: 1e-4
capital: 1E-4
signed: -5.0e-06
inf: .inf
word: yes
off: "off"
hex: 0x10
octal: 010
grouped: 1_000
zero: 0
empty:
text: some words
version: 1.2.3
comma: 0,
list: [1, 2.5, a, null, ~]
"""


def test_values_read_as_omegaconf_reads_them():
    expected = OmegaConf.to_container(OmegaConf.create(SCALARS.replace("off:", "'off':")))
    assert parse(SCALARS, "x.yaml").plain() == expected


def test_times_and_dates_stay_text():
    assert parse("a: 00:12:00:00\nb: 2026-01-31", "x").plain() == {"a": "00:12:00:00", "b": "2026-01-31"}


def test_keys_stay_the_text_that_was_written():
    node = parse("'yes': 1\nno: 2\n1: 3\n'a.b': 4\n'||solo||': 5", "x")
    assert list(node.plain()) == ["yes", "no", "1", "a.b", "||solo||"]


def test_each_leaf_and_map_knows_its_line():
    node = parse("a:\n  b: 1\n  c:\n    - x\n    - y\nd: 2\n", "f.yaml")
    assert node.positions() == {
        (): "f.yaml:1",
        ("a",): "f.yaml:1",
        ("a", "b"): "f.yaml:2",
        ("a", "c"): "f.yaml:3",
        ("a", "c", "0"): "f.yaml:4",
        ("a", "c", "1"): "f.yaml:5",
        ("d",): "f.yaml:6",
    }


def test_a_merge_key_brings_values_and_lines_of_its_anchor():
    text = "base: &it\n  size: 4\n  keep: 1\ncopy:\n  <<: *it\n  size: 8\n"
    node = parse(text, "f.yaml")
    assert node.plain()["copy"] == {"size": 8, "keep": 1}
    assert node.positions()["copy", "keep"] == "f.yaml:3"
    assert node.positions()["copy", "size"] == "f.yaml:6"


def test_the_first_of_several_merged_maps_wins():
    text = "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc:\n  <<: [*a, *b]\n"
    assert parse(text, "f").plain()["c"] == {"x": 1, "y": 2}


def test_an_alias_keeps_the_line_where_it_is_used():
    assert parse("a: &a [1]\nb: *a\n", "f").positions()["b",] == "f:2"


def test_a_tab_is_explained_with_the_line_that_holds_it():
    with pytest.raises(Fault) as caught:
        parse("data:\n  params:\n\tbatch_size: 4\n", "configs/pony.yaml")
    assert caught.value.id == "CFG02"
    assert caught.value.where.startswith("configs/pony.yaml:3, column 1")
    assert "> 3 | →   batch_size: 4" in caught.value.where
    assert "TAB" in caught.value.why


def test_an_alias_without_its_anchor_is_told_with_what_to_write_instead():
    with pytest.raises(Fault) as caught:
        parse("lightning:\n  callbacks: {best: {params: {monitor: *monitor}}}\n", "configs/pony.yaml")
    assert caught.value.id == "CFG02" and "monitor" in caught.value.why
    assert "an anchor holds within its own file" in caught.value.fix


@pytest.mark.parametrize(
    "text",
    [
        "a: b: c",
        "a: [1, 2",
        "a: @x",
        "a: 1\na: 2",
        "a: &x [*x]",
        "? [1]\n: 2",
        "a: !!python/name:os.system x",
        "a: 1\n---\nb: 2",
        "a: \x00",
    ],
)
def test_what_is_no_yaml_is_a_fault_with_its_line(text):
    with pytest.raises(Fault) as caught:
        parse(text, "bad.yaml")
    assert caught.value.id == "CFG02"
    assert caught.value.where.startswith("bad.yaml")
    assert caught.value.why


ALIASES = "\n".join(["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (ALIASES, "aliases"),
        ("[" * 3000 + "]" * 3000, "nested"),
        ("[" * 80 + "]" * 80, "nested"),
        ("a: 0x_", "no int"),
        ("a: " + "9" * 5000, "no int"),
        ("a: !!float x", "no float"),
        ("a: !!int 1.5", "no int"),
        ("a: !!bool maybe", "no bool"),
        ("a: !!timestamp foo", "timestamp"),
        ("a: !!set {b, c}", "set"),
        ("a: !!binary x", "binary"),
        ("a: !!omap [b: 1]", "omap"),
        ("a: !!python/object/apply:os.system [true]", "os.system"),
        ("a: !!map x", "map"),
        ("a: !!str [x]", "str"),
    ],
)
def test_a_text_that_no_setting_needs_is_refused_at_once_and_in_words(text, why):
    with pytest.raises(Fault) as caught:
        parse(text, "c.yaml")
    assert caught.value.id == "CFG02"
    assert why in caught.value.why
