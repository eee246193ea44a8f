#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that what a make target needs is there, and installs what the distribution has.
# Usage: needs.sh THING...
set -euo pipefail

go_minor=26

# as_root says how a command is run as root: nothing, or sudo.
as_root() {
  [ "$(id -u)" = 0 ] && return
  command -v sudo >/dev/null || { echo "error: $1 is needed ($2): run 'apt-get install $1' as root" >&2; exit 1; }
  echo sudo
}

apt_install() {
  local package=$1 why=$2 sudo
  if ! command -v apt-get >/dev/null; then
    echo "error: $package is needed ($why): install it with your package manager" >&2
    exit 1
  fi
  sudo=$(as_root "$package" "$why")
  echo "installing $package ($why)"
  $sudo apt-get update -qq >/dev/null
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
}

# install_quietly installs a server's program without starting its service: nothing listens afterwards that did not before.
install_quietly() {
  local package=$1 why=$2 policy=/usr/sbin/policy-rc.d sudo made=""
  sudo=$(as_root "$package" "$why")
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
    $sudo chmod +x "$policy"
    made=yes
  fi
  apt_install "$package" "$why; its service stays off"
  [ -z "$made" ] || $sudo rm -f "$policy"
  if [ -d /run/systemd/system ]; then
    $sudo systemctl disable "${@:3}" >/dev/null 2>&1 || true
  fi
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
    cc) command -v "$(go env CC)" >/dev/null || apt_install gcc "Go's race detector is linked with it" ;;
    git) command -v git >/dev/null || apt_install git "the demo scans a repository" ;;
    ncrack) command -v ncrack >/dev/null || apt_install ncrack "the tests scan with it" ;;
    whatweb) command -v whatweb >/dev/null || apt_install whatweb "the tests scan with it" ;;
    firefox) command -v firefox >/dev/null || apt_install firefox-esr "the tests take screenshots with it" ;;
    testssl) command -v testssl >/dev/null || apt_install testssl.sh "the tests scan with it" ;;
    chromium) command -v chromium >/dev/null || apt_install chromium "the tests open reports with it" ;;
    sshd) command -v sshd >/dev/null || [ -x /usr/sbin/sshd ] || install_quietly openssh-server "the tests scan it" ssh.service ssh.socket ;;
    postgresql) ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || install_quietly postgresql "the tests keep reports in it" postgresql.service ;;
    mariadb) command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || apt_install mariadb-server-core "the tests keep reports in it" ;;
    *) echo "needs.sh: unknown thing $thing" >&2; exit 2 ;;
  esac
done
