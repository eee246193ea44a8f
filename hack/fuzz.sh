#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target, as many side by side as there are processors: all that read foreign text.
# Usage: fuzz.sh DURATION [PATTERN of paths]
set -euo pipefail
cd "$(dirname "$0")/.."
duration=$1 pattern=${2:-.}

one() { # package target duration
  local out
  if out=$(go test "./$1" -run '^$' -fuzz "^$2\$" -fuzztime "$3" -parallel 1 2>&1 </dev/null); then
    echo "ok   fuzz $1 $2: $(grep -oE 'execs: [0-9]+' <<<"$out" | tail -1)"
  elif grep -q 'context deadline exceeded' <<<"$out" && ! grep -qE 'Failing input|panic|hung or terminated' <<<"$out"; then
    # A race in Go's coordinator when time is up, mended in Go 1.27 (https://go.dev/issue/75804). A real failure names its input.
    echo "ok   fuzz $1 $2: $(grep -oE 'execs: [0-9]+' <<<"$out" | tail -1), time was up"
  else
    printf 'FAIL fuzz %s %s\n%s\n' "$1" "$2" "$out"
    return 1
  fi
}
export -f one

grep -rE '^func Fuzz' --include='*_test.go' apis cli console discovery findings forwarding hooks operator parsers podkit registry reports scanners settings | grep -E "$pattern" |
  sed -E 's|^(.*)/[^/]+:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' | sort |
  xargs -P "$(nproc)" -L 1 bash -c 'one "$0" "$1" '"$duration"
