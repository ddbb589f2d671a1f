"""The one exception for what a person can put right: raised anywhere, printed by `lun.console` alone."""


class Fault(Exception):
    """Something in the input, the machine or the weights is wrong, and a person can mend it.

    id     a stable name such as `CFG03`, whose letters decide the exit code
    what   what happened
    where  file:line, setting or flag
    why    facts of this very run
    fix    something to paste
    """

    def __init__(self, id: str, what: str, *, where: str = "", why: str = "", fix: str = "") -> None:
        super().__init__(id, what)
        self.id = id
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix

    def render(self, kind: str = "error") -> str:
        """The message as it is printed, `error[ID]: what` and one indented line each for where, why and fix."""
        lines = [f"{kind}[{self.id}]: {self.what}"]
        for label in ("where", "why", "fix"):
            if text := getattr(self, label):
                lines.append(f"  {label + ':':<7}" + text.replace("\n", "\n" + " " * 9))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()
