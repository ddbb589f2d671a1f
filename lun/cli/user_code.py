"""The person's own code: the drawer `lun/local` where the program is started, and packages named with `--allow`.

The folder that one happens to stand in is not on the import path: a folder of pictures that somebody shared could hold
an `accelerate.py`, which a library would import in good faith.
"""

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from ldm.admission import DRAWER, grant
from ldm.families.installed import path_of

log = logging.getLogger(__name__)


def _forget(package: str) -> None:
    """Let the next import look anew: what was imported is that of another folder."""
    for name in [name for name in sys.modules if name == package or name.startswith(package + ".")]:
        del sys.modules[name]


class OwnCode:
    """Finds the drawer and the allowed packages in one folder, by their names and nothing else there."""

    def __init__(self, home: Path, packages: Sequence[str]) -> None:
        self.packages = tuple(packages)
        self.found: set[str] = set()
        self.places = {name.partition(".")[0]: home for name in packages} | {DRAWER: home / "lun"}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of this name; None for all others, which Python then looks for as usual."""
        place = self.places.get(name)
        if place:
            self.found.add(name)
        return PathFinder.find_spec(name, [str(place)]) if place else None


def warn_of_unused(config: Any) -> None:
    """Say which packages of `--allow` no target of the configuration lies in and nothing else has imported."""
    targets = set(_targets(config))
    for own in (finder for finder in sys.meta_path if isinstance(finder, OwnCode)):
        for name in own.packages:
            imported = name.partition(".")[0] in own.found
            if not imported and not any(f"{path}.".startswith(f"{name}.") for path in targets):
                log.info("note: --allow %s: no target of the configuration lies in it", name)


def _targets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if isinstance(value.get("target"), str):
            yield value["target"]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _targets(inner)


def admit_user_code(packages: Sequence[str] = (), home: Path | None = None, *, families: Sequence[str] = ()) -> None:
    """Let a configuration name what lies in the drawer of `home` (the working directory) and in `packages`.

    Both come after all that is installed, so that they hide nothing of the program's. It holds until the next call.

    families  import paths of `ldm.families.record.Family`, or words of installed packages for them, which models are
              then recognised by; what a package of one holds is admitted as well. Raises `Fault` CFG04 for what is none
    """
    home = home or Path.cwd()
    paths = [path_of(name) for name in families]
    packages = [*packages, *(name for path in paths if (name := path.partition(".")[0]) != "lun")]
    before = [finder for finder in sys.meta_path if isinstance(finder, OwnCode)]
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in before]
    sys.meta_path.append(OwnCode(home, packages))
    if any(finder.places[DRAWER] != home / "lun" for finder in before):
        _forget(DRAWER)
    grant(packages)
    if packages:
        log.info("allow    a config may run code of %s", ", ".join(packages))
    if paths:
        from ldm.families.registry import register_named  # torch, which takes seconds

        for path in paths:
            log.info("family   %s, by %s", register_named(path).title, path)
