#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures forwarding, or runs its list of faults at full size; the programs are built already (see the Makefile).
# Usage: forwarding.sh bench|fault. FINDINGS and SCANS choose how much is measured, KILLS how often the forwarder is killed.
# With BENCH_PEER=otel the exporter is compared with bin/otelcol: BENCH_PAIRS pairs of BENCH_SECONDS each.
set -euo pipefail
cd "$(dirname "$0")/.."
export LOCALCLUSTER_BIN=$PWD/bin/localcluster SCANYARD_BIN=$PWD/bin HELM=$PWD/bin/tools/helm
failed=0

bench() {
  uptime
  go test ./forwarding/cmd/forwarder -count=1 -timeout=60m -v -run '^(TestMemoryIsBounded|TestWritesPerScan)$' \
    -findings "${FINDINGS:-1000000}" -scans "${SCANS:-1000}" | grep -v '^{' || failed=1
  go test ./forwarding/client ./forwarding/cmd/exporter ./forwarding/internal/... -run '^$' -bench . -timeout=60m | grep -v 'no test files' || failed=1
  if [ -n "${BENCH_PEER:-}" ]; then
    go test ./forwarding/cmd/exporter -run '^$' -bench BenchmarkPeer -benchtime 1x -timeout=60m \
      -peer "$PWD/bin/otelcol" -pairs "${BENCH_PAIRS:-5}" -seconds "${BENCH_SECONDS:-4}" | grep ratio || failed=1
  fi
  uptime
}

fault() {
  FAULT_LONG=1 ATTEMPTS=1 hack/gotest.sh -count=1 -p=1 -timeout=60m -vet=off -run='^(TestFault|TestTLSReasons)' -- ./forwarding/... || failed=1
  ATTEMPTS=1 hack/gotest.sh -count=1 -timeout=60m -vet=off -run='^TestKilledWhileItSends$' -- ./forwarding/cmd/forwarder -kills "${KILLS:-50}" || failed=1
  LABELS=forwarding PROCS=2 hack/suite.sh e2e || failed=1
}

case ${1:-} in
  bench) bench ;;
  fault) fault ;;
  *)
    echo "usage: $0 bench|fault" >&2
    exit 2
    ;;
esac
exit "$failed"
