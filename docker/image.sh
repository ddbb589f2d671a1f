# shellcheck shell=bash
# The image: one for each kind of hardware, and built again when what it installs has changed.

name_image() { # leaves image, its digest and the command that builds it
  local name
  image="lun:$kind"
  digest="$(digest_of_parts)"
  build=("$engine" build --file "$root/docker/Dockerfile" --build-arg "KIND=$kind")
  for name in LUN_TORCH_INDEX PIP_INDEX_URL PIP_EXTRA_INDEX_URL; do
    [[ -z "${!name:-}" ]] || build+=(--build-arg "$name=${!name}")
  done
  build+=(--label "lun.parts=$digest" --tag "$image" "$root")
  # a checkpoint takes longer to write than the ten seconds that an engine waits before it kills
  options+=(--pull=never --stop-timeout 600)
}

digest_of_parts() { # the code itself is no part: the container sees the checkout
  (cd "$root" && cat pyproject.toml setup.py constraints.txt docker/Dockerfile docker/entry.sh scripts/{setup,fault,machine}.sh) |
    sha256sum | cut -c 1-16
}

must_build() {
  local built
  ((!rebuild)) || return 0
  built="$("$engine" image inspect --format '{{index .Config.Labels "lun.parts"}}' "$image" 2>/dev/null)" || return 0
  [[ "$built" != "$digest" ]]
}

build_image() {
  local code=0
  printf 'build    %s, which takes some minutes and gigabytes the first time\n' "$image" >&2
  "${build[@]}" >&2 || code=$?
  ((!code)) || fault DEP01 "the image $image could not be built" \
    why="$engine build ended with exit code $code; the lines above say where" \
    fix="docker/start.sh $kind --build, once the cause is mended; without a container: bash scripts/setup.sh"
}
