#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target of the parsers, and of what reads foreign text elsewhere.
# Usage: fuzz.sh DURATION
set -euo pipefail
cd "$(dirname "$0")/.."
duration=$1
grep -rlE '^func Fuzz' --include='*_test.go' parsers hooks apis | while read -r file; do
  package=$(dirname "$file")
  grep -oE '^func Fuzz[A-Za-z0-9_]*' "$file" | sed 's/func //' | while read -r target; do
    echo "fuzz $package $target for $duration"
    go test "./$package" -run '^$' -fuzz "^$target\$" -fuzztime "$duration" </dev/null
  done
done
