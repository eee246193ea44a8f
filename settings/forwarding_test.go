// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// together computes what holds of the resultForwarding of cluster and namespace, as YAML; "" for none.
func together(t *testing.T, cluster, own string) (Forwarding, *Problems) {
	t.Helper()
	c, n := &settingsv1alpha2.ClusterScanSetting{}, &settingsv1alpha2.ScanSetting{}
	c.Name, c.UID, n.Name, n.UID, n.Namespace = settingsv1alpha2.Name, "c", settingsv1alpha2.Name, "n", "team"
	for text, into := range map[string]any{cluster: &c.Spec.ResultForwarding, own: &n.Spec.ResultForwarding} {
		if err := yaml.UnmarshalStrict([]byte(text), into); text != "" && err != nil {
			t.Fatal(err)
		}
	}
	if errs := ReviewCluster(c).All(); len(errs) > 0 {
		t.Fatal(errs)
	}
	e := Compute(Input{Namespace: n.Namespace, Labels: map[string]string{"tier": "gold"}, Cluster: &c.Spec, Setting: &n.Spec, ClusterUID: c.UID, SettingUID: n.UID})
	return e.Forwarding, Review(&c.Spec, n)
}

const hub = `provider: grpc, grpc: {endpoint: "hub.example.com:443", extraMetadata: {clusterName: real}}`

// TestSinksOfClusterAndNamespace: those of the cluster that select the namespace, then those of the namespace.
func TestSinksOfClusterAndNamespace(t *testing.T) {
	f, p := together(t, `{`+hub+`, extraMetadata: {site: berlin}, sinks: [
		{name: gold, provider: s3, s3: {endpoint: "https://s3", bucket: results}, namespaceSelector: {matchLabels: {tier: gold}}},
		{name: other, provider: s3, s3: {endpoint: "https://s3", bucket: results}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}},
		{name: team, provider: s3, s3: {endpoint: "https://s3", bucket: results}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: team}}}],
		allowNamespaces: {providers: [grpc], endpoints: ["*.team.example.com", 127.0.0.0/8]}}`,
		`{provider: grpc, grpc: {endpoint: "a.team.example.com:1", extraMetadata: {clusterName: mine, site: paris}}, extraMetadata: {who: we}}`)
	if errs := p.All(); len(errs) > 0 {
		t.Fatal(errs)
	}
	var ids []string
	for _, s := range f.Sinks {
		ids = append(ids, s.ID+" "+string(s.UID))
	}
	if want := []string{"cluster/default c", "cluster/gold c", "cluster/team c", "team/default n"}; !slices.Equal(want, ids) {
		t.Fatalf("%v, want %v", ids, want)
	}
	if want := map[string]string{"clusterName": "real", "site": "berlin"}; !maps.Equal(want, f.Sinks[0].Metadata) {
		t.Errorf("the cluster's sink gets %v, want %v", f.Sinks[0].Metadata, want)
	}
	if want := map[string]string{"clusterName": "mine", "site": "berlin", "who": "we"}; !maps.Equal(want, f.Sinks[3].Metadata) {
		t.Errorf("the team's sink gets %v, want %v", f.Sinks[3].Metadata, want)
	}
	if got := f.Sinks[3].Networks; len(got) != 1 || got[0].String() != "127.0.0.0/8" {
		t.Errorf("networks %v", got)
	}
	if ownID("cluster", "a") == "cluster/a" {
		t.Error("a namespace that is called cluster has the IDs of the cluster's sinks")
	}
}

// TestBoundsOfNamespaces: the message about a value out of bounds names what the cluster allows. The value is not used if the cluster's
// bounds were tightened later.
func TestBoundsOfNamespaces(t *testing.T) {
	const allow = `{allowNamespaces: {providers: [grpc, http, file], endpoints: [h, "*.d.example", "p.example:8443", 10.0.0.0/8], maxSinks: 1}}`
	grpc := func(endpoint string) string { return `{provider: grpc, grpc: {endpoint: "` + endpoint + `"}}` }
	for name, tc := range map[string]struct{ cluster, own, want string }{
		"Nothing":       {"", grpc("h:1"), "allowNamespaces"},
		"Absent":        {"{" + hub + "}", grpc("h:1"), "allowNamespaces"},
		"Host":          {allow, grpc("H:1"), ""},
		"Domain":        {allow, grpc("https://a.b.d.example"), ""},
		"DomainItself":  {allow, grpc("https://d.example"), "h, *.d.example, p.example:8443, 10.0.0.0/8"},
		"Suffix":        {allow, grpc("https://xd.example"), "endpoint xd.example:443"},
		"Port":          {allow, grpc("p.example:8443"), ""},
		"OtherPort":     {allow, grpc("p.example:8444"), "endpoint p.example:8444"},
		"Network":       {allow, grpc("10.1.2.3:1"), ""},
		"MappedNetwork": {allow, grpc("[::ffff:10.1.2.3]:1"), ""},
		"OtherNetwork":  {allow, grpc("11.1.2.3:1"), "endpoint 11.1.2.3:1"},
		"Provider":      {allow, `{provider: s3, s3: {endpoint: "https://h", bucket: results}}`, "provider s3 is not allowed; the cluster allows grpc, http"},
		"Insecure":      {allow, `{provider: http, http: {url: "http://h", tls: {insecure: true}}}`, "tls.insecure"},
		"File":          {allow, `{provider: file, file: {directory: a}}`, "a file is for sinks of the cluster only"},
		"MaxSinks":      {allow, `{provider: grpc, grpc: {endpoint: "h:1"}, sinks: [{name: a, provider: grpc, grpc: {endpoint: "h:1"}}]}`, "the cluster allows a namespace 1 sinks"},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := together(t, tc.cluster, tc.own)
			got, last := p.All().ToAggregate(), f.Sinks[len(f.Sinks)-1].OutOfBounds
			if tc.want == "" {
				if got != nil || last != "" {
					t.Errorf("refused: %v, %s", got, last)
				}
				return
			}
			if got == nil || p.Reason() != settingsv1alpha2.ReasonOutOfBounds || !strings.Contains(got.Error(), tc.want) || !strings.Contains(got.Error(), "or ask the cluster admin") {
				t.Errorf("%v (%s), want %q", got, p.Reason(), tc.want)
			}
			if !strings.Contains(last, tc.want) {
				t.Errorf("the sink is used: %q", last)
			}
		})
	}
}

// TestDeliveryOnlyGetsStricter: a namespace tightens what the cluster says, and loosens where it may.
func TestDeliveryOnlyGetsStricter(t *testing.T) {
	const minute = time.Minute
	for name, tc := range map[string]struct {
		cluster, own string
		want         Forwarding
		refused      string
	}{
		"Defaults": {hub, "", Forwarding{AfterForwarding: "Keep", Hold: time.Hour, FailurePolicy: "Ignore", FailAfter: time.Hour}, ""},
		"Cluster": {
			hub + `, inClusterStorage: {afterForwarding: Remove}, holdSeconds: 60, failurePolicy: Fail, failAfterSeconds: 60`, "",
			Forwarding{AfterForwarding: "Remove", Hold: minute, FailurePolicy: "Fail", FailAfter: minute},
			"",
		},
		"Stricter": {
			hub + `, inClusterStorage: {afterForwarding: Remove}, holdSeconds: 60`, `inClusterStorage: {afterForwarding: KeepLastRun}, holdSeconds: 120, failurePolicy: Fail, failAfterSeconds: 120`,
			Forwarding{AfterForwarding: "KeepLastRun", Hold: 2 * minute, FailurePolicy: "Fail", FailAfter: 2 * minute},
			"",
		},
		"LessKept":  {hub, `inClusterStorage: {afterForwarding: Remove}`, Forwarding{AfterForwarding: "Keep", Hold: time.Hour, FailurePolicy: "Ignore", FailAfter: time.Hour}, "afterForwarding"},
		"LessHold":  {hub + `, holdSeconds: 60`, `holdSeconds: 0`, Forwarding{AfterForwarding: "Keep", Hold: minute, FailurePolicy: "Ignore", FailAfter: time.Hour}, "holdSeconds"},
		"LessFails": {hub + `, failurePolicy: Fail`, `failurePolicy: Ignore`, Forwarding{AfterForwarding: "Keep", Hold: time.Hour, FailurePolicy: "Fail", FailAfter: time.Hour}, "failurePolicy"},
		"Allowed": {
			hub + `, failurePolicy: Fail, allowNamespaces: {inClusterStorage: true, failurePolicy: true}`, `inClusterStorage: {afterForwarding: Remove}, failurePolicy: Ignore`,
			Forwarding{AfterForwarding: "Remove", Hold: time.Hour, FailurePolicy: "Ignore", FailAfter: time.Hour},
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, p := together(t, "{"+tc.cluster+"}", "{"+tc.own+"}")
			f.Sinks = nil
			if f.AfterForwarding != tc.want.AfterForwarding || f.Hold != tc.want.Hold || f.FailurePolicy != tc.want.FailurePolicy || f.FailAfter != tc.want.FailAfter {
				t.Errorf("%+v, want %+v", f, tc.want)
			}
			if got := p.All().ToAggregate(); (got == nil) != (tc.refused == "") || got != nil && !strings.Contains(got.Error(), tc.refused) {
				t.Errorf("refusal %v, want one of %q", got, tc.refused)
			}
		})
	}
}

// TestRemovalNeedsProof, of the cluster's sinks or of the namespace's.
func TestRemovalNeedsProof(t *testing.T) {
	const may = `allowNamespaces: {inClusterStorage: true}`
	if _, p := together(t, "{"+may+"}", `{inClusterStorage: {afterForwarding: KeepLastRun}}`); !strings.Contains(p.All().ToAggregate().Error(), "results would be removed without proof that somebody has them: add a sink") {
		t.Error(p.All())
	}
	if _, p := together(t, "{"+hub+", "+may+"}", `{inClusterStorage: {afterForwarding: KeepLastRun}}`); len(p.All()) > 0 {
		t.Error(p.All())
	}
}

// TestProves is the table of what counts as proof.
func TestProves(t *testing.T) {
	all := Remote{Stores: true, MinInsyncReplicas: 2, FileStorage: true, DiscardNew: true}
	for _, tc := range []struct {
		provider settingsv1alpha2.Provider
		says     *bool
		far      Remote
		want     bool
	}{
		{"grpc", nil, all, true},
		{"grpc", nil, Remote{}, false},
		{"grpc", new(true), Remote{}, false},
		{"grpc", new(false), all, false},
		{"s3", nil, Remote{}, true},
		{"kafka", nil, Remote{MinInsyncReplicas: 1}, false},
		{"kafka", new(true), Remote{MinInsyncReplicas: 1}, true},
		{"kafka", nil, all, true},
		{"nats", nil, all, true},
		{"nats", nil, Remote{FileStorage: true}, false},
		{"http", nil, all, false},
		{"http", new(true), Remote{}, true},
		{"otlp", new(true), Remote{}, true},
		{"otlp", nil, all, false},
		{"file", new(true), all, false},
	} {
		if got := Proves(&settingsv1alpha2.Sink{Provider: tc.provider, ProvesStorage: tc.says}, tc.far); got != tc.want {
			t.Errorf("%+v: %t", tc, got)
		}
	}
}
