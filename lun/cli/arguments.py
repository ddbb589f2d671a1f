"""What a command line says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Arguments:
    """The parsed command line; `overrides` are `key.sub=value` and `~key.sub` in the order in which they were given."""

    base: tuple[str, ...] = ()
    train: bool = False
    resume: str | None = None
    init_from: str | None = None
    name: str | None = None
    postfix: str = ""
    logdir: str = "logs"
    seed: int | None = None
    project: str | None = None
    debug: bool = False
    scale_lr: str | None = None
    """`none`, `linear` or `sqrt`; None where the flag was not given."""
    no_test: bool = False
    data_root: tuple[str, ...] = ()
    """DIR, or NAME=DIR for each of several sets."""
    datadir_in_name: bool | None = None
    """None, where the flag was not given, means where `--data_root` was."""
    demo: bool = False
    """Below the configs of `base` lies the demo's, and without `--train false` it is trained."""
    check: bool = False
    doctor: bool = False
    new: bool = False
    probe: bool = False
    print_config: bool = False
    list_presets: bool = False
    schema: str | None = None
    """A file to write the JSON Schema of configurations to; '' for the terminal."""
    print_completion: str | None = None
    """`bash` or `zsh`."""
    accept_change: tuple[str, ...] = ()
    time_limit: int | None = None
    """Seconds."""
    fit: float | None = None
    """GiB; 0 is what the card has."""
    allow: tuple[str, ...] = ()
    family: tuple[str, ...] = ()
    """Import paths of families of models."""
    take_over: bool = False
    help: bool = False
    version: bool = False
    overrides: tuple[str, ...] = ()
