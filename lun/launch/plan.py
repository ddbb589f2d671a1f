"""What a run is going to do, in a few lines: shown before training, and instead of it without `-t`."""

from collections.abc import Iterable
from dataclasses import dataclass

from ldm.models.parts import PartSize


@dataclass(frozen=True)
class Plan:
    """Everything that a person should know before the first step."""

    configs: tuple[str, ...]
    overrides: int
    data: str
    n: int
    n_validation: int | None
    model: str
    parts: tuple[PartSize, ...]
    batch_size: int
    accumulate: int
    devices: int
    max_steps: int
    rate: str

    def lines(self) -> list[str]:
        return [f"{label:<8} {text}" for label, text in self._rows()]

    def _rows(self) -> Iterable[tuple[str, str]]:
        settings = f" < command line ({self.overrides} settings)" if self.overrides else ""
        yield "config", " < ".join(self.configs) + settings
        validation = "no validation" if self.n_validation is None else f"{self.n_validation:,} for validation"
        yield "data", f"{self.data}: {self.n:,} images, {validation}"
        yield "model", f"{self.model}: " + " · ".join(self._part(part) for part in self.parts)
        yield "steps", self._steps()
        yield "rate", self.rate

    def _part(self, part: PartSize) -> str:
        return f"{part.name} {part.parameters / 1e6:.2f} M {'trained' if part.trained else 'frozen'}"

    def _steps(self) -> str:
        images = self.batch_size * self.accumulate * self.devices
        product = f"batch {self.batch_size} x accumulate {self.accumulate} x devices {self.devices}"
        rate = f"{product} = {images} images a step, {self.n / images:.1f} steps an epoch"
        if self.max_steps < 0:
            return f"{rate}; until the time limit"
        return f"{self.max_steps:,} steps = {self.max_steps * images / self.n:.1f} epochs; {rate}"
