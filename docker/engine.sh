# shellcheck shell=bash
# Which container engine there is, and what the two do differently for the person who starts a container.

find_engine() { # the first that answers; leaves what ask_engine does
  local candidates=(docker podman) candidate silent=""
  [[ -z "${LUN_ENGINE:-}" ]] || candidates=("$LUN_ENGINE")
  for candidate in "${candidates[@]}"; do
    command -v "$candidate" >/dev/null || continue
    ask_engine "$candidate" && return
    silent="${silent:-$candidate}"
  done
  [[ -n "$silent" ]] || fault DEP01 "no container engine found" why="not on PATH: ${candidates[*]}" \
    fix="install one (Debian, Ubuntu: sudo apt install podman), or work without: bash scripts/setup.sh"
  ask_engine "$silent" || engine_is_silent
}

ask_engine() { # leaves engine, podman (1 where it is one), and engine_facts: what it says of itself
  local question=(info --format '{{json .SecurityOptions}}')
  engine="$1"
  podman=0
  if [[ "$("$engine" --version 2>/dev/null)" == podman* ]]; then # whatever its name: it is often installed as docker, too
    podman=1
    question=(info)
  fi
  engine_facts="$("$engine" "${question[@]}" 2>&1)"
}

engine_is_silent() { # which does not matter to a command that is only shown
  local fix="podman info says more"
  ((podman)) || fix="sudo systemctl start docker; may you use it? sudo usermod -aG docker $(id -un), then log in again"
  ((only_print)) || fault DEP01 "$engine is installed but does not answer" why="${engine_facts##*$'\n'}" fix="$fix"
}

add_user() { # what the container writes has to belong to the caller
  local uid gid
  uid="$(id -u)" gid="$(id -g)"
  if ((podman && uid)); then
    options+=(--userns=keep-id)
  elif [[ "$engine_facts" == *name=rootless* ]]; then
    uid=0 gid=0 # the root of a rootless docker is the caller
  fi
  options+=(--user "$uid:$gid")
}

add_terminal() {
  options+=(--interactive)
  [[ ! -t 0 || ! -t 1 ]] || options+=(--tty)
}

add_environment() { # named without a value, so that no token shows in a list of processes
  local name passed=(
    HF_TOKEN HF_ENDPOINT HF_HUB_OFFLINE WANDB_API_KEY WANDB_MODE NO_COLOR LUN_DEBUG OMP_NUM_THREADS
    PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL
    HSA_OVERRIDE_GFX_VERSION MIOPEN_FIND_MODE
  )
  for name in "${passed[@]}"; do
    [[ -z "${!name+given}" ]] || options+=(--env "$name")
  done
}
