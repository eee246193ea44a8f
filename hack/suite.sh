#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs suites of Ginkgo, each with one cluster for all its processes (fault: one for each spec).
# A spec that fails is run once more; one that passes then is told as "flaked" (ATTEMPTS=1: each failure is one).
# Specs with the label long run only where LABELS names it.
# Usage: [LABELS='smoke && !slow'] [FOCUS='regular expression'] [PROCS=n] suite.sh SUITE...
# Reports for machines are written to bin/reports/SUITE.xml (JUnit).
set -euo pipefail
cd "$(dirname "$0")/.."
export SUITE_REPORTS=$PWD/bin/reports GOWORK=off
mkdir -p "$SUITE_REPORTS"

# Specs mostly wait, for pods and for the pauses between a Job's tries: more processes than
# processors. Those of cli share one namespace, and each of fault works a whole cluster hard.
procs_of() {
  case $1 in
    e2e) echo 12 ;;
    fault | scoped) echo 2 ;;
    *) echo 1 ;;
  esac
}

labels=${LABELS:-}
case $labels in
  *long*) ;;
  '') labels='!long' ;;
  *) labels="($labels) && !long" ;;
esac

failed=0
for suite in "$@"; do
  rm -f "$SUITE_REPORTS/$suite".{xml,longest}
  go -C tests tool ginkgo run --procs="${PROCS:-$(procs_of "$suite")}" --timeout="${SUITE_TIMEOUT:-40m}" --randomize-all --flake-attempts="${ATTEMPTS:-2}" --poll-progress-after=3m \
    --no-color --silence-skips --output-dir="$SUITE_REPORTS" --junit-report="$suite.xml" \
    --label-filter="$labels" ${FOCUS:+--focus="$FOCUS"} "./$suite" ${UPDATE:+-- -update} || failed=1
  if [ -s "$SUITE_REPORTS/$suite.longest" ]; then
    printf 'The longest specs of %s:\n' "$suite"
    cat "$SUITE_REPORTS/$suite.longest"
  fi
done
exit "$failed"
