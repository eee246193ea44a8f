// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const hidden = "hunter2-XYZ"

func TestText(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"Plain":      {"scanned 1 host in 0.04 seconds", "scanned 1 host in 0.04 seconds"},
		"Presigned":  {"PUT http://s3:9000/b/k?X-Amz-Signature=" + hidden + " failed", "PUT http://s3:9000/b/k?REDACTED failed"},
		"User":       {"clone https://x:" + hidden + "@git.example.com/r", "clone https://REDACTED@git.example.com/r"},
		"Assignment": {"DB_PASSWORD=" + hidden + " next", "DB_PASSWORD=REDACTED next"},
		"JSON":       {`{"accessToken": "` + hidden + `", "n": 1}`, `{"accessToken": REDACTED, "n": 1}`},
		"Header":     {"Authorization: Bearer " + hidden, "Authorization: REDACTED"},
		"Scheme":     {"sent bearer " + hidden + " to it", "sent bearer REDACTED to it"},
		"Key":        {"-----BEGIN RSA PRIVATE KEY-----\n" + hidden + "\n-----END RSA PRIVATE KEY-----", "REDACTED"},
		"KeyCutOff":  {"-----BEGIN PRIVATE KEY-----\n" + hidden, "REDACTED"},
		"NoQuery":    {"http://example.com/a/b", "http://example.com/a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Text(tc.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	for name, tc := range map[string]struct{ in, want []any }{
		"Ports":     {[]any{"-p", "80,443", "example.com"}, []any{"-p", "80,443", "example.com"}},
		"Password":  {[]any{"--password", hidden, "host"}, []any{"--password", redacted, "host"}},
		"Equals":    {[]any{"--api-key=" + hidden}, []any{"--api-key=" + redacted}},
		"Header":    {[]any{"-H", "X-Foo: " + hidden}, []any{"-H", redacted}},
		"User":      {[]any{"-u", "me:" + hidden}, []any{"-u", redacted}},
		"Presigned": {[]any{"http://s3/raw?sig=" + hidden, "http://s3/f?sig=" + hidden}, []any{"http://s3/raw?REDACTED", "http://s3/f?REDACTED"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Arguments(tc.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFields(t *testing.T) {
	in := map[string]any{
		"metadata": map[string]any{
			"name": "x", "managedFields": []any{hidden},
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": hidden, "team": "blue"},
		},
		"spec": map[string]any{
			"env": []any{
				map[string]any{"name": "PLAIN", "value": hidden},
				map[string]any{"name": "FROM", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": "k"}}},
				map[string]any{"name": "EMPTY"},
			},
			"args": []any{"--token", hidden}, "parameters": []any{"https://u:" + hidden + "@h/"},
			"jobPatches": []any{map[string]any{"patch": hidden}}, "replicas": int64(2),
		},
	}
	want := map[string]any{
		"metadata": map[string]any{"name": "x", "annotations": map[string]any{"team": "blue"}},
		"spec": map[string]any{
			"env": []any{
				map[string]any{"name": "PLAIN", "value": redacted},
				map[string]any{"name": "FROM", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "s", "key": "k"}}},
				map[string]any{"name": "EMPTY"},
			},
			"args": []any{"--token", redacted}, "parameters": []any{"https://REDACTED@h/"},
			"jobPatches": []any{map[string]any{"patch": redacted}}, "replicas": int64(2),
		},
	}
	if diff := cmp.Diff(want, fields(in)); diff != "" {
		t.Error(diff)
	}
}

func TestNoSecretKindIsRead(t *testing.T) {
	for _, k := range kindNames() {
		if k == "Secret" || k == "ConfigMap" {
			t.Errorf("%s is read", k)
		}
	}
}

func kindNames() []string {
	var out []string
	for _, gvk := range append(append(append(namespaced[:0:0], namespaced...), ofCluster...), ofOperator...) {
		out = append(out, gvk.Kind)
	}
	return out
}

func TestScannersLogsAreLeftOut(t *testing.T) {
	pod := func(names ...string) *corev1.Pod {
		p := &corev1.Pod{}
		for _, n := range names {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: n})
		}
		return p
	}
	if diff := cmp.Diff([]string{"lurker"}, printable(pod("gitleaks", "sidecar", "lurker"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"parser"}, printable(pod("parser"))); diff != "" {
		t.Error(diff)
	}
}

func FuzzText(f *testing.F) {
	f.Add("https://a:", "@b/c?d=")
	f.Add("token=", "\n")
	f.Add(`"password": "`, `"`)
	f.Fuzz(func(t *testing.T, before, after string) {
		// Whatever stands around it, the query of a URL is not shown.
		once := Text(before + "https://s3/x?sig=" + hidden + " " + after)
		if strings.Contains(once, hidden) {
			t.Errorf("shown: %q", once)
		}
	})
}
