#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures this operator and secureCodeBox's on the same machine, in turn, each on a fresh local cluster whose pods are simulated:
# what a Scan with one hook costs. Prints ratios and goals; docs/benchmarks.md says what the figures mean.
# Usage: [SCANS=300] [IN_FLIGHT=50] [ROUNDS=3] side-by-side.sh CHECKOUT, the folder of a clone of secureCodeBox or of its operator.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -ne 1 ] || [ ! -d "$1" ]; then
  sed -n 's/^# Usage: /usage: /p' "$0" >&2
  exit 2
fi
peer=$(cd "$1" && pwd)
if [ -f "$peer/operator/go.mod" ]; then peer=$peer/operator; fi
if [ ! -f "$peer/go.mod" ]; then
  echo "side-by-side: neither $peer nor its folder operator has a go.mod" >&2
  exit 2
fi
crds=
for folder in "$peer/crds" "$peer/config/crd/bases"; do
  if compgen -G "$folder/*.yaml" >/dev/null; then crds=$folder && break; fi
done
if [ -z "$crds" ]; then
  echo "side-by-side: $peer has CRDs neither in crds nor in config/crd/bases" >&2
  exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
package=.
if [ -d "$peer/cmd" ] && [ ! -f "$peer/main.go" ]; then package=./cmd; fi
echo "== building secureCodeBox's operator of $peer"
(cd "$peer" && GOWORK=off GOFLAGS=-mod=mod go build -o "$work/peer" "$package")

measure() { # NAME ROUND ARGUMENTS...
  local name=$1 round=$2
  shift 2
  echo "== $name, round $round; load $(cut -d' ' -f1-2 /proc/loadavg)"
  bin/bench -n "${SCANS:-300}" -in-flight "${IN_FLIGHT:-50}" -hooks 1 -summary "$work/$name-$round.json" "$@"
}

for round in $(seq 1 "${ROUNDS:-3}"); do
  measure peer "$round" -peer "$work/peer" -crds "$crds"
  measure ours "$round"
  bin/bench compare "$work/ours-$round.json" "$work/peer-$round.json"
done
