#!/usr/bin/env bash
# Measures this program beside what a person would use instead: ratios within one run, as JSON and Markdown.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bash scripts/bench.sh [cpu|compiled|gpu] [FOLDER] [--against REV] [--only NAME ...] [--publish]

  cpu             start, step, growing work, data, ranks: what two cores show (the default; 10 minutes on a quiet machine)
  compiled        the compiled step on a CPU, of which minutes go into compiling
  gpu             images a second, strategies and precisions on one GPU
  --against REV   the same of another commit, in turn in the same run; the page shows both
  --only NAME     these measurements alone (tests/bench/measurements.py names them); others keep their numbers
  --publish       write docs/benchmarks.md and docs/benchmarks.json as well

FOLDER (logs/bench) gets a .json and a .txt for each measurement, benchmarks.json and benchmarks.md.
TEXT
}

for word in "$@"; do
  case "$word" in
    -h | --help) usage && exit 0 ;;
  esac
done
venv="${LUN_VENV:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)/.venv}"
exec "$venv/bin/python" "$(dirname "${BASH_SOURCE[0]}")/../tests/bench/run.py" "$@"
