"""What other trainers call a setting is answered by a line that is accepted."""

import shlex

import pytest
from support import bitsandbytes_stub

from ldm.errors import Fault
from lun.cli.flags import FLAGS
from lun.cli.parser import parse
from lun.config.compat.lightning1_trainer import OLD_ARGUMENTS
from lun.config.trainer_arguments import trainer_arguments
from lun.other_trainers.programs import OTHERS
from lun.trainer import run

OURS = {flag.lstrip("-").replace("-", "_") for flag in FLAGS} | trainer_arguments() | OLD_ARGUMENTS
ZERO = ("zero_terminal_snr", "rescale_betas_zero_snr", "rescale_noise_scheduler_to_zero_terminal_snr")
BASES = {**dict.fromkeys(ZERO, "sd21-v"), "do_edm_style_training": "sdxl"}


def refused(words: list[str]) -> Fault:
    with pytest.raises(Fault) as caught:
        parse(words)
    return caught.value


PICTURES = ["--data_root", "a b"]


def commands() -> dict[str, list[str]]:
    """The line that each name of another trainer is answered by; names with the same answer share it."""
    found = {}
    for name, known in OTHERS.items():
        if name in OURS:  # read as our own
            continue
        given = [f"--{name}", *([known.example] if known.example else [])]
        pictures = [] if "--data_root" in known.words else PICTURES
        words = ["--base", BASES.get(name, "sd15"), *given, *pictures]
        program, script, *line = shlex.split(refused(words).fix)
        assert (program, script) == ("python", "main.py")
        found[shlex.join(line)] = line
    return found


COMMANDS = commands()


def together() -> list[list[str]]:
    """Lines that start from the same layers and set nothing twice, as one: a check of each alone costs a start."""
    found: list[tuple[list[str], list[str], set[str]]] = []
    for line in COMMANDS.values():
        line = line[:-2] if line[-2:] == PICTURES else line
        at = next((place for place, word in enumerate(line) if place and _says(word)), len(line))
        base, rest = line[:at], line[at:]
        said = {word.partition("=")[0] for word in rest if _says(word)}
        for bases, words, keys in found:
            if bases == base and not any(_overlap(key, other) for key in said for other in keys):
                words += rest
                keys |= said
                break
        else:
            found.append((base, rest, said))
    return [[*base, *words, *([] if "--data_root" in words else PICTURES)] for base, words, _ in found]


def _says(word: str) -> bool:
    return word.startswith("--") or "=" in word


def _overlap(one: str, other: str) -> bool:
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def test_there_are_many():
    assert len(OTHERS) >= 250 and len(COMMANDS) >= 60


@pytest.mark.parametrize("line", together(), ids=" ".join)
def test_the_lines_that_answer_names_of_other_trainers_are_accepted(line, capsys, monkeypatch, tmp_path):
    assert {"a b", "my pictures"} & set(line)
    (tmp_path / "prompts.txt").write_text("a cat")
    monkeypatch.chdir(tmp_path)
    bitsandbytes_stub.install(monkeypatch)
    assert run([*line, "--check"]) == 0, capsys.readouterr().err


def test_names_that_mean_the_same_here_are_read_as_ours():
    assert OTHERS.keys() & OURS == {"seed", "resume", "scale_lr", "num_processes", "resume_from_checkpoint"}


def test_a_whole_line_of_another_trainer_is_answered_by_one_of_ours():
    fault = refused(
        shlex.split(
            "-t --train_batch_size=4 --learning_rate 1e-5 --xformers --network_dim 8 --mixed_precision fp16"
            " --pretrained_model_name_or_path 'my models/sd [v1].ckpt' --cache_latents --seed 3"
        )
    )
    assert fault.id == "CLI03"
    assert shlex.split(fault.fix) == [
        *("python", "main.py", "--base", "sd15", "lora", "fp16", "latent-cache"),
        *("data.params.batch_size=4", "model.base_learning_rate=1e-5"),
        *("model.params.adapter_config.params.rules.attention.kind.params.rank=8",),
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


def test_words_with_values_of_another_trainers_option_are_no_settings_of_ours():
    fault = refused(["-b", "sd15", "--network_args", "conv_dim=4", "algo=loha", "data.params.batch_size=2", "-t"])
    assert shlex.split(fault.fix) == ["python", "main.py", "--base", "sd15", "data.params.batch_size=2", "-t"]
    assert "conv_dim=4 algo=loha" in fault.why


def test_a_setting_without_an_equal_is_told_so():
    assert "there is none here: such noise is not known" in refused(["-b", "sd15", "--ip_noise_gamma", "0.1"]).why
