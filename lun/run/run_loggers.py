"""The loggers of a run: where they write, and what they get of its settings."""

import inspect
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.lightning_classes import Logger
from ldm.util import Recipe, instantiate_from_config

log = logging.getLogger(__name__)

PACKAGES = ("aim", "comet_ml", "mlflow", "neptune", "trackio", "wandb")
OWN_ERRORS = ("Error", "MlflowException")
"""What the packages of loggers call the base of all that they raise."""


def build_loggers(recipes: Mapping[str, Recipe | None], run: Path) -> list[Logger]:
    """The configured loggers, writing below the run directory and under its name unless they say where."""
    return [_build_logger(recipe, run) for recipe in recipes.values() if recipe is not None]


def _build_logger(recipe: Recipe, run: Path) -> Logger:
    names = inspect.signature(admitted(recipe["target"])).parameters
    given = {name: str(run) for name in ("save_dir", "root_dir") if name in names}
    given |= {name: run.name for name in ("run_name", "id") if name in names}
    if "id" in names and "name" in names:  # W&B, where a name is only what is shown
        given["name"] = run.name
    params = given | dict(recipe.get("params") or {})
    logger: Logger = instantiate_from_config({"target": recipe["target"], "params": params})
    return logger


def log_settings(loggers: list[Logger], config: Mapping[str, Any]) -> None:
    """Give each logger the settings of the run, with which it begins.

    TensorBoard gets none: its page of them would show a metric that there is not, and the run directory has them.
    Raises `Fault` CFG08 for a service that refuses.
    """
    from lightning.pytorch.loggers import TensorBoardLogger

    for logger in loggers:
        if isinstance(logger, TensorBoardLogger):
            continue
        try:
            logger.log_hyperparams(dict(config))
        except _service_errors() as error:
            kind = type(logger).__name__
            why = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
            fix = "log in to its service, or let it write here: docs/loggers.md"
            raise Fault("CFG08", f"{kind} cannot begin", where="lightning.logger", why=why, fix=fix) from error


def close_loggers(loggers: Sequence[Logger], code: int) -> None:
    """Let those write down what they hold that would do so as the process ends: here it is left at once.

    A service that fails now costs a warning, never what the run has saved.
    """
    from lightning.pytorch.loggers import WandbLogger

    for logger in loggers:
        try:
            if isinstance(logger, WandbLogger):
                logger.experiment.finish(exit_code=code)
            elif type(logger).__module__.partition(".")[0] == "aim":
                logger.finalize("")  # again, since asking it for its version began it anew
        except _service_errors() as error:
            log.warning("%s did not end as it should: %s", type(logger).__name__, error)


def _service_errors() -> tuple[type[Exception], ...]:
    """What a service raises that cannot be reached or refuses, and the errors of those packages that are imported."""
    modules = [sys.modules.get(package) for package in PACKAGES]
    found = [getattr(module, name, None) for module in modules for name in OWN_ERRORS]
    own = [one for one in found if isinstance(one, type) and issubclass(one, Exception)]
    return OSError, RuntimeError, ValueError, TypeError, *own
