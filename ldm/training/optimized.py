"""A model's optimizer: what it trains, in which groups, at which rates, and how those move."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from ldm.admission import PROJECT, admitted
from ldm.diffusion.draws import key
from ldm.ema.schedule_free import is_schedule_free
from ldm.errors import Fault
from ldm.lightning_module import LightningModule
from ldm.position import Position
from ldm.training.adapters import adapter_rules
from ldm.training.groups import NOTHING_DECIDED, Decision, Group, decide, named_weights, require_settings
from ldm.training.optimizer_settings import (
    Settings,
    apply_changes,
    keep_kernels,
    require_same_kind,
    settings_of,
    without_gaps,
)
from ldm.training.quantised import mark, quantisation_of
from ldm.training.rules import WHERE, Rule
from ldm.training.schedule import schedule_for, set_rates
from ldm.training.split_weights import SplitWeights
from ldm.util import Recipe, instantiate_from_config

ADAMW: Recipe = {"target": "torch.optim.AdamW", "params": {}}


class OptimizedModel(LightningModule):
    """The side of a trained model that decides what trains, and gives it to an optimizer.

    One place decides: `decide_training`, from the rules of `training_config`, those that adapters bring, and the
    model's own defaults, in this order.
    """

    position: Position

    def __init__(
        self,
        optimizer_config: Recipe | None = None,
        scheduler_config: Recipe | None = None,
        training_config: Recipe | None = None,
        adapter_config: Recipe | None = None,
        base_config: Recipe | None = None,
    ) -> None:
        super().__init__()
        self.optimizer_config = optimizer_config or ADAMW
        self.scheduler_config = scheduler_config
        self.adapter_config = adapter_config
        self.quantisation = quantisation_of(base_config, adapter_config is not None)
        self.training_rules: list[Rule] = instantiate_from_config(training_config).rules if training_config else []
        self.learning_rate = 1e-4
        self.seed = 0
        self.fused = False
        self.split_weights = SplitWeights()
        self.when_settled: list[Callable[[Any], None]] = []
        self._decision = NOTHING_DECIDED
        self._settings: list[Settings] = []
        self._stored_settings: list[Settings] = []
        self._group_labels: list[list[str]] = []

    # What trains

    def trainable_networks(self) -> dict[str, nn.Module]:
        """The networks whose parameters rules may name, by the first word of those names; by default all children."""
        return dict(self.named_children())

    def beside_networks(self) -> dict[str, nn.Module]:
        """What else has parameters that rules may name, likewise: it trains whatever is made of the networks."""
        return {}

    def default_rules(self) -> list[Rule]:
        """What trains, and how, where nobody says otherwise; others stay as they are built."""
        return []

    def plans_by_shape(self) -> bool:
        """Whether what trains follows from the names and shapes of networks (`ldm.modules.outline`).

        A model of one's own may look at anything of them, and so may adapters that do not say otherwise, by a method
        `plans_by_shape(params)` of what `adapter_config` names.
        """
        if not type(self).__module__.startswith(f"{PROJECT[0]}."):
            return False
        if self.adapter_config is None:
            return True
        kind = admitted(self.adapter_config["target"])
        return hasattr(kind, "plans_by_shape") and bool(kind.plans_by_shape(self.adapter_config.get("params") or {}))

    def settle_training(self) -> None:
        """Add adapters and freeze what does not train: once, when weights are read and before anything is sharded."""
        self._decision = self.decide_training(self.trainable_networks())
        for then in self.when_settled:
            then(self)

    def decide_training(self, networks: Mapping[str, nn.Module]) -> Decision:
        """Add adapters to networks, which may be without memory, decide what of them trains, and let that train.

        Raises `Fault` CFG08 for a rule without effect, and where nothing is left to train.
        """
        rules = list(self.training_rules)
        if self.adapter_config is not None:
            rules += adapter_rules(self.adapter_config, networks, key(self.seed, "adapters"))
        unread = [module for network in networks.values() for module in getattr(network, "idle", list)()]
        idle = {id(weight) for module in unread for weight in module.parameters()}
        weights = named_weights({**networks, **self.beside_networks()})
        nowhere = {name for name, weight in weights.items() if id(weight) in idle}
        decision = decide(weights, [*rules, *self.default_rules()], idle=nowhere)
        if self.training_rules and not any(decision.settings[name]["train"] for name in named_weights(networks)):
            raise Fault("CFG08", "the rules freeze everything", where=WHERE, fix="leave one of them out")
        if self.quantisation is not None:
            mark(networks, self.quantisation, decision)
        decision.apply(weights)
        return decision

    def optimized_weights(self) -> dict[str, nn.Parameter]:
        """All that the optimizer may get, under the names that rules are matched with where they have one.

        Networks come first: the rate of the first group is the run's.
        """
        names = {id(weight): name for name, weight in named_weights(self.trainable_networks()).items()}
        named = {names.get(id(weight), name): weight for name, weight in self.named_parameters()}
        beside = {id(weight) for module in self.beside_networks().values() for weight in module.parameters()}
        return dict(sorted(named.items(), key=lambda item: id(item[1]) in beside))

    def trained_groups(self) -> list[Group]:
        """What trains, as groups of the optimizer in its order."""
        return self._decision.groups(self.optimized_weights())

    def trained_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return ((name, p) for name, p in self.named_parameters() if p.requires_grad)

    # Optimizer and schedule

    def setup(self, stage: str) -> None:
        self._settings, self._group_labels = [], []

    def configure_optimizers(self) -> Any:
        return self.configure_optimizer(self.trained_groups())

    def configure_optimizer(self, groups: Sequence[Group]) -> dict[str, Any]:
        """One optimizer by `optimizer_config` for these groups, and what moves their rates, constant ones too.

        Raises `Fault` RES05 if the state of a resumed checkpoint is that of another optimizer, CFG03 for a setting of a
        rule that it does not have.
        """
        given = [group.for_optimizer(self.learning_rate) for group in groups]
        kernel = (
            {"fused": True} if self.fused and without_gaps(one for group in groups for one in group.parameters) else {}
        )
        optimizer = instantiate_from_config(self.optimizer_config, given, lr=self.learning_rate, **kernel)
        keep_kernels(optimizer)
        require_settings([one.settings for one in groups], optimizer.defaults, self.optimizer_config["target"])
        names = {id(weight): name for name, weight in self.optimized_weights().items()}
        self._settings.append(settings_of(optimizer, names))
        require_same_kind(self._stored_settings, self._settings)
        self._group_labels.append([group.label for group in groups])
        schedule = schedule_for(optimizer, [group.schedule(self.scheduler_config, self._length) for group in groups])
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _length(self) -> int:
        """Steps of the run; -1 where only a time limit ends it."""
        return int(self.trainer.max_steps)

    def on_train_start(self) -> None:
        """Settings that were changed for a resume take effect: with its state an optimizer got the old ones back."""
        optimizers = self.trainer.optimizers
        if self._stored_settings:
            apply_changes(optimizers, self._stored_settings, self._settings)
        schedules = [config.scheduler for config in self.trainer.lr_scheduler_configs]
        set_rates(optimizers, schedules, self._settings, self.position.step)
        for optimizer in filter(is_schedule_free, optimizers):
            optimizer.train()

    def current_rates(self) -> dict[str, float]:
        """Learning rates of the step at work: `lr_abs` of the first group, of several each `lr/NAME`."""
        groups: list[dict[str, Any]] = self.trainer.optimizers[0].param_groups
        rates = {"lr_abs": groups[0]["lr"]}
        if len(groups) > 1:
            named = zip(self._group_labels[0], groups, strict=True)
            rates |= {f"lr/{label or 'others'}": group["lr"] for label, group in named}
        return rates
