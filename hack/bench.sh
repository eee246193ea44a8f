#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures, with the built programs. docs/benchmarks.md says what the figures mean.
set -euo pipefail
cd "$(dirname "$0")/.."
echo "== operator: Scans whose pods end at once"
bin/bench ${BENCH_ARGS:-}
echo "== parsers, as whole processes"
go run ./parsers/internal/parsebench -n "${BENCH_FINDINGS:-1000000}"
echo "== parsers, findings, hooks: Go benchmarks"
go test ./parsers/... ./apis/finding -run '^$' -bench . -benchtime 3x | grep -E '^(Benchmark|goos|cpu|FAIL)'
echo "== a million findings and 1,000 exceptions"
go test ./findings/exception -run '^$' -bench Million -benchtime 1x | grep -E '^(Benchmark|goos|cpu|FAIL)'
