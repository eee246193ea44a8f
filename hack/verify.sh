#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails where something is not as "make generate", "go mod tidy" or the rule that each
# module builds alone would have it.
# Usage: verify.sh MODULE... (after make generate)
set -euo pipefail
cd "$(dirname "$0")/.."
for module in "$@"; do
  echo "verify $module"
  (cd "$module" && GOWORK=off go mod tidy -diff && GOWORK=off go build -o /dev/null ./... && GOWORK=off go mod verify >/dev/null)
done
echo "verify that the product and the tests are built with the same libraries"
# Two versions of one library are compiled twice, with all that stands on it; Kubernetes' take minutes.
used() { go list -deps -f '{{with .Module}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}' "$@" | sort -u; }
mains() { go list -f '{{if eq .Name "main"}}{{.ImportPath}}{{end}}' "$@"; }
product=$(used $(mains $(sed -nE 's|^\t(\./.*)$|\1/...|p' go.work)))
tests=$(cd tests && export GOWORK=off && used $(mains ./cmd/...) $(go list tool))
apart=$(join <(echo "$product") <(echo "$tests") | awk 'NF > 2 && $2 != $3 {print "  " $1 ": " $2 " in the product, " $3 " in tests"}')
if [ -n "$apart" ]; then
  echo "error: libraries in two versions; bring the go.mod files to the newer one of each:" >&2
  echo "$apart" >&2
  exit 1
fi
generated=(apis charts docs/reference)
dirty=$(git status --porcelain -- "${generated[@]}")
if [ -n "$dirty" ]; then
  echo "error: generated files are not current; run 'make generate' and commit:" >&2
  echo "$dirty" >&2
  git diff --stat -- "${generated[@]}" >&2
  exit 1
fi
