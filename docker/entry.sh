#!/usr/bin/env bash
# What a container runs: the command that it was given, or a shell that says what to run.
set -euo pipefail

if (($#)); then
  exec "$@" # in this process's place, so that SIGTERM reaches the trainer, which saves
fi
cat <<TEXT
lun in a container for $LUN_KIND. Folders that were given are under the paths that they have outside; runs go to logs/.

  python main.py --doctor
  python main.py --base configs/training-lightning.yaml configs/demo/emoji.yaml -t
  python main.py --base configs/training-lightning.yaml configs/training-txt2img.yaml --data_root DIR --init-from FILE -t

TEXT
exec bash
