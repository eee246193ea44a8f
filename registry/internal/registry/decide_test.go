// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/schedule"
)

var created = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func bounds() Bounds {
	return Bounds{
		Egress: egress.Rules{AllowedHosts: [][]string{{"*.example.com", "ghcr.io", "registry-1.docker.io", "*.amazonaws.com", "*.gcr.io"}}}, CloudIdentityNamespaces: []string{"cloud"},
		Adapters: []string{"mini", "trivy"}, Registries: 2, Zones: time.LoadLocation,
	}
}

func prod(change ...func(*registryv1alpha1.Registry)) *registryv1alpha1.Registry {
	r := &registryv1alpha1.Registry{
		ObjectMeta: metav1.ObjectMeta{Name: "prod", Namespace: "shop", UID: "uid", Generation: 1, CreationTimestamp: metav1.NewTime(created)},
		Spec:       registryv1alpha1.RegistrySpec{URL: "https://r.example.com"},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

func spec(change func(*registryv1alpha1.RegistrySpec)) *registryv1alpha1.Registry {
	return prod(func(r *registryv1alpha1.Registry) { change(&r.Spec) })
}

func TestReady(t *testing.T) {
	type s = registryv1alpha1.RegistrySpec
	for name, tc := range map[string]struct {
		given        Observation
		reason, says string
	}{
		"Accepted":   {Observation{Registry: prod()}, "Accepted", ""},
		"PlainHTTP":  {Observation{Registry: spec(func(s *s) { s.URL = "http://r.example.com" })}, "Invalid", "spec.url: "},
		"Expression": {Observation{Registry: spec(func(s *s) { s.Tags = &registryv1alpha1.TagFilter{Expression: "tag +"} })}, "Invalid", "spec.tags.expression: "},
		"RuleOfARange": {Observation{Registry: spec(func(s *s) {
			s.Rules = []registryv1alpha1.Rule{{Name: "a", Repositories: []string{"a"}, Tags: &registryv1alpha1.TagFilter{SemVer: &registryv1alpha1.SemVer{Range: "newest one"}}}}
		})}, "Invalid", "spec.rules[0].tags.semver.range: "},
		"NoCertificate":   {Observation{Registry: spec(func(s *s) { s.CABundle = "x" })}, "Invalid", "spec.caBundle: "},
		"ShortPeriod":     {Observation{Registry: spec(func(s *s) { s.ScanPeriod = "30s20s" })}, "Invalid", "spec.scanPeriod: "},
		"Never":           {Observation{Registry: spec(func(s *s) { s.Catalog = registryv1alpha1.CatalogNever })}, "Invalid", "spec.repositories: "},
		"NeverWithGlobs":  {Observation{Registry: spec(func(s *s) { s.Catalog, s.Repositories = registryv1alpha1.CatalogNever, []string{"a", "b/*"} })}, "Invalid", "spec.repositories[1]: "},
		"NeverWithNames":  {Observation{Registry: spec(func(s *s) { s.Catalog, s.Repositories = registryv1alpha1.CatalogNever, []string{"a", "b/c:1.*"} })}, "Accepted", ""},
		"NoCatalogAtHub":  {Observation{Registry: spec(func(s *s) { s.URL = "https://registry-1.docker.io" })}, "Invalid", "spec.repositories: "},
		"NoCatalogAtGHCR": {Observation{Registry: spec(func(s *s) { s.URL, s.Type = "https://ghcr.io", "GHCR" })}, "Invalid", "spec.repositories: "},
		"GHCRAlways":      {Observation{Registry: spec(func(s *s) { s.URL, s.Type, s.Catalog = "https://ghcr.io", "ghcr", registryv1alpha1.CatalogAlways })}, "Accepted", ""},
		"CloudIdentity":   {Observation{Registry: spec(func(s *s) { s.Auth = &registryv1alpha1.Auth{Provider: registryv1alpha1.ProviderAWS} })}, "Invalid", "spec.auth.provider: "},
		"CloudNamespace": {Observation{Registry: prod(func(r *registryv1alpha1.Registry) {
			r.Namespace, r.Spec.Auth, r.Spec.URL = "cloud", &registryv1alpha1.Auth{Provider: registryv1alpha1.ProviderAWS}, "https://123456789012.dkr.ecr.eu-central-1.amazonaws.com"
		})}, "Accepted", ""},
		"CloudOfAnotherHost": {Observation{Registry: prod(func(r *registryv1alpha1.Registry) {
			r.Namespace, r.Spec.Auth = "cloud", &registryv1alpha1.Auth{Provider: registryv1alpha1.ProviderGCP}
		})}, "Invalid", "is not a registry of GCP"},
		"CloudInsecure": {Observation{Registry: prod(func(r *registryv1alpha1.Registry) {
			r.Namespace, r.Spec.Auth, r.Spec.URL = "cloud", &registryv1alpha1.Auth{Provider: registryv1alpha1.ProviderGCP}, "https://eu.gcr.io"
			r.Spec.Insecure = registryv1alpha1.SkipVerify
		})}, "Invalid", "remove insecure and caBundle"},
		"Host":        {Observation{Registry: spec(func(s *s) { s.URL = "https://evil.example.org" })}, "HostNotAllowed", "evil.example.org"},
		"Adapter":     {Observation{Registry: spec(func(s *s) { s.Adapter = "grype" })}, "AdapterUnknown", "mini, trivy"},
		"Quota":       {Observation{Registry: prod(), Older: 2}, "QuotaExceeded", "2 Registries"},
		"ReportsAway": {Observation{Registry: prod(), ReportsAway: "no answer", QueueAway: "none"}, "ReportsUnavailable", "no answer"},
		"QueueAway":   {Observation{Registry: prod(), QueueAway: "no worker"}, "QueueUnavailable", "no worker"},
		"Suspended":   {Observation{Registry: spec(func(s *s) { s.Suspend = true })}, "Suspended", "spec.suspend"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.given.Now = created
			ready := Decide(tc.given, bounds()).Conditions[0]
			if ready.Reason != tc.reason || !strings.Contains(ready.Message, tc.says) || (ready.Status == metav1.ConditionTrue) != (tc.reason == "Accepted") {
				t.Errorf("%s %s: %s", ready.Status, ready.Reason, ready.Message)
			}
		})
	}
}

func TestSecure(t *testing.T) {
	for insecure, want := range map[registryv1alpha1.Insecure]string{"": "Verified", registryv1alpha1.SkipVerify: "SkipVerify", registryv1alpha1.PlainHTTP: "PlainHTTP"} {
		c := secure(registryv1alpha1.RegistrySpec{Insecure: insecure})
		if c.Reason != want || (c.Status == metav1.ConditionTrue) != (insecure == "") {
			t.Errorf("%q: %s %s", insecure, c.Status, c.Reason)
		}
	}
}

// TestJobs: what cannot work starts nothing, and what only waits does.
func TestJobs(t *testing.T) {
	hourly := func(s *registryv1alpha1.RegistrySpec) { s.DiscoveryPeriod, s.Jitter = "1h", "1ms" }
	name := schedule.JobName("prod", "uid", schedule.Discovery, created)
	ended := func(name string, hoursAgo int, kind schedule.Kind) Job {
		return Job{Job: schedule.Job{Name: name, Kind: kind, Scheduled: true, Succeeded: true, Ended: created.Add(-time.Duration(hoursAgo) * time.Hour)}}
	}
	none := int32(0)
	for label, tc := range map[string]struct {
		given           Observation
		start           string
		skipped, delete int
		next            time.Time
	}{
		"ByHandOnly":       {given: Observation{Registry: prod()}},
		"Due":              {given: Observation{Registry: spec(hourly)}, start: name, next: created.Add(time.Hour)},
		"NotReady":         {given: Observation{Registry: spec(func(s *registryv1alpha1.RegistrySpec) { hourly(s); s.Adapter = "x" })}},
		"Suspended":        {given: Observation{Registry: spec(func(s *registryv1alpha1.RegistrySpec) { hourly(s); s.Suspend = true })}},
		"SuspendedAndAway": {given: Observation{ReportsAway: "x", Registry: spec(func(s *registryv1alpha1.RegistrySpec) { hourly(s); s.Suspend = true })}},
		"QueueAway":        {given: Observation{Registry: spec(hourly), QueueAway: "x"}, start: name, next: created.Add(time.Hour)},
		"AnotherWorks": {
			given: Observation{Registry: spec(hourly), Jobs: []Job{{Active: true, Job: schedule.Job{Name: "hand", Kind: schedule.Discovery}}}}, skipped: 1, next: created.Add(time.Hour),
		},
		"OtherKindWorks": {
			given: Observation{Registry: spec(hourly), Jobs: []Job{{Active: true, Job: schedule.Job{Name: "hand", Kind: schedule.Scan}}}}, start: name, next: created.Add(time.Hour),
		},
		"MadeAlready": {given: Observation{Registry: spec(hourly), Jobs: []Job{ended(name, 0, schedule.Discovery)}}, next: created.Add(time.Hour)},
		"History": {
			given: Observation{Registry: spec(func(s *registryv1alpha1.RegistrySpec) { s.SuccessfulJobsHistoryLimit = &none }), Jobs: []Job{
				ended("a", 1, schedule.Discovery), ended("b", 2, schedule.Discovery), ended("c", 3, schedule.Scan),
			}},
			delete: 1, // the newest of each kind stays: its name tells that it has run
		},
	} {
		t.Run(label, func(t *testing.T) {
			tc.given.Now = created
			d := Decide(tc.given, bounds())
			var got string
			if len(d.Start) > 0 {
				got = d.Start[0].Name
			}
			if got != tc.start || len(d.Skipped) != tc.skipped || len(d.Delete) != tc.delete || !d.NextDiscovery.Equal(tc.next) {
				t.Errorf("start %q, skipped %v, delete %v, next %v", got, d.Skipped, d.Delete, d.NextDiscovery)
			}
			if after := max(tc.next.Sub(created), 0); d.RequeueAfter != after {
				t.Errorf("looked at again after %s, want %s", d.RequeueAfter, after)
			}
		})
	}
}
