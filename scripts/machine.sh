# shellcheck shell=bash
# What hardware a machine has. LUN_SYSROOT is another place for /dev, /sys and /etc; the tests have their own.

sysroot="${LUN_SYSROOT:-}"

machine_kind() { # cuda, rocm or cpu
  if nvidia-smi -L >/dev/null 2>&1; then
    echo cuda
  elif [[ -e "$sysroot/dev/kfd" ]]; then
    echo rocm
  else
    echo cpu
  fi
}
