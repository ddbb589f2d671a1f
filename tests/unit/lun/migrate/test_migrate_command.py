"""One example file of each trainer, read into sets that training accepts; nothing of it is dropped without a word."""

from pathlib import Path

import pytest
import yaml
from support.runs import TINY

from lun.migrate.command import run
from lun.trainer import run as train

LORA = [
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: {all: {match: 'unet.*to_*',"
    " kind: {target: ldm.adapters.LoRA}}}}}",
    "model.params.cond_stage_trainable=false",
]
FOREIGN = Path(__file__).parents[3] / "fixtures/foreign"


@pytest.fixture
def migrated(tmp_path, capsys):
    """`migrated(name) -> (data.params, what was said)`."""

    def read(name: str):
        assert run([str(FOREIGN / name), "-o", str(tmp_path / "sets.yaml")]) == 0
        said = "".join(capsys.readouterr())
        return yaml.safe_load((tmp_path / "sets.yaml").read_text())["data"]["params"], said

    return read


def test_kohyas_subsets_become_sets(migrated):
    params, said = migrated("kohya.toml")
    sets = params["train"]["sets"]
    assert list(sets) == ["hoge", "fuga", "reg", "hoge-2"]
    assert params["batch_size"] == 4 and "datasets.1.batch_size: 2" in said
    assert params["buckets"] == {"resolutions": [512, 768], "step": 32}
    assert sets["hoge"]["params"] == {
        "data_root": "data/hoge",
        "default_caption": "hoge girl",
        "flip_p": 0.0,
        "captions": {"split_tags": ",", "shuffle_tag_p": 1.0, "keep_tags": 1},
    }
    assert sets["fuga"]["params"]["flip_p"] == 0.5 and sets["fuga"]["ucg_rate"] == 0.05
    fuga = sets["fuga"]["params"]["captions"]
    assert (fuga["wildcards"], fuga["tag_warmup_steps"], fuga["tag_warmup_min"]) == (True, 100, 2)
    assert "subsets.2.token_warmup_step: 0.1 of the run" in said
    assert sets["reg"]["kind"] == "class" and sets["reg"]["params"]["captions"]["keep_tags"] == 2
    weights = {name: one["weight"] for name, one in sets.items()}
    assert weights["hoge"] == pytest.approx(10 / 12, abs=1e-3) and weights["reg"] == 1
    assert sets["hoge-2"]["params"]["layout"] == "kohya-json" and sets["hoge-2"]["resolutions"] == [768]
    assert "datasets.0.subsets.0.color_aug: True" in said


def test_onetrainers_concepts_become_sets(migrated):
    params, said = migrated("onetrainer.json")
    style, large, prior = params["train"]["sets"].values()
    assert "kind" not in style and prior["kind"] == "prior"
    assert (style["repeats"], style["loss_weight"], style["params"]["flip_p"]) == (2.5, 0.8, 0.5)
    assert style["params"]["captions"] == {
        "several_captions": True,
        "split_tags": ",",
        "shuffle_tag_p": 1.0,
        "tag_dropout_p": 0.1,
        "keep_tags": 1,
    }
    assert large["params"]["size"] == 768 if "buckets" not in params else params["buckets"]["resolutions"] == [768]
    for words in ("0.image.enable_crop_jitter", "200 SAMPLES", "prompt_source: 'filename'"):
        assert words in said


def test_simpletuners_backends_become_sets(migrated):
    params, said = migrated("simpletuner.json")
    mine, squares, kept = params["train"]["sets"].values()
    assert list(params["train"]["sets"]) == ["my-images", "squares", "kept"] and kept["kind"] == "prior"
    assert mine["weight"] == 0.75 and squares["weight"] == 1
    assert params["buckets"]["resolutions"] == [512, 1024]
    crops = {name: one["params"].get("crop") for name, one in params["train"]["sets"].items()}
    assert "random" in crops.values() and None in crops.values()
    assert mine["resolutions"] == [1024] and squares["params"]["default_caption"] == "sks cat"
    for words in ("repeats 4", "minimum_image_size: 0.25", "image on aws"):
        assert words in said


def test_ai_toolkits_folders_become_sets(migrated):
    params, said = migrated("ai-toolkit.yaml")
    person, reg, kept = params["train"]["sets"].values()
    assert params["batch_size"] == 2 and params["buckets"]["resolutions"] == [512, 768]
    assert person["params"]["captions"]["trigger"] == "p3r5on" and person["params"]["flip_p"] == 0.5
    assert person["ucg_rate"] == 0.05
    assert (reg["kind"], reg["weight"], reg["loss_weight"], reg["resolutions"]) == ("class", 1, 0.5, [512])
    assert kept["kind"] == "prior" and kept["weight"] + person["weight"] == pytest.approx(1)
    assert "random_scale: True" in said and kept["params"]["captions"]["files"] == ["caption2"]


@pytest.mark.parametrize("name", ["kohya.toml", "onetrainer.json", "simpletuner.json", "ai-toolkit.yaml"])
def test_training_accepts_what_comes_out(name, tmp_path, capsys):
    out = tmp_path / "sets.yaml"
    assert run([str(FOREIGN / name), "-o", str(out)]) == 0
    words = LORA if "kind: prior" in out.read_text() else []
    assert train(["--base", str(TINY), str(out), *words, "--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "code", "told"),
    [
        ("a.toml", "a = ", "CFG02", "cannot be read"),
        ("a.json", "[{]", "CFG02", "cannot be read"),
        ("a.json", "{}", "CFG02", "is no file of data sets"),
        ("a.json", "[3]", "CFG02", "is no file of data sets"),
        ("a.yaml", "config: {process: []}", "CFG02", "is no file of data sets"),
        ("a.yaml", "config: {process: [{datasets: [3]}]}", "CFG02", "is no map"),
        ("a.toml", "[[datasets]]", "CFG02", "names no data set"),
        ("a.json", '[{"path": "x", "balancing": "many"}]', "CFG02", "0.balancing is no number: 'many'"),
        ("a.toml", '[[datasets]]\nresolution = "x"\n[[datasets.subsets]]\nimage_dir = "x"', "CFG02", "is no file"),
    ],
)
def test_what_cannot_be_read_is_one_message(tmp_path, capsys, name, text, code, told):
    (tmp_path / name).write_text(text)
    assert run([str(tmp_path / name), "-o", str(tmp_path / "out.yaml")]) == 2
    said = capsys.readouterr().err
    assert f"error[{code}]" in said and told in said
    assert not (tmp_path / "out.yaml").exists()


def test_a_file_that_is_there_is_not_written_over(tmp_path, capsys):
    (tmp_path / "sets.yaml").write_text("mine")
    assert run([str(FOREIGN / "kohya.toml"), "-o", str(tmp_path / "sets.yaml")]) == 2
    assert (tmp_path / "sets.yaml").read_text() == "mine"
    assert run([str(tmp_path / "nothing.toml")]) == 2
    assert "error[CFG01]" in capsys.readouterr().err
