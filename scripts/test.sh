#!/usr/bin/env bash
# Everything that a change has to pass: lint, types and tests, or one of them; every part runs even where an earlier one fails.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bash scripts/test.sh [lint|types|unit|integration|all] [pytest arguments]

  lint          ruff, formatting, shellcheck, hadolint
  types         mypy
  unit          pytest tests/unit
  integration   pytest tests/integration
  all           lint, types and every test (the default)

Examples: bash scripts/test.sh unit -k ema -x
          bash scripts/test.sh all -m slow
TEXT
}

part=all
case "${1:-}" in
  lint | types | unit | integration | all) part="$1" && shift ;;
  -h | --help) usage && exit 0 ;;
esac
if [[ "$part" == lint || "$part" == types ]] && (($#)); then
  printf 'error[CLI01]: %s takes no further arguments\n' "$part" >&2 && exit 2
fi

SECONDS=0
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="${LUN_VENV:-$root/.venv}"
[[ "$venv" == /* ]] || venv="$PWD/$venv"
export LUN_VENV="$venv"
cd "$root"
bash scripts/setup.sh --test

# Two threads keep a small machine usable and the timings alike; nothing is fetched.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}" HF_HUB_OFFLINE=1
failed=()

run() { # name, command...
  local name="$1" began=$SECONDS
  shift
  printf '\n%s: %s\n' "$name" "${*//"$root/"/}"
  "$@" || failed+=("$name")
  printf '%s took %s s\n' "$name" "$((SECONDS - began))"
}

lint() { run lint bash scripts/lint.sh; }
types() { run types "$venv/bin/mypy"; }
tests() { run tests "$venv/bin/python" -m pytest "$@"; }

# Most tests compute on one core: two halves side by side take half as long, and are as long as one another. The second
# is shown once the first is done.
halves() {
  local runs=(tests/distributed tests/integration) moved=(tests/integration/test_a*.py) others=() folder
  for folder in tests/*/; do
    [[ " ${runs[*]} " == *" ${folder%/} "* ]] || others+=("${folder%/}")
  done
  local second=("$venv/bin/python" -m pytest "${others[@]}" "${moved[@]}")
  export OMP_NUM_THREADS=1
  log="$(mktemp)"
  "${second[@]}" >"$log" 2>&1 &
  beside=$!
  trap 'kill "$beside" 2>/dev/null || true; rm -f "$log"' EXIT
  tests "${runs[@]}" "${moved[@]/#/--ignore=}"
  run "other tests" joined "${second[@]}"
}

joined() {
  local code=0
  wait "$beside" || code=$?
  cat "$log"
  return "$code"
}

case "$part" in
  lint) lint ;;
  types) types ;;
  unit | integration) tests "tests/$part" "$@" ;;
  all)
    lint && types
    if (($#)) || (("$(nproc)" < 2)); then tests "$@"; else halves; fi
    ;;
esac

if ((${#failed[@]})); then
  printf '\nfailed: %s (%s s in all)\n' "${failed[*]}" "$SECONDS"
  exit 1
fi
printf '\nall passed in %s s\n' "$SECONDS"
