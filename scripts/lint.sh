#!/usr/bin/env bash
# Ruff's rules and formatting, shellcheck and hadolint, with the tools of .venv; all run even where the first one complains.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bash scripts/lint.sh [--fix]

  --fix   mend what ruff can mend, and format, instead of only checking
TEXT
}

fix=0
case "${1:-}" in
  "") ;;
  --fix) fix=1 ;;
  -h | --help) usage && exit 0 ;;
  *) printf 'error[CLI01]: unknown argument %s\n' "$1" >&2 && usage >&2 && exit 2 ;;
esac

invoked_from="$PWD"
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin="${LUN_VENV:-.venv}/bin"
[[ "$bin" == /* || -z "${LUN_VENV:-}" ]] || bin="$invoked_from/$bin"
status=0
if ((fix)); then
  "$bin/ruff" check --fix . || status=1
  "$bin/ruff" format . || status=1
else
  "$bin/ruff" check . || status=1
  "$bin/ruff" format --check . || status=1
fi
mapfile -t programs < <(grep -l '^#!' .ci/run scripts/*.sh docker/*.sh) # with the parts that they source
"$bin/shellcheck" --external-sources --check-sourced "${programs[@]}" || status=1
"$bin/hadolint" docker/Dockerfile || status=1
exit "$status"
