// SPDX-License-Identifier: Apache-2.0

package crds_test

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) {
		cluster = c
		if err := c.InstallRegistryCRDs(context.Background()); err != nil {
			panic(err)
		}
	}))
}

// object reads a spec in YAML. The name is that of the test.
func object(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	fields := map[string]any{}
	raw, err := yaml.YAMLToJSON([]byte(spec))
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	if err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "registry.scanyard.io/v1alpha1", "kind": kind,
		"metadata": map[string]any{"namespace": "default", "name": nameOf(t)},
		"spec":     fields,
	}}
}

func nameOf(t *testing.T) string {
	t.Helper()
	name := strings.ToLower(t.Name())
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name[strings.LastIndex(name, "/")+1:]), "-")
}

const strict = client.FieldValidation(metav1.FieldValidationStrict)

// example is the Registry of the documentation.
const example = `
url: https://registry.example.com
auth: {secretName: registry-pull}
repositories: ["shop/*", "base/debian:12"]
platforms: [linux/amd64, linux/arm]
tags: {exclude: ["*-debug"], semver: {range: ">=1.0"}, newest: 5, newestBy: SemVer}
rules: [{name: nightly, repositories: ["shop/nightly"], tags: {maxAge: 14d}}]
discoveryPeriod: 1h
scanPeriod: 1d
`

func TestDefaultsAreStored(t *testing.T) {
	cases := map[string]struct {
		kind, spec string
		want       map[string]any
	}{
		"Registry": {"Registry", example, map[string]any{
			"type": "oci", "catalog": "Auto", "windowPolicy": "Finish", "suspend": false, "formats": []any{"SPDX"},
			"scanOn": []any{"NewImage", "DatabaseChange"}, "successfulJobsHistoryLimit": int64(3), "failedJobsHistoryLimit": int64(3),
		}},
		"NoTriggerAtAll": {"Registry", "url: https://r.example.com\nscanOn: []", map[string]any{
			"type": "oci", "catalog": "Auto", "windowPolicy": "Finish", "suspend": false, "formats": []any{"SPDX"},
			"successfulJobsHistoryLimit": int64(3), "failedJobsHistoryLimit": int64(3),
		}},
		"Findings": {"Registry", "url: https://r.example.com\nfindings: {}\nretention: {}\nscanOn: [NewImage]", map[string]any{
			"type": "oci", "catalog": "Auto", "windowPolicy": "Finish", "suspend": false, "formats": []any{"SPDX"},
			"successfulJobsHistoryLimit": int64(3), "failedJobsHistoryLimit": int64(3), "retention": map[string]any{"gone": "7d"},
			"findings": map[string]any{"publish": "All", "minSeverity": "LOW", "scanType": "registry-findings", "ttlSecondsAfterFinished": int64(604800)},
		}},
		"DiscoveryJob": {"DiscoveryJob", "registry: prod", map[string]any{"priority": "Interactive", "deadlineSeconds": int64(86400), "stopAfter": "Match"}},
		"ScanJob":      {"ScanJob", "registry: prod", map[string]any{"priority": "Interactive", "deadlineSeconds": int64(86400), "mode": "Changed"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := object(t, tc.kind, tc.spec)
			want := o.DeepCopy().Object["spec"].(map[string]any)
			maps.Copy(want, tc.want)
			if err := cluster.Client.Create(t.Context(), o, strict, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, o.Object["spec"]); diff != "" {
				t.Errorf("stored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidObjectsAreAccepted(t *testing.T) {
	for name, tc := range map[string]struct{ kind, spec string }{
		"Port":              {"Registry", "url: https://r.example.com:5000/"},
		"AddressOfVersion6": {"Registry", "url: 'https://[2001:db8::1]:5000'"},
		"PlainHTTP":         {"Registry", "url: http://r.example.com\ninsecure: PlainHTTP"},
		"UpperCaseType":     {"Registry", "url: https://r.example.com\ntype: GHCR"},
		"Cron":              {"Registry", "url: https://r.example.com\ndiscoverySchedule: '0 3 * * 1-5'\nscanSchedule: '@daily'\ntimeZone: Europe/Berlin"},
		"OtherKindsOfTimes": {"Registry", "url: https://r.example.com\ndiscoveryPeriod: 60s\nscanSchedule: '@daily'"},
		"MinuteOfParts":     {"Registry", "url: https://r.example.com\ndiscoveryPeriod: 59s1000ms\nscanPeriod: 1w2d"},
		"Windows":           {"Registry", "url: https://r.example.com\nwindows: [{schedule: '0 8 * * 1-5', duration: 10h}]\nwindowPolicy: Pause\njitter: 5m"},
		"DryRun":            {"DiscoveryJob", "registry: prod\ndryRun: true\noverride: {tags: {newest: 2}}"},
		"Retry":             {"ScanJob", "registry: prod\nretry: [Failed, Quarantined]\nretryOnly: true\nimages: [a]\nmode: Full"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := cluster.Client.Create(t.Context(), object(t, tc.kind, tc.spec), strict, client.DryRunAll); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInvalidObjectsAreRefused(t *testing.T) {
	const url = "url: https://r.example.com\n"
	for name, tc := range map[string]struct{ kind, spec, want string }{
		"NoURL":             {"Registry", "type: oci", "spec.url"},
		"Path":              {"Registry", "url: https://r.example.com/team", "without a path"},
		"User":              {"Registry", "url: https://me:secret@r.example.com", "without a path, a user"},
		"Query":             {"Registry", "url: https://r.example.com?x=1", "a query"},
		"NoScheme":          {"Registry", "url: r.example.com", "must be https://host"},
		"OtherScheme":       {"Registry", "url: ftp://r.example.com", "must be https://host"},
		"PlainHTTPUnsaid":   {"Registry", "url: http://r.example.com", "insecure: PlainHTTP"},
		"SkipVerifyIsNotIt": {"Registry", "url: http://r.example.com\ninsecure: SkipVerify", "insecure: PlainHTTP"},
		"UnknownType":       {"Registry", url + "type: nexus", "spec.type"},
		"TwoAuths":          {"Registry", url + "auth: {secretName: a, provider: AWS}", "cannot both be set"},
		"TwoDiscoveryTimes": {"Registry", url + "discoveryPeriod: 1h\ndiscoverySchedule: '@daily'", "discoveryPeriod and discoverySchedule"},
		"TwoScanTimes":      {"Registry", url + "scanPeriod: 1h\nscanSchedule: '@daily'", "scanPeriod and scanSchedule"},
		"ShortPeriod":       {"Registry", url + "discoveryPeriod: 59s", "at least 1m"},
		"Milliseconds":      {"Registry", url + "scanPeriod: 1000ms", "at least 1m"},
		"GoDuration":        {"Registry", url + "scanPeriod: 1.5h", "spec.scanPeriod"},
		"NoTime":            {"Registry", url + "jitter: 0s", "more than zero"},
		"ShortRetention":    {"Registry", url + "retention: {gone: 30s}", "at least 1m"},
		"ZoneInTheCron":     {"Registry", url + "scanSchedule: 'CRON_TZ=UTC 0 3 * * *'", "spec.timeZone"},
		"SixFields":         {"Registry", url + "scanSchedule: '0 0 3 * * *'", "five fields"},
		"UnknownTrigger":    {"Registry", url + "scanOn: [Push]", "spec.scanOn"},
		"SameRuleTwice":     {"Registry", url + "rules: [{name: a, repositories: [x]}, {name: a, repositories: [y]}]", "Duplicate"},
		"NewestOfNone":      {"Registry", url + "tags: {newest: 0}", "spec.tags.newest"},
		"NoFormat":          {"Registry", url + "formats: []", "spec.formats"},
		"UnknownField":      {"Registry", url + "repositry: [a]", "repositry"},
		"OverrideForReal":   {"DiscoveryJob", "registry: prod\noverride: {platforms: [linux/amd64]}", "override needs dryRun"},
		"NoRegistry":        {"DiscoveryJob", "force: true", "spec.registry"},
		"ShortDeadline":     {"ScanJob", "registry: prod\ndeadlineSeconds: 59", "spec.deadlineSeconds"},
		"RetryOfPending":    {"ScanJob", "registry: prod\nretry: [Pending]", "spec.retry"},
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, cluster.Client.Create(t.Context(), object(t, tc.kind, tc.spec), strict, client.DryRunAll), tc.want)
		})
	}
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		t.Fatalf("error %v, want a refusal", err)
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("the refusal\n  %v\ndoes not hold\n  %s", err, want)
	}
}

// TestMutableFields: another url is another Registry, and another job is another job.
func TestMutableFields(t *testing.T) {
	const job = "registry: prod\nrepositories: [a]\n"
	for name, tc := range map[string]struct{ kind, spec, patch, want string }{
		"Filter":           {"Registry", example, `{"tags":{"newest":2},"discoveryPeriod":"2h"}`, ""},
		"URL":              {"Registry", example, `{"url":"https://other.example.com"}`, "cannot be changed"},
		"Suspend":          {"DiscoveryJob", job, `{"suspend":true}`, ""},
		"CancelAndTTL":     {"DiscoveryJob", job, `{"cancel":true,"ttlSecondsAfterFinished":5}`, ""},
		"CancelOfAScan":    {"ScanJob", job, `{"cancel":true}`, ""},
		"CancelIsForGood":  {"ScanJob", job + "cancel: true", `{"cancel":false}`, "cancel is for good"},
		"CancelTakenAway":  {"DiscoveryJob", job + "cancel: true", `{"cancel":null}`, "cancel is for good"},
		"Registry":         {"DiscoveryJob", job, `{"registry":"other"}`, "make another job"},
		"MoreRepositories": {"DiscoveryJob", job, `{"repositories":["a","b"]}`, "make another job"},
		"NoRepositories":   {"ScanJob", job, `{"repositories":null}`, "make another job"},
		"Force":            {"DiscoveryJob", job, `{"force":true}`, "make another job"},
		"FalseIsAbsent":    {"DiscoveryJob", job, `{"force":false}`, ""},
		"StopAfter":        {"DiscoveryJob", job, `{"stopAfter":"SBOM"}`, "make another job"},
		"Mode":             {"ScanJob", job, `{"mode":"Full"}`, "make another job"},
		"Images":           {"ScanJob", job, `{"images":["a"]}`, "make another job"},
		"Retry":            {"ScanJob", job, `{"retry":["Failed"]}`, "make another job"},
		"Deadline":         {"ScanJob", job, `{"deadlineSeconds":60}`, "make another job"},
	} {
		t.Run(name, func(t *testing.T) {
			o := object(t, tc.kind, tc.spec)
			if err := cluster.Client.Create(t.Context(), o, strict); err != nil {
				t.Fatal(err)
			}
			err := cluster.Client.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+tc.patch+`}`)))
			if tc.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			refused(t, err, tc.want)
		})
	}
}

// TestFieldSelectors: Registries are found by what clients know of them.
func TestFieldSelectors(t *testing.T) {
	o := object(t, "Registry", "url: https://selected.example.com\ntype: harbor")
	if err := cluster.Client.Create(t.Context(), o, strict); err != nil {
		t.Fatal(err)
	}
	for _, fields := range []client.MatchingFields{{"spec.url": "https://selected.example.com"}, {"spec.type": "harbor"}} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(o.GroupVersionKind())
		if err := cluster.Client.List(t.Context(), list, client.InNamespace("default"), fields); err != nil {
			t.Fatal(err)
		}
		if len(list.Items) != 1 || list.Items[0].GetName() != o.GetName() {
			t.Errorf("%v finds %d Registries", fields, len(list.Items))
		}
	}
}
