# shellcheck shell=bash
# What of the machine's disk a container sees: the project and the data to read, runs and caches to write.

home=/home/lun # the home in the image

add_folders() {
  local cache="${XDG_CACHE_HOME:-$HOME/.cache}"
  owned=1
  require_folder DAT01 data --data "$data"
  require_folder MOD01 models --models "$models"
  mount_folder "$root" /lun ro
  ((only_print)) || mkdir -p "$root/logs" 2>/dev/null || true # where logs are mounted in a project that is read-only there
  mount_written "$(absolute "$logs")" /lun/logs --logs
  [[ -z "$data" ]] || mount_folder "$(absolute "$data")" "" ro
  [[ -z "$models" ]] || mount_folder "$(absolute "$models")" "" ro
  mount_written "${HF_HOME:-$cache/huggingface}" "$home/.cache/huggingface" HF_HOME
  mount_written "${LUN_CACHE:-$cache/lun}" "$home/.cache/lun" LUN_CACHE
  mount_written "$cache/pip" "$home/.cache/pip" XDG_CACHE_HOME
  settle_labels
}

absolute() { # without following links, so that the path inside is the one that a person types
  (CDPATH="" cd -- "$1" 2>/dev/null && pwd) && return
  [[ "$1" == /* ]] && printf '%s\n' "$1" || printf '%s/%s\n' "$PWD" "$1"
}

require_folder() { # id of the fault, what it is for, option, path
  local nearest="$4" inside
  [[ -n "$4" && ! -d "$4" ]] || return 0
  while [[ -n "$nearest" && ! -d "$nearest" ]]; do
    [[ "$nearest" == */* ]] && nearest="${nearest%/*}" || nearest=.
  done
  inside=("${nearest:=/}"/*)
  inside=("${inside[@]:0:8}")
  fault "$1" "$2 folder not found: $4" where="$3" \
    why="the nearest existing parent is $nearest, which contains: ${inside[*]##*/}" \
    fix="$3 with a folder that exists"
}

mount_folder() { # path, where it is in the container (default: at the same path), ro or rw
  local flags="$3"
  [[ "$1" != *:* ]] || fault CLI03 "a colon in a path cannot be given to $engine: $1" fix="rename the folder, or link to it"
  ((!podman)) || flags+=,Z # has a meaning where SELinux is on, see settle_labels
  [[ ! -e "$1" || -O "$1" ]] || owned=0
  options+=(--volume "$1:${2:-$1}:$flags")
}

mount_written() { # path, where, what sets it; it is made here, because an engine would make it as root
  if ((!only_print)); then
    mkdir -p "$1" 2>/dev/null && [[ -w "$1" ]] ||
      fault DSK01 "cannot write to $1" where="$3" why="as $(id -un)" fix="$3 with a folder that you may write to"
  fi
  mount_folder "$1" "$2" rw
}

settle_labels() { # where SELinux is on, Z labels a folder for one level: the same for all our containers, so that two share
  ((podman)) && [[ -e "$sysroot/sys/fs/selinux/enforce" ]] || return 0
  if [[ "$kind" == cpu ]] && ((owned)); then
    options+=(--security-opt "label=level:s0:c271,c828")
  else # devices of GPUs have labels that a confined container may not use, and only an owner may relabel a folder
    options+=(--security-opt label=disable)
  fi
}
