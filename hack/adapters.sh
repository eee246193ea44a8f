#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the adapters around scanner engines into bin/, and lints and tests them. They are modules of their own, outside of go.work: what
# they link is as much as all the rest, and their engines choose its versions.
# Usage: adapters.sh [build|lint|test|licences] [ADAPTER...]     (nothing: build, lint and test of all)
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
steps="build lint test"
case ${1:-} in build | lint | test | licences) steps=$1; shift ;; esac
adapters=("${@:-}")
[ -n "${adapters[0]}" ] || adapters=($(ls registry/adapters))
# One set of flags for all steps: a library is compiled once.
export GOWORK=off CGO_ENABLED=0 GOFLAGS='-buildvcs=false -trimpath -gcflags=all=-dwarf=false'

# licences lists the modules that a program links, with the licence that each one's own text names.
licences() {
  go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' "$1" | sort -u | while read -r path version dir; do
    [ -d "${dir:-}" ] || continue
    case $path in github.com/scanyard/*) continue ;; esac
    text=$(cat "$dir"/LICEN[CS]E* "$dir"/COPYING* "$dir"/[Ll]icen[cs]e* 2>/dev/null | tr -s ' \n\t' ' ' || true)
    name=unknown
    case $text in
      *"Mozilla Public License Version 2.0"* | *"Mozilla Public License, version 2.0"*) name=MPL-2.0 ;;
      *"Apache License Version 2.0"* | *"Apache License, Version 2.0"*) name=Apache-2.0 ;;
      *"free and unencumbered software"*) name=Unlicense ;;
      *"Permission is hereby granted, free of charge"*) name=MIT ;;
      *"Permission to use, copy, modify, and"*"distribute this software"*) name=ISC ;;
      *"Redistribution and use in source and binary forms"*"endorse or promote"*) name=BSD-3-Clause ;;
      *"Redistribution and use in source and binary forms"*) name=BSD-2-Clause ;;
      *"into the public domain"*) name=Public-domain ;;
    esac
    echo "$name $path $version"
  done | sort
}

for adapter in "${adapters[@]}"; do
  case $adapter in trivy) export GOEXPERIMENT=jsonv2 ;; *) unset GOEXPERIMENT ;; esac
  for step in $steps; do
    echo "$step adapter-$adapter"
    case $step in
      build) (cd "registry/adapters/$adapter" && go mod tidy -diff && go build -ldflags='-s -w' -o "$root/bin/" "./cmd/adapter-$adapter") ;;
      lint) (cd "registry/adapters/$adapter" && "$root"/bin/tools/golangci-lint-* run -c "$root/.golangci.yml" ./...) ;;
      test) (cd "registry/adapters/$adapter" && go test ./...) ;;
      licences) (cd "registry/adapters/$adapter" && licences "./cmd/adapter-$adapter") ;;
    esac
  done
done
