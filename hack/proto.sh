#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The wire API: generates its Go code, or lints it and compares it with the one of the last release.
# Usage: proto.sh generate | verify (with buf, protoc-gen-go and protoc-gen-go-grpc in the PATH)
set -euo pipefail
cd "$(dirname "$0")/../apis/proto"
released=../testdata/proto
file=scanyard/forwarding/v1/forwarding.proto
case ${1:-} in
generate)
  buf generate
  ;;
verify)
  buf lint
  buf breaking --against "$released"
  # A check that cannot fail is none: a field with another number must be refused.
  copy=$(mktemp -d)
  trap 'rm -rf "$copy"' EXIT
  cp -r buf.yaml scanyard "$copy/"
  sed -i 's/string assessment_id = 4;/string assessment_id = 104;/' "$copy/$file"
  if cmp -s "$file" "$copy/$file" || (cd "$copy" && buf breaking --against "$OLDPWD/$released" >/dev/null 2>&1); then
    echo "error: buf lets a field be renumbered: the comparison in hack/proto.sh compares nothing" >&2
    exit 1
  fi
  echo "the wire API speaks with the one of the last release"
  ;;
*)
  echo "usage: proto.sh generate | verify" >&2
  exit 2
  ;;
esac
