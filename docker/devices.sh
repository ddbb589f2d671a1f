# shellcheck shell=bash
# The hardware: is it there, may the caller use it, and how does a container get it.

settle_kind() { # the kind that was asked for has to be there; without one, what the machine has
  [[ "$gpus" =~ ^(all|[0-9]+(,[0-9]+)*)$ ]] ||
    fault CLI03 "--gpus takes all or numbers, not $gpus" fix="--gpus all, or --gpus 0,1"
  if [[ -z "$kind" ]]; then
    kind="$(machine_kind)"
    printf 'kind     %s, as found on this machine\n' "$kind" >&2
  fi
  if [[ "$kind" == cpu && "$gpus" != all ]]; then
    fault CLI02 "--gpus $gpus has no meaning on the CPU" fix="docker/start.sh cuda --gpus $gpus, or docker/start.sh cpu"
  fi
  "require_$kind"
}

require_cpu() { :; }

require_cuda() {
  local answer
  answer="$(nvidia-smi -L 2>&1)" && return
  command -v nvidia-smi >/dev/null || answer="nvidia-smi is not on PATH, so no driver is installed"
  fault DEV01 "no NVIDIA GPU found" where="docker/start.sh cuda" why="${answer%%$'\n'*}" \
    fix="install NVIDIA's driver; without a GPU: docker/start.sh cpu"
}

require_rocm() {
  local device="$sysroot/dev/kfd"
  [[ -e "$device" ]] || fault DEV01 "no AMD GPU found" where="docker/start.sh rocm" \
    why="/dev/kfd does not exist, so the kernel's amdgpu driver has found no GPU that can compute" \
    fix="sudo modprobe amdgpu, and see docs/amd.md; without a GPU: docker/start.sh cpu"
  [[ -r "$device" && -w "$device" ]] || fault DEV01 "the AMD GPU may not be used by $(id -un)" \
    why="/dev/kfd belongs to the group $(stat -c %G "$device")" fix="sudo usermod -aG video,render $(id -un), then log in again"
}

add_devices() {
  options+=(--ipc=host) # loader workers hand pictures over in /dev/shm, of which a container has 64 MiB
  "add_$kind"
}

add_cpu() { :; }

add_cuda() {
  if ((!podman)); then
    [[ "$gpus" == all ]] && options+=(--gpus all) || options+=(--gpus "\"device=$gpus\"")
    return
  fi
  grep -qs nvidia.com/gpu "$sysroot"/{etc,var/run,run}/cdi/* ||
    fault DEP01 "podman does not know the NVIDIA GPUs" why="no description of them (CDI) in /etc/cdi or /var/run/cdi" \
      fix="install NVIDIA's container toolkit, then: sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
  local gpu
  for gpu in ${gpus//,/ }; do
    options+=(--device "nvidia.com/gpu=$gpu")
  done
}

add_rocm() {
  local gid
  options+=(--device /dev/kfd --device /dev/dri)
  if ((podman && $(id -u))); then
    options+=(--group-add keep-groups) # numbers of groups mean others inside
  else
    for gid in $(stat -c %g "$sysroot/dev/kfd" "$sysroot"/dev/dri/* 2>/dev/null | sort -nu); do
      options+=(--group-add "$gid")
    done
  fi
  [[ "$gpus" == all ]] || options+=(--env "ROCR_VISIBLE_DEVICES=$gpus")
}
