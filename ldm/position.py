"""Where training stands: the one counter that everything else follows."""

from dataclasses import asdict, dataclass


@dataclass
class Position:
    """Completed work. Moves only when an accumulation window is complete, after optimizer and EMA.

    step    completed accumulation windows of the main optimizer, those that an fp16 scaler skipped included
    slot    examples of the endless, shuffled sequence that were consumed; says which example comes next
    images  examples seen by the network in all (differs from `slot` once a run went on with other data)
    """

    step: int = 0
    slot: int = 0
    images: int = 0

    def advance(self, examples: int) -> None:
        """Count one completed window of `examples` examples over all ranks and micro-batches."""
        self.step += 1
        self.slot += examples
        self.images += examples

    def state_dict(self) -> dict[str, int]:
        return asdict(self)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Take over a stored position in place, since sampler, model and callbacks share this object."""
        for name, value in state.items():
            setattr(self, name, int(value))
