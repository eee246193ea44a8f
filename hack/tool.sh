#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs one version of a Go tool as bin/tools/NAME-VERSION.
# Usage: tool.sh NAME VERSION PACKAGE
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 version=$2 package=$3
dir=$PWD/bin/tools
mkdir -p "$dir/.new"
hack/slow.sh "building $name $version" env GOWORK=off GOBIN="$dir/.new" go install "$package@$version"
mv "$dir/.new/"* "$dir/$name-$version"
rmdir "$dir/.new"
ln -sf "$name-$version" "$dir/$name"
