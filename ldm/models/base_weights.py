"""The networks below adapters: files hold them, so that checkpoints leave them out and know them again by a hash."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.files.load import compare
from ldm.training.adapters import is_of_adapter
from ldm.training.quantised import WHERE, marked_in, quantise

ENTRY = "base"
"""Under which a checkpoint says what it left out."""


@dataclass(frozen=True)
class BaseWeights:
    """Parts of a model of which nothing trains but adapters, and whose weights came from a file.

    given   {prefix of the part's names in memory: the file, folder or hub id that a person gave}
    hashes  {the same prefix: sha256 over the names and numbers of its tensors}, of whatever file they came from
    """

    given: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Mapping[str, nn.Module]) -> "BaseWeights":
        """Those among `parts`; called when weights are read, before they are sharded or become half."""
        given = {prefix: str(part.loaded_from) for prefix, part in parts.items() if _can_be_read_again(part)}
        return cls(given, {prefix: _hash(parts[prefix]) for prefix in given})

    def holds(self, name: str) -> bool:
        """Whether a tensor, by its name in memory, is one of theirs."""
        return name.startswith(tuple(self.given)) and not is_of_adapter(name) if self.given else False

    def left_out_of(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A model's state without them."""
        return {name: tensor for name, tensor in state.items() if not self.holds(name)}

    def to_checkpoint(self) -> dict[str, Any]:
        """What a checkpoint stores of them."""
        return {"given": dict(self.given), "sha256": dict(self.hashes)}

    def require(self, stored: Mapping[str, Any], names: Iterable[str], own: Mapping[str, Tensor], source: str) -> None:
        """Raise `Fault` RES05 unless a checkpoint that holds `names` and left out `stored` is complete on this base.

        own  the whole state of the model
        """
        hashes = stored.get("sha256", {})
        if different := sorted(prefix for prefix in hashes if self.hashes.get(prefix) != hashes[prefix]):
            raise self._another_base(different[0], stored, source)
        wanted = {name: tensor for name, tensor in own.items() if not self.holds(name)}
        held = set(names)
        comparison = compare({name: own.get(name, torch.empty(0)) for name in held if not self.holds(name)}, wanted)
        if not comparison.fits:
            what = f"{source} does not hold what this config trains"
            fix = "the adapter_config and the base that the run began with"
            raise Fault("RES05", what, where="model.params.adapter_config", why=comparison.render(), fix=fix)

    def _another_base(self, prefix: str, stored: Mapping[str, Any], source: str) -> Fault:
        then = f"{stored.get('given', {}).get(prefix, 'a file')} ({stored['sha256'][prefix][:10]})"
        now = f"{self.given[prefix]} ({self.hashes[prefix][:10]})" if prefix in self.given else "none is read for it"
        return Fault(
            "RES05",
            f"{source} holds adapters of another base",
            where="model.params.ckpt_path",
            why=f"{prefix.rstrip('.')} was read from {then} when they began to train; now: {now}",
            fix="model.params.ckpt_path=FILE, or a part's own ckpt_path, with the weights that the run began with",
        )


def quantised_base(parts: Mapping[str, nn.Module]) -> BaseWeights:
    """What `BaseWeights.of` says of `parts`, by the files' own numbers, and then quantise what is marked in them.

    Raises `Fault` CFG08 for a part that no file holds, since checkpoints would have to.
    """
    base = BaseWeights.of(parts)
    for prefix, part in parts.items():
        if not marked_in(part):
            continue
        if prefix not in base.given:
            what = "a quantised base has to come from a file, which checkpoints leave out"
            fix = "model.params.ckpt_path=FILE, or base_config=null"
            raise Fault("CFG08", what, where=WHERE, why=f"{prefix.rstrip('.')} is drawn from scratch", fix=fix)
        quantise(part)
    return base


def _can_be_read_again(part: nn.Module) -> bool:
    """Whether nothing of a part trains but adapters, and a file holds all else of it."""
    own = [parameter for name, parameter in part.named_parameters() if not is_of_adapter(name)]
    return bool(getattr(part, "loaded_from", None)) and not any(parameter.requires_grad for parameter in own)


def _hash(part: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(part.state_dict().items()):
        if not is_of_adapter(name):
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
