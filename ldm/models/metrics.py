"""Numbers of one's own beside the losses: callables that a configuration names, averaged as exactly as those."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.objective import Losses
from ldm.errors import Fault

WHERE = "model.params.metrics"
TAKEN = ("loss", "loss_simple")


class Examples(Protocol):
    """A batch that a model has worked on."""

    @property
    def x0(self) -> Tensor:
        """(b, c, h, w) what the model was given."""


M = TypeVar("M", bound=Examples, contravariant=True)


@dataclass(frozen=True)
class Measured:
    """A batch whose losses are known.

    model   the diffusion model: `model.model(x_t, t, cond)` is its network, `model.objective` its path and prediction,
            `model.decode(x0)` gives pictures; `model.training` says whether this is a step of training
    batch   as the data module gave it
    x0      (b, c, h, w) clean inputs, latents or pixels
    cond    their conditioning
    draws   random draws by name, keyed by the examples: the same for raw and averaged weights
    losses  per example, without a graph
    """

    model: Any
    batch: Mapping[str, Any]
    x0: Tensor
    cond: Conditioning
    draws: BatchDraws
    losses: Losses


class Metric(Protocol[M]):
    """A number for each example of a batch, (b,), which is logged as the mean over all examples and ranks.

    In training over each window, as `train/NAME`; over each validation as `val/NAME`, and `val/NAME_ema` for averaged
    weights. It must leave what it is given as it is; what it draws from torch's generators changes nothing of the run.
    """

    def __call__(self, measured: M, /) -> Tensor: ...


class Metrics(Generic[M]):
    """The metrics of a configuration by name. Raises `Fault` CFG03 for a name in `taken`, which the model logs."""

    def __init__(self, metrics: Mapping[str, Metric[M]], taken: Sequence[str] = TAKEN) -> None:
        for name in metrics:
            if any(fnmatchcase(name, pattern) for pattern in taken):
                raise Fault("CFG03", f"{name} is a metric of every model", where=f"{WHERE}.{name}", fix="another name")
        self._metrics = dict(metrics)

    def __call__(self, measured: M) -> dict[str, Tensor]:
        """Each metric's numbers, (b,) float32 on the device of x0. Raises `Fault` CFG08 for one of another shape."""
        if not self._metrics:
            return {}
        x0 = measured.x0
        with torch.no_grad(), torch.random.fork_rng([x0.device] if x0.device.type == "cuda" else []):
            values = {name: metric(measured) for name, metric in self._metrics.items()}
        for name, numbers in values.items():
            if not isinstance(numbers, Tensor) or numbers.shape != (len(x0),):
                given = tuple(numbers.shape) if isinstance(numbers, Tensor) else type(numbers).__name__
                what = f"the metric {name} gave {given} for {len(x0)} examples"
                raise Fault("CFG08", what, where=f"{WHERE}.{name}", fix="one number an example: a tensor (b,)")
        return {name: numbers.detach().float().to(x0.device) for name, numbers in values.items()}


def measure(
    model: Any, x0: Tensor, cond: Conditioning, draws: BatchDraws, batch: Mapping[str, Any]
) -> tuple[Losses, dict[str, Tensor]]:
    """A model's losses of x0 (b, c, h, w), and the metrics of its configuration: {name: (b,)}.

    The losses go to the model's `examples`, for who watches single ones.
    """
    losses: Losses = model.losses(x0, cond, draws, batch)
    without_graph = Losses(losses.t, losses.simple.detach(), losses.weighted.detach())
    metrics: Metrics[Measured] = model.metrics
    measured = Measured(model, batch, x0, cond, draws, without_graph)
    model.examples.add(measured)
    return losses, metrics(measured)
