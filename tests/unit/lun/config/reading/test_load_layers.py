import pytest

from ldm.errors import Fault
from lun.config.reading.load_layers import load_layers


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return write


def test_later_layers_win_maps_merge_and_lists_replace(write):
    first = write("a.yaml", "model: {x: 1, y: 2, l: [1, 2, 3]}")
    second = write("b.yaml", "model: {y: 3, l: [4]}")
    assert load_layers([first, second]).config == {"model": {"x": 1, "y": 3, "l": [4]}}


def test_settings_of_the_command_line_win_over_files(write):
    file = write("a.yaml", "model: {rate: 1.0, size: 4}")
    merged = load_layers([file], ["model.rate=1e-4", "lightning.trainer.devices=0,", "new.map={a: [1, x]}"])
    assert merged.config == {
        "model": {"rate": 1e-4, "size": 4},
        "lightning": {"trainer": {"devices": "0,"}},
        "new": {"map": {"a": [1, "x"]}},
    }


def test_every_setting_knows_where_it_was_written(write):
    first = write("a.yaml", "model:\n  x: 1\n  y: 2\n")
    second = write("b.yaml", "# a comment\nmodel:\n  y: 3\n")
    merged = load_layers([first, second], ["model.z=4"])
    assert merged.where("model.x") == "a.yaml:2"
    assert merged.where("model.y") == "b.yaml:3"
    assert merged.where("model.z") == "command line"
    assert merged.where("model") == "a.yaml:1"
    assert merged.where("model.y.unknown.below") == "b.yaml:3"
    assert merged.where("nothing") == ""


def test_a_key_with_dots_has_a_place_of_its_own(write):
    merged = load_layers([write("a.yaml", "r:\n  'a.b': 1\n")])
    assert merged.where(("r", "a.b")) == "a.yaml:2"


def test_a_layer_that_changes_a_target_starts_its_params_afresh(write):
    first = write("a.yaml", "w: {target: a.B, params: {gamma: 5}}")
    second = write("b.yaml", "w: {target: a.C, params: {power: 2}}")
    assert load_layers([first, second]).config["w"] == {"target": "a.C", "params": {"power": 2}}


ONE, SETS = "t: {target: a.B, params: {size: 5}}", "t: {sets: {x: {target: a.B}}}"


def test_several_sets_take_the_place_of_the_recipe_below_them(write):
    assert load_layers([write("a.yaml", ONE), write("b.yaml", SETS)]).config["t"] == {"sets": {"x": {"target": "a.B"}}}


def test_a_recipe_takes_the_place_of_the_sets_below_it(write):
    both = load_layers([write("a.yaml", SETS[:-1] + ", epoch: x}"), write("b.yaml", ONE)])
    assert both.config["t"] == {"target": "a.B", "params": {"size": 5}}


def test_layers_of_sets_merge_by_their_names(write):
    more = write("b.yaml", "t: {sets: {y: {target: a.C}, x: {repeats: 2}}}")
    merged = load_layers([write("a.yaml", SETS), more]).config["t"]
    assert merged == {"sets": {"x": {"target": "a.B", "repeats": 2}, "y": {"target": "a.C"}}}


def test_two_sets_of_one_name_in_a_file_are_refused(write):
    with pytest.raises(Fault, match="CFG02"):
        load_layers([write("a.yaml", "t: {sets: {x: {target: a.B}, x: {target: a.C}}}")])


def test_a_layer_that_repeats_a_target_adds_to_its_params(write):
    first = write("a.yaml", "w: {target: a.B, params: {gamma: 5}}")
    second = write("b.yaml", "w: {target: a.B, params: {power: 2}}")
    assert load_layers([first, second]).config["w"]["params"] == {"gamma": 5, "power": 2}


@pytest.mark.parametrize("overrides", [["w.target=a.C", "w.params.p=1"], ["w.params.p=1", "w.target=a.C"]])
def test_a_target_of_the_command_line_keeps_the_params_given_with_it(write, overrides):
    file = write("a.yaml", "w: {target: a.B, params: {gamma: 5}}")
    assert load_layers([file], overrides).config["w"] == {"target": "a.C", "params": {"p": 1}}


def test_null_stays_so_that_it_can_remove_a_default_callback(write):
    file = write("a.yaml", "lightning: {callbacks: {images: {target: a.B}}}")
    assert load_layers([file], ["lightning.callbacks.images=null"]).config["lightning"]["callbacks"] == {"images": None}


def test_a_tilde_removes_a_setting_and_keeps_the_order_of_the_others(write):
    file = write("a.yaml", "model: {a: 1, b: {c: 2, d: 3}, e: 4}")
    model = load_layers([file], ["~model.b.c"]).config["model"]
    assert model == {"a": 1, "b": {"d": 3}, "e": 4}
    assert list(model) == ["a", "b", "e"]


def test_a_tilde_turns_a_callback_off_even_if_it_is_a_default():
    assert load_layers([], ["~lightning.callbacks.images"]).config == {"lightning": {"callbacks": {"images": None}}}


def test_removing_what_is_not_there_suggests_what_is(write):
    with pytest.raises(Fault) as caught:
        load_layers([write("a.yaml", "model: {batch_size: 1}")], ["~model.batchsize"])
    assert caught.value.id == "CFG03"
    assert caught.value.fix == "did you mean ~model.batch_size?"


def test_an_entry_of_a_list_is_changed_by_its_index(write):
    file = write("a.yaml", "x: {betas: [0.9, 0.99]}")
    assert load_layers([file], ["x.betas.1=0.5"]).config == {"x": {"betas": [0.9, 0.5]}}


def test_defaults_lie_below_all_files(write):
    file = write("a.yaml", "lightning: {callbacks: {images: {params: {n: 2}}}}")
    images = {"target": "a.B", "params": {"m": 1}}
    merged = load_layers([file], defaults={"lightning": {"callbacks": {"images": images}}})
    assert merged.config["lightning"]["callbacks"]["images"] == {"target": "a.B", "params": {"m": 1, "n": 2}}
    assert merged.where("lightning.callbacks.images.target") == "built-in default"


def test_a_config_is_found_in_the_config_folders_without_its_suffix(write):
    write("configs/models/tiny.yaml", "a: 1")
    merged = load_layers(["tiny"])
    assert merged.config == {"a": 1}
    assert merged.files == ("configs/models/tiny.yaml",)


def test_a_folder_with_one_config_stands_for_it(write):
    write("configs/fox/only.yaml", "a: 1")
    assert load_layers(["fox"]).config == {"a": 1}


def test_a_missing_file_suggests_a_near_one(write):
    write("configs/training-txt2img.yaml", "a: 1")
    with pytest.raises(Fault) as caught:
        load_layers(["configs/trainng-txt2img.yaml"])
    assert caught.value.id == "CFG01"
    assert caught.value.what == "config file not found: configs/trainng-txt2img.yaml"
    assert caught.value.fix == "did you mean configs/training-txt2img.yaml?"


def test_faults_of_all_files_are_told_at_once(write):
    bad = write("bad.yaml", "a: b: c")
    with pytest.raises(ExceptionGroup) as caught:
        load_layers([bad, "missing.yaml"])
    assert {fault.id for fault in caught.value.exceptions} == {"CFG01", "CFG02"}


def test_an_empty_file_changes_nothing(write):
    assert load_layers([write("a.yaml", "a: 1"), write("b.yaml", "# nothing\n")]).config == {"a": 1}


def test_a_file_that_is_no_map_is_a_fault(write):
    with pytest.raises(Fault, match="CFG02"):
        load_layers([write("a.yaml", "- 1\n- 2\n")])


def test_a_file_in_another_encoding_is_a_fault(tmp_path):
    (tmp_path / "a.yaml").write_bytes("a: ü".encode("latin-1"))
    with pytest.raises(Fault, match="UTF-8"):
        load_layers([str(tmp_path / "a.yaml")])


def test_a_value_that_is_no_yaml_names_its_setting():
    with pytest.raises(Fault) as caught:
        load_layers([], ["a.b=[1, 2"])
    assert caught.value.id == "CFG02"
    assert "a.b=[1, 2" in caught.value.where


def test_an_interpolation_takes_the_value_of_the_last_layer(write):
    file = write("a.yaml", "model: {monitor: val/a, rate: 2.5}\ncopy: '${model.monitor}'\nnumber: ${model.rate}")
    config = load_layers([file], ["model.monitor=val/b"]).config
    assert config["copy"] == "val/b"
    assert config["number"] == 2.5


def test_an_interpolation_of_nothing_suggests_a_near_setting(write):
    file = write("a.yaml", "model:\n  params: {monitor: x}\nl:\n  m: ${model.params.monitr}\n")
    with pytest.raises(Fault) as caught:
        load_layers([file])
    assert caught.value.id == "CFG06"
    assert caught.value.what == "${model.params.monitr} refers to a setting that does not exist"
    assert caught.value.where == "l.m (a.yaml:4)"
    assert caught.value.fix.startswith("did you mean ${model.params.monitor}?")


def test_every_interpolation_of_nothing_is_told(write):
    with pytest.raises(ExceptionGroup) as caught:
        load_layers([write("a.yaml", "a: ${x.y}\nb: ['${z.w}']\n")])
    assert [fault.id for fault in caught.value.exceptions] == ["CFG06", "CFG06"]


def test_an_interpolation_that_cannot_be_read_is_a_fault(write):
    with pytest.raises(Fault, match="CFG06"):
        load_layers([write("a.yaml", "a: '${b'\n")])


def test_quoted_words_survive_as_text(write):
    file = write("a.yaml", "replacements: {'yes': 'no', no: 'on', '1': '2', 'a:b': 'x'}\nref: ${replacements.yes}\n")
    assert load_layers([file]).config["replacements"] == {"yes": "no", "no": "on", "1": "2", "a:b": "x"}
