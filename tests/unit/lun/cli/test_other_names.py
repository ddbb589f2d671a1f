"""What other trainers call a setting is answered by a line that is accepted."""

import shlex

import pytest
from support import bitsandbytes_stub

from ldm.errors import Fault
from lun.cli.flags import FLAGS
from lun.cli.other_names import OTHERS
from lun.cli.parser import parse
from lun.config.compat.lightning1_trainer import OLD_ARGUMENTS
from lun.config.trainer_arguments import trainer_arguments
from lun.trainer import run

BASES = {"zero_terminal_snr": "sd21-v", "rescale_betas_zero_snr": "sd21-v"}


def refused(words: list[str]) -> Fault:
    with pytest.raises(Fault) as caught:
        parse(words)
    return caught.value


def commands() -> dict[str, list[str]]:
    """The line that each name of another trainer is answered by; names with the same answer share it."""
    found = {}
    for name, known in OTHERS.items():
        given = [f"--{name}", *([known.example] if known.example else [])]
        pictures = [] if "--data_root" in known.words else ["--data_root", "a b"]
        words = ["--base", BASES.get(name, "sd15"), *given, *pictures]
        program, script, *line = shlex.split(refused(words).fix)
        assert (program, script) == ("python", "main.py")
        found[shlex.join(line)] = line
    return found


COMMANDS = commands()


def test_there_are_many():
    assert len(OTHERS) >= 100 and len(COMMANDS) >= 40


@pytest.mark.parametrize("line", COMMANDS.values(), ids=list(COMMANDS))
def test_the_line_that_answers_a_name_of_another_trainer_is_accepted(line, capsys, monkeypatch):
    assert {"a b", "my pictures"} & set(line)
    bitsandbytes_stub.install(monkeypatch)
    assert run([*line, "--check"]) == 0, capsys.readouterr().err


def test_no_name_of_ours_is_taken_for_another_trainers():
    ours = {flag.lstrip("-").replace("-", "_") for flag in FLAGS}
    assert not OTHERS.keys() & (ours | trainer_arguments() | OLD_ARGUMENTS)


def test_a_whole_line_of_another_trainer_is_answered_by_one_of_ours():
    fault = refused(
        shlex.split(
            "-t --train_batch_size=4 --learning_rate 1e-5 --xformers --network_dim 8 --mixed_precision fp16"
            " --pretrained_model_name_or_path 'my models/sd [v1].ckpt' --cache_latents --seed 3"
        )
    )
    assert fault.id == "CLI03"
    assert shlex.split(fault.fix) == [
        *("python", "main.py", "--base", "sd15", "lora", "latent-cache"),
        *("data.params.batch_size=4", "model.base_learning_rate=1e-5"),
        *("model.params.adapter_config.params.rules.attention.kind.params.rank=8", "--precision", "16-mixed"),
        *("--init-from", "my models/sd [v1].ckpt", "-t", "--seed", "3"),
    ]
    assert "--network_dim 8 is here --base ... lora" in fault.why
    assert "--xformers; nothing to say" in fault.why


@pytest.mark.parametrize(
    ("word", "typed"),
    [
        ("data_root=my pictures", ["--data_root", "my pictures"]),
        ("max_steps=10", ["--max_steps", "10"]),
        ("lr=1e-5", ["model.base_learning_rate=1e-5"]),
        ("init_from=a.ckpt", ["--init-from", "a.ckpt"]),
    ],
)
def test_an_option_that_is_written_as_a_setting_is_answered_by_the_option(word, typed):
    line = shlex.split(refused(["-b", "sd15", word, "-t"]).fix)
    assert line == ["python", "main.py", "--base", "sd15", *typed, "-t"]


@pytest.mark.parametrize("precision", ["fp16", "bf16", "fp32", "float16", "bfloat16", "16", "32"])
def test_precisions_are_known_by_the_names_of_other_trainers(precision, capsys):
    assert run(["-b", "sd15", "--data_root", "a", "--precision", precision, "--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("word", ["--offload_ema", "--foreach_ema", "--ema_cpu_only", "--max_shard_size"])
def test_words_about_averages_that_ask_for_nothing_here_are_told_so(word):
    fault = refused(["-b", "sd15", word])
    assert "of other trainers" in fault.what and ("nothing to say" in fault.why or "lun.convert" in fault.why)
