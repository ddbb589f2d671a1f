"""One save, seen from all ranks: are the weights worth keeping, and did the file get written."""

from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from torch.nn.utils import get_total_norm

from ldm.errors import Fault
from ldm.lightning_classes import LightningModule, Trainer, as_lightning
from ldm.shell import quoted
from lun.checkpoints.atomic import AtomicIO, clean_leftovers
from lun.loop.lightning_internals import dump_checkpoint, trainer_of
from lun.loop.position_callback import follower


def prepare_saving(trainer: Trainer, directory: Path) -> None:
    """Put `AtomicIO` in the place of Lightning's own writer and clear what killed writers left below `directory`."""
    from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

    if type(trainer.strategy.checkpoint_io) is TorchCheckpointIO:
        trainer.strategy.checkpoint_io = as_lightning(AtomicIO())
    if _in_parts(trainer) and not isinstance(trainer.strategy.checkpoint_io, AtomicIO):
        raise Fault(
            "CFG08",
            f"{type(trainer.strategy.checkpoint_io).__name__} cannot write checkpoints in parts",
            where="lightning.trainer.plugins",
            fix="leave it out, or lightning.trainer.strategy.params.save_distributed_checkpoint=false",
        )
    if trainer.is_global_zero:
        clean_leftovers(directory)


def run_directory(trainer: Trainer) -> Path:
    return Path(trainer.default_root_dir)


def relative(trainer: Trainer, path: Path) -> str:
    """`path` as a person sees it: below the run directory where it lies there."""
    root = run_directory(trainer)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def weights_are_finite(pl_module: LightningModule) -> bool:
    """Whether no trained weight is NaN or infinite: one norm over all of them. Collective where weights are sharded."""
    strategy = getattr(trainer_of(pl_module), "strategy", None)
    source = getattr(strategy, "ema_source", None)  # parameters may be empty then: each rank looks at what it holds
    weights = [weight for weight in pl_module.parameters() if weight.requires_grad]
    held = weights if source is None else source.tensors().values()
    finite = bool(get_total_norm([weight.detach() for weight in held]).isfinite())
    return finite if strategy is None or source is None else bool(strategy.reduce_boolean_decision(finite))


def try_without_asking(trainer: Trainer) -> None:
    """Let the next save try its luck, however little space the system says is free: some systems do not know."""
    if isinstance(trainer.strategy.checkpoint_io, AtomicIO):
        trainer.strategy.checkpoint_io.expected = 0


def write_checkpoint(trainer: Trainer, path: Path) -> OSError | RuntimeError | None:
    """Save the whole training state to `path` (rank 0's counts); all ranks call it, rank 0 writes, or each its part.

    A file that cannot be written is no reason to end a run: the error is returned, on all ranks, and the old file is as
    it was. Errors in gathering the state are raised.
    """
    path = Path(trainer.strategy.broadcast(str(path)))
    failure: OSError | RuntimeError | None = None
    with as_shards(trainer) if _in_parts(trainer) else nullcontext():
        checkpoint = dump_checkpoint(trainer)
        try:
            trainer.strategy.save_checkpoint(checkpoint, path)
        except (OSError, RuntimeError) as error:
            failure = error
    reason = trainer.strategy.broadcast(None if failure is None else cause(failure))
    return failure if failure is not None or reason is None else OSError(reason)


def as_shards(trainer: Trainer) -> AbstractContextManager[None]:
    """Within it, states of what lies on several ranks are on each what it holds (`lun.strategies`); nothing is sent."""
    states = getattr(trainer.strategy, "states", None)
    shards: AbstractContextManager[None] = nullcontext() if states is None else states.as_shards()
    return shards


def _in_parts(trainer: Trainer) -> bool:
    """Whether each rank writes the weights that it holds, as the strategy's `save_distributed_checkpoint` says."""
    return bool(getattr(trainer.strategy, "saves_in_parts", False))


def begin_checkpoint(trainer: Trainer, path: Path) -> "Future[None]":
    """As `write_checkpoint`, but rank 0 writes a copy of the state in the background; errors are in the future."""
    checkpoint = dump_checkpoint(trainer)
    writer = trainer.strategy.checkpoint_io
    if not trainer.is_global_zero:
        nothing: Future[None] = Future()
        nothing.set_result(None)
        return nothing
    assert isinstance(writer, AtomicIO)
    return writer.background.write(writer.save_checkpoint, checkpoint, path)


def require_background(trainer: Trainer) -> None:
    """Raise `Fault` CFG08 where ranks write parts of a checkpoint together, which cannot go on beside training."""
    from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy

    alone = isinstance(trainer.strategy, SingleDeviceStrategy | DDPStrategy) and not _in_parts(trainer)
    if alone and isinstance(trainer.strategy.checkpoint_io, AtomicIO):
        return
    raise Fault(
        "CFG08",
        f"checkpoints cannot be written in the background under {type(trainer.strategy).__name__}",
        where="lightning.callbacks: async_save of a checkpoint",
        why="all ranks write their parts of it together",
        fix="async_save: false",
    )


def cause(error: BaseException) -> str:
    """What the system said: torch's zip writer hides a full disk behind a RuntimeError, which holds the first error."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError):
            return inner.strerror or str(inner)
        inner = inner.__cause__ or inner.__context__
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def not_finite(trainer: Trainer, step: int) -> Fault:
    """TRN01 for weights that are spoilt already."""
    return Fault(
        "TRN01",
        f"weights became NaN or infinite by step {step}; stopped without saving them",
        why=f"the learning rate is too high for this model, batch and precision; {kept_file(trainer)}",
        fix="a lower model.base_learning_rate, or precision bf16-mixed, or lightning.trainer.gradient_clip_val=1.0"
        + resume_from(trainer),
    )


def kept_file(trainer: Trainer) -> str:
    """`checkpoints/every-2k-steps.ckpt (finite) is kept`: the newest file that this process knows to be good."""
    kept = _kept(trainer)
    return f"{kept} (finite) is kept" if kept else "nothing was saved before"


def resume_from(trainer: Trainer) -> str:
    """How to go on from that file, as the end of a fix; empty where there is none."""
    kept = _kept(trainer)
    return f";  then --resume {quoted(run_directory(trainer) / kept)}" if kept else ""


def _kept(trainer: Trainer) -> str | None:
    written = getattr(trainer.strategy.checkpoint_io, "written", None)
    return relative(trainer, written) if written else follower(trainer).resumed_from


def could_not_save(trainer: Trainer, path: Path, failure: BaseException, then: str) -> Fault:
    """DSK01 for a file that was not written; `then` says what follows."""
    return Fault(
        "DSK01",
        f"could not save {relative(trainer, path)}: {cause(failure)}",
        why=f"a file of that name from before is as it was; {then}",
        fix="make room, or keep fewer: lightning.callbacks.periodic_checkpoint.params.save_top_k=2",
    )
