"""The Markdown pages of the project and the commands that they show, as a shell reads them."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = {".venv", "logs", "build", "node_modules"}
PAGES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part in ELSEWHERE or part[0] == "." for part in path.parts[len(ROOT.parts) :])
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """One line of a shell, with its page and the line there; two pages that show the same are one command."""

    line: str
    page: str
    number: int

    @property
    def words(self) -> list[str]:
        """The words of a simple command, comments left out. Raises `ValueError` where a quotation does not end."""
        return shlex.split(self.line, comments=True)

    def __str__(self) -> str:
        return f"{self.page}:{self.number} {self.line}"


def fenced(path: Path) -> list[tuple[str, int, str]]:
    """(language, line of its first line, text) of each fenced block of a page."""
    text = path.read_text("utf-8")
    return [(found[1], text.count("\n", 0, found.start(2)) + 1, found[2]) for found in FENCE.finditer(text)]


def named_files(path: Path) -> dict[str, str]:
    """The YAML blocks of a page that begin with `# NAME.yaml`, by that name."""
    found = {re.match(r"# ([\w-]+\.yaml)\n", text): text for language, _, text in fenced(path) if language == "yaml"}
    return {match[1]: text for match, text in found.items() if match}


def commands(path: Path) -> list[Command]:
    """What the sh blocks of a page tell to type; a line that ends in a backslash goes on in the next."""
    page = path.relative_to(ROOT).as_posix()
    found = []
    for language, first, text in fenced(path):
        lines = text.replace("\\\n", "  ").splitlines() if language == "sh" else []
        found += [Command(line.strip(), page, first + at) for at, line in enumerate(lines) if line.strip()]
    return found


def every_command() -> list[Command]:
    """The commands of all pages, the same line once."""
    by_line: dict[str, Command] = {}
    for path in PAGES:
        for command in commands(path):
            by_line.setdefault(" ".join(shlex.split(command.line, comments=True)), command)
    return [command for line, command in by_line.items() if line]


def unquoted(line: str) -> str:
    """The characters of a line that a shell would not pass on as they are, such as braces and brackets."""
    bare = re.sub(r"\\.|'[^']*'|\"[^\"$`]*\"", "", line)
    return "".join(sorted(set(bare) & set("{}[]()*?<>|&;$`\"'")))


def rows(path: Path, heading: str = "") -> list[list[str]]:
    """The cells of the tables of a page, or of the part under `heading`, without the lines that draw them."""
    text = path.read_text("utf-8")
    if heading:
        text = re.split(rf"^#+ {re.escape(heading)}$", text, flags=re.MULTILINE)[1]
        text = re.split(r"^#+ ", text, flags=re.MULTILINE)[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
