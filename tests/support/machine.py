"""A computer whose container engines and GPUs are stand-ins, to see what docker/start.sh asks of them."""

import shlex
import shutil
import subprocess
from pathlib import Path

ENGINE = """#!/usr/bin/env bash
name="${0##*/}"
printf '%s %s\\n' "$name" "$*" >>"$STATE/calls"
case "$1" in
  --version) cat "$STATE/version" 2>/dev/null || echo "$name version 5.0" ;;
  info)
    [[ ! -e "$STATE/silent" && ! -e "$STATE/$name-is-silent" ]] || { echo "Cannot connect to docker" && exit 1; } >&2
    cat "$STATE/info"
    ;;
  image) cat "$STATE/label" ;;
  build) exit "$(cat "$STATE/build")" ;;
  run) echo "$$" >"$STATE/pid" && exit "$(cat "$STATE/run")" ;;
esac
"""
STAND_INS = {
    "id": 'case "$1" in -u) cat "$STATE/uid" ;; -g) echo 1001 ;; -un) echo me ;; esac',
    "stat": 'case "$2" in %G) echo render ;; %g) printf "44\\n992\\n44\\n" ;; esac',
    "nvidia-smi": 'cat "$STATE/gpus"',
}
TOOLS = ("bash", "cat", "cut", "dirname", "grep", "head", "mkdir", "paste", "sha256sum", "sort")
FILES = (
    *(
        "docker/" + name
        for name in ("start.sh", "engine.sh", "image.sh", "devices.sh", "folders.sh", "entry.sh", "Dockerfile")
    ),
    *("scripts/" + name for name in ("fault.sh", "machine.sh", "setup.sh")),
    *("pyproject.toml", "setup.py", "constraints.txt"),
)
ENGINES = ("docker", "podman")


class Machine:
    """A computer with a copy of the project, whose programs are the stand-ins and nothing else."""

    def __init__(self, repo_root: Path, place: Path) -> None:
        self.project, self.state, self.home = place / "my project", place / "state", place / "home"
        self.bin, self.sysroot = self.state / "bin", place / "sysroot"
        for name in FILES:
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repo_root / name, self.project / name)
        for folder in (self.bin, self.home, self.sysroot / "dev/dri"):
            folder.mkdir(parents=True)
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name) or name)
        for name in ("id", "stat"):
            self.program(name, STAND_INS[name])
        self.write("uid", "1000\n")
        self.write("info", '["name=seccomp"]\n')
        self.write("build", "0")
        self.write("run", "0")

    def write(self, name: str, text: str = "") -> Path:
        path = self.state / name
        path.write_text(text)
        return path

    def program(self, name: str, body: str) -> None:
        self.write(f"bin/{name}", f"#!/usr/bin/env bash\n{body}\n").chmod(0o755)

    def has(self, *things: str) -> "Machine":
        """Give it engines (docker, podman), GPUs (cuda, rocm), a CDI description (cdi) or SELinux (selinux)."""
        files = {"rocm": "dev/kfd", "cdi": "etc/cdi/nvidia.yaml", "selinux": "sys/fs/selinux/enforce"}
        for thing in things:
            if thing in ENGINES:
                self.write(f"bin/{thing}", ENGINE).chmod(0o755)
            elif thing == "cuda":
                self.program("nvidia-smi", STAND_INS["nvidia-smi"])
                self.write("gpus", "GPU 0: Some GPU\n")
            else:
                path = self.sysroot / files[thing]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("kind: nvidia.com/gpu\n")
        return self

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": str(self.bin),
            "HOME": str(self.home),
            "STATE": str(self.state),
            "LUN_SYSROOT": str(self.sysroot),
        }

    def start(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.bin / "bash"), str(self.project / "docker/start.sh"), *arguments]
        variables = self.environment | environment
        return subprocess.run(
            command, env=variables, capture_output=True, text=True, cwd=self.state, stdin=subprocess.DEVNULL
        )

    def printed(self, *arguments: str, **environment: str) -> list[list[str]]:
        """The words of the commands that `--print` shows."""
        at = arguments.index("--") if "--" in arguments else len(arguments)
        answer = self.start(*arguments[:at], "--print", *arguments[at:], **environment)
        assert answer.returncode == 0, answer.stderr
        return [shlex.split(line) for line in answer.stdout.splitlines()]

    def calls(self) -> list[str]:
        path = self.state / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def volumes(self, flags: str, *more: str) -> list[str]:
        """The options for the folders that every container sees, with `more` after the logs."""
        cache, inside = self.home / ".cache", "/home/lun/.cache"
        pairs = [f"{self.project}:/lun:ro{flags}", f"{self.project}/logs:/lun/logs:rw{flags}", *more]
        pairs += [f"{cache}/{name}:{inside}/{name}:rw{flags}" for name in ("huggingface", "lun", "pip")]
        return [word for pair in pairs for word in ("--volume", pair)]
