#!/usr/bin/env bash
# Power profile and watt limit of AMD GPUs, through the files of the amdgpu driver, and back as they were.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: bash scripts/amd-power.sh [--gpu N] [--profile NAME] [--watts W] [--print]
       bash scripts/amd-power.sh --restore [--gpu N] [--print]

  (nothing)        show profiles and limits of every AMD GPU
  --profile NAME   such as COMPUTE, out of those that the GPU has
  --watts W        the most that the GPU may draw
  --restore        what was there before the first change
  --gpu N          only card N (/sys/class/drm/cardN); all of them by default
  --print          show what would be written, as commands, and write nothing

Only root may write: sudo bash scripts/amd-power.sh --profile COMPUTE --watts 200
A reboot undoes everything.
TEXT
}

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
# shellcheck source=scripts/fault.sh
source "$root/scripts/fault.sh"
# shellcheck source=scripts/machine.sh
source "$root/scripts/machine.sh"

profile="" watts="" gpu="" restore=0 only_print=0
saved="$sysroot/run/lun-amd-power" # gone after a reboot, as the settings are

read_arguments() {
  while (($#)); do
    case "$1" in
      --restore) restore=1 ;;
      --print) only_print=1 ;;
      --profile | --watts | --gpu)
        [[ -n "${2:-}" ]] || fault CLI03 "$1 needs a value" fix="bash scripts/amd-power.sh --help"
        printf -v "${1#--}" %s "$2"
        shift
        ;;
      -h | --help) usage && exit 0 ;;
      *) fault CLI03 "unknown argument $1" fix="bash scripts/amd-power.sh --help" ;;
    esac
    shift
  done
  [[ "$watts" =~ ^([1-9][0-9]*)?$ ]] || fault CLI03 "--watts takes a whole number, not $watts" fix="--watts 200"
  ((!restore)) || [[ -z "$profile$watts" ]] ||
    fault CLI02 "--restore sets what was there before, so it goes with neither --profile nor --watts" fix="--restore"
}

find_cards() { # folders of the AMD GPUs that have both settings; an integrated GPU has not
  local card
  cards=()
  for card in "$sysroot"/sys/class/drm/card*; do
    [[ "$card" =~ /card[0-9]+$ && -z "$gpu" || "$card" == */card"$gpu" ]] || continue
    [[ "$(cat "$card/device/vendor" 2>/dev/null)" == 0x1002 && -e "$card/device/pp_power_profile_mode" ]] || continue
    limit_file "$card" >/dev/null && cards+=("$card")
  done
  ((${#cards[@]})) || fault DEV01 "no AMD GPU with power settings found${gpu:+ as card$gpu}" where=/sys/class/drm \
    why="there is: $(cd "$sysroot/sys/class/drm" 2>/dev/null && echo card*)" fix="bash scripts/amd-power.sh without --gpu"
}

limit_file() { # card -> its watt limit, in millionths
  local file
  for file in "$1"/device/hwmon/hwmon*/power1_cap; do
    [[ -e "$file" ]] && printf '%s\n' "$file" && return
  done
  return 1
}

profiles() { # card -> lines `number NAME`, with a star on the one that is on; the drivers' tables differ in all else
  grep -oE '[0-9]+ +[0-9]?[A-Z][A-Z0-9_]+ *\*?' "$1/device/pp_power_profile_mode" | tr -s ' ' | sed 's/ *\*/ */'
}

in_watts() { printf '%s\n' $(($(cat "$1") / 1000000)); }

show() { # card
  local cap number name star on=none all=()
  cap="$(limit_file "$1")"
  while read -r number name star; do
    all+=("$name")
    [[ -z "$star" ]] || on="$name"
  done < <(profiles "$1")
  printf '%s  %s W of %s to %s  profile %s of %s\n' "${1##*/}" "$(in_watts "$cap")" "$(in_watts "${cap}_min")" \
    "$(in_watts "${cap}_max")" "$on" "${all[*]}"
}

put() { # value, file
  if ((only_print)); then
    printf 'echo %s >%s\n' "$1" "$2"
  else
    (echo "$1" >"$2") 2>/dev/null || fault DSK01 "cannot write $2" why="as $(id -un)" \
      fix="sudo bash scripts/amd-power.sh ..., which only root may do; what was set so far: --restore"
  fi
}

remember() { # card; only the first time, so that --restore leads back to where a person began
  local file="$saved/${1##*/}" number name star on=""
  ((only_print)) || [[ -e "$file" ]] && return
  while read -r number name star; do
    [[ -z "$star" ]] || on="$number"
  done < <(profiles "$1")
  mkdir -p "$saved" 2>/dev/null || fault DSK01 "cannot write $saved" why="as $(id -un)" fix="sudo bash scripts/amd-power.sh ..."
  printf '%s\n' "$(cat "$1/device/power_dpm_force_performance_level")" "${on:-none}" "$(cat "$(limit_file "$1")")" >"$file"
}

number_of_profile() { # card
  local number name star names=()
  while read -r number name star; do
    [[ "$name" != "${profile^^}" ]] || { printf '%s\n' "$number" && return; }
    names+=("$name")
  done < <(profiles "$1")
  fault CLI03 "${1##*/} has no profile $profile" why="it has ${names[*]}" fix="--profile COMPUTE"
}

check_watts() { # card
  local cap
  cap="$(limit_file "$1")"
  ((watts >= $(in_watts "${cap}_min") && watts <= $(in_watts "${cap}_max"))) ||
    fault CLI03 "${1##*/} cannot be limited to $watts W" why="it takes $(in_watts "${cap}_min") to $(in_watts "${cap}_max") W" \
      fix="--watts $(in_watts "${cap}_max")"
}

set_card() { # card, number of the profile
  remember "$1"
  [[ -z "$watts" ]] || put "${watts}000000" "$(limit_file "$1")"
  [[ -n "$2" ]] || return 0
  put manual "$1/device/power_dpm_force_performance_level" # in which alone a profile may be chosen
  put "$2" "$1/device/pp_power_profile_mode"
}

set_cards() {
  local card number numbers=()
  for card in "${cards[@]}"; do # everything is looked at before anything is changed
    number=""
    [[ -z "$profile" ]] || number="$(number_of_profile "$card")" || exit
    [[ -z "$watts" ]] || check_watts "$card"
    numbers+=("$number")
  done
  for number in "${!cards[@]}"; do
    set_card "${cards[number]}" "${numbers[number]}"
  done
}

restore_card() { # card
  local file="$saved/${1##*/}" level number limit
  [[ -e "$file" ]] || fault RES01 "nothing to restore for ${1##*/}" why="it was not changed since the last start of the machine" \
    fix="bash scripts/amd-power.sh shows what is set"
  { read -r level && read -r number && read -r limit; } <"$file"
  put "$limit" "$(limit_file "$1")"
  if [[ "$number" != none ]]; then
    put manual "$1/device/power_dpm_force_performance_level"
    put "$number" "$1/device/pp_power_profile_mode"
  fi
  put "$level" "$1/device/power_dpm_force_performance_level"
  ((only_print)) || rm "$file"
}

read_arguments "$@"
find_cards
if ((restore)); then
  for card in "${cards[@]}"; do restore_card "$card"; done
elif [[ -n "$profile$watts" ]]; then
  set_cards
else
  for card in "${cards[@]}"; do show "$card"; done
fi
