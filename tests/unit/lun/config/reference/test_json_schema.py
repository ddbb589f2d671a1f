"""The JSON Schema of configurations: what editors are told, held against shipped configs and against `--check`."""

import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from omegaconf import OmegaConf

from ldm.util import is_recipe
from lun.config.schema import fits
from lun.config.signature import accepted_by, target_at

ROOT = Path(__file__).resolve().parents[5]
STORED = ROOT / "configs" / "schema.json"
CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))
LIBRARIES = ("torch", "lightning", "diffusers")
ODD = (True, -1, 0, 0.5, "", "x", [], [1], ["x"], [1, 2], [0.5, "x", 3])
WRITE = """
import sys
from lun.trainer import run
print(run(["--schema", sys.argv[1]]), "torch" in sys.modules)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("schema") / "schema.json"
    words = [sys.executable, "-c", WRITE, str(file)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines()[-1] == "0 False", "torch was imported"
    return file


@pytest.fixture(scope="module")
def schema() -> Mapping[str, Any]:
    stored: Mapping[str, Any] = json.loads(STORED.read_text("utf-8"))
    return stored


@pytest.fixture(scope="module")
def valid(schema: Mapping[str, Any]) -> Draft7Validator:
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def is_independent(path: str) -> bool:
    """Whether it is a part of ours, and no key of it comes from a library."""
    if not path.startswith(("ldm.", "lun.")):
        return False
    bases = getattr(target_at(path), "__mro__", ())
    handed = str(getattr(target_at(path), "accepts", ""))
    return not handed.startswith(LIBRARIES) and not any(base.__name__.endswith("Strategy") for base in bases)


def read(file: Path) -> Any:
    return OmegaConf.to_container(OmegaConf.load(file), resolve=False)


def test_the_stored_schema_is_what_the_sources_say_today(made: Path) -> None:
    stored, now = (json.loads(file.read_text("utf-8")) for file in (STORED, made))
    comments = stored.pop("$comment"), now.pop("$comment")
    if comments[0] != comments[1]:  # other versions of libraries, whose classes may take other keys
        for one in (stored, now):
            one["properties"]["lightning"] = None
            one["$defs"] = {
                name: what for name, what in one["$defs"].items() if name.startswith("l") and "Strat" not in name
            }
            for name in [name for name in one["$defs"] if accepted_by(target_at(name)).anything]:
                del one["$defs"][name]
    assert stored == now, "python main.py --schema configs/schema.json writes it anew"


def test_it_says_of_which_libraries_it_tells(schema: Mapping[str, Any]) -> None:
    assert all(f"{name} " in schema["$comment"] for name in LIBRARIES) and version("torch")


def test_it_is_small_enough_for_an_editor() -> None:
    assert STORED.stat().st_size < 1 << 20


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_a_shipped_config_is_valid_and_names_the_schema(file: Path, valid: Draft7Validator) -> None:
    named = re.search(r"^# yaml-language-server: \$schema=(.*)$", file.read_text("utf-8"), flags=re.MULTILINE)
    assert named and (file.parent / named[1]).resolve() == STORED
    assert [error.message for error in valid.iter_errors(read(file))] == []


def recipes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the recipes of a configuration stand that name a part of ours with params."""
    if is_recipe(value) and value.get("params") and value["target"].startswith(("ldm.", "lun.")):
        yield path
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from recipes(inner, (*path, key))


def test_a_misspelt_key_is_refused_of_each_part_that_shipped_configs_name(
    valid: Draft7Validator, capsys: pytest.CaptureFixture[str]
) -> None:
    tried, passed = set[str](), []
    for file in CONFIGS:
        config = read(file)
        for path in recipes(config):
            wrong = copy.deepcopy(config)
            recipe: Any = wrong
            for key in path:
                recipe = recipe[key]
            if recipe["target"] in tried:
                continue
            name = next(iter(recipe["params"]))
            recipe["params"][name + "x"] = recipe["params"].pop(name)
            tried.add(recipe["target"])
            passed += [f"{file.name}: {path}"] if valid.is_valid(wrong) else []
    with capsys.disabled():
        print(f"\n{len(tried)} misspelt keys tried")
    assert len(tried) > 40 and passed == []


WRONG = {
    "an unknown section": "modell: {}",
    "a section at the top": "unet_config: {}",
    "an unknown key beside target": "model: {targett: x.y}",
    "an unknown setting of the usual model": "model: {params: {scale_facter: 1}}",
    "text for a number": "model: {params: {image_size: wide}}",
    "a number for a choice": "model: {params: {parameterization: 3}}",
    "a word that is no choice": "model: {params: {parameterization: epsilon}}",
    "a rule of the rate": "model: {scale_lr: cubic}",
    "a nested target's parameter": (
        "model: {params: {unet_config: {target: ldm.modules.networks.unet.UNet, params: {blockz: 1}}}}"
    ),
    "the type of a nested parameter": (
        "model: {params: {ema_config: {target: ldm.modules.ema.LitEma, params: {decay: x}}}}"
    ),
    "a target of ours that is not there": "model: {target: ldm.models.diffusion.ddpm.LatentDifusion}",
    "a class that does not fit anything here": "lightning: {callbacks: {a: {target: lun.callbacks.FinalCheckpoint}}}",
    "a parameter by an old path": (
        "model: {params: {first_stage_config: {target: ldm.models.autoencoder.AutoencoderKL, params: {embed: 4}}}}"
    ),
    "an argument of the Trainer": "lightning: {trainer: {max_step: 3}}",
    "an argument without effect": "lightning: {trainer: {barebones: true}}",
    "a value of an argument": "lightning: {trainer: {max_steps: many}}",
    "a callback's parameter": "lightning: {callbacks: {a: {target: lun.callbacks.Checkpoint, params: {every: 3}}}}",
    "a callback that is no recipe": "lightning: {callbacks: {a: 3}}",
    "a library's optimizer": (
        "model: {params: {optimizer_config: {target: torch.optim.AdamW, params: {weight_decy: 0}}}}"
    ),
    "a data set's setting": "data: {params: {train: {target: lun.data.local.Local, params: {flipp: 1}}}}",
    "a filter": "data: {params: {train: {target: lun.data.local.Local, params: {metadata_params: {min_scor: 3}}}}}",
    "one of several sets": "data: {params: {train: {sets: {a: {target: lun.data.local.Local, params: {sizes: 3}}}}}}",
    "a share of a set": "data: {params: {train: {sets: {a: {target: lun.data.local.Local, wait: 3}}}}}",
    "a bucket": "data: {params: {buckets: {resolution: [512]}}}",
    "an argument of the loader": (
        "data: {params: {train: {target: lun.data.local.Local, dataloader_params: {worker: 1}}}}"
    ),
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused(text: str, valid: Draft7Validator) -> None:
    assert not valid.is_valid(yaml.safe_load(text))


RIGHT = {
    "one's own drawer": "model: {target: lun.local.mine.Model, params: {anything: [1, {a: b}]}}",
    "a package that is allowed": "data: {params: {train: {target: my_package.sets.Mine, params: {root: x}}}}",
    "an optimizer of another library": (
        "model: {params: {optimizer_config: {target: prodigyopt.Prodigy, params: {d_coef: 1}}}}"
    ),
    "a layer of torch": "model: {params: {lossconfig: {target: torch.nn.Identity}}}",
    "a path of 2022": "model: {params: {cond_stage_config: {target: ldm.modules.encoders.modules.FrozenCLIPEmbedder}}}",
    "a reference": "model: {params: {image_size: '${data.params.train.params.size}', channels: '${x-channels}'}}",
    "free-form keys": "x-anchors: {a: [1]}",
    "null takes out": "lightning: {callbacks: {a: null}, logger: {b: null}}",
    "a layer over a recipe of one's own": "lightning: {callbacks: {mine: {params: {anything: 1}}}}",
    "several sets": (
        "data: {params: {train: {sets: {a: {target: lun.data.local.Local, weight: 2}, b: null}, epoch: a}}}"
    ),
    "a policy of precision": "lightning: {trainer: {precision: {target: lun.strategies.precision.Bf16Mixed}}}",
    "an empty file": "",
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_accepted(text: str, valid: Draft7Validator) -> None:
    assert [error.message for error in valid.iter_errors(yaml.safe_load(text))] == []


def test_it_takes_the_values_that_the_check_of_a_start_takes(
    schema: Mapping[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each parameter of each part of ours by odd values; maps aside, whose keys both look at in their own ways."""
    tried, differing = 0, []
    answers: dict[str, list[bool]] = {}
    for path in (path for path in schema["$defs"] if path.startswith(("ldm.", "lun."))):
        for name, parameter in accepted_by(target_at(path)).parameters.items():
            stored = schema["$defs"][path]["properties"][name]
            kind = {key: value for key, value in stored.items() if key not in ("description", "default")}
            if (text := json.dumps(kind)) not in answers:
                one = Draft7Validator({**kind, "$defs": schema["$defs"]})
                answers[text] = [one.is_valid(odd) for odd in ODD]
            tried += len(ODD)
            expected = zip(ODD, answers[text], strict=True)
            differing += [
                f"{path}.{name}: {odd!r}" for odd, answer in expected if answer != fits(odd, parameter.annotation)
            ]
    with capsys.disabled():
        print(f"\n{tried} values tried")
    assert tried > 4000 and differing == []


def test_keys_say_what_they_mean(schema: Mapping[str, Any]) -> None:
    told = schema["$defs"]["lun.callbacks.Checkpoint"]["properties"]["every_n_train_steps"]
    assert told["description"] == "optimizer steps" and told["default"] is None
    assert (
        "needed"
        in schema["$defs"]["ldm.models.diffusion.ddpm.LatentDiffusion"]["properties"]["image_size"]["description"]
    )
