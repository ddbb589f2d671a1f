"""The answer to a command line of other trainers: the one to type here."""

from dataclasses import dataclass, field

from ldm.errors import Fault
from ldm.shell import quoted
from lun.other_trainers.counterparts import Counterpart


@dataclass
class Foreign:
    """Words of a command line that only other trainers know, and the line that says the same here."""

    written: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    base: list[str] = field(default_factory=list)
    meaning: list[str] = field(default_factory=list)

    def add(self, name: str, given: str, value: str | None, known: Counterpart) -> None:
        """An option `name`, written as `given`, with a value or without."""
        known = known.of(value)
        typed = known.typed(value)
        self.written.append(name)
        self.words += [] if known.kind == "none" else typed
        self.base += [name for name in known.base if name not in self.base]
        shown = " ".join(filter(None, [f"--base ... {quoted(*known.base)}" if known.base else "", quoted(*typed)]))
        says = f"there is none here: {known.say}" if known.kind == "none" else known.say
        self.meaning.append("; ".join(filter(None, [f"{given} is here {shown}" if shown else given, says])))

    def fault(self, base: list[str], others: list[str]) -> Fault:
        """CLI03 with the whole command as it is typed here; `others` are the words that were right."""
        many = len(self.written) > 1
        what = f"{', '.join(self.written)} {'are words' if many else 'is a word'} of other trainers"
        line = ["--base", *(base or ["sd15"]), *self.base, *self.words, *others]
        return Fault("CLI03", what, why="\n".join(self.meaning), fix=f"python main.py {quoted(*line)}")
