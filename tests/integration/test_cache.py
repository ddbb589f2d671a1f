"""The caches of moments and of captions through the whole program."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.equality import differences, final_state
from support.runs import make_shapes, newest_run

from ldm.errors import Fault
from ldm.util import instantiate_from_config
from lun.data.cache.cache_settings import Cache
from lun.pack.command import run as pack
from lun.run.caches_alone import frozen_networks
from lun.run.fill_caches import require_first_stage

Lun = Callable[..., int]
CACHE = ["data.params.cache=true"]
FROZEN = ["model.params.cond_stage_trainable=false"]
STEPS = 6


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_cached_run_equals_the_plain_one_to_the_bit(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With whole captions dropped by chance, and the text encoder put away once all captions are known.

    Pictures are encoded one by one in both, since a convolution's last bits depend on its batch.
    """
    monkeypatch.setattr("lun.data.cache.latents.fill.BATCH", 1)
    states = []
    for name, settings in (("plain", []), ("cached", CACHE)):
        one = ["data.params.batch_size=1", f"lightning.trainer.max_steps={STEPS}"]
        assert lun("-t", "-n", name, *FROZEN, *settings, *one) == 0
        states.append(final_state(newest_run(tmp_path / "logs")))
    assert differences(*states) == []


def test_resumes_in_buckets_with_a_cache_equal_the_straight_run(lun: Lun, tmp_path: Path) -> None:
    data = make_shapes(tmp_path / "shapes", [(8, 8)] * 4 + [(16, 8)] * 5)
    settings = [*CACHE, "data.params.buckets={resolutions: [8], step: 4}", "data.params.train.params.mask=folder"]
    steps = f"lightning.trainer.max_steps={STEPS}"
    assert lun("-t", "-n", "straight", *settings, steps, data=data) == 0
    straight = final_state(newest_run(tmp_path / "logs"))
    horizon = f"model.params.scheduler_config.params.total_steps={STEPS}"
    assert lun("-t", "-n", "chain", *settings, horizon, "lightning.trainer.max_steps=2", data=data) == 0
    assert lun("-r", str(newest_run(tmp_path / "logs")), "-t", steps, base=False) == 0
    assert differences(straight, final_state(newest_run(tmp_path / "logs"))) == []


def test_a_packed_set_in_buckets_and_a_cache_trains_as_the_folder_to_the_bit(
    lun: Lun, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lun.data.cache.latents.fill.BATCH", 1)
    folder = make_shapes(tmp_path / "shapes", [(8, 8)] * 4 + [(12, 4)] * 5)
    assert pack([str(folder), "-o", str(tmp_path / "packed"), "--order", "given"]) == 0
    states = []
    for name, params in (
        ("local.Local", f"data_root: {folder}"),
        ("packed.PackedSet", f"data_root: {tmp_path / 'packed'}, window: null"),
    ):
        train = f"data.params.train={{target: lun.data.{name}, params: {{size: 8, {params}}}}}"
        buckets = "data.params.buckets={resolutions: [8], step: 4, max_aspect: 3.5}"
        assert lun("-t", *CACHE, train, buckets, "lightning.trainer.max_steps=3", data=None) == 0
        states.append(final_state(newest_run(tmp_path / "logs")))
    assert differences(*states) == [".lun.data.fingerprint"]
    assert len(list((cache / "moments_by_shard").rglob("*.safetensors"))) == 4  # two sizes, both ways round


def test_the_command_fills_what_training_then_reads(
    tmp_path: Path, repo_root: Path, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lun.run.caches_alone import run as fill
    from lun.trainer import run

    monkeypatch.chdir(repo_root)
    data = make_shapes(tmp_path / "shapes", [(32, 32)] * 3)
    half = "lightning.trainer.precision={target: lun.strategies.precision.Bf16Mixed, params: {frozen_half: true}}"
    words = ["--base", "configs/demo/emoji.yaml", "--data_root", str(data), *FROZEN, half]
    words += [f"data.params.validation.params.data_root={data}", "data.params.batch_size=2"]
    assert fill(words) == 0
    kept = sorted(cache.rglob("*.safetensors"))
    assert sorted(file.relative_to(cache).parts[0] for file in kept) == ["moments", "text"]
    caplog.clear()
    train = [*words, *CACHE, "--logdir", str(tmp_path / "logs"), "-t", "lightning.trainer.max_steps=1"]
    train += ["lightning.callbacks.image_logger=null", "lightning.trainer.num_sanity_val_steps=0"]
    assert run([*train, "--accelerator", "cpu"]) == 0
    assert [file for file in sorted(cache.rglob("*.safetensors")) if "moments" in file.parts] == kept[:1]
    assert not any("moments to compute" in message for message in caplog.messages)


def test_a_precision_that_is_none_is_refused(lun: Lun) -> None:
    assert lun("-t", "data.params.cache={dtype: int8}") == 2


def test_a_model_without_a_first_stage_has_nothing_to_cache_in_a_run_or_alone() -> None:
    ddconfig = {"ch": 32, "ch_mult": [1], "num_res_blocks": 1, "z_channels": 4, "double_z": True, "resolution": 8}
    params = {"ddconfig": ddconfig | {"in_channels": 3, "out_ch": 3, "attn_resolutions": []}, "embed_dim": 4}
    model = {"target": "ldm.models.autoencoder.AutoencoderKL", "params": params | {"from_scratch": True}}
    for refuses in (
        lambda: require_first_stage(instantiate_from_config(model)),
        lambda: frozen_networks({"model": model}, Cache()),
    ):
        with pytest.raises(Fault, match="AutoencoderKL has no first stage"):
            refuses()


def test_captions_are_encoded_once_over_two_runs(
    lun: Lun, cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    moved: list[str] = []
    from ldm.modules.encoders.words import HashedWordEmbedder

    monkeypatch.setattr(HashedWordEmbedder, "to", lambda self, place: moved.append(place) or self)
    tokenize = HashedWordEmbedder.tokenize
    monkeypatch.setattr(
        HashedWordEmbedder, "tokenize", lambda self, texts: asked.append(texts) or tokenize(self, texts)
    )
    run = ["-t", *FROZEN, *CACHE, "lightning.trainer.max_steps=1"]
    assert lun(*run, "-n", "one") == 0
    assert sum(map(len, asked)) == 11 + 2  # each caption, the empty one, and once more for the shape of an answer
    assert moved == ["cpu"]  # nothing is left to be encoded
    asked.clear()
    assert lun(*run, "-n", "two") == 0
    assert asked == [[""]]
    assert lun(*run, "-n", "three", "data.params.train.params.captions={shuffle_tag_p: 0.5}") == 0
    assert moved == ["cpu"] * 2


def test_tags_are_shuffled_with_a_cache_as_without(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("lun.data.cache.latents.fill.BATCH", 1)
    drawn = "data.params.train.params.captions={shuffle_tag_p: 0.5, tag_order: as_written, split_tags: ' '}"
    states = []
    for name, settings in (("plain", []), ("cached", CACHE)):
        one = ["data.params.batch_size=1", "lightning.trainer.max_steps=3"]
        assert lun("-t", "-n", name, *FROZEN, drawn, *settings, *one) == 0
        states.append(final_state(newest_run(tmp_path / "logs")))
    assert differences(*states) == []
    assert any("are encoded as they come" in message for message in caplog.messages)


def test_a_trained_text_encoder_is_not_cached(lun: Lun, cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert lun("-t", *CACHE, "lightning.trainer.max_steps=1") == 0
    assert not (cache / "text").exists()
    assert any("the text encoder is trained" in message for message in caplog.messages)


ENCODER_TRAINS = {
    "a flag": ["model.params.cond_stage_trainable=true"],
    "a rule": [
        *FROZEN,
        "model.params.training_config={target: ldm.training.rules.Rules,"
        " params: {rules: {words: {match: 'text_encoder.*', train: true}}}}",
    ],
    "adapters": [
        *FROZEN,
        "model.params.adapter_config={target: ldm.adapters.Adapters,"
        " params: {rules: {words: {match: 'text_encoder.*', kind: {target: ldm.adapters.LoRA}}}}}",
    ],
    "a word of one's own": [
        *FROZEN,
        "model.params.adapter_config={target: ldm.adapters.Adapters,"
        " params: {embeddings: {cat: {token: <cat>, init: red}}}}",
    ],
}


@pytest.mark.parametrize("how", ENCODER_TRAINS)
def test_captions_that_a_trained_text_encoder_reads_are_not_cached_unasked_and_refused_where_they_are(
    how: str, lun: Lun, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*ENCODER_TRAINS[how], "model.params.cond_stage_config.target=support.words.LinearWords"]
    words += ["model.params.cond_stage_config.params={dim: 8, max_length: 4, from_scratch: true}", "--allow", "support"]
    assert lun("--check", *words, *CACHE) == 0
    assert lun("--check", *words, "data.params.cache={text: true}") == 2
    assert lun("-t", *words, "data.params.cache={text: true}") == 2
    assert capsys.readouterr().err.count("captions cannot be cached while the text encoder trains") == 2
    assert not {"moments", "text"} & {one.name for one in cache.iterdir()} and not (tmp_path / "logs").exists()


def test_captions_can_be_left_out_of_the_cache(lun: Lun, cache: Path) -> None:
    assert lun("-t", *FROZEN, "data.params.cache={text: false}", "lightning.trainer.max_steps=1") == 0
    assert (cache / "moments").exists() and not (cache / "text").exists()


def test_a_full_disk_stops_the_filling_with_its_own_exit_code(
    lun: Lun, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lun.data.cache.shards.shard_files.save_file", full)
    assert lun("-t", *CACHE, "lightning.trainer.max_steps=1") == 8
    assert "error[DSK01]" in capsys.readouterr().err
    assert list(cache.rglob(".*.tmp-*")) == [] == list(cache.rglob("*.safetensors"))
