"""What a person may write wrongly on the command line and in YAML, each told in words before anything is made."""

from pathlib import Path

import pytest
from support.runs import TINY, make_pictures
from support.told import Told


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("data"), 3)


@pytest.fixture
def told(tmp_path: Path, data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.chdir(tmp_path)
    return Told(tmp_path, data, capsys)


TRAINER, CALLBACKS = "lightning.trainer", "lightning.callbacks"
TRAIN, MODEL = "data.params.train.params", "model.params"
SAVER = CALLBACKS + ".x={target: lun.callbacks.Checkpoint, params: {%s}}"

SETTINGS = {
    "an unknown Trainer argument": (f"{TRAINER}.max_step=3", "CFG03", "max_steps=3"),
    "a Trainer argument that is gone": (f"{TRAINER}.resume_from_checkpoint=x.ckpt", "CFG05", "--resume"),
    "an unknown section of lightning": ("lightning.trainers.x=1", "CFG03", "lightning.trainers"),
    "an unknown top-level key of the command line": ("modle.x=1", "CFG03", "modle"),
    "an unknown model param": (f"{MODEL}.scale_facter=1.0", "CFG03", "scale_factor=1.0"),
    "an unknown data param": ("data.params.batchsize=4", "CFG03", "batch_size"),
    "an unknown param of the data set": (f"{TRAIN}.flip=0.5", "CFG03", "flip_p"),
    "an unknown param of a network": (f"{MODEL}.unet_config.params.sample_sise=4", "CFG03", "sample_size"),
    "an unknown param of a callback": (SAVER % "file: a", "CFG03", "filename"),
    "text where a number belongs": (f"{TRAINER}.max_steps=many", "CFG03", "many"),
    "a fraction where a whole number belongs": ("data.params.batch_size=2.5", "CFG03", "expected int"),
    "a truth value where a number belongs": ("data.params.batch_size=true", "CFG03", "expected int"),
    "null where a number belongs": ("data.params.batch_size=null", "CFG03", "batch_size"),
    "a list where a number belongs": ("data.params.batch_size=[1,2]", "CFG03", "expected int"),
    "a choice that is none": (f"{TRAIN}.interpolation=cubic", "CFG03", "bicubic"),
    "a target that does not exist": (f"{MODEL}.unet_config.target=ldm.modules.networks.unet.UNett", "CFG04", "UNet"),
    "a target in a module that does not exist": (f"{MODEL}.unet_config.target=ldm.nets.UNet", "CFG04", "ldm.nets"),
    "a target without a dot": ("model.target=LatentDiffusion", "CFG04", "LatentDiffusion"),
    "a target outside the allowed packages": ("model.target=os.system", "CFG04", "os.system"),
    "a target of another kind": ("model.target=torch.nn.Linear", "CFG04", "LightningModule"),
    "a function that starts a shell": (f"{CALLBACKS}.x.target=torch.utils.collect_env.run", "CFG04", "refused"),
    "a target that is a module": ("model.target=ldm.models", "CFG04", "ldm.models"),
    "a target that is no text": ("model.target=5", "CFG04", "import path"),
    "a callback that is no callback": (f"{CALLBACKS}.x.target=torch.nn.Linear", "CFG04", "Callback"),
    "a recipe that is text": ("model.params.unet_config=unet", "CFG03", "unet_config"),
    "an interpolation to nowhere": (f"{MODEL}.monitor=${{{MODEL}.nothing}}", "CFG06", "nothing"),
    "an interpolation that would run something": (f"{MODEL}.monitor=${{run:ls}}", "CFG06", "run"),
    "an interpolation in a circle": (f"{MODEL}.monitor=${{{MODEL}.monitor}}", "CFG06", "monitor"),
    "an interpolation that does not end": (f"{MODEL}.monitor=${{{MODEL}.x", "CFG06", "cannot be read"),
    "a setting that is missing": (f"{TRAIN}.size=???", "CFG07", f"{TRAIN}.size has no value"),
    "a value that is no YAML": (f"{MODEL}.monitor=[1,", "CFG02", "monitor"),
    "a batch of nothing": ("data.params.batch_size=0", "CFG08", "batch_size"),
    "a size of nothing": (f"{TRAIN}.size=0", "CFG08", "size"),
    "a chance above one": (f"{TRAIN}.flip_p=1.5", "CFG08", "0 to 1"),
    "a share above one": ("data.params.max_bad_fraction=2", "CFG08", "0 to 1"),
    "a saver without an occasion": (SAVER % "filename: a", "CFG08", "every_n_train_steps"),
    "a saver with an unknown field": (SAVER % "filename: '{step', every_n_train_steps: 1", "CFG08", "filename"),
    "a run without an end": (f"{TRAINER}.max_steps=-1", "CFG03", "neither max_steps nor max_epochs"),
    "an optimizer that does not exist": (f"{MODEL}.optimizer_config.target=torch.optim.Adamw", "CFG04", "AdamW"),
    "a learning rate that is text": ("model.base_learning_rate=fast", "CFG03", "base_learning_rate"),
    "a removal of what is not there": ("~model.params.unet", "CFG03", "unet_config"),
    "an unknown precision": (f"{TRAINER}.precision=15", "CFG03", "precision"),
    "no accumulation at all": (f"{TRAINER}.accumulate_grad_batches=0", "CFG08", "accumulate_grad_batches"),
    "an unknown accelerator": (f"{TRAINER}.accelerator=quantum", "DEV03", "quantum"),
    "no devices": (f"{TRAINER}.devices=0", "DEV03", "devices"),
    "a negative learning rate": ("model.base_learning_rate=-1", "CFG08", "Invalid learning rate"),
    "gradient clipping below nothing": (f"{TRAINER}.gradient_clip_val=-1", "CFG08", "gradient_clip_val"),
    "an EMA decay above one": (f"{MODEL}.ema_config.params.decay=1.5", "CFG08", "decay"),
    "an EMA that is never updated": (f"{MODEL}.ema_config.params.update_every=0", "CFG08", "update_every"),
    "fewer workers than none": ("data.params.num_workers=-1", "CFG08", "num_workers"),
    "validation every no steps": (f"{TRAINER}.val_check_interval=0", "CFG08", "val_check_interval"),
}

TEXTS = {
    "a tab": ("model:\n\tparams: 1\n", "CFG02", "TAB"),
    "two maps in a line": ("model: params: 1\n", "CFG02", "layer.yaml:1"),
    "a quote that does not end": ("model: 'x\n", "CFG02", "layer.yaml"),
    "a key twice": ("model:\n  params: {}\nmodel: {}\n", "CFG02", "twice"),
    "a tag that would build an object": ("model: !!python/object/apply:os.system [ls]\n", "CFG02", "tag"),
    "an alias of nothing": ("model: *nothing\n", "CFG02", "nothing"),
    "an alias within itself": ("model: &a {params: *a}\n", "CFG02", "itself"),
    "a list": ("- model\n", "CFG02", "outermost level"),
    "a text": ("hello\n", "CFG02", "outermost level"),
    "several documents": ("model: {}\n---\ndata: {}\n", "CFG02", "document"),
    "a key that is a list": ("? [1, 2]\n: x\n", "CFG02", "key"),
    "a section that is a list": ("model: [1]\n", "CFG03", "model"),
    "a section that is text": ("data: x\n", "CFG03", "data"),
    "callbacks that are a list": ("lightning: {callbacks: [a]}\n", "CFG03", "callbacks"),
    "params that are a list": ("model: {params: [1]}\n", "CFG03", "params"),
    "a misspelt section": ("modle: {}\nmodel: {parms: {}}\n", "CFG03", "params"),
}

FLAGS = {
    "an unknown flag": (["--acelerator", "cpu"], "CLI03", "--accelerator"),
    "a flag without its value": (["--seed"], "CLI03", "needs a value"),
    "a seed that is no number": (["--seed", "x"], "CLI03", "whole number"),
    "a truth value that is none": (["--train=perhaps"], "CLI03", "true or false"),
    "a rule that is none": (["--scale_lr=cubic"], "CLI03", "linear"),
    "a time that is none": (["--time-limit", "90m"], "CLI03", "H:MM"),
    "a change that is none": (
        ["--accept-change", "model"],
        "CLI03",
        "data, data:NAME for one of several sets, or batch",
    ),
    "a word in no place": (["--check", "stray"], "CLI03", "stray"),
    "a setting with dashes": (["--model.params.x=1"], "CLI03", "without dashes"),
    "a resume and weights": (["-r", "x", "--init-from", "y"], "CLI02", "together"),
    "a resume and a name": (["-r", "x", "-n", "y"], "CLI02", "together"),
    "a resume of nothing": (["-r", "nowhere"], "RES01", "nowhere"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_refused(told: Told, name: str) -> None:
    setting, fault, part = SETTINGS[name]
    told.refused(told.tiny(setting), {"DEV": 5}.get(fault[:3], 2), fault, part)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_refused(told: Told, name: str) -> None:
    text, fault, part = TEXTS[name]
    told.refused(told.tiny(layer=text), 2, fault, part)


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_that_is_refused(told: Told, name: str) -> None:
    words, fault, part = FLAGS[name]
    told.refused([*told.tiny(), *words], 2, fault, part)


def test_files_that_are_no_text(told: Told, tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("model: é\n".encode("latin-1"))
    told.refused(["--base", str(tmp_path / "latin.yaml")], 2, "CFG02", "not UTF-8")
    (tmp_path / "picture.yaml").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    told.refused(["--base", str(tmp_path / "picture.yaml")], 2, "CFG02", "picture.yaml")
    told.refused(["--base", str(tmp_path)], 2, "CFG01", str(tmp_path))
    told.refused(["--base", str(TINY), "nowhere.yaml"], 2, "CFG01", "nowhere.yaml")
    told.refused(["--base"], 2, "CFG03", "model")
