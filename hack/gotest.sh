#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs go test. Packages that fail are run once more by themselves: what then passes depends on what else the machine does,
# which is a defect of the test, and is told as "flaked". ATTEMPTS=1 takes each failure for one.
# Usage: gotest.sh ARGUMENTS OF GO TEST -- PACKAGES...
set -euo pipefail
args=()
while [ "$1" != -- ]; do args+=("$1"); shift; done
shift

out=$(mktemp)
trap 'rm -f "$out"' EXIT
go test "${args[@]}" "$@" >"$out" 2>&1 && { cat "$out"; exit 0; }
mapfile -t failed < <(awk -F'\t' '$1 == "FAIL" && NF >= 3 && $3 !~ /failed\]$/ {print $2}' "$out")
# More than three are no accident, and what does not compile will not do so now.
if [ "${ATTEMPTS:-2}" = 1 ] || [ ${#failed[@]} = 0 ] || [ ${#failed[@]} -gt 3 ] || grep -qE '^FAIL.*\[(build|setup) failed\]$' "$out"; then
  cat "$out"
  exit 1
fi
# Each gets a cluster of its own then, so that what others left behind is found out.
if TESTCLUSTER_POOL='' go test -p 1 -count=1 "${args[@]}" "${failed[@]}" >"$out.again" 2>&1; then
  sed 's/^\(\s*\)\(--- \)\?FAIL/\1flaked: &/' "$out"
  echo "flaked: ${failed[*]} passed only by themselves; ATTEMPTS=1 does not try again"
  cat "$out.again"
  rm -f "$out.again"
  exit 0
fi
cat "$out"
echo "again, by themselves: ${failed[*]}"
cat "$out.again"
rm -f "$out.again"
exit 1
