"""Shell completion: a script for bash or zsh, printed once and read by each shell; completing starts no Python.

The library shtab writes it from an argparse parser. `python main.py` and `python -m lun.NAME` begin with the word of
another program, so bash gets a function for `python` besides, which hands on what these commands know.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ldm.errors import Fault
from ldm.missing_packages import install_line
from lun.cli.flags import ALIASES, FLAGS, SHELLS
from lun.cli.taken_flags import flags_taken
from lun.cli.usage import USAGE
from lun.config.reading.presets import presets
from lun.config.trainer_arguments import trainer_arguments
from lun.program import installed_name

_CHOICES = {
    "--scale_lr": ("none", "linear", "sqrt"),
    "--accept-change": ("data", "batch"),
    "--print-completion": SHELLS,
}
_FOLDERS = ("--data_root", "--logdir", "--resume")
_FILES = ("--init-from", "--schema", "--vae", "--adapter", "--extract")
_LINE = re.compile(r"^ +(?:-\w, )?(--[\w-]+)[^\n]*?  +(\S.*)$", re.MULTILINE)
_CONFIGS = dict.fromkeys(SHELLS, "_lun_configs")
_FINDING_CONFIGS = {
    "bash": """
_lun_configs() {{
    compgen -W "{names}" -- "$1"
    compgen -f -X '!*.yaml' -- "$1"
    compgen -f -X '!*.yml' -- "$1"
    compgen -d -S / -- "$1"
}}
""",
    "zsh": """
_lun_configs() {{ _alternative "presets:preset:({names})" "files:file:_files -g '*.y(a|)ml'" }}
""",
}
_BASH_PYTHON = """
_lun_python() {
    local at=1 key=${COMP_WORDS[1]##*/}
    [[ $key == -m ]] && at=2 && key=${COMP_WORDS[2]}
    local completes=_shtab_${key//[^A-Za-z0-9]/_}
    if ((COMP_CWORD > at)) && declare -F "$completes" > /dev/null; then
        COMP_WORDS=("${COMP_WORDS[@]:at}")
        ((COMP_CWORD -= at))
        "$completes"
    fi
}
complete -o default -o bashdefault -F _lun_python python python3
"""


def script(parser: argparse.ArgumentParser, names: Sequence[str], shell: str) -> str:
    """The script by which a shell completes a command that goes by `names`, after `python -m` by the first of them.

    Raises `Fault` DEP01 where shtab is missing.
    """
    try:
        import shtab
    except ImportError as error:
        what = "shell completion needs the package shtab, which is not installed"
        raise Fault("DEP01", what, fix=install_line("shtab")) from error
    parser.prog = names[-1]
    function = re.sub(r"\W", "_", names[0])
    known = " ".join(preset.name for preset in presets())
    preamble = _FINDING_CONFIGS[shell].format(names=known)
    text = shtab.complete(parser, shell, root_prefix=function, preamble=preamble)
    if shell == "bash":
        return f"{text}\ncomplete -o bashdefault -F _shtab_{function} {names[0]}\n{_BASH_PYTHON}"
    return f"{text}\ncompdef _shtab_{function} {' '.join(names)}\n"


def script_of_module(parser: argparse.ArgumentParser, command: str, shell: str) -> str:
    """That of a command that is typed `python -m lun.NAME`, or by its installed name."""
    return script(parser, (command.rpartition(" ")[2], installed_name(command.removeprefix("python "))), shell)


def script_of_training(shell: str, command: str = "") -> str:
    """That of `python main.py`, or of a `command` that takes the same words."""
    parser = _parser_of_training(command)
    return script_of_module(parser, command, shell) if command else script(parser, ("main.py", "lun-train"), shell)


def script_of_usage(
    usage: str, options: Mapping[str, Sequence[str]], switches: Sequence[str], command: str, shell: str
) -> str:
    """That of a command whose words are described by a text.

    options   {name: the values that it takes, none for any}
    switches  options without a value
    """
    parser = argparse.ArgumentParser(add_help=False)
    said = dict(_LINE.findall(usage))
    for name, values in options.items():
        option: Any = parser.add_argument(name, help=said.get(name, ""), choices=tuple(values) or None)
        _complete_paths(option, name)
    for name in switches:
        parser.add_argument(name, action="store_true", help=said.get(name, ""))
    _complete_paths(parser.add_argument("place", nargs="*", help=argparse.SUPPRESS), _FILES[0])
    return script_of_module(parser, command, shell)


def _parser_of_training(command: str) -> argparse.ArgumentParser:
    """The options that a command takes, as argparse knows them; what reads the line is `lun.cli.parser`."""
    parser = argparse.ArgumentParser("lun-train", add_help=False)
    said = dict(_LINE.findall(USAGE))
    for name in flags_taken(command):
        _add(parser, name, said.get(name, ""))
    for name in sorted(trainer_arguments()):
        if f"--{name}" not in FLAGS:
            parser.add_argument(f"--{name}", help="an argument of lightning.Trainer")
    return parser


def _add(parser: argparse.ArgumentParser, name: str, said: str) -> None:
    names = [*(alias for alias, full in ALIASES.items() if full == name), name]
    if name in FLAGS and FLAGS[name].value == "none":
        parser.add_argument(*names, action="store_true", help=said)
        return
    many: dict[str, Any] = {"nargs": "*"} if name == "--base" else {}
    option: Any = parser.add_argument(*names, help=said, choices=_CHOICES.get(name), **many)
    if name == "--base":
        option.complete = _CONFIGS
    else:
        _complete_paths(option, name)


def _complete_paths(option: Any, name: str) -> None:
    if name in (*_FOLDERS, *_FILES):
        import shtab

        option.complete = shtab.DIRECTORY if name in _FOLDERS else shtab.FILE
