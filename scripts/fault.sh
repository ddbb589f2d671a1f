# shellcheck shell=bash
# Ends a script with a message in the form that the program's own have, and with the exit code that its id means.

fault() { # id, what happened, then label=text for where, why and fix; an empty text is left out
  local id="$1" line code
  printf 'error[%s]: %s\n' "$id" "$2" >&2
  for line in "${@:3}"; do
    [[ -z "${line#*=}" ]] || printf '  %-7s%s\n' "${line%%=*}:" "${line#*=}" >&2
  done
  case "$id" in
    CLI* | CFG* | RES*) code=2 ;;
    DAT*) code=3 ;;
    MOD*) code=4 ;;
    DEV*) code=5 ;;
    DEP*) code=7 ;;
    DSK*) code=8 ;;
    *) code=70 ;;
  esac
  exit "$code"
}
