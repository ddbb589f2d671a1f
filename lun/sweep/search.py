"""A search by Optuna: each trial is drawn by what came of those before, and kept in the folder of the sweep."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import Fault
from ldm.missing_packages import install_line
from lun.sweep.ranges import NumberRange
from lun.sweep.running import Launch, advance
from lun.sweep.sweep_folder import STOPPED, SweepFolder
from lun.sweep.trials import Space, Trial, VariedSetting

if TYPE_CHECKING:
    import optuna

FILE = "search.log"
STUDY = "sweep"


def require_optuna() -> None:
    """Raise `Fault` DEP01 where Optuna is missing."""
    if find_spec("optuna") is None:
        raise Fault("DEP01", "a search needs the package optuna", where="--search", fix=install_line("optuna"))


class Search:
    """An Optuna study in `search.log` of a folder, which optuna-dashboard opens too.

    Draws depend on the number of a trial and on those before it alone, so that an interruption changes none (TPE:
    Bergstra et al. 2011, "Algorithms for Hyper-Parameter Optimization").
    """

    def __init__(self, folder: Path, space: Space, metric: str, maximize: bool, only_read: bool = False) -> None:
        """Open the study, or begin it unless `only_read`.

        Raises `Fault` CFG01 for a file that cannot be read, CLI03 where the folder holds a search for something else;
        OSError.
        """
        self.space = space
        file = folder / FILE
        try:
            self._study = _read(file) if only_read else _begun(file, maximize)
        except (ValueError, LookupError, TypeError) as error:
            fix = f"move {file} away, or another -o"
            raise Fault("CFG01", f"{file} cannot be read as a search", where="-o", why=str(error), fix=fix) from error
        asked = {"words": list(space.words), "metric": metric, "maximize": maximize}
        if not self._study.trials and not only_read:
            self._study.set_user_attr("asked", asked)
        was = self._study.user_attrs.get("asked", {})
        if changed := [name for name in asked if was.get(name) != asked[name]]:
            what = f"the search in {folder} is another: {changed[0]} differs"
            why = f"it began with {json.dumps(was.get(changed[0]))}"
            raise Fault("CLI03", what, where="-o", why=why, fix="the words that it began with, or another -o")

    def trials(self) -> list[Trial]:
        """All that were drawn, each once, in their order."""
        drawn = [self._trial(one.params) for one in self._study.trials if self._is_whole(one)]
        return list(dict.fromkeys(drawn))

    @property
    def ended(self) -> int:
        """How many trials have ended."""
        return sum(one.state.is_finished() for one in self._study.trials if self._is_whole(one))

    def draw(self) -> tuple[int, Trial]:
        """The trial that was interrupted, else a further one, with Optuna's number for it."""
        import optuna

        for one in self._study.trials:
            if one.state == optuna.trial.TrialState.RUNNING:
                if self._is_whole(one):
                    return one.number, self._trial(one.params)
                self._study.tell(one.number, state=optuna.trial.TrialState.FAIL)  # killed while it was drawn
        self._study.sampler = optuna.samplers.TPESampler(seed=len(self._study.trials))
        drawn = self._study.ask({axis.key: _distribution(axis) for axis in self.space.axes})
        return drawn.number, self._trial(drawn.params)

    def record(self, number: int, value: float | None) -> None:
        """What came of a trial: a value of the metric, None where it failed."""
        import optuna

        if value is None:
            self._study.tell(number, state=optuna.trial.TrialState.FAIL)
        else:
            self._study.tell(number, value)

    def _is_whole(self, drawn: optuna.trial.FrozenTrial) -> bool:
        return drawn.params.keys() == {axis.key for axis in self.space.axes}

    def _trial(self, params: dict[str, str | int | float]) -> Trial:
        return self.space.trial({key: str(value) for key, value in params.items()})


def run_search(
    folder: SweepFolder, search: Search, count: int, launch: Launch, value: Callable[[Trial], float | None]
) -> int | None:
    """Run trials until `count` have ended; the exit code of one that was asked to stop, which the next search resumes.

    value   of the metric, of a trial that ended well; what it raises ends the search and leaves the trial unrecorded
    """
    while (ended := search.ended) < count:
        number, trial = search.draw()
        if (code := advance(folder, trial, launch, f"{ended + 1} of {count}")) in STOPPED:
            return code
        search.record(number, value(trial) if folder.exit_code(trial) == 0 else None)
    return None


def _distribution(axis: VariedSetting) -> optuna.distributions.BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(axis.values, NumberRange):
        return CategoricalDistribution(axis.values)
    low, high, log = axis.values.low, axis.values.high, axis.values.log
    return IntDistribution(int(low), int(high), log) if axis.values.is_whole else FloatDistribution(low, high, log)


def _begun(file: Path, maximize: bool) -> optuna.Study:
    """The study in a file, which is made where it is not there; the folder is to be this process's alone."""
    import optuna

    file.with_name(file.name + ".lock").unlink(missing_ok=True)  # of one that was killed; Optuna would wait 30 s
    _cut_torn_line(file)
    direction = "maximize" if maximize else "minimize"
    return optuna.create_study(storage=_storage(file), study_name=STUDY, direction=direction, load_if_exists=True)


def _read(file: Path) -> optuna.Study:
    import optuna

    return optuna.load_study(storage=_storage(file), study_name=STUDY)


def _storage(file: Path) -> optuna.storages.JournalStorage:
    import optuna
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.storages.JournalStorage(JournalFileBackend(str(file), JournalFileOpenLock(str(file))))


def _cut_torn_line(file: Path) -> None:
    """Take away what a kill left of a line, to which the next would be joined."""
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return
    if not text.endswith(b"\n"):
        with file.open("r+b") as kept:
            kept.truncate(text.rfind(b"\n") + 1)
