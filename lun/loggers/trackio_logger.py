"""Metrics, settings and samples to trackio (github.com/gradio-app/trackio), which keeps them on this machine."""

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from PIL import Image

from lun.loggers.jsonl import plain


class TrackioLogger(Logger):
    """Logs to `trackio`, whose pages `trackio show` serves on this machine. A resumed run goes on under its name.

    project   under which runs are compared
    run_name  by default that of the run directory
    space_id  of a Hugging Face Space that metrics are sent to; null sends nothing anywhere
    """

    def __init__(self, project: str = "lun", run_name: str | None = None, space_id: str | None = None) -> None:
        super().__init__()
        self.project = project
        self.run_name = run_name
        self.space_id = space_id
        self._run: Any = None
        self._config: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return self.project

    @property
    def version(self) -> str:
        return self.run_name or ""

    @property
    def experiment(self) -> Any:
        """The run of trackio, begun when it is first asked for."""
        if self._run is None:
            import trackio

            self._run = trackio.init(
                project=self.project,
                name=self.run_name,
                space_id=self.space_id,
                config=self._config or None,
                resume="allow",
                embed=False,
            )
        return self._run

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Given as the run begins, so that later ones have no effect."""
        self._config |= vars(params) if isinstance(params, Namespace) else params
        _ = self.experiment

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        self.experiment.log({name: plain(value) for name, value in metrics.items()}, step=step)

    @rank_zero_only
    def log_image(self, key: str, images: Sequence[Image.Image], step: int | None = None) -> None:
        """Pictures under one name, as Lightning's WandbLogger takes them."""
        import trackio

        names = [key] if len(images) == 1 else [f"{key}/{number}" for number in range(len(images))]
        logged = {name: trackio.Image(one) for name, one in zip(names, images, strict=True)}
        self.experiment.log(logged, step=step)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None
