// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"encoding/json"
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

// TestPlantedSecrets packs a Scan as somebody writes it in a hurry: nothing of a secret is left.
func TestPlantedSecrets(t *testing.T) {
	const p = hidden
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	list := func(texts ...string) map[string]any {
		var all []any
		for _, text := range texts {
			all = append(all, text)
		}
		return map[string]any{"spec": map[string]any{"parameters": all}}
	}
	shell := func(text string) map[string]any { return list("sh", "-c", text) }
	annotated := func(key, value string) map[string]any {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}}
	}
	for name, tc := range map[string]struct {
		object map[string]any
		secret string
	}{
		"ShellUser":          {shell("curl -u admin:" + p + " https://x"), p},
		"ShellUserQuoted":    {shell("curl -u 'admin:" + p + "' https://x"), p},
		"ShellUserStuck":     {shell("curl -uadmin:" + p + " https://x"), p},
		"ShellUserLong":      {shell("curl --user admin:" + p + " https://x"), p},
		"ShellUserEquals":    {shell("curl --user=admin:" + p + " https://x"), p},
		"ShellProxyUser":     {shell("curl --proxy-user admin:" + p + " https://x"), p},
		"ShellStuck":         {shell("mysql -uroot -p" + p + " db"), p},
		"ShellPass":          {shell("tool -pass " + p + " x"), p},
		"ShellPassword":      {shell("tool --password " + p), p},
		"ShellPasswordQuote": {shell("tool --password '" + p + " b'"), p},
		"ShellHeader":        {shell(`curl -H "X-Custom: ` + p + `" https://x`), p},
		"ShellPwd":           {shell("export pwd=" + p + "; x"), p},
		"PassArgument":       {list("-pass", p, "host"), p},
		"PassLong":           {list("--pass", p, "host"), p},
		"Pwd":                {list("pwd=" + p), p},
		"PwdUpper":           {list("DB_PWD=" + p), p},
		"PwdInURL":           {list("https://u:" + p + "@x/"), p},
		"Query":              {list("https://x/?pwd=" + p), p},
		"UserArgument":       {list("-u", "me:"+p), p},
		"StuckArgument":      {list("-p"+p, "host"), p},
		"Password":           {list("--password=" + p), p},
		"AuthUser":           {list("--auth-user", p), p},
		"APIKeyHeader":       {list("X-Api-Key: " + p), p},
		"AWSSecret":          {list("aws_secret_access_key=" + p), p},
		"JSONPassword":       {list(`{"password":"` + p + `"}`), p},
		"JSONEscaped":        {list(`{"body":"{\"password\":\"` + p + `\"}"}`), p},
		"AccountKey":         {list("AccountName=a;AccountKey=" + p + ";x=y"), p},
		"JWT":                {list("xoxo", jwt), jwt},
		"JWTInLine":          {shell("tool " + jwt), jwt},
		"AKIA":               {list("AKIAIOSFODNN7EXAMPLE"), "AKIAIOSFODNN7EXAMPLE"},
		"ASIA":               {shell("x ASIAIOSFODNN7EXAMPLE y"), "ASIAIOSFODNN7EXAMPLE"},
		"GitHub":             {list("ghp_" + strings.Repeat("a1", 18)), "ghp_a1a1"},
		"GitHubApp":          {list("ghs_" + strings.Repeat("a1", 18)), "ghs_a1a1"},
		"GitHubFine":         {list("github_pat_" + strings.Repeat("a1", 18)), "github_pat_a1"},
		"GitLab":             {list("glpat-" + strings.Repeat("a1", 10)), "glpat-a1"},
		"Slack":              {list("xoxb-1234567890-abcdefghij"), "xoxb-1234"},
		"SlackHook":          {list("https://hooks.slack.com/services/T0/B0/" + p), p},
		"Google":             {list("AIza" + strings.Repeat("a1", 18)), "AIzaa1"},
		"NPM":                {list("npm_" + strings.Repeat("a1", 18)), "npm_a1"},
		"Stripe":             {list("sk_" + "live_" + strings.Repeat("a1", 10)), "_live_a1"},
		"Vault":              {list("hvs." + strings.Repeat("a1", 12)), "hvs.a1"},
		"PEM":                {list("-----BEGIN OPENSSH PRIVATE KEY-----\n" + p), p},
		"AnnotationByName":   {annotated("my-token", p), p},
		"AnnotationOfOthers": {annotated("example.com/note", p), p},
		"AnnotationBare":     {annotated("note", p), p},
		"AnnotationOurToken": {annotated("scanyard.io/token", p), p},
		"AnnotationLooks":    {annotated("evilscanyard.io/x", p), p},
		"AnnotationValue":    {annotated("scanyard.io/x", "password="+p), p},
		"LastApplied":        {annotated("kubectl.kubernetes.io/last-applied-configuration", p), p},
		"FieldByName":        {map[string]any{"spec": map[string]any{"config": map[string]any{"dbPassword": p}}}, p},
		"FieldInList":        {map[string]any{"spec": []any{map[string]any{"apiKey": p}}}, p},
		"EnvValue":           {map[string]any{"spec": map[string]any{"env": []any{map[string]any{"name": "A", "value": p}}}}, p},
		"Probe":              {map[string]any{"spec": map[string]any{"httpHeaders": []any{map[string]any{"name": "Authorization", "value": p}}}}, p},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := json.Marshal(fields(tc.object))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(out), tc.secret) {
				t.Errorf("it stays: %s", out)
			}
		})
	}
}

// TestUsefulValuesAreKept: a bundle without targets, ports and settings would help nobody.
func TestUsefulValuesAreKept(t *testing.T) {
	in := map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"cascading.securecodebox.io/chain": "a,b", "scanyard.io/rerun": "parser@1", "meta.helm.sh/release-name": "nmap"}},
		"spec": map[string]any{
			"parameters":                   []any{"-p", "80,443", "-p80-90", "-sV", "--top-ports", "100", "scanme.nmap.org", "-u", "https://example.com/"},
			"automountServiceAccountToken": false, "serviceAccountName": "lurker", "imagePullSecrets": []any{map[string]any{"name": "regcred"}},
			"volumes": []any{map[string]any{"name": "x", "secret": map[string]any{"secretName": "s"}}},
		},
		"status": map[string]any{"errorDescription": "the pod passed its deadline", "state": "Errored"},
	}
	want := map[string]any{
		"metadata": in["metadata"],
		"spec": map[string]any{
			"parameters":                   []any{"-p", "80,443", "-p80-90", "-sV", "--top-ports", "100", "scanme.nmap.org", "-u", redacted},
			"automountServiceAccountToken": false, "serviceAccountName": "lurker", "imagePullSecrets": []any{map[string]any{"name": "regcred"}},
			"volumes": []any{map[string]any{"name": "x", "secret": map[string]any{"secretName": "s"}}},
		},
		"status": in["status"],
	}
	if diff := cmp.Diff(want, fields(in)); diff != "" {
		t.Error(diff)
	}
}

func TestFields(t *testing.T) {
	in := map[string]any{
		"metadata": map[string]any{
			"name": "x", "managedFields": []any{hidden},
			"annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": hidden, "scanyard.io/team": "blue", "team": hidden},
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
		"metadata": map[string]any{"name": "x", "annotations": map[string]any{"scanyard.io/team": "blue", "team": redacted}},
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
