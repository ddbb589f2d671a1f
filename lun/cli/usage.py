"""The text of `--help`, and the version."""

from lun.program import as_started

USAGE = """\
usage: python main.py [-b YAML ...] [-t] [-r [RUN]] [options] [key.sub=value ...]

  python main.py                          this text and the demo's command
  python main.py -b a.yaml b.yaml         the plan: what would be trained (nothing is written)
  python main.py -b a.yaml b.yaml -t      train
  python main.py -b a.yaml --check        look for faults in the configuration and stop
  python main.py -r -t                    continue the newest run (or -r logs/RUN, or -r path/every-2k-steps.ckpt)

the demo, on any computer:
  python main.py --demo
your own pictures, by five questions:
  python main.py --new
your own pictures, on Stable Diffusion 1.5:
  python main.py -b sd15 bf16 --data_root DIR -t

what
  -b, --base YAML ...          configs: presets in any order, then your own as given; found in configs/ too
  key.sub=value                change a setting (anywhere on the line; YAML values)
  ~key.sub                     remove a setting
  -t, --train [BOOL]           train
  --demo                       train the small model that comes along, on its own pictures; configs change it
  --new                        ask five questions (flags answer them, too), write NAME.yaml, show its plan
  --no-test                    accepted: a run trains and validates, it never tests
  --allow MODULE               let a config name classes and functions of this package (repeatable)
  --family NAME|MODULE.NAME    know a family of an installed package, or of your own, and --allow it (repeatable)

data and weights
  --data_root [NAME=]DIR       the folder of pictures, or of one of several sets (repeatable)
  -r, --resume [RUN|CKPT]      continue a run; without a value the newest
  --init-from CKPT             start a new run from weights only (also --actual_resume)
  --take-over                  with -r and -t: let a process that trains this run save and stop first
  --accept-change data|batch   resume though the data (data:NAME, one set) or the global batch differ (repeatable)

run
  -n, --name NAME              name of the run, by default that of the last config
  -f, --postfix TEXT           put after the name
  -l, --logdir DIR             where runs are written (logs)
  --datadir_in_name [BOOL]     put the data folder's name before the run's (where --data_root says it)
  -p, --project NAME           accepted for old command lines, and not read
  -s, --seed N                 seed of everything that is drawn
  --scale_lr [RULE]            learning rate by pictures a step: none, linear, sqrt (none; without a value linear)
  --time-limit H:MM            save and stop after so long
  --fit [GIB]                  choose batch, accumulation, checkpointing, optimizer for so much memory (the card's)
  --ARGUMENT VALUE             an argument of lightning.Trainer: --accelerator cpu --devices 1 --max_steps 1000

information
  --check                      look for faults in the configuration and stop
  --probe                      rehearse: a few steps, samples, a save, a resume; says time, memory, disk, leaves nothing
  --doctor                     look for faults in this machine: torch, driver, packages, disk (exit status 1 if any)
  --print-config               the merged configuration
  --list-presets               the configs that are shipped, to be named after --base
  --schema [FILE]              a JSON Schema of configs, by which editors complete and explain keys (configs/README.md)
  --print-completion SHELL     a script by which bash or zsh completes these words (lun/README.md)
  -d, --debug                  tracebacks
  --version                    versions
  -h, --help                   this text

exit codes: 0 done; 2 command line or config; 3 data; 4 weights; 5 device; 6 diverged; 7 missing package; 8 disk;
            70 a fault of this program; 130 Ctrl-C and 143 SIGTERM, SIGHUP or time limit (both after saving)
"""


def usage() -> str:
    """What `python main.py` and `--help` print."""
    return as_started(USAGE)


def version() -> str:
    """The versions of this program and of what it stands on, read from package metadata without importing them."""
    return " · ".join(f"{name} {_version(name)}" for name in ("lun", "torch", "lightning", "diffusers"))


def _version(name: str) -> str:
    import importlib.metadata  # a parser of mails, for this alone

    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"
