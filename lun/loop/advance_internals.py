"""A step of Lightning's training loop without what a plain run does not use. Tried with Lightning 2.6.6.

In every step Lightning looks up each hook of each callback anew, most of which nobody implements, and puts a profiler's
context around each, asks eight times in which stage it is, and works out numbers that nobody logged: 0.5 ms, and more
with every callback. `Advance` does the same things in the same order, and asks only whom there is to ask. Where a run
is not plain (see `is_plain`), Lightning's own step is taken: both leave the same weights, counters and order of hooks.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loops.fetchers import _DataLoaderIterDataFetcher
from lightning.pytorch.loops.optimization.automatic import Closure, ClosureResult
from lightning.pytorch.loops.utilities import _block_parallel_sync_behavior
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from lightning.pytorch.profilers import PassThroughProfiler
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy, Strategy
from torch import Tensor
from torch.optim import Optimizer

from lun.loop.lightning_internals import EPOCH_LOOP, inside

NAME = "_current_fx_name"
TRANSFER = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")
CALLBACKS = (
    "on_train_batch_start",
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_end",
)
OF_MODULE = (*CALLBACKS, "optimizer_zero_grad")


def quicken(trainer: Trainer) -> None:
    """Let the epoch loop take its steps by `Advance`; called where training starts, anew for every fit."""
    loop = inside(trainer, EPOCH_LOOP)
    for name in ("advance", "on_advance_end"):
        vars(loop).pop(name, None)
    vars(trainer.precision_plugin).pop("_after_closure", None)
    if not is_plain(trainer):
        return
    advance = Advance(trainer, loop)
    vars(loop)["advance"] = advance
    vars(loop)["on_advance_end"] = advance.end
    vars(trainer.precision_plugin)["_after_closure"] = advance.after_closure


def is_plain(trainer: Trainer) -> bool:
    """Whether one optimizer steps by itself on one device or under DDP, without a loss scale and a profiler."""
    strategy, precision = trainer.strategy, trainer.precision_plugin
    kind = type(precision)
    return (
        trainer.lightning_module.automatic_optimization
        and len(trainer.optimizers) == 1
        and isinstance(strategy, SingleDeviceStrategy | DDPStrategy)
        and not strategy.handles_gradient_accumulation
        and type(strategy).backward is Strategy.backward
        and type(strategy).batch_to_device is Strategy.batch_to_device
        and getattr(precision, "scaler", None) is None
        and kind.pre_backward in (Precision.pre_backward, MixedPrecision.pre_backward)
        and kind.post_backward is Precision.post_backward
        and kind._after_closure is Precision._after_closure
        and kind._clip_gradients is Precision._clip_gradients
        and type(trainer.profiler) is PassThroughProfiler
    )


class Hooks:
    """The hooks of a trainer's callbacks and of its module that do anything, in Lightning's order.

    Each runs under its profiling mark, by which the pace of training and what goes on are known.
    """

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.module = trainer, trainer.lightning_module
        self._callbacks: list[Callback] = []
        self._table: dict[str, list[tuple[str, Any]]] = {}
        self.does = {name: _does(self.module, name, LightningModule) for name in OF_MODULE}
        self._named: dict[str, Any] = vars(self.module)  # nn.Module takes 5 us to set an attribute

    def call(self, name: str, *args: Any) -> Any:
        """The callbacks' hooks, then the module's, whose answer is returned."""
        self.of_callbacks(name, *args)
        return self.of_module(name, *args) if self.does[name] else None

    def of_callbacks(self, name: str, *args: Any) -> None:
        if self.trainer.callbacks != self._callbacks:
            self._look_up()
        if not (hooks := self._table[name]):
            return
        profiler = self.trainer.profiler
        before, self._named[NAME] = self._named[NAME], name
        for action, hook in hooks:
            profiler.start(action)
            try:
                hook(self.trainer, self.module, *args)
            finally:
                profiler.stop(action)
        self._named[NAME] = before

    def of_module(self, name: str, *args: Any, **named: Any) -> Any:
        """A hook of the module, within which it may log."""
        return self.named(name, getattr(self.module, name), *args, **named)

    def named(self, name: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """What the function gives, while the module takes it for the hook `name`, by which logging goes."""
        before, self._named[NAME] = self._named[NAME], name
        answer = function(*args, **named)
        self._named[NAME] = before
        return answer

    def _look_up(self) -> None:
        self._callbacks = list(self.trainer.callbacks)
        self._table = {
            name: [
                (f"[Callback]{one.state_key}.{name}", getattr(one, name))
                for one in self._callbacks
                if _does(one, name, Callback)
            ]
            for name in CALLBACKS
        }


def _does(owner: Any, name: str, base: type) -> bool:
    """Whether a hook is more than what its base class has, which is nothing."""
    return getattr(getattr(owner, name), "__func__", None) is not getattr(base, name)


def _is_zeroed(optimizer: Optimizer) -> bool:
    """Whether an optimizer has nothing to zero, which takes torch 50 us to find out."""
    held = [1 for group in optimizer.param_groups for weight in group["params"] if weight.grad is not None]
    return type(optimizer).zero_grad is Optimizer.zero_grad and not held


class LossAsItIs(ClosureResult):
    """The loss of a micro-batch. Lightning keeps a copy, since a loss scale may change it: here there is none."""

    def _clone_loss(self) -> None:
        if self.closure_loss is not None:
            self.loss = self.closure_loss.detach()


class Advance:
    """One micro-batch: `TrainingEpochLoop.advance` and what it calls, for a trainer that `is_plain`."""

    def __init__(self, trainer: Trainer, loop: Any) -> None:
        self.trainer, self.loop, self.module = trainer, loop, trainer.lightning_module
        self.hooks = Hooks(trainer)
        self.strategy, self.precision = trainer.strategy, trainer.precision_plugin
        self._takes_index: bool | None = None
        self._by_step = not any(one.reduce_on_plateau or one.interval != "step" for one in trainer.lr_scheduler_configs)
        selector: Any = trainer._data_connector._datahook_selector
        self._transfer = {name: selector.get_instance(name) for name in TRANSFER}

    def __call__(self, data_fetcher: Any) -> None:
        """Raises StopIteration where the batches or the module end the epoch, as Lightning's does."""
        loop, trainer = self.loop, self.trainer
        skips = loop.automatic_optimization._skip_backward  # as for weights that are averaged by a callback
        if loop.restarting or skips or isinstance(data_fetcher, _DataLoaderIterDataFetcher):
            type(loop).advance(loop, data_fetcher)
            return
        if loop.val_loop.restarting:  # setting it takes 4 us
            loop.val_loop.restarting = False
        if torch.distributed.is_available() and torch.distributed.is_initialized() and trainer.world_size > 1:
            loop._broadcast_sigterm_tensor()
        batch, _, _ = next(data_fetcher)
        progress = loop.batch_progress
        index = progress.current.ready
        progress.is_last_batch = data_fetcher.done
        batch = self._to_device(batch)
        progress.increment_ready()
        self._takes_numbers_of(batch)
        if batch is None:
            loop._warning_cache.warn("train_dataloader yielded None. If this was on purpose, ignore this warning...")
            output, ends = None, False
        else:
            output, ends = self._trained(batch, index)
        progress.increment_processed()
        self._move_rates()
        if ends:
            raise StopIteration
        self.hooks.call("on_train_batch_end", output, batch, index)
        logged, connector = loop._results, trainer._logger_connector
        if logged:
            connector.on_batch_end()
        logged.batch = logged.batch_size = None
        progress.increment_completed()
        if logged:
            connector.update_train_step_metrics()

    def end(self, data_fetcher: Any) -> None:
        """What follows a micro-batch: validation where it is due, schedules that wait for it, and Lightning's count."""
        if self._may_be_more_to_do():
            type(self.loop).on_advance_end(self.loop, data_fetcher)
        elif not self.loop._should_accumulate():
            self.loop._batches_that_stepped += 1

    def _may_be_more_to_do(self) -> bool:
        """False only where Lightning would do no more than count, which it takes 25 us to find out."""
        loop, trainer, progress = self.loop, self.trainer, self.loop.batch_progress
        if loop._skip_next_val or progress.is_last_batch or trainer.should_stop or not self._by_step:
            return True
        every, limit = trainer.val_check_batch, trainer.limit_train_batches
        if every is None or trainer._val_check_time_interval is not None or isinstance(limit, int):
            return True
        batches = progress.total if trainer.check_val_every_n_epoch is None else progress.current
        return bool(batches.ready % every == 0 or trainer.received_sigterm)

    def _takes_numbers_of(self, batch: Any) -> None:
        """What is logged from now on belongs to this batch."""
        connector, logged = self.trainer._logger_connector, self.loop._results
        if connector._first_loop_iter is not False:
            connector.on_batch_start(batch)
            return
        logged.batch, logged.batch_size, logged.dataloader_idx = batch, None, None

    def _to_device(self, batch: Any) -> Any:
        batch = self.precision.convert_input(batch)
        batch = self._transferred("on_before_batch_transfer", batch, 0)
        batch = self._transferred("transfer_batch_to_device", batch, self.strategy.root_device, 0)
        return self._transferred("on_after_batch_transfer", batch, 0)

    def _transferred(self, name: str, *args: Any) -> Any:
        owner = self._transfer[name]
        return self.hooks.of_module(name, *args) if owner is self.module else getattr(owner, name)(*args)

    def _trained(self, batch: Any, index: int) -> tuple[Any, bool]:
        """What the micro-batch gave, and whether the module ends the epoch before it."""
        answer = self.hooks.call("on_train_batch_start", batch, index)
        self.strategy.on_train_batch_start(batch, index)
        if answer == -1:
            self.loop.batch_progress.increment_by(0, is_last_batch=True)
            return None, True
        self.loop.batch_progress.increment_started()
        return self._optimized(batch, index), False

    def _optimized(self, batch: Any, index: int) -> Any:
        if self._takes_index is None:
            self._takes_index = "batch_idx" in self.loop._build_kwargs(OrderedDict(), batch, index)
        args = (batch, index) if self._takes_index else (batch,)
        optimizer = self.strategy.optimizers[0]
        first = index % self.trainer.accumulate_grad_batches == 0
        closure = Closure(
            partial(self._step, args),
            partial(self._backward, optimizer),
            partial(self._zero_grad, index, optimizer) if first else None,
        )
        if self.loop._should_accumulate():
            with _block_parallel_sync_behavior(self.strategy, block=True):
                closure()
        else:
            progress = self.loop.automatic_optimization.optim_progress.optimizer.step
            progress.increment_ready()
            stepping = self.strategy._lightning_optimizers[0]
            self.hooks.of_module("optimizer_step", self.trainer.current_epoch, index, stepping, closure)
            progress.increment_completed()
        result = closure.consume_result()
        return {} if result.loss is None else result.asdict()

    def _step(self, args: tuple[Any, ...]) -> ClosureResult:
        output = self.hooks.named("training_step", self.strategy.training_step, *args)
        self.strategy.post_training_step()
        if output is None and self.trainer.world_size > 1:
            raise RuntimeError("training_step gave no loss, which several ranks cannot skip together")
        parts = self.trainer.accumulate_grad_batches
        if parts == 1 and isinstance(output, Tensor):
            return LossAsItIs(output)  # Lightning would divide it by 1
        return LossAsItIs.from_training_step_output(output, parts)

    def _zero_grad(self, index: int, optimizer: Any) -> None:
        progress = self.loop.automatic_optimization.optim_progress.optimizer.zero_grad
        progress.increment_ready()
        self.hooks.call("on_before_zero_grad", optimizer)
        progress.increment_started()
        if self.hooks.does["optimizer_zero_grad"] or not _is_zeroed(optimizer):
            self.hooks.of_module("optimizer_zero_grad", self.trainer.current_epoch, index, optimizer)
        progress.increment_completed()

    def _backward(self, optimizer: Any, loss: Tensor) -> None:
        strategy = self.strategy
        strategy.pre_backward(loss)
        self.hooks.call("on_before_backward", loss)
        self.hooks.named("backward", self.precision.backward, loss, self.module, optimizer)
        self.hooks.call("on_after_backward")
        strategy.post_backward(loss.detach())

    def after_closure(self, model: LightningModule, optimizer: Any) -> None:
        """What a precision does between the gradients and the step: the last hooks before it, and clipping."""
        self.hooks.call("on_before_optimizer_step", optimizer)
        limit, algorithm = self.trainer.gradient_clip_val, self.trainer.gradient_clip_algorithm
        clip = {"gradient_clip_val": limit, "gradient_clip_algorithm": algorithm}
        self.hooks.of_module("configure_gradient_clipping", optimizer, **clip)

    def _move_rates(self) -> None:
        """Schedules move after every window, those of epochs where the batches end."""
        loop, configs = self.loop, self.strategy.lr_scheduler_configs
        if not self._by_step:
            loop.update_lr_schedulers("step", update_plateau_schedulers=False)
            if loop._num_ready_batches_reached():
                loop.update_lr_schedulers("epoch", update_plateau_schedulers=False)
        elif configs and not loop._should_accumulate():
            for config in configs:
                if loop.batch_progress.current.ready % config.frequency == 0:
                    loop.scheduler_progress.increment_ready()
                    self.hooks.of_module("lr_scheduler_step", config.scheduler, None)
                    loop.scheduler_progress.increment_completed()
