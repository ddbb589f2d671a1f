#!/usr/bin/env bash
# Measures this program beside what a person would use instead: ratios within one run, as JSON and Markdown.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bash scripts/bench.sh [cpu|gpu] [FOLDER]

  cpu   what one core tells: start, and what the program costs a step (the default; under 10 minutes)
  gpu   strategies and precisions on one GPU: memory and speed

FOLDER (logs/bench) gets a .json for each measurement that has rows, a .txt for the others, and bench.md.
TEXT
}

kind=cpu
case "${1:-}" in
  cpu | gpu) kind="$1" && shift ;;
  -h | --help) usage && exit 0 ;;
esac
if (($# > 1)) || [[ "${1:-}" == -* ]]; then
  usage >&2 && exit 2
fi

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
folder="${1:-$root/logs/bench}"
venv="${LUN_VENV:-$root/.venv}"
python="$venv/bin/python"
mkdir -p "$folder"
folder="$(cd "$folder" && pwd -P)"
cd "$root"
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1

if [[ "$kind" == gpu ]]; then
  "$python" tests/gpu/bench_strategies.py | tee "$folder/strategies.txt"
  exit
fi
"$python" tests/bench/start.py --json "$folder/start.json"
"$python" tests/bench/step_overhead.py | tee "$folder/step_overhead.txt"
{
  "$python" tests/bench/report.py "Start=$folder/start.json"
  printf '\n## Step, us over a raw loop\n\n'
  sed 's/^/    /' "$folder/step_overhead.txt"
} >"$folder/bench.md"
printf 'wrote %s\n' "$folder/bench.md"
