#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Regenerates what is generated: deep copies, CRDs, the references of API, findings and command line, man pages.
# Usage: generate.sh CONTROLLER-GEN CRD-REF-DOCS (packages with versions)
set -euo pipefail
cd "$(dirname "$0")/../apis"
controller_gen=$1 crd_ref_docs=$2
export GOWORK=off
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
echo '// SPDX-License-Identifier: Apache-2.0' >"$tmp/header"
reports="paths=./wgpolicyk8s/... paths=./openreports/... paths=./reports/..."
go run "$controller_gen" object:headerFile="$tmp/header" paths=./execution/... paths=./cascading/... paths=./settings/... paths=./registry/... $reports
mkdir "$tmp/crds"
go run "$controller_gen" crd:generateEmbeddedObjectMeta=true paths=./execution/... paths=./cascading/... paths=./settings/... output:crd:dir="$tmp/crds"
go run ./internal/crdtrim "$tmp/crds" ../charts/scanyard/crds
mkdir "$tmp/registry"
go run "$controller_gen" crd paths=./registry/... output:crd:dir="$tmp/registry"
go run ./internal/crdtrim "$tmp/registry" ../charts/registry/crds
# No chart has these: the reports API server serves the groups. Tests, and clusters without that server, use them.
go run "$controller_gen" crd paths=./wgpolicyk8s/... paths=./openreports/... output:crd:dir=testdata/reportcrds
# What the reports API server says of its kinds; the names of models land beside the types.
kube_openapi=$(go -C ../reports list -m -f '{{.Version}}' k8s.io/kube-openapi)
scanyard=github.com/scanyard/scanyard meta=k8s.io/apimachinery/pkg
go -C ../reports run "k8s.io/kube-openapi/cmd/openapi-gen@$kube_openapi" --go-header-file "$tmp/header" --report-filename "$tmp/violations" \
  --output-dir internal/openapi --output-pkg $scanyard/reports/internal/openapi --output-file zz_generated.openapi.go \
  --output-model-name-file zz_generated.model_name.go --readonly-pkg $meta/apis/meta/v1 --readonly-pkg $meta/runtime --readonly-pkg $meta/version \
  $scanyard/apis/wgpolicyk8s/v1alpha2 $scanyard/apis/openreports/v1alpha1 $scanyard/apis/reports/v1alpha1 $meta/apis/meta/v1 $meta/runtime $meta/version
go -C ../parsers run ./internal/findingsdoc ../docs/reference/findings.md
go -C ../cli run ./clidoc ../docs/reference
GOWORK=off go -C ../tests test ./chartcontract -run TestSchemas -count=1 -update >"$tmp/log" || { cat "$tmp/log" >&2; exit 1; }
if [ -f ../docs/reference/config.yaml ]; then
  go run "$crd_ref_docs" --config=../docs/reference/config.yaml --source-path=. --renderer=markdown --output-path=../docs/reference/api.md >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; exit 1; }
fi
