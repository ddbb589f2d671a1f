"""One start of a run: what is built for it, how it is described, and how it is carried out."""

import json
import logging
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from ldm.files.replacing import replace_text
from ldm.lightning_classes import Callback, Trainer, as_lightning
from ldm.models.base import TrainedModel
from ldm.models.rehearsal import rehearse, warn_if_finished
from ldm.shell import quoted
from lun.callbacks.controls import Controls
from lun.callbacks.final import FinalCheckpoint
from lun.callbacks.set_numbers import SetNumbers
from lun.callbacks.space import DiskSpace
from lun.callbacks.stops import Stops
from lun.callbacks.unmet_words import UnmetWords
from lun.checkpoints.atomic import clean_leftovers
from lun.cli.arguments import Arguments
from lun.console import log as console
from lun.data.index.looked_once import share_looks
from lun.data.module import DataModuleFromConfig
from lun.data.overlap import warn_of_overlap
from lun.data.sets.carried_out import require_carried_out
from lun.data.tag_counts import tag_frequency
from lun.loop.position_callback import FollowPosition
from lun.program import as_started
from lun.report.renewal import RunPage
from lun.run.construction import build_parts
from lun.run.data_changes import compare_data, list_changes, next_epoch
from lun.run.data_roots import name_of_roots
from lun.run.fill_caches import FillCaches, require_lasting_captions
from lun.run.length import settle_length
from lun.run.outcome import FitOutcome
from lun.run.resolved import ResolvedRun, resolve, window_of
from lun.run.run_loggers import build_loggers, log_settings
from lun.run.settings import Settings, as_yaml
from lun.run.threads import asked_threads, say_if_crowded, settle_threads
from lun.run_dir.config_changes import changed_settings, stored_settings
from lun.run_dir.directory import RunDirectory
from lun.run_dir.first_rank import FirstRank
from lun.run_dir.job import this_job
from lun.run_dir.latest import LinkLatest
from lun.run_dir.lock import NOBODY, held_by_another, one_writer
from lun.run_dir.ranks import process_rank
from lun.run_dir.resume import Resume
from lun.run_dir.run_json import RunRecord, program_commit, versions
from lun.run_dir.run_weights import with_named_checkpoints
from lun.run_dir.what_trains import FILE as WHAT_TRAINS
from lun.run_dir.what_trains import what_trains
from lun.strategies.combinations import strategy_kind
from lun.strategies.execution import device_of, require_device, settle_execution

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Session:
    """What a start needs, built but not yet run: nothing has been written so far.

    settings   with the configuration as it will be stored
    run        what this start settled
    first      how rank 0 sends the others what it decides
    """

    arguments: Arguments
    settings: Settings
    resume: Resume | None
    run: ResolvedRun
    model: TrainedModel
    data: DataModuleFromConfig
    first: FirstRank
    callbacks: list[Callback]
    now: datetime = field(default_factory=datetime.now)

    @classmethod
    def prepare(cls, settings: Settings, arguments: Arguments, resume: Resume | None) -> "Session":
        """Build data and model without weights; raises `Fault` for whatever but weights would stop the run later."""
        console.configure(None, process_rank())  # again: libraries brought handlers of their own with their imports
        trainer = settings.trainer()
        asked_threads()
        require_device(trainer)
        if resume is None:
            settings = settings.with_config(model=with_named_checkpoints(settings.config["model"]))
        parts = build_parts(settings, settle_execution, on_cpu=device_of(trainer) == "cpu")
        parts.execution.warn_if_slow()
        data, model = parts.data, parts.model
        first = FirstRank(parts.execution.ranks.store)
        settle_start(parts.execution.ranks.count, first)
        data.setup("fit")
        warn_of_overlap(data.dataset("train"), data.dataset("validation") if data.has("validation") else None)
        window = window_of(parts.execution, data.batch_size)
        length = settle_length(trainer, data.n, window.global_batch, arguments.time_limit is not None)
        seed = settle_seed(settings.config.get("seed"), first)
        run = resolve(settings.config, parts.execution, window, length, seed)
        model.begin(run.context(resumed=resume is not None))
        rehearse(model, length.max_steps, window.global_batch)
        require_lasting_captions(model, data.cache)
        require_carried_out(model, data.mix_settings, strategy_kind(trainer.get("strategy")))
        warn_if_finished(model, resume.step if resume else 0, length.max_steps)
        data.follow(model.position, window, seed, length.max_steps)
        return cls(arguments, replace(settings, config=run.config), resume, run, model, data, first, parts.callbacks)

    def require_weights_and_data(self) -> None:
        """Raise `Fault` MOD06 or MOD01 for a new run, RES03 for a resumed one that would see other examples."""
        if self.resume is None:
            self.model.require_weights()
        elif stored := self.resume.stored.get("data"):
            ranks, accumulate = self.run.window.world_size, self.run.window.accumulate
            fault = compare_data(
                stored,
                self.data.state_dict_of_data(),
                devices=ranks,
                accumulate=accumulate,
                accepted=self.arguments.accept_change,
            )
            if fault:
                raise fault

    # Describing it

    def say_how_to_train(self, words: Sequence[str]) -> None:
        log.info("note[CLI01]: this was only the plan; nothing was trained")
        log.info("  fix:   add -t to train:   %s", as_started(f"python main.py {quoted(*words, '-t')}"))

    # Carrying it out

    def fit(self, words: Sequence[str]) -> int:
        """Train; returns the exit code. Raises `Fault` RES06 where another process writes into the run."""
        directory = self.run_directory()
        with ExitStack() as lock:
            holder = self.first.decides("holder", lambda: self.claim(directory, lock))
            if holder != NOBODY:
                raise held_by_another(directory.path, holder)
            return self.fit_in(directory, words)

    def claim(self, run: RunDirectory, lock: ExitStack) -> str:
        """On rank 0: be the only one that writes into `run` while `lock` is open; else who came first."""
        holder = lock.enter_context(one_writer(run.path))
        if self.resume is None or holder != NOBODY:
            return holder
        record = run.record()
        if record and record.attempt >= self.resume.attempt:
            return f"attempt {record.attempt} began at {record.started}, after this start had chosen its checkpoint"
        clean_leftovers(run.path)
        return NOBODY

    def fit_in(self, run: RunDirectory, words: Sequence[str]) -> int:
        """Train in `run`, which nobody else writes into."""
        stored = self.resume.stored if self.resume else {}
        threads = settle_threads(stored.get("threads"))
        console.configure(run.path, process_rank())
        log.info("writing  %s", run.path)
        attempt = self.resume.attempt if self.resume else 1
        source = self.resume.resumed_from if self.resume else None
        started = RunRecord(
            status="running",
            started=self.now.isoformat(timespec="seconds"),
            argv=["main.py", *words],
            job=job.name if (job := this_job()) else None,
            allow=[*self.arguments.allow, *self.arguments.family],
            seed=self.run.seed,
            attempt=attempt,
            resumed_from=source,
            total_steps=self.run.length.max_steps,
            threads=threads,
            data=self.data.state_dict_of_data(),
            versions=versions(),
            commit=program_commit(),
        )
        stops = Stops(self.arguments.time_limit)
        position = FollowPosition(attempt, source, self.changed_slot())
        trainer = self.trainer(run, position, stops)
        self.say_where_it_goes_on()
        if trainer.strategy.root_device.type == "cpu":
            say_if_crowded()
        if trainer.is_global_zero:
            self.write_down(run, started)
            log_settings(trainer.loggers, self.settings.config)
        return FitOutcome(run, started, stops, self.model, trainer, self.run.window).of(
            lambda: trainer.fit(
                as_lightning(self.model),
                datamodule=as_lightning(self.data),
                ckpt_path=str(self.resume.checkpoint) if self.resume else None,
                weights_only=True,
            )
        )

    def say_where_it_goes_on(self) -> None:
        if self.resume is None:
            return
        log.info("resumed  %s at step %d", self.resume.checkpoint, self.resume.step)
        before = stored_settings(self.resume.run.resolved_config)
        for line in changed_settings(before, self.settings.config) if before else ():
            log.info("changed  %s", line)
        if 0 <= self.run.length.max_steps <= self.resume.step:
            more = self.resume.step + 1000
            log.info("note: the run has all its %d steps; to go on: --max_steps %d", self.run.length.max_steps, more)

    def run_directory(self) -> RunDirectory:
        if self.resume:
            self.resume.run.announce()
            return self.resume.run
        return RunDirectory(Path(self.first.decides("run_directory", lambda: str(self.new_directory().path))))

    def new_directory(self) -> RunDirectory:
        datadir_in_name = self.arguments.datadir_in_name
        return RunDirectory.create(
            Path(self.arguments.logdir),
            self.arguments.name or run_name(self.settings.files),
            name_of_roots(self.settings.config["data"]["params"]["train"]),
            bool(self.arguments.data_root) if datadir_in_name is None else datadir_in_name,
            self.arguments.postfix,
            now=self.now,
        )

    def changed_slot(self) -> int | None:
        """Where to go on in the data if an accepted change makes the stored slot meaningless."""
        stored = self.resume.stored if self.resume else {}
        if not stored.get("data"):
            return None
        changes = list_changes(stored["data"], self.data.state_dict_of_data())
        if self.data.go_on(stored["data"], bool(changes)):
            if changes:
                log.info("note: %s changed as accepted; the rest goes on where it was", ", ".join(sorted(changes)))
            return None
        if not changes:
            return None
        epoch = next_epoch(stored["position"]["slot"], stored["data"]["n"])
        log.info("note: data or batch changed as accepted; going on at the start of epoch %d", epoch)
        return self.data.start_of(epoch)

    def trainer(self, run: RunDirectory, position: FollowPosition, stops: Stops) -> Trainer:
        from lun.run.lightning_trainer import build_trainer  # Lightning, which a plan does without

        caches = [FillCaches()] if self.data.cache else []
        numbers = [SetNumbers()] if self.data.mix_settings else []
        ours = [position, LinkLatest(run), Controls(stops), *numbers]
        words = [UnmetWords()] if self.model.adapter_config is not None else []
        callbacks = [*ours, *words, *self.callbacks, RunPage(run.path), *caches, DiskSpace(), stops, FinalCheckpoint()]
        loggers = build_loggers(self.settings.lightning("logger"), run.path)
        validates, by_hand = self.data.has("validation"), self.model.by_hand
        return build_trainer(self.run, validates, callbacks, loggers, run.path, by_hand)

    def write_down(self, run: RunDirectory, record: RunRecord) -> None:
        config = self.settings.config
        project = {name: value for name, value in config.items() if name != "lightning"}
        lightning = {"lightning": config.get("lightning") or {}}
        run.save_configs(as_yaml(project), as_yaml(lightning), as_yaml(config), now=self.now)
        run.write_record(record)
        replace_text(run.path / WHAT_TRAINS, what_trains(self.model.training_plan(), self.run.learning_rate))
        if tags := tag_frequency(self.data.dataset("train")):
            run.data.mkdir(exist_ok=True)
            replace_text(run.data / "tag_frequency.json", json.dumps(tags, ensure_ascii=False, indent=1) + "\n")


def settle_start(ranks: int, first: FirstRank) -> None:
    """Let the ranks of this start, if it has several, look into folders once for all that are on one machine."""
    share_looks(first.decides("start", lambda: uuid4().hex) if ranks > 1 else None)


def settle_seed(seed: int | None, first: FirstRank) -> int:
    """0 unless another is asked for; -1 draws one, for all ranks. It is shown, and stored with the run."""
    if seed == -1:
        seed = int(first.decides("seed", lambda: str(secrets.randbelow(2**31))))
    log.info("seed     %d", seed or 0)
    return seed or 0


def run_name(files: Sequence[str]) -> str:
    """The last config that is no overlay of `configs/options/` gives a run its name."""
    named = [Path(file) for file in files if Path(file).parent.name != "options"]
    return (named or [Path("run")])[-1].stem
