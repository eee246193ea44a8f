#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that what a make target needs is there, and installs what the distribution has.
# Usage: needs.sh THING...
set -euo pipefail

go_minor=26

apt_install() {
  local package=$1 why=$2
  if ! command -v apt-get >/dev/null; then
    echo "error: $package is needed ($why): install it with your package manager" >&2
    exit 1
  fi
  local sudo=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "error: $package is needed ($why): run 'apt-get install $package' as root" >&2; exit 1; }
    sudo=sudo
  fi
  echo "installing $package ($why)"
  $sudo apt-get update -qq >/dev/null
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
}

for thing in "$@"; do
  case $thing in
    go)
      command -v go >/dev/null || { echo "error: Go 1.$go_minor or newer is needed: https://go.dev/dl/" >&2; exit 1; }
      minor=$(go env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/')
      [ "$minor" -ge "$go_minor" ] || { echo "error: Go 1.$go_minor or newer is needed, this is $(go env GOVERSION)" >&2; exit 1; }
      ;;
    disk)
      # A cold build of Kubernetes' servers writes about 3 GB of build cache and 2 GB of modules.
      cache=$(go env GOCACHE)
      mkdir -p "$cache"
      free=$(df --output=avail -BM "$cache" | tail -1 | tr -dc 0-9)
      used=$(du -sm "$cache" 2>/dev/null | cut -f1)
      if [ "$used" -lt 3000 ] && [ "$free" -lt 6000 ]; then
        echo "error: the first build needs about 6 GB of disk below $cache; ${free} MB are free" >&2
        exit 1
      fi
      ;;
    nmap) command -v nmap >/dev/null || apt_install nmap "the demo and the tests scan with it" ;;
    git) command -v git >/dev/null || apt_install git "the demo scans a repository" ;;
    *) echo "needs.sh: unknown thing $thing" >&2; exit 2 ;;
  esac
done
