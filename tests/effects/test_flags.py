"""Every flag of the command line has its effect in every mode, or is refused there by name."""

import itertools
from collections.abc import Sequence

import pytest

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.cli.flag_conflicts import notes
from lun.cli.flags import FLAGS
from lun.cli.parser import parse

MODES: dict[str, Sequence[str]] = {
    "plan": ["--base", "a.yaml"],
    "train": ["--base", "a.yaml", "-t"],
    "resume the newest": ["-r"],
    "resume a run": ["-r", "logs/RUN", "-t"],
    "check": ["--base", "a.yaml", "--check"],
    "print": ["--base", "a.yaml", "--print-config"],
    "doctor": ["--doctor"],
    "presets": ["--list-presets"],
    "schema": ["--schema"],
    "completion": ["--print-completion", "bash"],
}
VALUES = {
    "--train": ["true"],
    "--resume": ["logs/RUN"],
    "--init-from": ["a.ckpt"],
    "--name": ["mine"],
    "--postfix": ["later"],
    "--logdir": ["elsewhere"],
    "--seed": ["7"],
    "--project": ["mine"],
    "--debug": ["true"],
    "--scale_lr": ["linear"],
    "--no-test": ["false"],
    "--data_root": ["pictures"],
    "--datadir_in_name": ["false"],
    "--accept-change": ["data"],
    "--time-limit": ["1:30"],
    "--allow": ["mine"],
    "--family": ["mine.MINE"],
    "--schema": ["schema.json"],
    "--fit": ["12"],
    "--print-completion": ["bash"],
}
"""A word other than the default for each flag that takes one."""
RESUMED = {"--accept-change", "--take-over"}
"""What is about the run that goes on."""
NEW = {"--init-from", "--name", "--postfix"}
BEGINS = {"--new", "--probe", "--fit"}
"""What looks at a run before it begins."""
LOOK = {flag for flag in FLAGS if flag not in ("--debug", "--help", "--version")}
BLIND = {"--doctor", "--list-presets", "--schema", "--print-completion"}
STOP = BLIND | {"--check", "--print-config"}
REFUSED = {
    "plan": RESUMED | {"--no-test"} | BLIND,
    "train": RESUMED | {"--no-test", "--new", "--probe"} | BLIND,
    "resume the newest": NEW | BEGINS | {"--no-test", "--demo"} | BLIND,
    "resume a run": NEW | BEGINS | {"--no-test", "--demo"} | BLIND,
    "check": RESUMED | {"--no-test"} | BEGINS | STOP - {"--check"},
    "print": RESUMED | {"--no-test"} | BEGINS | STOP - {"--print-config"},
    "doctor": LOOK - {"--doctor", "--logdir"},
    "presets": LOOK - {"--list-presets"},
    "schema": LOOK - {"--schema"},
    "completion": LOOK - {"--print-completion"},
}
"""What has no effect in each mode, and is refused; `--no-test` with false, which asks for a test."""
CASES = list(itertools.product(MODES, FLAGS))


def refused(words: Sequence[str], flag: str) -> bool:
    """Whether these words are, with a reason and what to do instead, in words that name the flag."""
    try:
        parse(words)
    except Fault as fault:
        assert fault.id == "CLI02" and flag in fault.what and fault.why and fault.fix, fault
        return True
    return False


def test_every_flag_has_a_value_and_every_mode_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert {flag for flag, how in FLAGS.items() if how.value != "none"} == VALUES.keys()
    with capsys.disabled():
        print(f"\n{len(FLAGS)} flags tried in {len(MODES)} modes")


@pytest.mark.parametrize("mode, flag", CASES)
def test_a_flag_has_an_effect_or_is_refused(mode: str, flag: str) -> None:
    words = [*MODES[mode], flag, *VALUES.get(flag, [])]
    assert refused(words, flag) == (flag in REFUSED[mode])
    if flag not in REFUSED[mode]:
        field = FLAGS[flag].field
        assert getattr(parse(words), field) != getattr(Arguments(), field), "the flag was lost"


@pytest.mark.parametrize(
    "words, told",
    [
        ("-r logs/RUN --logdir elsewhere", "--logdir has no effect beside --resume"),
        ("-r --logdir elsewhere", ""),
        ("-r logs/RUN --datadir_in_name false", "--datadir_in_name has no effect beside --resume"),
        ("--base a.yaml --datadir_in_name false", ""),
        ("--base a.yaml --project mine", "--project mine is not read"),
    ],
)
def test_a_flag_of_old_command_lines_without_effect_is_told(words: str, told: str) -> None:
    found = notes(parse(words.split()))
    assert told in "".join(found) and len(found) == bool(told)


@pytest.mark.parametrize("mode", ["doctor", "presets", "schema", "completion"])
def test_what_reads_no_configuration_takes_no_setting(mode: str) -> None:
    assert refused([*MODES[mode], "--base", "a.yaml"], "--base")
    assert refused([*MODES[mode], "seed=1"], "--base")


def test_help_answers_whatever_stands_beside_it() -> None:
    assert parse(["--doctor", "--check", "--help", "--no-test", "false"]).help
