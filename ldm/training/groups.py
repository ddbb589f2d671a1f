"""From rules to an optimizer's groups: which parameters train, together with which, with which settings."""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from torch import Tensor, nn

from ldm.ema.model_weights import canonical_name
from ldm.errors import Fault
from ldm.training.rules import OURS, WHERE, Multiple, Rule, Settings
from ldm.training.schedule import GroupSchedule
from ldm.util import Recipe, is_recipe


@dataclass(frozen=True)
class Group:
    """Parameters that one group of the optimizer holds: `label` names the rules that made it one."""

    label: str
    settings: Settings
    parameters: list[nn.Parameter]
    names: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The numbers in all of its parameters."""
        return sum(parameter.numel() for parameter in self.parameters)

    def rate(self, learning_rate: float) -> float:
        """Its learning rate where the run's is `learning_rate`, before any schedule."""
        own = self.settings.get("lr", learning_rate)
        return learning_rate * own.factor if isinstance(own, Multiple) else float(own)

    def for_optimizer(self, learning_rate: float) -> dict[str, Any]:
        """As torch's optimizers take it."""
        own = {name: value for name, value in self.settings.items() if name not in OURS}
        rate = {"lr": self.rate(learning_rate)} if "lr" in self.settings else {}
        return {"params": self.parameters, **rate, **own}

    def schedule(self, schedule: Recipe | None, length: Callable[[], int]) -> GroupSchedule:
        """How its rate moves where the run's schedule is `schedule`, and `length()` its steps (-1 without a limit).

        Raises `Fault` CFG03 for a share of a run without a length.
        """
        return GroupSchedule(self.settings.get("schedule", schedule), self._last_step(length))

    def _last_step(self, length: Callable[[], int]) -> int | None:
        until: int | float | None = self.settings.get("until")
        if not isinstance(until, float):
            return until
        if (total_steps := length()) < 1:
            why = "only a time limit ends this run"
            raise Fault("CFG03", f"until: {until:.0%} needs to know how long the run is", where=WHERE, why=why)
        return round(until * total_steps)

    def described(self, learning_rate: float | None) -> str:
        """`859.52 M in 686 tensors at 1.0e-04`; where the run's rate is not known yet, at a multiple of it."""
        others = {name: value for name, value in self.settings.items() if name != "lr"}
        written = "".join(f", {name} {_written(name, value)}" for name, value in others.items())
        by = f" ({self.label})" if self.label else ""
        size = f"{self.size / 1e6:.2f} M" if self.size >= 5000 else str(self.size)
        return f"{size} in {len(self.parameters)} tensors at {self._at(learning_rate)}{written}{by}"

    def _at(self, learning_rate: float | None) -> str:
        own = self.settings.get("lr", Multiple(1.0))
        if learning_rate is None and isinstance(own, Multiple):
            return f"{own.factor:g} x the rate"
        return f"{self.rate(learning_rate or 0.0):.1e}"


@dataclass(frozen=True)
class Decision:
    """For each parameter by name its settings, `train` among them, and the rules that they come from."""

    settings: Mapping[str, Settings]
    labels: Mapping[str, str]

    def apply(self, weights: Mapping[str, nn.Parameter]) -> None:
        """Let train what is to train, and nothing else."""
        for name, weight in weights.items():
            weight.requires_grad_(self.settings[name]["train"])

    def groups(self, weights: Mapping[str, nn.Parameter]) -> list[Group]:
        """The groups of all `weights` that require a gradient, in the order of their first parameters.

        A weight without a decision has the run's own settings.
        """
        groups: dict[str, Group] = {}
        for name, weight in weights.items():
            if weight.requires_grad:
                own = {key: value for key, value in self.settings.get(name, {}).items() if key != "train"}
                made = Group(self.labels.get(name, ""), own, [])
                group = groups.setdefault(repr(sorted(own.items())), made)
                group.parameters.append(weight)
                group.names.append(name)
        return list(groups.values())


NOTHING_DECIDED = Decision({}, {})


def named_weights(networks: Mapping[str, nn.Module]) -> dict[str, nn.Parameter]:
    """The parameters of networks under the names that rules are matched with: {`unet.conv_in.weight`: parameter}.

    A part that says where a library's networks lie in it, as `library_modules` (paths of submodules), gives those its
    own name, to the second and later ones with a number (`text_encoder_2.`): below it names are the library's.
    """
    named: dict[str, nn.Parameter] = {}
    for name, network in networks.items():
        rename = _names_in_rules(name, network)
        named |= {rename(full): parameter for full, parameter in network.named_parameters()}
    return named


def named_layers(networks: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """The modules of networks under the names of their parameters: {`unet.conv_in`: layer}; without idle ones."""
    layers: dict[str, nn.Module] = {}
    for name, network in networks.items():
        rename = _names_in_rules(name, network)
        idle = {id(module) for part in getattr(network, "idle", list)() for module in part.modules()}
        layers |= {rename(full): module for full, module in network.named_modules() if full and id(module) not in idle}
    return layers


def _names_in_rules(name: str, network: nn.Module) -> Callable[[str], str]:
    """From the name that something has in the part `name` to that by which rules know it."""
    inner: Sequence[str] = getattr(network, "library_modules", ())
    prefixes = {f"{path}.": f"{name}_{number}." if number > 1 else f"{name}." for number, path in enumerate(inner, 1)}

    def rename(full: str) -> str:
        own = canonical_name(full)
        path = next((path for path in prefixes if own.startswith(path)), "")
        return prefixes.get(path, f"{name}.") + own.removeprefix(path)

    return rename


def decide(weights: Mapping[str, Tensor], rules: Sequence[Rule], idle: Set[str] = frozenset()) -> Decision:
    """Settings of every parameter.

    weights  those that there are; where no rule says so, they train if they require a gradient
    idle     those that no loss reaches, so that they never train: without a gradient they would still decay

    Raises `Fault` CFG08 for a rule that somebody wrote, or a setting of it, that has no effect.
    """
    settings: dict[str, Settings] = {}
    labels: dict[str, str] = {}
    effects = _Effects(rules)
    for name, weight in weights.items():
        own, sources = effects.settings_of(name, weight.ndim)
        own.setdefault("train", weight.requires_grad)
        settings[name] = own
        if name in idle:
            own["train"] = False
            continue
        if own["train"]:
            labels[name] = " + ".join(dict.fromkeys(rules[i].name for key, i in sources.items() if key != "train"))
        effects.count({key: index for key, index in sources.items() if own["train"] or key == "train"})
    effects.require(list(weights))
    return Decision(settings, labels)


class _Effects:
    """Which settings of which rules reach a parameter, and which of those matter."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._matched: list[list[str]] = [[] for _ in rules]
        self._reaching: set[tuple[int, str]] = set()
        self._effective: set[tuple[int, str]] = set()
        self._earlier: dict[tuple[int, str], dict[str, None]] = {}

    def settings_of(self, name: str, axes: int) -> tuple[dict[str, Any], dict[str, int]]:
        """The settings of one parameter of so many axes, and the number of the rule that each comes from."""
        own: dict[str, Any] = {}
        sources: dict[str, int] = {}
        for index, rule in enumerate(self._rules):
            if not rule.selects(name) or (rule.axes and axes not in rule.axes):
                continue
            self._matched[index].append(name)
            for key, value in rule.settings.items():
                if key in own:
                    self._earlier.setdefault((index, key), {})[self._rules[sources[key]].name] = None
                else:
                    own[key], sources[key] = value, index
                    self._reaching.add((index, key))
        return own, sources

    def count(self, sources: Mapping[str, int]) -> None:
        """These settings matter to a parameter."""
        self._effective |= {(index, key) for key, index in sources.items()}

    def require(self, names: Sequence[str]) -> None:
        """Raise `Fault` CFG08 for the first setting that matters to none of the parameters `names`."""
        for index, rule in enumerate(self._rules):
            for key in rule.settings if rule.where else ():
                if (index, key) not in self._effective:
                    raise self._without_effect(index, rule, key, names)

    def _without_effect(self, index: int, rule: Rule, key: str, names: Sequence[str]) -> Fault:
        what = f"the rule {rule.name} has no effect with {key}: {_written(key, rule.settings[key])}"
        matched = self._matched[index]
        if not matched:
            axes = f" of {' or '.join(map(str, rule.axes))} axes" if rule.axes else ""
            what = f"the rule {rule.name} matches no parameter{axes} that can train"
            why = f"they have names such as {', '.join([*names[:1], *names[len(names) // 2 :][:1], *names[-1:]])}"
            return Fault("CFG08", what, where=rule.where, why=why, fix="another glob, or leave the rule out")
        why = f"it matches {len(matched)} parameters, first {matched[0]}; "
        if (index, key) in self._reaching:
            return Fault("CFG08", what, where=rule.where, why=why + "none of them trains", fix="add train: true to it")
        before = ", ".join(self._earlier[index, key])
        why += f"{before} before it says {key} for all of them"
        return Fault("CFG08", what, where=rule.where, why=why, fix=f"put it before {before}, or leave it out")


def require_settings(groups: Sequence[Settings], defaults: Mapping[str, Any], optimizer: str) -> None:
    """Raise `Fault` CFG03 for a setting of a rule that the optimizer does not have; torch would keep it unread."""
    for key in dict.fromkeys(key for settings in groups for key in settings if key not in OURS):
        if key not in defaults:
            near = get_close_matches(key, [*defaults, *OURS], 1)
            why = f"a rule takes match, {', '.join(OURS)}, and what {optimizer} takes: {', '.join(defaults)}"
            what, fix = f"unknown setting {key} in a rule of what trains", f"did you mean {near[0]}?" if near else ""
            raise Fault("CFG03", what, where=WHERE, why=why, fix=fix)


def _written(name: str, value: Any) -> str:
    if isinstance(value, Multiple):
        return f"{value.factor:g}x"
    if is_recipe(value):
        return str(value["target"]).rpartition(".")[2]
    return f"{value:.0%}" if name == "until" and isinstance(value, float) else str(value).lower()
