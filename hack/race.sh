#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of what works concurrently with Go's race detector, which needs a C compiler.
# On two cores it takes some minutes, the first time some more: everything is compiled a second
# time. Of the suites with an API server those tests run that bring the parts together.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=1 LOCALCLUSTER_BIN=$PWD/bin/localcluster SCANYARD_BIN=$PWD/bin
limit=${RACE_TIMEOUT:-15m}
failed=0

# What starts many processes or measures memory tells nothing about races, and is slow with the detector.
skip='^(TestMemoryIsBounded|TestKilledEverywhere)$'

# race TESTS PACKAGES...; TESTS is a regular expression.
race() {
  local tests=$1
  shift
  hack/gotest.sh -race -count=1 -timeout="$limit" -run="$tests" -skip="$skip" -- "$@" || failed=1
}

race . ./forwarding/internal/follow ./forwarding/internal/download ./forwarding/internal/turns ./forwarding/internal/plan ./forwarding/internal/scans ./forwarding/cmd/forwarder
race . ./reports/internal/mvcc ./operator/internal/queue ./operator/internal/queue/fair ./operator/internal/store ./operator/internal/rbac ./operator/internal/lurker \
  ./cli/podlogs ./cli/progress ./cli/session \
  ./hooks/sdk ./hooks/sdk/delivery ./hooks/persistencedefectdojo ./parsers/sdk ./parsers/sdk/cli ./parsers/sdk/container
race '^(TestQueue|TestPreviousRuns|TestScansWaitForTheirTurn|TestScanFromStartToDone|TestLargeScan|TestForg|TestCancelInEveryPhase)' ./operator/internal/scan
race '^(TestDecide|TestManySchedules|TestDefect36|TestScanOfRun)' ./operator/internal/schedule ./operator/internal/schedule/plan
echo "race: took ${SECONDS}s"
exit "$failed"
