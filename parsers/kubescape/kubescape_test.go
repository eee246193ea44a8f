// SPDX-License-Identifier: Apache-2.0

package kubescape

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/parsers/internal/hostile"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/sdktest"
)

func TestFixtures(t *testing.T) { sdktest.Golden(t, Parser(), "testdata") }

const start = `{"summaryDetails":{"controls":{"C-1":{"scoreFactor":7}}},"results":[`

func TestHostileReports(t *testing.T) {
	hostile.JSON(t, Parser(), start, `]}`)
	hostile.Run(t, Parser(), map[string]hostile.Case{
		"OtherJSON":        {Start: `{"results":[]}`, Want: `is not a kubescape report: has no "results" or no "summaryDetails"`},
		"FormatVersion1":   {Start: `[{"name":"NSA"}]`, Want: "is an array, must be an object"},
		"EndlessResources": {Start: `{"resources":[{"resourceID":"a"}`, Endless: `,{"resourceID":"/v1/ns/Pod/a","source":{"relativePath":"a.yaml"}}`, Want: "too large: controls and resources that take more than 6291456 bytes"},
		"HugeControl":      {Start: `{"summaryDetails":{"controls":{"C-1":{"name":"`, Endless: "a", Want: "too large"},
		"NoResourceID":     {Start: start + `{}]}`, Want: "result 0: has no resourceID"},
		"NoControlID":      {Start: start + `{"resourceID":"a","controls":[{},{"status":"failed"}]}]}`, Want: "result 0: control 1 has no controlID"},
		"BadControls":      {Start: `{"summaryDetails":{"controls":[]}}`, Want: "at /summaryDetails/controls: is an array, must be an object"},
	})
}

func TestResourceOf(t *testing.T) {
	tests := map[string]resource{
		"apps/v1/shop/Deployment/web":                     {"apps/v1", "Deployment", "web", "shop", ""},
		"/v1/shop/Pod/web":                                {"v1", "Pod", "web", "shop", ""},
		"/v1//Namespace/shop":                             {"v1", "Namespace", "shop", "", ""},
		"path=966824446/api=apps/v1//Deployment/web":      {"apps/v1", "Deployment", "web", "", ""},
		"rbac.authorization.k8s.io//User/jane/x/v1//Role": {name: "rbac.authorization.k8s.io//User/jane/x/v1//Role"},
		"": {},
	}
	for id, want := range tests {
		if diff := cmp.Diff(want, resourceOf(id), cmp.AllowUnexported(resource{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// TestManyResourcesInLittleMemory has more resources than could be kept, whose ids tell all about them.
func TestManyResourcesInLittleMemory(t *testing.T) {
	opened := &atomic.Int64{}
	limits := sdk.DefaultLimits()
	limits.MaxHeld = 1 << 10
	n, err := sdktest.Count(t, Parser(), sdktest.Case{Open: func() io.Reader { return large(20_000) }, Opened: opened, Limits: &limits})
	if n != 20_000 || err != nil || opened.Load() != 2 {
		t.Errorf("%d findings of %d passes, %v", n, opened.Load(), err)
	}
}

func large(resources int) io.Reader {
	var b bytes.Buffer
	b.WriteString(`{"resources":[`)
	for i := range resources {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"resourceID":"apps/v1/shop/Deployment/web-%d","object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web-%d","namespace":"shop"},"spec":{"replicas":1}}}`, i, i)
	}
	b.WriteString(`],"results":[`)
	for i := range resources {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"resourceID":"apps/v1/shop/Deployment/web-%d","controls":[{"controlID":"C-0001","name":"Passed","status":{"status":"passed"}},{"controlID":"C-0057","name":"Privileged container","status":{"status":"failed"},`+
			`"rules":[{"name":"rule-privilege-escalation","status":"failed","paths":[{"failedPath":"spec.template.spec.containers[0].securityContext.privileged"}]}]}]}`, i)
	}
	b.WriteString(`],"summaryDetails":{"controls":{"C-0057":{"name":"Privileged container","scoreFactor":8}}}}`)
	return &b
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", start + `{"resourceID":"path=1/api=/v1/ns/Pod/a","controls":[{"controlID":"C-1","status":{"status":"failed"},"rules":[{"name":"r","status":"failed","paths":[{"fixPath":{"path":"a","value":"b"}}]}]}]}],` +
			`"resources":[{"resourceID":"path=1/api=/v1/ns/Pod/a","object":{"kind":"Pod"},"source":{"relativePath":"a.yaml"}}],"clusterName":"c"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sdktest.Fuzz(t, Parser(), raw) })
}

func BenchmarkParse(b *testing.B) {
	raw, err := io.ReadAll(large(10_000))
	if err != nil {
		b.Fatal(err)
	}
	sdktest.Benchmark(b, Parser(), func() io.Reader { return bytes.NewReader(raw) })
}
