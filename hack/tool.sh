#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs one version of a Go tool as bin/tools/NAME-VERSION. With a MODULE, it is built from a module that requires
# nothing but that one, with its own go.sum: "go install" also asks the proxy for all versions, which not every proxy tells.
# With the folder of a module of ours, which names the tool in its go.mod, it is built with the libraries of that module.
# Usage: tool.sh NAME VERSION PACKAGE [MODULE | FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 version=$2 package=$3 module=${4:-}
dir=$PWD/bin/tools
mkdir -p "$dir/.new"
if [ -z "$module" ]; then
  hack/slow.sh "building $name $version" env GOWORK=off GOBIN="$dir/.new" go install "$package@$version"
elif [ -f "$module/go.mod" ]; then
  hack/slow.sh "building $name $version" env GOWORK=off go -C "$module" build -ldflags='-s -w' -o "$dir/.new/$name" "$package"
else
  tmp=$(mktemp -d)
  trap 'rm -rf "$tmp"' EXIT
  printf 'module tool\n\ngo 1.26.0\n\nrequire %s %s\n' "$module" "$version" >"$tmp/go.mod"
  eval "$(GOWORK=off go -C "$tmp" mod download -json "$module@$version" | sed -nE 's/^\t"(Dir|Sum)": "([^"]*)",?$/\1=\2/p')"
  cat "$Dir/go.sum" >"$tmp/go.sum"
  printf '%s %s %s\n' "$module" "$version" "$Sum" >>"$tmp/go.sum"
  hack/slow.sh "building $name $version" env GOWORK=off go -C "$tmp" build -mod=mod -o "$dir/.new/$name" "$package"
fi
mv "$dir/.new/"* "$dir/$name-$version"
rmdir "$dir/.new"
ln -sf "$name-$version" "$dir/$name"
