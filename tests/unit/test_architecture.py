"""The shape of the code: which module may import which, which paths stay public, how long a file may get."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

# From the top down: a module may import what stands on a later line, and its own group; never a neighbour on its line.
LAYERS: list[list[str]] = [
    ["main"],
    ["lun.compare", "lun.sweep"],
    ["lun.posthoc_ema"],
    [
        "lun.trainer",
        "lun.convert",
        "lun.sample",
        "lun.measure",
        "lun.migrate",
        "lun.pack",
        "lun.annotate",
        "lun.board",
        "lun.inspect",
        "lun.publish",
        "lun.data.cache.__main__",
    ],
    ["lun.doctor"],
    ["lun.weights"],
    ["lun.new", "lun.probe"],
    ["lun.memory"],
    ["lun.check", "lun.plan"],
    ["lun.run"],
    ["lun.cli"],
    ["lun.console"],
    ["lun.report"],
    ["lun.run_dir"],
    ["lun.callbacks", "lun.strategies"],
    ["lun.checkpoints"],
    ["lun.features", "lun.previews"],
    ["lun.loop"],
    ["lun.config", "lun.data", "lun.loggers", "lun.other_trainers", "lun.pages", "lun.program"],
    ["ldm.models"],
    ["ldm.adapters"],
    ["ldm.training"],
    ["ldm.modules"],
    ["ldm.convert"],
    ["ldm.ema", "ldm.families"],
    ["ldm.keys"],
    ["ldm.remembered"],
    ["ldm.files"],
    ["ldm.diffusion.sampling"],
    ["ldm.diffusion", "ldm.lr_scheduler", "ldm.position"],
    ["ldm.util", "ldm.place", "ldm.missing_packages", "ldm.cpus", "ldm.transfers"],
    ["ldm.lightning_module"],
    ["ldm.lightning_classes"],
    ["ldm.admission"],
    ["ldm.errors"],
    [
        "ldm.plain",
        "ldm.operating_system",
        "ldm.plain_yaml",
        "ldm.scheduler_names",
        "ldm.shell",
        "ldm.torch_internals",
        "ldm.lightning_internals",
    ],
    ["ldm", "lun"],
]

PUBLIC = [
    "ldm.models.diffusion.ddpm.DDPM",
    "ldm.models.diffusion.ddpm.LatentDiffusion",
    "ldm.models.autoencoder.AutoencoderKL",
    "ldm.modules.losses.LPIPSWithDiscriminator",
    "ldm.modules.losses.contperceptual.LPIPSWithDiscriminator",
    "ldm.modules.ema.LitEma",
    "ldm.lr_scheduler.LambdaLinearScheduler",
    "ldm.lr_scheduler.LambdaWarmUpCosineScheduler",
    "ldm.lr_scheduler.LambdaWarmUpCosineScheduler2",
    "ldm.util.instantiate_from_config",
    "lun.data.local.Local",
    "lun.data.packed.PackedSet",
    "lun.data.module.DataModuleFromConfig",
    "lun.callbacks.ImageLogger",
    "lun.callbacks.SmoothedProgressBar",
    "lun.callbacks.Checkpoint",
    "lun.callbacks.Export",
]

# Packages whose own __init__ must not load torch, because the command line passes through them.
LIGHT = [
    "lun",
    "lun.config",
    "lun.cli",
    "lun.console",
    "lun.run",
    "lun.run_dir",
    "lun.callbacks",
    "lun.loop",
    "ldm",
    "ldm.models",
    "ldm.modules",
    "ldm.modules.losses",
    "ldm.diffusion",
    "lun.convert.command",
    "lun.sample.command",
    "lun.measure.command",
    "lun.memory.command",
    "lun.migrate.command",
    "lun.pack.command",
    "lun.annotate.command",
    "lun.board.command",
    "lun.publish.command",
    "lun.compare.command",
    "lun.sweep.command",
    "lun.report.run_page",
]

# The only places that touch what another library does not promise; each function there has a test of what it means.
INTERNALS = re.compile(r"_internals$")
# What is called by an underscore and promised all the same, or what Python itself offers no other way to.
PROMISED = {
    "_replace": "namedtuple",
    "_asdict": "namedtuple",
    "_fields": "namedtuple",
    "_is_protocol": "typing: what its own is_protocol reads, which Python 3.11 has not",
    "_exit": "os: ends a process at once",
    "_current_frames": "sys: where each thread stands, as its documentation says",
    "_on_queue_feeder_error": "multiprocessing.Queue: what its own executor overrides to hear of such an error",
}
REACHES = ("getattr", "hasattr", "setattr", "delattr", "attrgetter")

# A broad `except` takes in what nobody has thought of: bugs of ours among it.
BROAD_EXCEPTS = 7

LONGEST_FILE = 320
MOST_MODULES = 20
LONGEST_FUNCTION = 60

# Put together from halves, so that this file does not contain them.
ALIEN_WORDS = re.compile(
    "|".join(
        [
            "/" + "work/",
            "/" + "tmp/bash",
            "/" + "opt/(pypi|wheels)",
            r"\.\." + "/shared",
            "sub" + "-?agent",
            r"\bC" + r"EO\b",
            "anth" + "ropic",
            r"\bclau" + r"de\b",
            r"https?://[^\s)\"']*(?:/simp" + r"le\b|\bregis" + r"try\b|/deb" + r"ian\b)",
        ]
    ),
    re.IGNORECASE,
)


SAME_FILE_NAMES = {
    "__init__": "a package",
    "__main__": "a command, started",
    "command": "a command: what it does",
    "arguments": "a command: what its words say",
    "encoder": "one for each of the two caches, latents and text",
    "fill": "one for each of the two caches, latents and text",
    "lightning_internals": "ldm never imports lun, and both need some",
}
"""Files that are called alike on purpose: the same part of things that lie beside one another."""
ROOMS_OF_NETWORKS = ("ldm.families", "ldm.keys", "ldm.modules.networks", "ldm.modules.encoders")
"""A network is called alike in each: its record, its names on disk, the module itself."""


class Import(NamedTuple):
    """One import: the module it names, its line, and whether it runs as soon as the file is imported."""

    target: str
    line: int
    at_once: bool


def name_of(path: Path) -> str:
    """The dotted name of a module's file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> dict[str, Path]:
    """Every product module by name; the user's own drawer lun/local is not ours to judge."""
    files = [ROOT / "main.py", *(ROOT / "ldm").rglob("*.py"), *(ROOT / "lun").rglob("*.py")]
    return {name_of(path): path for path in files if not path.is_relative_to(ROOT / "lun" / "local")}


MODULES = sources()
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def named_by(node: ast.AST, module: str) -> list[str]:
    """The modules that one statement or call names, `from package import module` included."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = absolute(node, module)
        inner = [f"{base}.{alias.name}" for alias in node.names]
        return [name if name in MODULES else base for name in inner]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return [str(node.args[0].value)] if called in ("import_module", "__import__") else []
    return []


def absolute(node: ast.ImportFrom, module: str) -> str:
    """The module that `from x import y` names, relative spellings resolved."""
    if not node.level:
        return node.module or ""
    is_package = MODULES[module].name == "__init__.py"
    parts = module.split(".")[: len(module.split(".")) - node.level + is_package]
    return ".".join([*parts, node.module] if node.module else parts)


def imports_below(node: ast.AST, module: str, at_once: bool) -> Iterator[Import]:
    """All imports in a piece of code; those within functions or `if TYPE_CHECKING` do not run at once."""
    for child in ast.iter_child_nodes(node):
        later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        later |= isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
        for target in named_by(child, module):
            yield Import(target, child.lineno, at_once)
        yield from imports_below(child, module, at_once and not later)


IMPORTS = {name: list(imports_below(tree, name, at_once=True)) for name, tree in TREES.items()}


def inside(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def group_of(name: str) -> tuple[int, str] | None:
    """Depth of a module's layer and its group, the longest prefix that LAYERS lists; None for others' modules."""
    groups = [(len(group), depth, group) for depth, row in enumerate(LAYERS) for group in row]
    matching = [
        entry for entry in groups if name == entry[2] or (entry[2] not in LAYERS[-1] and inside(name, entry[2]))
    ]
    return max(matching)[1:] if matching else None


def breaches(module: str) -> Iterator[str]:
    """The imports of a module that do not point down."""
    own = group_of(module)
    assert own is not None
    for target, line, _ in IMPORTS[module]:
        other = group_of(target)
        if other is not None and other != own and other[0] <= own[0]:
            yield f"{module}:{line} imports {target}"


def tracked_files() -> list[Path]:
    """What git tracks or would add; without git there is nothing to ask."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if answer.returncode:
        pytest.skip("not a git checkout")
    return [path for name in answer.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_every_module_belongs_to_a_layer() -> None:
    assert [name for name in MODULES if group_of(name) is None] == []


def test_imports_point_down() -> None:
    assert [breach for module in MODULES if group_of(module) for breach in breaches(module)] == []


def test_ldm_never_imports_lun_not_even_later() -> None:
    found = [
        f"{name}:{i.line}" for name in MODULES if inside(name, "ldm") for i in IMPORTS[name] if inside(i.target, "lun")
    ]
    assert found == []


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name: {i.target for i in IMPORTS[name] if i.at_once and i.target in MODULES} for name in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_nothing_imports_torchvision_but_the_doctor_who_looks_whether_it_breaks() -> None:
    others = [name for name in MODULES if name != "lun.doctor.look"]
    found = [f"{name}:{i.line}" for name in others for i in IMPORTS[name] if inside(i.target, "torchvision")]
    assert found == []


def test_libraries_of_networks_are_imported_when_a_network_is_built() -> None:
    later = ("diffusers", "transformers", "torchmetrics", "huggingface_hub")
    found = [
        f"{name}:{i.line} imports {i.target}"
        for name in MODULES
        for i in IMPORTS[name]
        if inside(name, "ldm") and i.at_once and i.target.partition(".")[0] in later
    ]
    assert found == []  # each takes a second, and a plan, which builds no network, does without


@pytest.mark.parametrize("path", PUBLIC)
def test_a_path_that_people_import_stays(path: str) -> None:
    module, _, attribute = path.rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))


def loaded_by(modules: Sequence[str], *watched: str) -> list[str]:
    """Which of the watched modules a Python of its own has loaded once it has imported these."""
    script = f"""
import importlib, sys
for name in {list(modules)!r}:
    importlib.import_module(name)
print("loaded", *(name for name in {watched!r} if name in sys.modules))
"""
    answer = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()[-1].split()[1:]


def test_the_command_line_loads_no_torch() -> None:
    assert loaded_by([*LIGHT, "lun.cli.parser"], "torch") == []


@pytest.mark.slow
def test_the_whole_loads_no_torchvision() -> None:
    modules = [*(path.rpartition(".")[0] for path in PUBLIC), "main"]
    assert loaded_by(modules, "torch", "torchvision") == ["torch"]


def compares_a_family(node: ast.AST) -> bool:
    """`x.family == ...`, `kind in ("sd1", ...)`: what the record of the family is there to answer."""
    if isinstance(node, ast.Match):
        asked = [node.subject]
    elif isinstance(node, ast.Compare) and not any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
        asked = [node.left, *node.comparators]
    else:
        return False
    words = [ast.unparse(one) for one in asked]
    return any(re.search(r"""(^|\.)family(\.name)?$|['"](sd1|sd2|sdxl|sd3)['"]""", word) for word in words)


def test_only_the_records_of_families_tell_one_family_from_another() -> None:
    trees = {name: tree for name, tree in TREES.items() if not inside(name, "ldm.families")}
    found = [f"{name}:{n.lineno}" for name, tree in trees.items() for n in ast.walk(tree) if compares_a_family(n)]
    assert found == []


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_" and name not in PROMISED


def own_names(tree: ast.AST) -> set[str]:
    """What a module defines or binds anywhere in it."""
    found = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    found |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound = (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return found | {node.attr for node in bound if ast.unparse(node.value) in ("self", "cls", "made")}


def reached(node: ast.AST, own: set[str]) -> Iterator[str]:
    """Private names of others that a node reaches into: by attribute, by import, or by a name in a string."""
    if isinstance(node, ast.Attribute) and private(node.attr) and node.attr not in own:
        if ast.unparse(node.value) not in ("self", "cls", "super()"):
            yield node.attr
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        home = node.module.split(".")
        if home[0] not in ("ldm", "lun"):
            yield from (name for name in [*home[1:], *(alias.name for alias in node.names)] if private(name))
    elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in REACHES:
        words = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        yield from (part for word in words for part in word.split(".") if private(part) and part not in own)


def test_what_other_libraries_do_not_promise_is_touched_in_one_place_for_each() -> None:
    found = [
        f"{name}:{getattr(node, 'lineno', 0)}: {inner}"
        for name, tree in TREES.items()
        if not INTERNALS.search(name)
        for own in [own_names(tree)]
        for node in ast.walk(tree)
        for inner in reached(node, own)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line", ["trainer._results", "getattr(a, '_trainer', 0)", "from torch._x import y", "from torch import _C"]
)
def test_each_way_to_reach_into_another_library_is_noticed(line: str) -> None:
    assert any(list(reached(node, set())) for node in ast.walk(ast.parse(line)))


def _line(place: str) -> str:
    module, number = place.split(":")
    return MODULES[module].read_text("utf-8").splitlines()[int(number) - 1]


def test_few_excepts_take_in_everything_and_each_says_why() -> None:
    broad = [
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException"))
    ]
    assert len(broad) <= BROAD_EXCEPTS, broad
    lines = {place: _line(place) for place in broad}
    unexplained = [place for place, line in lines.items() if len(line.partition("  # ")[2].split()) < 4]
    assert unexplained == [], "give the reason behind the clause"


def test_files_stay_short() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_rooms_stay_small() -> None:
    """A package has so few modules that one can hold them in mind."""
    files = [path for path in MODULES.values() if path.name not in ("__init__.py", "__main__.py")]
    sizes = Counter(path.parent.relative_to(ROOT).as_posix() for path in files)
    assert {room: size for room, size in sizes.items() if size > MOST_MODULES} == {}


def test_functions_stay_short() -> None:
    functions = [
        (f"{name}.{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1)
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert [entry for entry in functions if entry[1] > LONGEST_FUNCTION] == []


def test_each_class_name_stands_for_one_class() -> None:
    places: dict[str, list[str]] = {}
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{module}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_each_file_name_stands_for_one_thing() -> None:
    places: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        room = "a network" if module.rpartition(".")[0] in ROOMS_OF_NETWORKS else module
        if path.stem not in SAME_FILE_NAMES and room not in places.setdefault(path.stem, []):
            places[path.stem].append(room)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_the_library_names_no_flag_of_a_command() -> None:
    """A `Fault` of `ldm` names the setting; `lun.console.fault_flags` words how a command changes it."""
    strings = [
        (module, node.lineno, node.value)
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    flags = {text for module, _, text in strings if module.startswith("lun.") and re.fullmatch(r"--[a-z][\w-]+", text)}
    assert {"--init-from", "--trust-pickle", "--force"} <= flags
    assert [
        f"{module}:{line} {flag}"
        for module, line, text in strings
        if module.startswith("ldm")
        for flag in re.findall(r"(?<![\w-])--[a-z][\w-]+", text)
        if flag in flags
    ] == []


def test_nothing_asks_whether_a_dataset_is_of_a_class_of_ours() -> None:
    found = [
        f"{module}:{i.line}"
        for module in MODULES
        for i in IMPORTS[module]
        if i.target == "lun.data.local" and module != "lun.data.local"
    ]
    assert found == []


PROCESS_WIDE = {
    "ldm.admission": "_granted: what the person trusts, by a flag of this start",
    "lun.console.crash_traceback": "_asked: whether what Python does at a fatal signal is ours to settle",
    "lun.console.log": "warnings.showwarning: how a program replaces it, by its documentation",
    "lun.data.images.decode": "Pillow's limits on the size of a picture, which are its modules' attributes",
    "lun.data.index.looked_once": "_start: of which start this process is a rank, as its launcher decided",
    "lun.data.packs.remote": "_used_in: in which process a client was begun whose threads no fork survives",
    "lun.data.loader": "torch.multiprocessing.Queue: how its own executor hears of an error in its thread",
}
"""What is set for the whole process, and so is a mode that nobody sees who reads a call."""


def process_wide(node: ast.AST, imported: set[str]) -> Iterator[str]:
    """What a node sets for everybody: a variable of its module, a context variable, something in another's module."""
    if isinstance(node, ast.Global):
        yield from node.names
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in (
        "ContextVar",
        "contextvars.ContextVar",
        "threading.local",
    ):
        yield ast.unparse(node)
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Call)):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            targets = node.args[:1]
        for target in targets:
            text = ast.unparse(target) if isinstance(target, (ast.Attribute, ast.Name)) else ""
            if text.partition(".")[0] in imported and (isinstance(target, ast.Attribute) or isinstance(node, ast.Call)):
                yield text


def names_imported(tree: ast.AST) -> set[str]:
    statements = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    return {(alias.asname or alias.name).partition(".")[0] for node in statements for alias in node.names}


def test_no_mode_is_set_for_the_whole_process() -> None:
    found = {
        f"{module}:{getattr(node, 'lineno', 0)}: {text}"
        for module, tree in TREES.items()
        if module not in PROCESS_WIDE
        for imported in [names_imported(tree)]
        for node in ast.walk(tree)
        for text in process_wide(node, imported)
    }
    assert found == set()


@pytest.mark.parametrize(
    "line", ["global mode", "mode = ContextVar('mode')", "nn.Module.forward = mine", "setattr(nn.Module, 'forward', f)"]
)
def test_each_way_to_set_a_mode_for_the_whole_process_is_noticed(line: str) -> None:
    assert any(list(process_wide(node, {"nn"})) for node in ast.walk(ast.parse(line)))


OWNERS = {
    "os.replace": "ldm.files.replacing",
    "os.fsync": "ldm.files.replacing",
    "tempfile.mkstemp": "ldm.files.replacing",
}
"""What is called in one module alone: writing beside a file and replacing it."""


def test_what_has_an_owner_is_called_nowhere_else() -> None:
    found = [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and OWNERS.get(ast.unparse(node), module) != module
    ]
    assert found == []


def test_no_file_speaks_of_how_or_where_it_was_written() -> None:
    found = []
    for path in tracked_files():
        try:
            lines = path.read_text().splitlines()
        except UnicodeDecodeError:
            continue  # a picture or weights
        place = path.relative_to(ROOT)
        found += [f"{place}:{number}: {line[:80]}" for number, line in enumerate(lines, 1) if ALIEN_WORDS.search(line)]
    assert found == []


def test_every_command_is_installed_under_its_name() -> None:
    """`python -m lun.posthoc_ema` is `lun-posthoc-ema` where a wheel was installed, and begins in the same function."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    beginnings = [name for name, path in MODULES.items() if path.name == "__main__.py"]
    packages = {name.removesuffix(".__main__"): name for name in beginnings}
    wanted = {re.sub(r"[._]", "-", package): f"{module}:main" for package, module in packages.items()}
    assert scripts == {"lun-train": "lun.cli.entry:train", **wanted}
    defined = {name: {n.name for n in TREES[name].body if isinstance(n, ast.FunctionDef)} for name in beginnings}
    assert {name for name, functions in defined.items() if "main" not in functions} == set()


NOT_ON_WINDOWS = {
    "modules": "fcntl resource termios tty pty pwd grp posix syslog msvcrt winreg _winapi",
    "os": """fork forkpty register_at_fork O_DIRECTORY O_NOFOLLOW O_CLOEXEC O_NONBLOCK O_PATH O_BINARY uname geteuid
        getuid getegid getgid getgroups pread pwrite preadv pwritev sysconf sysconf_names confstr getloadavg statvfs
        sched_getaffinity fstatvfs mkfifo mknod chown lchown fchown fchmod killpg setsid setpgid getpgid nice kill
        symlink wait wait3 wait4 posix_fadvise posix_fallocate memfd_create sendfile WNOHANG WIFEXITED SEEK_HOLE
        SEEK_DATA getpriority setpriority supports_dir_fd""",
    "signal": """SIGUSR1 SIGUSR2 SIGHUP SIGKILL SIGALRM SIGCHLD SIGPIPE SIGQUIT SIGTSTP SIGCONT alarm setitimer
        pthread_kill pthread_sigmask siginterrupt sigwait sigpending pause""",
}
"""What Windows lacks, or takes for something else: `os.kill` ends a process there, whatever it is asked to send."""


def lacking_on_windows(node: ast.AST) -> Iterator[str]:
    """Calls and constants of a node that one system lacks; also where their presence is asked about."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = [alias.name for alias in node.names]
        lacking = NOT_ON_WINDOWS.get(getattr(node, "module", None) or "", NOT_ON_WINDOWS["modules"]).split()
        asked = [*names, getattr(node, "module", None) or ""]
        yield from (name for name in asked if name in lacking)
    elif isinstance(node, ast.Attribute):
        owner = ast.unparse(node.value)
        if node.attr == "symlink_to" or (node.attr in NOT_ON_WINDOWS.get(owner, "").split() and owner != "modules"):
            yield f"{owner}.{node.attr}"
    elif isinstance(node, ast.Call):
        owner, *rest = [ast.unparse(argument).strip("'\"") for argument in node.args[:2]] or [""]
        yield from (name for name in rest if owner in ("os", "signal") and name in NOT_ON_WINDOWS[owner].split())
        yield from (f"{keyword.arg}=" for keyword in node.keywords if keyword.arg in ("dir_fd", "preexec_fn"))


def test_what_one_system_lacks_is_called_in_one_module() -> None:
    found = [
        f"{module}:{getattr(node, 'lineno', 0)} {name}"
        for module, tree in TREES.items()
        if module != "ldm.operating_system"
        for node in ast.walk(tree)
        for name in lacking_on_windows(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    ["import fcntl", "from os import fork", "os.kill(1, 0)", "hasattr(os, 'fork')", "f(dir_fd=3)", "a.symlink_to(b)"],
)
def test_each_way_to_ask_for_what_one_system_lacks_is_noticed(line: str) -> None:
    assert any(list(lacking_on_windows(node)) for node in ast.walk(ast.parse(line)))
