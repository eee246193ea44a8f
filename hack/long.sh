#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs at their full size the tests that "make test" runs in a short form: rows of the reports server's fault list (8 writers,
# replicas that are killed for five minutes, a million results), kubectl and requests in all groups, behind kube-apiserver and on CRDs, 400 days, faults of registry scanning, and specs with the label long. Takes half an hour and more.
set -euo pipefail
cd "$(dirname "$0")/.."
export LOCALCLUSTER_BIN=$PWD/bin/localcluster SCANYARD_BIN=$PWD/bin HELM=$PWD/bin/tools/helm
failed=0
ATTEMPTS=1 hack/gotest.sh -count=1 -p=1 -timeout=60m -vet=off -run='^(TestConcurrentWritesOfOneObject|TestReplicasAreKilled|TestUnindexedQuestions|TestKubectl|TestKubectlInACluster|TestAPIOnCRDs|TestMemoryOfWriters|TestHistoryOfFourHundredDays)$' -- \
  ./reports/internal/server ./reports/internal/command ./reports/internal/bench ./reports/internal/upkeep -full || failed=1
ATTEMPTS=1 hack/gotest.sh -count=1 -p=1 -timeout=60m -vet=off -run='^(TestFaultWorkersKilled|TestFaultMatchKillsTheWorker|TestFaultAdapterDiesOverOneImage|TestFaultEveryMessageTwice|TestFaultOneBrokenTag|TestFaultsOfTheController)$' -- \
  ./registry/internal/worker ./registry/internal/app -full || failed=1
LABELS=long PROCS=2 hack/suite.sh e2e || failed=1
echo "long: took ${SECONDS}s"
exit "$failed"
