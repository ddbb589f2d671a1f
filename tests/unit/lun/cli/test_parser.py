from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.cli.parser import parse
from lun.cli.usage import usage, version


def read(line: str) -> Arguments:
    return parse(line.split())


def fault_of(line: str) -> Fault:
    with pytest.raises(Fault) as caught:
        read(line)
    return caught.value


@pytest.mark.parametrize(
    "words, train", [("--demo", True), ("--demo --train false", False), ("--demo --base mine", True)]
)
def test_the_demo_is_its_config_below_those_that_are_named_and_trains(words, train):
    asked = parse(words.split())
    assert asked.base == ("configs/demo/emoji.yaml", *(["mine"] if "mine" in words else []))
    assert asked.train is train


def test_nothing_asks_for_the_usage():
    assert parse([]).help
    assert "python main.py --demo" in usage()


def test_the_first_command_line_found_in_use_is_understood():
    arguments = read(
        "model.base_learning_rate=2.5e-6 lightning.trainer.accumulate_grad_batches=1 data.params.batch_size=2"
        " --base ./lun/configs/training-lightning.yaml ./lun/configs/training-txt2img.yaml"
        " ./lun/local/training-derpi-sfw.yaml"
        " --train=True --accelerator gpu --devices 0, --resume logs/pony-sfw-finetune/2022-09-26T21-18-20_v1.4/"
        " --logdir logs/pony-sfw-finetune/ --data_root /inputs/derpibooru/ --datadir_in_name=False"
    )
    assert arguments == Arguments(
        base=(
            "./lun/configs/training-lightning.yaml",
            "./lun/configs/training-txt2img.yaml",
            "./lun/local/training-derpi-sfw.yaml",
        ),
        train=True,
        resume="logs/pony-sfw-finetune/2022-09-26T21-18-20_v1.4/",
        logdir="logs/pony-sfw-finetune/",
        data_root=("/inputs/derpibooru/",),
        datadir_in_name=False,
        overrides=(
            "model.base_learning_rate=2.5e-6",
            "lightning.trainer.accumulate_grad_batches=1",
            "data.params.batch_size=2",
            "lightning.trainer.accelerator=gpu",
            "lightning.trainer.devices=0,",
        ),
    )


def test_the_first_start_found_in_use_is_understood():
    arguments = read("--base a.yaml -t --actual_resume sd.ckpt -n 0 --gpus 0, --no-test True")
    assert (arguments.init_from, arguments.name, arguments.no_test, arguments.train) == ("sd.ckpt", "0", True, True)
    assert arguments.overrides == ("lightning.trainer.gpus=0,",)


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        ("-t", "train", True),
        ("-t no", "train", False),
        ("--train=True", "train", True),
        ("--train f", "train", False),
        ("-r", "resume", "logs/latest"),
        ("-r -l runs", "resume", "runs/latest"),
        ("-r logs/x", "resume", "logs/x"),
        ("--resume=logs/x", "resume", "logs/x"),
        ("-r a.b=1", "resume", "logs/latest"),
        ("-s 0", "seed", 0),
        ("-s -1", "seed", -1),
        ("--seed=7", "seed", 7),
        ("-s7", "seed", 7),
        ("--scale_lr", "scale_lr", "linear"),
        ("--scale_lr True", "scale_lr", "linear"),
        ("--scale_lr sqrt", "scale_lr", "sqrt"),
        ("--scale_lr=false", "scale_lr", "none"),
        ("--scale-lr none", "scale_lr", "none"),
        ("--check", "scale_lr", None),
        ("-n", "name", ""),
        ("-n v2", "name", "v2"),
        ("-f _x", "postfix", "_x"),
        ("-p mine", "project", "mine"),
        ("--datadir_in_name", "datadir_in_name", True),
        ("--datadir_in_name no", "datadir_in_name", False),
        ("--resume a --accept-change data --accept-change batch", "accept_change", ("data", "batch")),
        ("--allow a --allow b.c", "allow", ("a", "b.c")),
        ("--time-limit 1:30", "time_limit", 5400),
        ("--check", "check", True),
        ("--print-config", "print_config", True),
        ("--print_config", "print_config", True),
        ("--help", "help", True),
        ("-h", "help", True),
        ("--version", "version", True),
        ("-d", "debug", True),
        ("--data-root d", "data_root", ("d",)),
        ("--init-from a.ckpt", "init_from", "a.ckpt"),
        ("--base a --base b c", "base", ("a", "b", "c")),
        ("--base=a.yaml b.yaml", "base", ("a.yaml", "b.yaml")),
        ("--base a x.y=1 b -t", "base", ("a", "b")),
    ],
)
def test_each_option_is_read(argv, field, value):
    assert getattr(read(argv), field) == value


@pytest.mark.parametrize(
    ("argv", "override"),
    [
        ("--max_steps -1", "max_steps=-1"),
        ("--max_steps=5", "max_steps=5"),
        ("--max-steps 5", "max_steps=5"),
        ("--benchmark", "benchmark=true"),
        ("--benchmark x.y=1", "benchmark=true"),
        ("--fast_dev_run -t", "fast_dev_run=true"),
        ("--max_time 00:12:00:00", "max_time=00:12:00:00"),
        ("--amp_backend native", "amp_backend=native"),
        ("--replace_sampler_ddp False", "replace_sampler_ddp=False"),
        ("--precision 16", "precision=16"),
    ],
)
def test_each_trainer_argument_becomes_a_setting(argv, override):
    assert f"lightning.trainer.{override}" in read(argv).overrides


@pytest.mark.parametrize(
    ("argv", "near"),
    [
        ("--acelerator gpu", "--accelerator"),
        ("--trian", "--train"),
        ("--data_rot x", "--data_root"),
        ("--max_step 5", "--max_steps"),
        ("--bse a.yaml", "--base"),
    ],
)
def test_an_unknown_option_suggests_a_near_one(argv, near):
    fault = fault_of(argv)
    assert fault.id == "CLI03"
    assert fault.what == f"unknown option {argv.split()[0]}"
    assert fault.fix.startswith(f"did you mean {near}?")
    assert "lightning.trainer.accelerator=gpu" in fault.fix


def test_a_setting_with_dashes_is_shown_without_them():
    assert fault_of("--data.params.batch_size=8").fix == "data.params.batch_size=8"


@pytest.mark.parametrize(
    "argv",
    [
        "-s many",
        "--time-limit 90",
        "--accept-change all",
        "--data_root",
        "--check=1",
        "stray.yaml",
        "-t stray.yaml",
        "--scale_lr=double",
        "--train=perhaps",
        "-x",
        "--allow",
    ],
)
def test_what_cannot_be_read_is_a_fault(argv):
    fault = fault_of(argv)
    assert fault.id == "CLI03"
    assert fault.fix


@pytest.mark.parametrize(
    "argv",
    [
        "-r logs/x -n v2",
        "-r --actual_resume a.ckpt",
        "--init-from a.ckpt -r logs/x",
        "-n -r",
    ],
)
def test_resuming_excludes_what_starts_a_new_run(argv):
    fault = fault_of(argv)
    assert fault.id == "CLI02"
    assert "--init-from" in fault.fix


def test_a_file_with_an_equals_sign_in_its_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("rate=1.yaml").write_text("a: 1")
    assert parse(["--base", "rate=1.yaml", "model.rate=2"]).base == ("rate=1.yaml",)


def test_a_path_with_an_equals_sign_is_no_setting():
    assert parse(["-r", "logs/x/gs=000100.ckpt"]).resume == "logs/x/gs=000100.ckpt"


def test_a_tilde_removes_a_setting_wherever_it_stands():
    assert parse(["~a.b", "--base", "x.yaml", "~c"]).overrides == ("~a.b", "~c")


OVERRIDES = ("model.base_learning_rate=1e-4", "~lightning.callbacks.images", "seed=3", "a.b=[1, 2]", "x.y='two words'")


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.permutations(OVERRIDES), st.lists(st.integers(0, 4), min_size=5, max_size=5))
def test_settings_mean_the_same_wherever_they_stand_around_the_files(overrides, places):
    words = ["-t", "--base", "a.yaml", "b.yaml"]
    line = list(words)
    for place, override in zip(sorted(places, reverse=True), reversed(overrides), strict=True):
        line.insert(place, override)
    assert parse(line) == Arguments(base=("a.yaml", "b.yaml"), train=True, overrides=tuple(overrides))


def test_the_version_names_what_the_program_stands_on():
    assert "lightning 2." in version()


def test_the_usage_names_every_option():
    from lun.cli.flags import ALIASES, FLAGS

    for option in ("--base", *FLAGS, *ALIASES):
        assert option in usage(), option


def test_every_line_of_the_usage_fits_a_terminal_of_120_columns():
    assert max(map(len, usage().splitlines())) <= 120


def test_the_command_line_is_frozen():
    """Scripts of users name these; a change here is a change of what the project promises."""
    from lun.cli.flags import ALIASES, FLAGS

    assert sorted(["--base", *FLAGS, *ALIASES]) == [
        "--accept-change",
        "--actual_resume",
        "--allow",
        "--base",
        "--check",
        "--data_root",
        "--datadir_in_name",
        "--debug",
        "--demo",
        "--doctor",
        "--family",
        "--fit",
        "--help",
        "--init-from",
        "--list-presets",
        "--logdir",
        "--name",
        "--new",
        "--no-test",
        "--postfix",
        "--print-completion",
        "--print-config",
        "--probe",
        "--project",
        "--resume",
        "--scale_lr",
        "--schema",
        "--seed",
        "--take-over",
        "--time-limit",
        "--train",
        "--version",
        "-b",
        "-d",
        "-f",
        "-h",
        "-l",
        "-n",
        "-p",
        "-r",
        "-s",
        "-t",
    ]
