"""Words of one's own in whole runs: trained beside a frozen base, resumed to the bit, out into files and in again."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from support.compvis import config_of, random_checkpoint
from support.equality import differences, final_state
from support.runs import TINY, load, newest_run

from ldm.files.read import read_content
from ldm.files.write import write_safetensors
from ldm.keys.averaged import SCALARS
from lun.convert.command import run as convert
from lun.sample.command import run as sample

Lun = Callable[..., int]
EMBEDDINGS = "{zks: {token: red, vectors: 2, init: a red}, still: {file: %s, train: false}}"
WORDS = [
    "model.params.cond_stage_trainable=false",
    "model.params.scheduler_config.params.total_steps=4",
    "model.base_learning_rate=0.1",
]


def embeddings(said: str) -> str:
    return f"model.params.adapter_config={{target: ldm.adapters.Adapters, params: {{embeddings: {said}}}}}"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    """A whole checkpoint of random weights."""
    file = tmp_path_factory.mktemp("base") / "sd.safetensors"
    write_safetensors(file, random_checkpoint(config_of([TINY], pictures)))
    return file


def test_vectors_alone_are_kept_and_two_steps_and_two_more_are_four_and_files_of_them_draw_the_same(
    lun: Lun, tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"<still>": torch.ones(8)}, tmp_path / "still.bin")
    logs, said = tmp_path / "logs", EMBEDDINGS % (tmp_path / "still.bin")
    words = ["-t", *WORDS, embeddings(said), "--init-from", str(base)]
    export = "lightning.callbacks.export={target: lun.callbacks.Export, params: {dtype: null}}"
    assert lun(*words, export, "-n", "straight", "lightning.trainer.max_steps=4") == 0
    run = newest_run(logs)
    straight = final_state(run)
    table = "cond_stage_model.embedding.adapter."
    assert {name for name in straight["state_dict"] if not name.startswith("model_ema")} == {
        f"{table}zks.vectors",
        f"{table}still.vectors",
    }
    averaged = [name for name in straight["state_dict"] if name.startswith("model_ema") and name not in SCALARS]
    assert len(averaged) == 1 and straight["state_dict"][averaged[0]].shape == (2, 8)
    assert straight["base"]["given"] == dict.fromkeys(straight["base"]["sha256"], str(base))
    assert lun(*words, "-n", "split", "lightning.trainer.max_steps=2") == 0
    halves = newest_run(logs)
    assert lun("-t", "-r", str(halves), "lightning.trainer.max_steps=4", base=False) == 0
    assert differences(straight, final_state(halves)) == []

    capsys.readouterr()
    out = tmp_path / "red.safetensors"
    assert convert([str(run), str(out), "--to", "kohya"]) == 0
    (exported,) = (run / "exports").glob("*.safetensors")
    assert differences(read_content(exported).state, read_content(out).state) == []
    file = read_content(out)
    assert {name: tuple(rows.shape) for name, rows in file.state.items()} == {"emb_params": (2, 8)}
    assert file.facts["lun.token"] == "red"
    assert convert([str(run), str(tmp_path / "red.pt"), "--to", "kohya"]) == 0
    line = [str(run), "noise of red and <it>", "--steps", "1", "--embedding", f"{tmp_path / 'red.pt'}=<it>"]
    assert sample([*line, "-o", str(tmp_path / "drawn")]) == 0
    assert '"red.pt=<it>"' in Image.open(next((tmp_path / "drawn").glob("0*.png"))).text["lun"]


def test_a_word_beside_lora_becomes_a_file_of_its_own_and_stops_where_its_rule_says(
    lun: Lun, tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lora = "attention: {match: 'unet.*attn1*', kind: {target: ldm.adapters.LoRA, params: {rank: 2}}}"
    params = f"{{rules: {{{lora}}}, embeddings: {{zks: {{token: red, init: red}}}}}}"
    words = [
        *WORDS,
        f"model.params.adapter_config={{target: ldm.adapters.Adapters, params: {params}}}",
        "model.params.training_config={target: ldm.training.rules.Rules, params: {rules: "
        "{word: {match: 'text_encoder*embedding.adapter.*', lr: 0.5, until: 1}}}}",
        "model.params.use_ema=false",
        "model.params.scheduler_config=null",
    ]
    assert lun("-t", *words, "--init-from", str(base), "lightning.trainer.max_steps=1") == 0
    run = newest_run(tmp_path / "logs")
    name = "cond_stage_model.embedding.adapter.zks.vectors"
    first = load(run / "checkpoints/last.ckpt")["state_dict"]
    assert lun("-t", "-r", str(run), "lightning.trainer.max_steps=2", base=False) == 0
    second = load(run / "checkpoints/last.ckpt")["state_dict"]
    assert [key for key in first if torch.equal(first[key], second[key]) and not key.endswith("alpha")] == [name]

    out = tmp_path / "it.safetensors"
    assert convert([str(run), str(out), "--to", "kohya"]) == 0
    assert set(read_content(tmp_path / "it-zks.safetensors").state) == {"emb_params"}
    assert all("lora_" in key for key in read_content(out).state)
    out.unlink()
    capsys.readouterr()
    assert convert([str(run), str(out), "--to", "kohya"]) == 2
    assert "it-zks.safetensors exists already" in capsys.readouterr().err
    assert convert([str(run), str(tmp_path / "it.pt"), "--to", "kohya", "--force"]) == 2
    assert "one text encoder" in capsys.readouterr().err
    assert convert([str(run), str(tmp_path / "whole.safetensors"), "--to", "ldm", "--merge"]) == 0
    assert "no place for embeddings" in capsys.readouterr().out
