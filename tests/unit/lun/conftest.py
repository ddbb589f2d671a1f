"""A training of three weights, for tests of what happens around its steps."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from ldm.lightning_classes import as_lightning
from ldm.models.base_weights import BaseWeights
from ldm.position import Position
from ldm.training.clipping import GradientNorm
from ldm.training.split_weights import SplitWeights
from lun.loop.position_callback import FollowPosition

N = 11
BATCH = 2


class Numbers(Dataset):
    def __len__(self) -> int:
        return N

    def __getitem__(self, index: int) -> Tensor:
        return torch.randn(3, generator=torch.Generator().manual_seed(index))


class Slots:
    """Batches of indices from the position on; read when the loader starts, as a resumed run needs it."""

    def __init__(self, position: Position, batches: int) -> None:
        self.position = position
        self.batches = batches

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        slot = self.position.slot
        while True:
            yield [(slot + lane) * 7 % N for lane in range(BATCH)]
            slot += BATCH


class TinyModule(LightningModule):
    def __init__(self, manual: bool = False, accumulate: int = 1) -> None:
        super().__init__()
        self.automatic_optimization = not manual
        self.accumulate_grad_batches = accumulate
        self.position = Position()
        self.model_ema = None
        self.base, self.split_weights = BaseWeights(), SplitWeights()
        self.gradient_norm = GradientNorm()
        self.seed = 0
        self.net = nn.Linear(3, 1)
        nn.init.constant_(self.net.weight, 0.5)
        nn.init.zeros_(self.net.bias)
        self.second = nn.Parameter(torch.ones(2)) if manual else None
        self.validated: list[int] = []
        self.seen: list[tuple[int, float]] = []

    def window_completed(self, examples: int) -> None:
        self.position.advance(examples)

    def configure_optimizers(self) -> Any:
        main = torch.optim.AdamW(self.net.parameters(), lr=0.05)
        if self.second is not None:
            return [main, torch.optim.AdamW([self.second], lr=0.05)]
        schedule = torch.optim.lr_scheduler.LambdaLR(main, lambda step: 1 / (1 + step))
        return {"optimizer": main, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor | None:
        self.seen.append((self.position.step, float(batch.sum())))
        loss = (self.net(batch) - 1).square().mean()
        if self.second is None:
            return loss
        self.manual_backward((loss + self.second.square().sum()) / self.accumulate_grad_batches)
        if (batch_idx + 1) % self.accumulate_grad_batches == 0:
            for optimizer in self.optimizers():
                optimizer.step()
                optimizer.zero_grad()
        return None

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        self.log("val/loss", (self.net(batch) - 1).square().mean())

    def on_validation_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.validated.append(self.position.step)


class TinyData(LightningDataModule):
    def __init__(self, module: TinyModule, accumulate: int, batches: int) -> None:
        super().__init__()
        self.position = module.position
        self.global_batch = BATCH * accumulate
        self.batches = batches

    @property
    def epoch(self) -> int:
        return self.position.slot // N

    def state_dict_of_data(self) -> dict[str, int | str]:
        return {"n": N, "global_batch": self.global_batch, "fingerprint": "f00d", "seed": 0}

    def files(self, micro: int | None = None, slot: int | None = None) -> list[str]:
        start = self.position.slot if slot is None else slot
        micros = range(self.global_batch // BATCH) if micro is None else [micro]
        return [f"{start + number * BATCH + lane}.png" for number in micros for lane in range(BATCH)]

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Numbers(), batch_sampler=Slots(self.position, self.batches))

    def val_dataloader(self) -> DataLoader:
        return DataLoader(Numbers(), batch_size=4)


@dataclass
class Training:
    trainer: Trainer
    module: TinyModule
    data: TinyData
    follow: FollowPosition

    def fit(self, resume: Path | None = None) -> "Training":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Lightning's advice about workers
            self.trainer.fit(self.module, datamodule=self.data, ckpt_path=resume, weights_only=True)
        return self


@pytest.fixture
def training(tmp_path: Path) -> Callable[..., Training]:
    """Build a training of `steps` optimizer steps with `callbacks` in the run directory `tmp_path`."""

    def build(
        steps: int,
        *callbacks: Callback,
        accumulate: int = 1,
        manual: bool = False,
        validate_every: int | None = None,
        attempt: int = 1,
        slot: int | None = None,
        module: TinyModule | None = None,
        **arguments: Any,
    ) -> Training:
        module = module or TinyModule(manual, accumulate)
        data = TinyData(module, accumulate, steps * accumulate)
        follow = FollowPosition(attempt=attempt, resumed_from="checkpoints/x.ckpt" if attempt > 1 else None, slot=slot)
        defaults: dict[str, Any] = {
            "accelerator": "cpu",
            "devices": 1,
            "max_epochs": -1,
            "max_steps": steps * (2 if manual else 1),
            "accumulate_grad_batches": 1 if manual else accumulate,
            "val_check_interval": (validate_every or 1) * accumulate,
            "check_val_every_n_epoch": None,
            "limit_val_batches": 1.0 if validate_every else 0,
            "num_sanity_val_steps": 1,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "use_distributed_sampler": False,
            "default_root_dir": tmp_path,
        }
        trainer = Trainer(**defaults | arguments, callbacks=[as_lightning(one) for one in (follow, *callbacks)])
        return Training(trainer, module, data, follow)

    return build


@pytest.fixture
def tiny_module() -> type[TinyModule]:
    return TinyModule
