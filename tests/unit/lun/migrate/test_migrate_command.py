"""One example file of each trainer, read into sets that training accepts; nothing of it is dropped without a word."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import bitsandbytes_stub
from support.runs import TINY, make_pictures, newest_run

from lun.config.compat.upgrade import upgrade
from lun.config.reading.load_layers import read_layers
from lun.migrate.command import run
from lun.trainer import run as train

LORA = [
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: {all: {match: 'unet.*to_*',"
    " kind: {target: ldm.adapters.LoRA}}}}}",
    "model.params.cond_stage_trainable=false",
]
COMPAT = Path(__file__).parents[3] / "fixtures/compat"
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
    assert params["buckets"] == {"resolutions": [512, 768], "step": 32, "min_aspect": 0.25, "max_aspect": 4.0}
    assert sets["hoge"]["params"] == {
        "data_root": "data/hoge",
        "default_caption": "hoge girl",
        "flip_p": 0.0,
        "colour_jitter": {"hue": 0.02},
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


@pytest.mark.parametrize("name", ["kohya.toml", "onetrainer.json", "simpletuner.json"])
def test_training_accepts_what_comes_out(name, tmp_path, capsys):
    out = tmp_path / "sets.yaml"
    assert run([str(FOREIGN / name), "-o", str(out)]) == 0
    words = LORA if "kind: prior" in out.read_text() else []
    assert train(["--base", str(TINY), str(out), *words, "--check"]) == 0, capsys.readouterr().err


WHOLE = [
    *("kohya-words.sh", "onetrainer-words.json"),
    *("kohya.sh", "kohya-run.toml", "diffusers-dreambooth.sh"),
    *("onetrainer-run.json", "simpletuner-run.json", "ai-toolkit.yaml", "ai-toolkit-run.yaml"),
]


def whole(name: str, out: Path) -> dict[str, Any]:
    return whole_of(FOREIGN / name, out)


def whole_of(file: Path, out: Path) -> dict[str, Any]:
    assert run([str(file), "-o", str(out)]) == 0
    found: dict[str, Any] = yaml.safe_load((out / "run.yaml").read_text())
    return found


def test_kohyas_command_becomes_a_configuration(tmp_path, capsys):
    found = whole("kohya.sh", tmp_path)
    said = "".join(capsys.readouterr())
    assert found["extends"] == ["sdxl", "lora", "bf16-true", "latent-cache", "min-snr", "offset-noise", "export"]
    model, params = found["model"], found["model"]["params"]
    assert (model["base_learning_rate"], params["ckpt_path"]) == (1e-4, "stabilityai/stable-diffusion-xl-base-1.0")
    rules = params["adapter_config"]["params"]["rules"]
    assert [(name, rule["kind"]["params"]["rank"]) for name, rule in rules.items()] == [
        ("attention", 32),
        ("convolutions", 8),
        ("text", 32),
    ]
    assert rules["convolutions"]["kind"]["params"]["alpha"] == 4
    assert params["training_config"]["params"]["rules"]["text"]["lr"] == "0.5x"
    assert params["optimizer_config"]["params"] == {"weight_decay": 0.1, "betas": [0.9, 0.99]}
    assert params["scheduler_config"]["params"] == {"warm_up_steps": 100, "cycles": 3}
    assert params["ucg_rate"] == 0 and params["use_ema"] is False
    sets = found["data"]["params"]["train"]["sets"]
    assert (sets["reg"]["kind"], sets["reg"]["loss_weight"], sets["train"]["params"]["flip_p"]) == ("class", 0.5, 0.5)
    trainer = found["lightning"]["trainer"]
    assert (trainer["max_steps"], trainer["max_epochs"], trainer["accumulate_grad_batches"]) == (3000, None, 2)
    assert f"next     python main.py --base {tmp_path}/run.yaml --logdir output/pony --name pony" in said
    text = (tmp_path / "run.yaml").read_text()
    for words in ("ip_noise_gamma = 0.05: such noise", "block_dims=1", "made_up = 3"):
        assert words in said and words in text
    assert "xformers: torch's fused attention" in text


def test_kohyas_training_toml_is_read_with_the_data_sets_that_it_names(tmp_path):
    found = whole("kohya-run.toml", tmp_path)
    assert found["extends"] == ["sd21-v", "fp16", "zero-terminal-snr"]
    assert found["lightning"]["trainer"] == {"max_epochs": 4, "max_steps": -1}
    sets = found["data"]["params"]["train"]["sets"]
    assert {one["params"]["mask"] for one in sets.values()} == {"folder"}
    objective = found["model"]["params"]["objective"]["params"]
    assert objective["mean"]["target"] == "ldm.diffusion.loss.WholeMean"
    text = (tmp_path / "run.yaml").read_text()
    assert "# masked_loss: masks lie" in text and "ten times as much" in " ".join(text.replace("#", "").split())


def test_diffusers_command_becomes_a_configuration(tmp_path, capsys):
    found = whole("diffusers-dreambooth.sh", tmp_path)
    assert found["extends"] == ["sdxl", "lora", "min-snr", "fp16"]
    params = found["model"]["params"]
    rules = params["adapter_config"]["params"]["rules"]
    assert rules["attention"]["kind"]["params"] == {"rank": 8, "alpha": 8, "dropout": 0}
    assert params["training_config"]["params"]["rules"]["text"]["lr"] == "0.05x"
    assert params["optimizer_config"]["params"]["weight_decay"] == 1e-4  # there where nothing is said
    dog, of_class = found["data"]["params"]["train"]["sets"].values()
    assert dog["params"]["default_caption"] == "a photo of sks dog" and dog["params"]["crop"] == "random"
    assert (of_class["kind"], of_class["weight"], of_class["loss_weight"]) == ("class", 1, 0.8)
    assert found["lightning"]["callbacks"]["image_logger"]["params"]["prompts"] == ["a sks dog, in a bucket"]
    assert found["lightning"]["trainer"] == {
        "max_steps": 500,
        "max_epochs": None,
        "accumulate_grad_batches": 4,
        "devices": 2,
    }
    said = "".join(capsys.readouterr())
    assert "push_to_hub: nothing is uploaded" in said
    assert "unknown, and not read: made_up" in said


def test_a_command_may_be_given_as_a_word(tmp_path):
    line = "python train_db.py --pretrained_model_name_or_path a.ckpt --train_data_dir x --learning_rate=2e-6"
    assert run([line, "-o", str(tmp_path)]) == 0
    found = yaml.safe_load((tmp_path / "run.yaml").read_text())
    assert found["model"]["params"]["cond_stage_trainable"] is True
    assert found["lightning"]["trainer"]["max_steps"] == 1600  # there where nothing is said


def test_onetrainers_settings_become_a_configuration(tmp_path, capsys):
    found = whole("onetrainer-run.json", tmp_path)
    said = "".join(capsys.readouterr())
    assert found["extends"] == ["sdxl", "latent-cache", "min-snr", "bf16", "offset-noise"]
    model, params = found["model"], found["model"]["params"]
    assert model["base_learning_rate"] == 4e-5  # times the root of its four pictures a step
    assert (params["cond_stage_lr_multiple"], params["ucg_rate"]) == (0.25, 0.05)
    assert params["ema_config"]["params"]["decay"] ** 5 == pytest.approx(0.998)
    assert params["training_config"]["params"]["rules"] == {"text_encoder": {"match": "text_encoder*", "until": "25%"}}
    objective = params["objective"]["params"]
    assert objective["timesteps"]["params"] == {"low": 100, "high": 900} and objective["loss"]["params"] == {
        "delta": 0.2
    }
    train = found["data"]["params"]["train"]["params"]
    assert (train["data_root"], train["mask"]) == ("data/pony", "folder")
    (prompt,) = found["lightning"]["callbacks"]["image_logger"]["params"]["prompts"]
    assert (prompt["negative"], prompt["scheduler"], prompt["guidance"]) == ("blurry", "euler", 6.0)
    text = (tmp_path / "run.yaml").read_text()
    assert "hf_never_shown" not in text + said
    for words in ("sample_rate_of_dreams = 3", "perturbation_noise_weight", "ema_decay: 0.998 there"):
        assert words in said and words in text


def test_what_onetrainers_preset_does_not_say_is_that_programs_default(tmp_path):
    (tmp_path / "preset.json").write_text('{"model_type": "STABLE_DIFFUSION_15", "training_method": "LORA"}')
    found = whole_of(tmp_path / "preset.json", tmp_path)
    rules = found["model"]["params"]["adapter_config"]["params"]["rules"]
    assert rules["attention"] == {
        "match": ["unet.*"],
        "kind": {"target": "ldm.adapters.LoRA", "params": {"rank": 16, "alpha": 1, "dropout": 0}},
    }
    assert "text" in rules and "fp16" in found["extends"] and found["model"]["base_learning_rate"] == 3e-6
    assert found["lightning"]["trainer"]["max_epochs"] == 100


@pytest.mark.parametrize(
    ("name", "rate", "embeddings", "noted"),
    [
        (
            "kohya-words.sh",
            5e-4,
            {"kitty4": {"token": "kitty4", "init": "fluffy cat", "vectors": 4}},
            "use_object_template: captions say how a word is used",
        ),
        (
            "onetrainer-words.json",
            1e-3,
            {
                "kitty": {"token": "<kitty>", "init": "cat", "vectors": 3, "keep_norm": "median"},
                "ink": {"token": "<ink>", "file": "ink.safetensors", "train": False},
                "plush": {"token": "<plush>", "init": "*", "vectors": 1, "keep_norm": "median"},
            },
            "is_output_embedding of <plush>",
        ),
    ],
)
def test_words_that_a_run_teaches_become_embeddings_that_train_alone(name, rate, embeddings, noted, tmp_path, capsys):
    found = whole(name, tmp_path)
    params = found["model"]["params"]
    assert params["adapter_config"] == {"target": "ldm.adapters.Adapters", "params": {"embeddings": embeddings}}
    rules = params["training_config"]["params"]["rules"]
    assert rules == {"embeddings": {"match": "text_encoder*embedding.adapter.*", "lr": rate}}
    assert params["cond_stage_trainable"] is False and found["model"]["base_learning_rate"] == rate
    said = "".join(capsys.readouterr())
    assert noted in said and "unknown" not in said


def test_a_word_of_kohyas_that_begins_with_nothing_or_a_file(tmp_path, capsys):
    line = "python {}train_textual_inversion.py --train_data_dir data --token_string 'a-b' {}"
    for script, more, start in (
        ("", "", {"init": "*", "vectors": 1}),
        ("sdxl_", "--weights old.pt", {"file": "old.pt"}),
    ):
        (tmp_path / "a.sh").write_text(line.format(script, more))
        params = whole_of(tmp_path / "a.sh", tmp_path / f"{script}out")["model"]["params"]["adapter_config"]["params"]
        assert params == {"embeddings": {"a-b": {"token": "a-b", **start}}}
        assert ("no init_word" in "".join(capsys.readouterr())) == (not more)


def test_a_model_or_method_of_onetrainer_that_is_not_here_is_refused(tmp_path, capsys):
    for text, told in (
        ('{"model_type": "FLUX_DEV_1"}', "FLUX_DEV_1 is not trained here"),
        ('{"training_method": "FINE_TUNE_VAE"}', "FINE_TUNE_VAE is not read"),
        ('{"training_method": "LORA", "peft_type": "OFT_2"}', "no adapters OFT_2"),
    ):
        (tmp_path / "preset.json").write_text(text)
        assert run([str(tmp_path / "preset.json"), "-o", str(tmp_path / "out.yaml")]) == 2
        assert told in capsys.readouterr().err


def test_simpletuners_settings_become_a_configuration(tmp_path, capsys):
    found = whole("simpletuner-run.json", tmp_path)
    said = "".join(capsys.readouterr())
    assert found["extends"] == ["sdxl", "lora", "bf16", "int8", "min-snr", "offset-noise"]
    params = found["model"]["params"]
    kind = params["adapter_config"]["params"]["rules"]["attention"]["kind"]
    assert kind == {"target": "ldm.adapters.LoRA", "params": {"rank": 32, "alpha": 16, "dropout": 0.1}}
    assert params["optimizer_config"] == {"target": "bitsandbytes.optim.AdamW8bit", "params": {"weight_decay": 0.1}}
    schedule = params["scheduler_config"]
    assert schedule == {"target": "ldm.lr_scheduler.WarmupLinear", "params": {"warm_up_steps": 100, "minimum": 0.1}}
    assert list(found["data"]["params"]["train"]["sets"]) == ["my-images", "squares", "kept"]
    (prompt,) = found["lightning"]["callbacks"]["image_logger"]["params"]["prompts"]
    assert (prompt["width"], prompt["height"], prompt["guidance"]) == (768, 512, 6.0)
    text = (tmp_path / "run.yaml").read_text()
    assert "hf_never_shown" not in text + said and "hub_token" in said
    for words in ("made_up = 3", "input_perturbation = 0.1", "each pass cuts anew", "lr_end = 1e-05: as a share"):
        assert words in said and words in text


def test_ai_toolkits_job_becomes_a_configuration(tmp_path, capsys):
    found = whole("ai-toolkit-run.yaml", tmp_path)
    said = "".join(capsys.readouterr())
    assert found["extends"] == ["sdxl", "latent-cache", "lora", "min-snr", "bf16"]
    params = found["model"]["params"]
    rules = params["adapter_config"]["params"]["rules"]
    ranks = {name: (rule["kind"]["params"]["rank"], rule["kind"]["params"]["alpha"]) for name, rule in rules.items()}
    assert ranks == {"attention": (16, 8), "convolutions": (4, 4), "text": (16, 8)}
    assert params["training_config"]["params"]["rules"]["text"]["lr"] == "0.5x"
    assert params["optimizer_config"]["params"] == {"weight_decay": 0.02} and params["ema_decay"] == 0.99
    trainer = found["lightning"]["trainer"]
    assert (trainer["max_steps"], trainer["gradient_clip_val"], trainer["accumulate_grad_batches"]) == (2000, 1, 2)
    first, second = found["lightning"]["callbacks"]["image_logger"]["params"]["prompts"]
    assert (first["seed"], second["seed"], second["prompt"], first["guidance"]) == (42, 43, "a dog", 6)
    assert "train.made_up = 3" in said and "content_or_style = style" in said and "train_unet" not in said


@pytest.mark.parametrize(
    ("file", "settings", "told"),
    [
        ("job.yaml", {"config": {"process": [{"model": {"is_flux": True}}]}}, "is_flux is not trained here"),
        ("job.yaml", {"config": {"process": [{"type": "slider"}]}}, "type slider is not read"),
        ("job.yaml", {"config": {"process": [{"network": {"type": "ip"}}]}}, "no adapters ip here"),
        ("config.json", {"model_family": "flux"}, "the family 'flux' are not trained here"),
        ("config.json", {"model_family": "sdxl", "lora_type": "lycoris", "lycoris_config": "x.json"}, ""),
    ],
)
def test_models_and_adapters_that_are_not_here_are_refused(tmp_path, capsys, file, settings, told):
    (tmp_path / file).write_text(json.dumps(settings))
    (tmp_path / "x.json").write_text('{"algo": "boft"}')
    assert run([str(tmp_path / file), "-o", str(tmp_path / "out.yaml")]) == 2
    assert (told or "no adapters boft here") in capsys.readouterr().err


def test_an_adapter_file_of_simpletuner_is_read_with_it(tmp_path):
    (tmp_path / "lycoris.json").write_text('{"algo": "lokr", "linear_dim": 64, "linear_alpha": 2, "factor": 16}')
    settings = {"model_family": "sdxl", "lora_type": "lycoris", "lycoris_config": "lycoris.json"}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    rules = whole_of(tmp_path / "config.json", tmp_path)["model"]["params"]["adapter_config"]["params"]["rules"]
    params = {"rank": 64, "alpha": 2, "dropout": 0, "factor": 16}
    assert rules["attention"]["kind"] == {"target": "ldm.adapters.LoKr", "params": params}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_configuration_passes_the_check(name, tmp_path, capsys, monkeypatch):
    bitsandbytes_stub.install(monkeypatch)
    whole(name, tmp_path)
    assert train(["--base", str(tmp_path / "run.yaml"), "--check"]) == 0, capsys.readouterr().err


GENERATIONS = [
    ["lightning-first.yaml", "txt2img.yaml", "data-first.yaml"],
    ["lightning-second.yaml", "txt2img.yaml", "data-second.yaml"],
]


@pytest.mark.parametrize("files", GENERATIONS, ids=["first", "second"])
def test_configurations_of_2022_are_written_in_todays_spelling(files, tmp_path, capsys):
    assert run([*(str(COMPAT / name) for name in files), "-o", str(tmp_path)]) == 0
    out = str(tmp_path / "run.yaml")
    assert train(["--base", out, "--data_root", "x", "--init-from", "x.ckpt", "--check"]) == 0, capsys.readouterr().err
    merged, notes, refused = upgrade(read_layers([out]).with_settings([]))
    assert merged.config == yaml.safe_load(Path(out).read_text()) and refused == []
    assert [note for note in notes if "old" in note] == [] and "Said in another way here:" in Path(out).read_text()


def test_what_of_2022_has_no_successor_is_left_out_and_told(tmp_path, capsys):
    model = "{target: ldm.models.diffusion.ddpm.LatentDiffusion, params: {l_simple_weight: 0.5, ucg_rate: 0.1}}"
    (tmp_path / "a.yaml").write_text(f"model: {model}")
    assert run([str(tmp_path / "a.yaml"), "-o", str(tmp_path / "out.yaml")]) == 0
    assert "l_simple_weight" not in yaml.safe_load((tmp_path / "out.yaml").read_text())["model"]["params"]
    assert "without a counterpart: model.params.l_simple_weight is not available" in capsys.readouterr().out


def tiny_networks(folder: Path) -> Path:
    """The tiny networks in the place of the model's; all that is trained and how stays as it was written."""
    tiny = yaml.safe_load(TINY.read_text())
    parts = ("image_size", "channels", "unet_config", "first_stage_config", "cond_stage_config")
    layer = {
        "model": {"params": {name: tiny["model"]["params"][name] for name in parts}},
        "data": {"params": {"num_workers": 0}},
        "lightning": {"trainer": {"accelerator": "cpu"}, "callbacks": tiny["lightning"]["callbacks"]},
    }
    (folder / "tiny.yaml").write_text(yaml.safe_dump(layer))
    return folder / "tiny.yaml"


TRAINED = ["diffusers.sh", "ai-toolkit-lora.yaml", "kohya-lora.sh", "onetrainer-lora.json", "simpletuner-lora.json"]


@pytest.mark.parametrize("name", TRAINED)
def test_what_is_written_trains(name, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/2_cat").mkdir(parents=True)
    for file in sorted(make_pictures(tmp_path / "raw", 4).rglob("*.*")):
        file.rename(tmp_path / "data/2_cat" / file.name)
    for file in FOREIGN.glob(f"{name.partition('.')[0]}*"):
        (tmp_path / file.name).write_text(file.read_text().replace("512", "8"))
    assert run([name, "-o", "."]) == 0
    words = ["model.params.ckpt_path=null", "--logdir", "logs", "lightning.trainer.max_steps=2", "-t"]
    if "buckets" in Path("run.yaml").read_text():
        words.append("data.params.buckets.step=8")
    assert train(["--base", "run.yaml", str(tiny_networks(tmp_path)), *words]) == 0, capsys.readouterr().err
    assert (newest_run(tmp_path / "logs") / "checkpoints/last.ckpt").exists()


@pytest.mark.parametrize(
    ("name", "text", "code", "told"),
    [
        ("a.toml", "a = ", "CFG02", "cannot be read"),
        ("a.json", "[{]", "CFG02", "cannot be read"),
        ("a.json", "{}", "CFG02", "is nothing that is known"),
        ("a.json", "[3]", "CFG02", "is nothing that is known"),
        ("a.yaml", "config: {process: []}", "CFG02", "is nothing that is known"),
        ("a.yaml", "config: {process: [{datasets: [3]}]}", "CFG02", "is no map"),
        ("a.toml", "[[datasets]]", "CFG02", "names no data set"),
        ("a.toml", "made_up = 3", "CFG02", "is nothing that is known"),
        ("a.sh", "accelerate launch unheard_of.py --x 1", "CFG02", "no script of theirs is started"),
        ("a.sh", "python flux_train.py --x 1", "CFG03", "trains what is not trained here"),
        ("a.sh", "python train_dreambooth_flux.py --x 1", "CFG03", "trains what is not trained here"),
        ("a.sh", "python train_textual_inversion.py --train_data_dir a", "CFG03", "the command names no word to teach"),
        ("a.sh", "python train_textual_inversion_XTI.py --token_string a", "CFG03", "trains what is not trained here"),
        ("a.sh", "python train_network.py --config_file nowhere.toml", "CFG01", "file not found: nowhere.toml"),
        ("a.sh", "python train_network.py --network_module networks.oft", "CFG03", "no adapters of networks.oft"),
        ("a.json", '[{"path": "x", "balancing": "many"}]', "CFG02", "0.balancing is no number: 'many'"),
        (
            "a.toml",
            '[[datasets]]\nresolution = "x"\n[[datasets.subsets]]\nimage_dir = "x"',
            "CFG02",
            "is nothing that is known",
        ),
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


def test_what_a_job_of_ai_toolkit_says_of_itself_is_told_in_its_own_order(tmp_path):
    job, names = tmp_path / "job.yaml", [f"of_job_{letter}" for letter in "zyxwvutsrqpon"]
    more = "".join(f"\n{name}: 1" for name in names)
    job.write_text((FOREIGN / "ai-toolkit-run.yaml").read_text() + more + "\n")
    assert run([str(job), "-o", str(tmp_path / "run.yaml")]) == 0
    told = [
        line.split()[2].rstrip(":") for line in (tmp_path / "run.yaml").read_text().splitlines() if "of_job_" in line
    ]
    assert told == names
