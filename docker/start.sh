#!/usr/bin/env bash
# Runs a command, or a shell, in a container with this machine's GPUs; builds the container's image where it is missing.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: docker/start.sh [cuda|rocm|cpu] [--build] [--data DIR] [--logs DIR] [--models DIR] [--gpus all|0,1] [--print] [-- COMMAND]

  cuda|rocm|cpu   the hardware (default: what the machine has)
  --build         build the image anew (it is built when it is missing or older than what it installs)
  --data DIR      a folder of pictures, read-only, under the same path in the container
  --models DIR    a folder of weights, likewise
  --logs DIR      where runs go: logs/ in the container (default: logs/ of this project)
  --gpus all|0,1  which GPUs (default: all)
  --print         show the commands and start nothing
  -- COMMAND      what to run in the project's folder; without one, a shell

Examples: docker/start.sh
          docker/start.sh cuda -- python main.py --base configs/training-lightning.yaml configs/demo/emoji.yaml -t
          docker/start.sh rocm --data /mnt/pictures --gpus 0,1 -- python main.py --base mine.yaml --data_root /mnt/pictures -t

environment:
  LUN_ENGINE        docker or podman (default: the one that is there, docker first)
  LUN_TORCH_INDEX   the package index that torch comes from, while the image is built
  HF_HOME, LUN_CACHE, XDG_CACHE_HOME: caches of the hub, of lun and of pip, shared with the container
TEXT
}

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
# shellcheck source=scripts/fault.sh
source "$root/scripts/fault.sh"
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"
# shellcheck source=docker/engine.sh
source "$root/docker/engine.sh"
# shellcheck source=docker/image.sh
source "$root/docker/image.sh"
# shellcheck source=docker/devices.sh
source "$root/docker/devices.sh"
# shellcheck source=docker/folders.sh
source "$root/docker/folders.sh"

kind="" data="" models="" logs="$root/logs" gpus=all rebuild=0 only_print=0
command=()
options=() # of `docker run`

read_arguments() {
  while (($#)); do
    [[ "$1" != --?*=* ]] || set -- "${1%%=*}" "${1#*=}" "${@:2}"
    case "$1" in
      cuda | rocm | cpu)
        [[ -z "$kind" ]] || fault CLI02 "$kind and $1 cannot be used together" fix="docker/start.sh $1"
        kind="$1"
        ;;
      --build) rebuild=1 ;;
      --print) only_print=1 ;;
      --data | --models | --logs | --gpus)
        [[ -n "${2:-}" ]] || fault CLI03 "$1 needs a value" fix="docker/start.sh --help"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
      -h | --help) usage && exit 0 ;;
      --) command=("${@:2}") && return ;;
      *) fault CLI03 "unknown argument $1" fix="docker/start.sh --help; a command to run comes after --" ;;
    esac
    shift
  done
}

spelt() { # words as one line that a shell reads back
  local word line=""
  for word in "$@"; do
    [[ "$word" =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]] || word="${word@Q}"
    line+=" $word"
  done
  printf '%s\n' "${line# }"
}

start() {
  local run
  add_terminal
  run=("$engine" run --rm "${options[@]}" "$image" "${command[@]}")
  if ((only_print)); then
    ! must_build || spelt "${build[@]}"
    spelt "${run[@]}"
    return
  fi
  ! must_build || build_image
  exec "${run[@]}" # so that signals and the exit code are the container's
}

read_arguments "$@"
find_engine
settle_kind
name_image
add_user
add_devices
add_folders
add_environment
start
