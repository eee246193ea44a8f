#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a build that may take minutes: says what it is once it has taken longer than a
# few seconds, and that it still goes on.
# Usage: slow.sh MESSAGE COMMAND...
set -euo pipefail
message=$1
shift
# A fifth of what compilers and linkers do is collecting garbage. They do not, up to a size that fits small machines.
export GOGC=${GOGC:-off} GOMEMLIMIT=${GOMEMLIMIT:-1500MiB}
"$@" &
pid=$!
(
  sleep 5
  echo "$message"
  n=5
  while sleep 30; do n=$((n + 30)); echo "  … ${n}s"; done
) &
ticker=$!
trap 'kill $ticker 2>/dev/null || true' EXIT
wait $pid
