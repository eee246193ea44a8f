#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests; the programs and tools are built already (see the Makefile).
# Usage: test.sh [e2e]
set -euo pipefail
cd "$(dirname "$0")/.."
export LOCALCLUSTER_BIN=$PWD/bin/localcluster
export SCANYARD_BIN=$PWD/bin HELM=$PWD/bin/tools/helm
# Tests that find neither would be skipped without a word.
CHROMIUM=$(command -v chromium)
export CHROMIUM
# The mirror that this machine uses anyway.
apt_mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    awk '/^(URIs:|deb )/ && !found {for (i = 2; i <= NF && !found; i++) if ($i ~ /^https?:.*debian\/?$/) {sub("/$", "", $i); found = $i}} END {print found}'
}
IMAGES_MIRROR=${IMAGES_MIRROR:-$(apt_mirror || true)}
export IMAGES_MIRROR
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

# run shows the packages as they end, and counts.
run() {
  echo "== $1"
  shift
  # With pipefail the command's own failure is that of the pipe; grep's, which finds nothing, is none.
  if ! "$@" 2>&1 | tee -a "$log" | { grep --line-buffered -vE 'no test files' || true; }; then
    failed=1
  fi
}

only=${1:-all}
if [ "$only" = all ]; then
  run "unit tests, and tests on a real API server" go test work
  run "charts" make -C charts test HELM="$HELM"
  run "local cluster" env GOWORK=off go -C tests test -count=1 -timeout 20m ./localcluster/...
fi
run "end to end" env GOWORK=off go -C tests test -count=1 -timeout 40m -p 1 $(GOWORK=off go -C tests list ./... | grep -v /localcluster)
# A package of Go tests or a rendered chart is a check.
ok=$(grep -cE '^ok ' "$log" || true)
bad=$(grep -cE '^(FAIL\s+\S+|make.*Error)' "$log" || true)
echo "checks: $ok passed, $bad failed"
exit $failed
