#!/usr/bin/env bash
# Installs what is missing, then fine-tunes a tiny model on the emoji that come with this project: minutes on a CPU.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bash scripts/demo.sh [arguments of main.py]

Trains as python main.py --demo does, with configs/demo/emoji.yaml; what you add changes that, for example
  bash scripts/demo.sh lightning.trainer.max_steps=100
Relative paths are seen from the project's folder. The pictures are under logs/latest/images.
TEXT
}

if [[ "${1:-}" == -h || "${1:-}" == --help ]]; then
  usage
  exit 0
fi

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="${LUN_VENV:-$root/.venv}"
[[ "$venv" == /* ]] || venv="$PWD/$venv"
export LUN_VENV="$venv"
cd "$root"
bash scripts/setup.sh

began="$(date +%s)"
"$venv/bin/python" main.py --demo "$@"

timeline=logs/latest/images/samples/timeline.png
if [[ -e "$timeline" ]] && (($(stat -Lc %Y "$timeline") >= began)); then
  "$venv/bin/python" scripts/check_demo.py logs/latest
  printf '\npictures: %s/%s\n' "$root" "$timeline"
fi
