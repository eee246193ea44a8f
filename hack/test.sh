#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests; the programs and tools are built already (see the Makefile).
# Unit tests compute, and suites wait, so they run side by side, in lanes. What a lane has said is shown when
# it has ended; bin/reports has it, too, and JUnit reports of the suites.
# Usage: test.sh [e2e]; SUITES, LABELS, FOCUS and PROCS choose what is run of the suites (see
# suite.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
export LOCALCLUSTER_BIN=$PWD/bin/localcluster
export SCANYARD_BIN=$PWD/bin HELM=$PWD/bin/tools/helm
# Tests that find neither would be skipped without a word.
CHROMIUM=$(command -v chromium)
export CHROMIUM
# The mirror that this machine's apt uses anyway.
export IMAGES_MIRROR=${IMAGES_MIRROR:-machine}
reports=$PWD/bin/reports
mkdir -p "$reports"
rm -f "$reports"/*.log
# Packages of tests use the same API servers one after another.
TESTCLUSTER_POOL=$(mktemp -d)
export TESTCLUSTER_POOL
end_pool() {
  for state in "$TESTCLUSTER_POOL"/*/cluster.json; do
    [ ! -e "$state" ] || "$LOCALCLUSTER_BIN" down --data-dir "$(dirname "$state")" >/dev/null || true
  done
  rm -rf "$TESTCLUSTER_POOL"
}
trap end_pool EXIT
declare -A lanes
# What a lane took goes to the end of its log.
TIMEFORMAT='%0R s elapsed, %0U s + %0S s of CPU'

# lane NAME COMMAND... runs beside the others.
lane() {
  local name=$1 began=$SECONDS
  shift
  echo "$name begins; its log grows in bin/reports/$name.log"
  (
    rc=0
    { time "$@"; } >"$reports/$name.log" 2>&1 || rc=$?
    [ "$rc" = 0 ] || echo "lane $name failed" >>"$reports/$name.log"
    # One echo of the whole, so that lanes that end together do not mix.
    echo "== $name ($((SECONDS - began))s)
$(grep -v 'no test files' "$reports/$name.log" || true)"
    exit "$rc"
  ) &
  lanes[$name]=$!
}

# each runs commands one after the other, also when one fails.
each() {
  local rc=0
  for command in "$@"; do
    $command || rc=1
  done
  return "$rc"
}

# Go does not see what a TestMain reads, such as CRDs and programs: results of packages with an API server are never taken from the cache.
# Lint vets; without debugging data a test links in two thirds of the time.
# Suites wait for pods and have the processors first. Four packages at once, as half of them wait for a server or a far end.
units() {
  local with_server=github.com/scanyard/scanyard/tests/testcluster rc=0
  go list -test -f '{{.ImportPath}} {{join .Deps " "}}' work | awk -v server="$with_server" '
    $1 ~ /\.test$/ {kind = "pure"; for (i = 2; i <= NF; i++) if ($i == server) kind = "server"; sub(/\.test$/, "", $1); print kind, $1}
  ' >"$reports/packages"
  nice -n 5 hack/gotest.sh -p=4 -timeout=20m -vet=off -ldflags=-w -- $(sed -n 's/^pure //p' "$reports/packages") || rc=1
  nice -n 5 hack/gotest.sh -count=1 -p=4 -timeout=20m -vet=off -ldflags=-w -- $(sed -n 's/^server //p' "$reports/packages") || rc=1
  return "$rc"
}

charts() { make -C charts test HELM="$HELM"; }

# plain are the packages of the tests' module that have no specs.
plain() {
  (cd tests && GOWORK=off ../hack/gotest.sh -count=1 -timeout=20m -vet=off -ldflags=-w -p=1 -- \
    $(GOWORK=off go list ./... | grep -vE '/tests/(e2e|fault|scoped|cli)$'))
}

# The demo of registry scanning fails where a step has another result than it shows. What it waits for costs a minute, and little of it CPU.
demo_registry() { bin/demo registry; }

# These wait more than they compute, and the lane of cli is the first to end: they come behind its suites.
after=()
if [ "${1:-all}" = all ]; then
  lane units each units charts
  after=(demo_registry plain)
fi
if [ -n "${SUITES:-}" ]; then
  lane suites each "hack/suite.sh $SUITES" "${after[@]}"
else
  lane e2e hack/suite.sh e2e
  lane fault hack/suite.sh fault
  lane cli each 'hack/suite.sh cli scoped' "${after[@]}"
fi
failed=0
for name in "${!lanes[@]}"; do
  wait "${lanes[$name]}" || failed=1
done

# A package of plain Go tests, a rendered chart and a spec are a check each.
total() { { grep -ohE "$1" "$reports"/*.log || true; } | { grep -oE '[0-9]+' || true; } | awk '{n += $1} END {print n + 0}'; }
lines() { { grep -hE "$1" "$reports"/*.log || true; } | wc -l; }
ok=$(($(lines '^ok ') + $(total '[0-9]+ Passed')))
bad=$(($(lines '^(FAIL\s+\S+|make.*Error)') + $(total '[0-9]+ Failed')))
if [ "$failed" = 1 ] && [ "$bad" = 0 ]; then
  bad=1
fi
grep -hE '^flaked: .* passed only|[1-9][0-9]* Flaked' "$reports"/*.log || true
echo "took ${SECONDS}s"
echo "checks: $ok passed, $bad failed"
exit "$failed"
