#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails where something is not as "make generate", "go mod tidy" or the rule that each
# module builds alone would have it.
# Usage: verify.sh MODULE... (after make generate)
set -euo pipefail
cd "$(dirname "$0")/.."
for module in "$@"; do
  echo "verify $module"
  (cd "$module" && GOWORK=off go mod tidy -diff && GOWORK=off go build ./... && GOWORK=off go mod verify >/dev/null)
done
generated=(apis charts docs/reference)
dirty=$(git status --porcelain -- "${generated[@]}")
if [ -n "$dirty" ]; then
  echo "error: generated files are not current; run 'make generate' and commit:" >&2
  echo "$dirty" >&2
  git diff --stat -- "${generated[@]}" >&2
  exit 1
fi
