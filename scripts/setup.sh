#!/usr/bin/env bash
# Makes .venv with everything that training needs, and returns at once when it is there already. It installs; nothing else.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bash scripts/setup.sh [--extra NAME ...] [--test] [--reinstall-torch]

  --extra NAME        also an extra of pyproject.toml: optim (8-bit AdamW and other optimizers, for the recipes 8gb and
                      16gb), parquet, remote, tag, wandb, optuna, deepspeed; may be given several times, and what was given once is kept
  --test              also what the tests need: pytest, ruff, mypy, shellcheck, hadolint (--extra test)
  --reinstall-torch   install torch anew, into .venv, even where a suitable one is found

environment:
  LUN_VENV         where the environment goes (default: .venv beside this project)
  LUN_PYTHON       the Python that makes it: 3.11, 3.12 or 3.13 (counts only while there is no environment yet)
  LUN_TORCH        cpu, cuda, rocm, or skip to keep what is there (default: what the machine has)
  LUN_TORCH_INDEX  the package index that torch comes from

A torch of at least 2.9 that the base Python has is used as it is and never replaced.
TEXT
}

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
venv="${LUN_VENV:-$root/.venv}"
[[ "$venv" == /* ]] || venv="$PWD/$venv"
torch_version=2.13.0
torch_index=https://download.pytorch.org/whl
extras="" # sorted, with a space after each
reinstall_torch=0
stamp="$venv/lun-installed"
log="$venv/install.log"
torch_pin="$venv/torch-constraint.txt"

# shellcheck source=scripts/fault.sh
source "$root/scripts/fault.sh"
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"

fail() { fault DEP01 "$1" why="${2:-}" fix="${3:-}"; } # what, why, fix

say() { printf 'setup    %s\n' "$*"; }

known_extras() { sed -n '/^\[project.optional-dependencies\]/,/^$/s/^\([a-z0-9-]*\) = .*/\1/p' "$root/pyproject.toml"; }

add_extra() { # name
  if ! known_extras | grep -qxF -e "$1"; then
    printf 'error[CLI01]: --extra takes one of %s; not %s\n' "$(known_extras | paste -sd ' ')" "${1:-nothing}" >&2 && exit 2
  fi
  extras="$(printf '%s ' "$1" "$extras" | tr ' ' '\n' | sed '/^$/d' | sort -u | tr '\n' ' ')"
}

read_arguments() {
  while (($#)); do
    case "$1" in
      --test) add_extra test ;;
      --extra) add_extra "${2:-}" && shift ;;
      --extra=*) add_extra "${1#*=}" ;;
      --reinstall-torch) reinstall_torch=1 ;;
      -h | --help) usage && exit 0 ;;
      *) printf 'error[CLI01]: unknown argument %s\n' "$1" >&2 && usage >&2 && exit 2 ;;
    esac
    shift
  done
  if ((reinstall_torch)) && [[ "${LUN_TORCH:-}" == skip ]]; then
    printf 'error[CLI01]: --reinstall-torch and LUN_TORCH=skip contradict each other\n' >&2 && exit 2
  fi
  case "${LUN_TORCH:-}" in
    "" | cpu | cuda | rocm | skip) ;;
    *) printf 'error[CLI01]: LUN_TORCH is cpu, cuda, rocm or skip, not %s\n' "$LUN_TORCH" >&2 && exit 2 ;;
  esac
}

fingerprint() { cat "$root/pyproject.toml" "$root/constraints.txt" | sha256sum | cut -d ' ' -f 1; }

read_stamp() { # its lines: project, digest of the pins, extras, kind of torch; what was asked for once is kept
  local extra was_extras=""
  was_root="" was_files="" was_torch="" lacking=1
  [[ -f "$stamp" ]] || return 0
  { read -r was_root && read -r was_files && read -r was_extras && read -r was_torch; } <"$stamp" || return 0
  [[ "$was_extras" != none ]] || was_extras=""
  for extra in $was_extras; do
    ! known_extras | grep -qxF -e "$extra" || add_extra "$extra"
  done
  [[ "$extras" != "${was_extras:+$was_extras }" ]] || lacking=0
}

satisfied() {
  read_stamp
  ((!reinstall_torch && !lacking)) && [[ -x "$venv/bin/python" ]] || return 1
  [[ "$was_root" == "$root" && "$was_files" == "$(fingerprint)" ]] || return 1
  [[ -z "${LUN_TORCH:-}" || "${LUN_TORCH:-}" == skip || "${LUN_TORCH:-}" == "$was_torch" ]]
}

suitable() { # command -> path of the base interpreter, if that is a Python we accept
  local facts
  facts="$("$1" "$root/scripts/installed.py" python 2>/dev/null)" || return 1
  [[ "$facts" =~ ^3\.1[123]\ (.+)$ ]] && printf '%s\n' "${BASH_REMATCH[1]}"
}

find_python() {
  local candidate
  if [[ -n "${LUN_PYTHON:-}" ]]; then
    suitable "$LUN_PYTHON" || fail "LUN_PYTHON=$LUN_PYTHON is not a Python 3.11, 3.12 or 3.13" "" "unset LUN_PYTHON"
    return
  fi
  for candidate in python3 python3.13 python3.12 python3.11; do
    suitable "$candidate" && return
  done
  fail "no Python 3.11, 3.12 or 3.13 found on PATH" \
    "python3 is $(python3 --version 2>/dev/null || echo missing)" \
    "install one (Debian, Ubuntu: apt install python3 python3-venv), or LUN_PYTHON=/path/to/python3.11 bash scripts/setup.sh"
}

run_logged() { # command...; what it says goes to the log
  printf '\n$ %s\n' "$*" >>"$log"
  "$@" >>"$log" 2>&1
}

run_pip() { run_logged "$venv/bin/python" -m pip --disable-pip-version-check --no-input install --no-compile "$@"; }

log_tail() { # what, fix
  tail -n 15 "$log" >&2
  fail "$1" "the lines above are the end of $log" "$2"
}

usable() { [[ -x "$venv/bin/python" ]] && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }

make_venv() {
  local python inherit=()
  if usable; then
    suitable "$venv/bin/python" >/dev/null || fail "$venv holds a Python that is not 3.11, 3.12 or 3.13" "" "rm -r $venv"
    return
  fi
  if [[ -d "$venv" && ! -e "$venv/pyvenv.cfg" && -n "$(ls -A "$venv")" ]]; then
    fail "$venv has files in it and is no virtual environment" "" "LUN_VENV=/another/folder bash scripts/setup.sh"
  fi
  python="$(find_python)"
  if "$python" -c 'import torch' 2>/dev/null && [[ -n "$("$python" "$root/scripts/installed.py" torch)" ]]; then
    inherit=(--system-site-packages)
  fi
  say "$("$python" --version) ($python) -> $venv"
  [[ ! -e "$venv/pyvenv.cfg" ]] || rm -rf "$venv" # an environment whose Python is gone
  mkdir -p "$venv"
  run_logged "$python" -m venv ${inherit[@]+"${inherit[@]}"} "$venv" ||
    log_tail "the environment could not be made" "rm -r $venv; apt install python3-venv, or LUN_PYTHON=/path/to/another/python"
}

pip_torch() { # requirement, pip's arguments; the first call replaces any torch, the second adds what it needs
  local requirement="$1"
  shift
  run_pip --force-reinstall --no-deps "$@" "$requirement" && run_pip "$@" "$requirement"
}

install_torch() { # cpu, cuda or rocm
  local pinned=(-c "$root/constraints.txt")
  say "installing torch $torch_version for $1${LUN_TORCH_INDEX:+ from $LUN_TORCH_INDEX}"
  if [[ -n "${LUN_TORCH_INDEX:-}" ]]; then
    pip_torch "torch==$torch_version" --index-url "$LUN_TORCH_INDEX"
  elif [[ "$1" == cuda ]]; then
    # three equal signs, because 2.13.0+cpu, where it is on offer too, would win over 2.13.0
    pip_torch "torch===$torch_version" "${pinned[@]}"
  elif [[ "$1" == rocm ]]; then
    pip_torch "torch==$torch_version" --index-url "$torch_index/rocm7.2"
  else
    # the plain version is a CUDA build of gigabytes on the usual index; only a CPU build says +cpu
    pip_torch "torch==$torch_version+cpu" "${pinned[@]}" || pip_torch "torch==$torch_version" --index-url "$torch_index/cpu"
  fi || log_tail "torch $torch_version could not be installed" "LUN_TORCH_INDEX=https://your/index bash scripts/setup.sh"
}

torch_facts() { "$venv/bin/python" "$root/scripts/installed.py" torch; }

ensure_torch() { # leaves the version in the constraint file and the kind in torch_kind
  local version="" wanted="${LUN_TORCH:-}"
  torch_kind=""
  read -r version torch_kind <<<"$(torch_facts)"
  if [[ "$wanted" == skip ]]; then
    [[ -n "$version" ]] || fail "LUN_TORCH=skip, but $venv has no torch of at least 2.9" "" "LUN_TORCH=cpu bash scripts/setup.sh"
  elif ((reinstall_torch)) || [[ -z "$version" ]] || [[ -n "$wanted" && "$wanted" != "$torch_kind" ]]; then
    wanted="${wanted:-$(machine_kind)}"
    install_torch "$wanted"
    read -r version torch_kind <<<"$(torch_facts)"
    [[ "$wanted" == cpu || "$wanted" == "$torch_kind" ]] ||
      fail "torch $version is built for $torch_kind, not for $wanted" "" "LUN_TORCH_INDEX=$torch_index/cu130 or another of that kind"
  else
    say "keeping torch $version"
  fi
  printf 'torch==%s\n' "$version" >"$torch_pin"
}

install_project() {
  local project="." names="${extras% }"
  [[ -z "$names" ]] || project=".[${names// /,}]"
  say "installing lun${project#.}: lightning, diffusers, transformers and what they need (log: $log)"
  (cd "$root" && run_pip -c constraints.txt -c "$torch_pin" -e "$project") ||
    log_tail "the packages could not be installed" "bash scripts/setup.sh, once the cause above is mended"
  "$venv/bin/python" "$root/scripts/installed.py" check "$(sed s/torch==// "$torch_pin")" || exit 7
}

write_stamp() { printf '%s\n' "$root" "$1" "${extras:-none}" "$2" >"$stamp"; } # digest, kind of torch

install() {
  SECONDS=0
  make_venv
  rm -f "$log"
  write_stamp unfinished - # what was asked for is known even if this fails
  ensure_torch
  install_project
  write_stamp "$(fingerprint)" "$torch_kind"
  say "done in $SECONDS s"
}

read_arguments "$@"
satisfied && exit 0
if command -v flock >/dev/null; then
  exec 9<"$root" # one installation at a time; a lock on the folder leaves no file behind
  flock 9
  satisfied && exit 0
fi
install
