// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/cli"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// hostile sets the title, hides what follows, ends in C1 and turns the direction of writing. Its first words tell that a
// command has printed it.
const hostile = "PWN\x1b]0;title\x07\x1b[31;7mred\u009b2J\u0085\u202Etxt.exe\u2066\u200f\u061c\x7f\x08\rover"

// ours are the sequences that the command line makes itself.
var ours = func() []string {
	all := []string{"\x1b[0m", "\r\x1b[K", "\x1b[J"}
	for _, p := range []session.Paint{session.Good, session.Bad, session.Warn, session.Note, session.Quiet, session.Heading} {
		all = append(all, string(p))
	}
	for up := range 20 {
		all = append(all, fmt.Sprintf("\x1b[%dA", up+1))
	}
	return all
}()

// active returns what a terminal would act upon in an output.
func active(text string) []string {
	for _, sequence := range ours {
		text = strings.ReplaceAll(text, sequence, "")
	}
	text = strings.ReplaceAll(text, "\r\n", "\n") // as CSV ends its lines
	var found []string
	for i, c := range text {
		switch {
		case c == '\n', c == '\t':
		case c < ' ', c >= 0x7f && c <= 0x9f, c == 0x061c, c == 0x200e, c == 0x200f, c >= 0x202a && c <= 0x202e, c >= 0x2066 && c <= 0x2069:
			found = append(found, fmt.Sprintf("%q in %q", c, text[max(0, i-20):min(len(text), i+20)]))
		}
	}
	return found
}

// hostileWorld has objects whose every text that takes one is hostile.
func hostileWorld(t *testing.T) *World {
	t.Helper()
	w := New(t, cluster)
	w.Now = time.Now
	create := func(o client.Object) {
		t.Helper()
		if err := w.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	object := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.Namespace, Name: name} }
	finding := map[string]any{
		"id": "49bf7fd3-8512-4d73-a28f-608e493cd726", "name": hostile, "category": hostile, "severity": "HIGH", "location": "https://" + hostile,
		"description": hostile, "osi_layer": hostile, "mitigation": hostile, "attributes": map[string]any{"hostname": hostile, hostile: hostile},
	}
	findings, err := json.Marshal([]any{finding})
	if err != nil {
		t.Fatal(err)
	}
	taint := func(s *executionv1.Scan) {
		count := int64(1)
		s.Annotations = map[string]string{"cascading.securecodebox.io/parent-scan": hostile, "cascading.securecodebox.io/chain": hostile}
		s.Spec.Parameters = []string{hostile, "-x" + hostile}
		s.Spec.ScanType = hostile
		s.Status.ErrorDescription = hostile
		s.Status.RawResultType = hostile
		s.Status.Findings = executionv1.FindingStats{Count: &count, FindingCategories: map[string]int64{hostile: 1}}
		s.Status.OrderedHookStatuses = [][]executionv1.HookStatus{{{HookName: hostile, JobName: hostile, State: executionv1.HookStateFailed, Type: executionv1.ReadOnly}}}
		for i := range s.Status.Conditions {
			s.Status.Conditions[i].Message = hostile
		}
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: executionv1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Completed", Message: hostile})
	}
	for _, name := range []string{"done", "before"} {
		w.Scan(name, findings, []byte(hostile), taint)
	}
	w.Scan("errored", findings, []byte(hostile), taint, func(s *executionv1.Scan) { s.Status.State = executionv1.ScanStateErrored })
	w.Scan("refused", findings, []byte(hostile), taint, func(s *executionv1.Scan) { Answered(s, metav1.ConditionFalse, "Refused", hostile) })
	w.Scan("queued", nil, nil, taint, func(s *executionv1.Scan) {
		s.Status.State = executionv1.ScanStateNew
		meta.SetStatusCondition(&s.Status.Conditions, metav1.Condition{Type: executionv1.ConditionAdmitted, Status: metav1.ConditionFalse, Reason: executionv1.ReasonNamespaceLimit, Message: hostile})
	})
	for _, name := range []string{"held", "cancelled", "doomed"} {
		w.Scan(name, nil, nil, taint, func(s *executionv1.Scan) { s.Status.State = executionv1.ScanStateScanning })
	}
	done := &executionv1.Scan{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: "done"}, done); err != nil {
		t.Fatal(err)
	}
	create(&corev1.Event{
		ObjectMeta: object("told"), Reason: hostile, Message: hostile, Type: corev1.EventTypeWarning, Source: corev1.EventSource{Component: hostile},
		InvolvedObject: corev1.ObjectReference{Kind: "Scan", Namespace: w.Namespace, Name: "done", UID: done.UID},
	})
	create(&executionv1.ScheduledScan{ObjectMeta: object("nightly"), Spec: executionv1.ScheduledScanSpec{Schedule: "0 3 * * *", ScanSpec: &executionv1.ScanSpec{ScanType: hostile, Parameters: []string{hostile}}}})
	local := &executionv1.ScanType{ObjectMeta: object("local"), Spec: executionv1.ScanTypeSpec{ExtractResults: executionv1.ExtractResults{Type: hostile, Location: "/home/securecodebox/x"}}}
	local.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "local", Image: hostile}}}
	create(local)
	if err := cluster.InstallReportCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := wgpolicyv1alpha2.AddToScheme(w.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	create(&wgpolicyv1alpha2.PolicyReport{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "shop", Annotations: map[string]string{"says": hostile}},
		Scope:      &corev1.ObjectReference{Kind: hostile, Name: hostile}, Summary: &wgpolicyv1alpha2.PolicyReportSummary{Fail: new(int64(7))},
		Results: []wgpolicyv1alpha2.PolicyReportResult{{Policy: new(hostile), Rule: hostile, Category: hostile, Source: hostile, Message: hostile, Result: wgpolicyv1alpha2.ResultFail, Properties: map[string]string{"x": hostile}}},
	})
	excepted := &settingsv1alpha2.FindingException{ObjectMeta: object("excepted")}
	excepted.Spec.Status, excepted.Spec.Reason = settingsv1alpha2.ExceptionMitigated, hostile+" for some time"
	excepted.Spec.ExpiresAt, excepted.Spec.Reviewer = &metav1.Time{Time: time.Now().Add(time.Hour)}, hostile
	excepted.Spec.Scope = &settingsv1alpha2.ExceptionScope{Scans: []string{"done"}}
	excepted.Spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{{Severities: []string{"HIGH"}, Names: []string{hostile + "*"}}}
	create(excepted)
	unlike := excepted.DeepCopy()
	unlike.Name, unlike.ResourceVersion, unlike.Spec.Match.AnyOf[0].Expression = "unlike", "", "finding."+hostile
	create(unlike)
	hostileImages(t, w, create)
	setting := &settingsv1alpha2.ScanSetting{ObjectMeta: object(settingsv1alpha2.Name)}
	create(setting)
	setting.Status.Conditions = []metav1.Condition{{Type: settingsv1alpha2.ConditionReady, Status: metav1.ConditionFalse, Reason: "Refused", Message: hostile, LastTransitionTime: metav1.Now()}}
	if err := w.Client.Status().Update(t.Context(), setting); err != nil {
		t.Fatal(err)
	}
	return w
}

// hostileImages makes a Registry, a job, and images of it, that speak as registries and images may.
func hostileImages(t *testing.T, w *World, create func(client.Object)) {
	t.Helper()
	if err := cluster.InstallRegistryCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
	registry := &registryv1alpha1.Registry{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "prod"}}
	registry.Spec.URL, registry.Spec.Repositories = "https://registry.example.com", []string{hostile}
	create(registry)
	registry.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Invalid", Message: hostile, LastTransitionTime: metav1.Now()}}
	registry.Status.Warnings = []registryv1alpha1.Warning{{Code: hostile, Count: 1, Examples: []string{hostile}}}
	if err := w.Client.Status().Update(t.Context(), registry); err != nil {
		t.Fatal(err)
	}
	job := &registryv1alpha1.DiscoveryJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "told"}}
	job.Spec.Registry = "prod"
	create(job)
	job.Status.State = hostile
	job.Status.Conditions = []metav1.Condition{{Type: "Progressing", Status: metav1.ConditionFalse, Reason: "Queued", Message: hostile, LastTransitionTime: metav1.Now()}}
	if err := w.Client.Status().Update(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	reports := w.ServeReports()
	layer := "sha256:" + strings.Repeat("c", 64)
	score := 9.8
	for _, name := range []string{"img-1", "img-2"} {
		image := &reportsv1.Image{ObjectMeta: metav1.ObjectMeta{Name: name}}
		image.Spec = reportsv1.ImageSpec{
			Registry: reportsv1.RegistryRef{Name: "prod", UID: "uid-1", Host: "registry.example.com"}, Repository: "shop/" + name, Tag: "1" + hostile, Platform: hostile,
			Digest: "sha256:" + strings.Repeat("a", 64), Layers: []reportsv1.ImageLayer{{Digest: layer, DiffID: layer, Command: hostile}}, Flags: []string{hostile},
		}
		image.Status = reportsv1.ImageStatus{Presence: reportsv1.ImagePresent, State: reportsv1.ImageFailed, Reason: hostile, Message: hostile}
		reports.Image(w.Namespace, image)
	}
	sum := reports.SBOM(w.Namespace, "img-1", "pkg:npm/"+hostile+"@1")
	reports.Findings(w.Namespace, "img-1", sum, metav1.Now(), reportsv1.VulnerabilityFinding{
		VulnerabilityID: "CVE-2024-1", Severity: "HIGH", Score: &score, Title: hostile, Description: hostile, Target: hostile, FixedVersions: []string{hostile},
		Package: reportsv1.VulnerablePackage{Name: hostile, Version: hostile, Type: "npm", PURL: "pkg:npm/x@1"}, Layer: &reportsv1.FindingLayer{Digest: layer, DiffID: layer},
	})
	reports.Repository(w.Namespace, "img", "shop/img", reportsv1.Tag{Tag: "told" + hostile, Reason: hostile, Platforms: []string{hostile}})
}

// hostileCalls are calls of every command, by its path. Those that print data byte for byte to pipes are marked so: a
// terminal gets them guarded.
func hostileCalls(t *testing.T) map[string][]string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(hostile), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	vex := filepath.Join(t.TempDir(), "vex.json")
	document := strings.ReplaceAll(`{"@context":"https://openvex.dev/ns","statements":[{"vulnerability":{"name":H},"products":[{"@id":H},{"@id":"pkg:npm/a"}],`+
		`"status":"fixed","status_notes":H},{"vulnerability":{"name":"CVE-1"},"status":H}]}`, "H", string(text))
	if err := os.WriteFile(vex, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "bundle")
	return map[string][]string{
		"scan":                 {"scan " + hostile, "scan local --name fresh -- " + hostile, "scan local --timeout 1ms", "scan --from " + config, "scan local --name done"},
		"wait":                 {"wait done --fail-on high", "wait errored", "wait queued --timeout 10ms", "wait " + hostile},
		"trigger":              {"trigger nightly --wait --timeout 10ms", "trigger " + hostile},
		"get":                  {"get", "get -o wide", "get done --show-labels", "get schedules -o wide", "get types -o wide", "get hooks", "get done -o json", "get done -o yaml", "get -o name", "get " + hostile, "get done -o jsonpath={.spec.parameters}"},
		"describe":             {"describe done errored refused queued held", "describe " + hostile},
		"logs":                 {"logs done", "logs " + hostile},
		"findings":             {"findings done", "findings done -o wide", "findings done -o json", "findings done -o jsonl", "findings done -o yaml", "findings done -o csv", "findings done -o markdown", "findings done -o sarif", "findings done -o junit", "findings done -o html", "findings done --show-excepted", "findings done --no-exceptions", "findings -A", "findings -A -o wide", "findings " + hostile},
		"raw":                  {"raw done", "raw queued --patience 1ms"},
		"diff":                 {"diff done before", "diff done before --all -o wide", "diff done before --all -o json", "diff " + hostile + " done"},
		"tree":                 {"tree", "tree done", "tree -o json", "tree -o yaml", "tree " + hostile},
		"cascade":              {"cascade"},
		"cascade explain":      {"cascade explain --scan done", "cascade explain --scan done -o json", "cascade explain --scan " + hostile},
		"queue":                {"queue", "queue -o wide", "queue -A"},
		"suspend":              {"suspend held", "suspend " + hostile},
		"resume":               {"resume held", "resume " + hostile},
		"cancel":               {"cancel cancelled", "cancel done", "cancel " + hostile},
		"retry":                {"retry refused scanner --timeout 1ms", "retry done hook/x", "retry " + hostile},
		"delete":               {"delete doomed --wait=false", "delete " + hostile},
		"doctor":               {"doctor"},
		"support-bundle":       {"support-bundle -O " + bundle, "support-bundle -O " + bundle + " --scan " + hostile},
		"settings":             {"settings", "settings -o yaml", "settings -o json"},
		"console":              {"console --address 0.0.0.0:0", "console --address " + hostile},
		"discover":             {"discover --dry-run --config " + config},
		"reports get":          {"reports get polr", "reports get polr -A", "reports get polr -o wide", "reports get polr shop -o yaml", "reports get polr shop -o json", "reports get polr -o name", "reports get " + hostile, "reports get polr " + hostile},
		"reports create":       {"reports create -f " + config, "reports create -f " + hostile},
		"reports apply":        {"reports apply -f " + config, "reports apply -f " + hostile},
		"reports patch":        {"reports patch polr shop -p " + hostile, "reports patch polr " + hostile + " -p {}"},
		"reports delete":       {"reports delete polr " + hostile},
		"reports query":        {"reports query " + hostile, "reports query --since " + hostile},
		"reports lint":         {"reports lint", "reports lint " + hostile},
		"reports export":       {"reports export --sarif " + hostile, "reports export " + hostile},
		"reports migrate":      {"reports migrate --dry-run", "reports migrate --groups " + hostile},
		"exceptions":           {"exceptions"},
		"exceptions list":      {"exceptions list -o wide", "exceptions list -A", "exceptions list -o yaml"},
		"exceptions describe":  {"exceptions describe excepted unlike", "exceptions describe --cluster-wide " + hostile, "exceptions describe " + hostile},
		"exceptions create":    {"exceptions create --status " + hostile, "exceptions create --status Mitigated --reason long-enough-a-reason --name " + hostile, "exceptions create --from done --fingerprint " + hostile + " --status Mitigated --reason x"},
		"exceptions expire":    {"exceptions expire " + hostile},
		"exceptions expiring":  {"exceptions expiring", "exceptions expiring -A", "exceptions expiring --within " + hostile},
		"exceptions explain":   {"exceptions explain done", "exceptions explain " + hostile, "exceptions explain done --fingerprint " + hostile},
		"exceptions import":    {"exceptions import " + config, "exceptions import " + vex, "exceptions import " + hostile},
		"exceptions export":    {"exceptions export", "exceptions export --format cyclonedx", "exceptions export --format " + hostile},
		"registry":             {"registry"},
		"registry list":        {"registry list", "registry list -A -o yaml"},
		"registry describe":    {"registry describe prod", "registry describe " + hostile},
		"registry add":         {"registry add https://x.example --dry-run --repo " + hostile + " -o yaml", "registry add " + hostile, "registry add https://x.example --name " + hostile},
		"registry grant":       {"registry grant prod", "registry grant " + hostile},
		"registry discover":    {"registry discover " + hostile, "registry discover prod --timeout 100ms", "registry discover prod --fail-on " + hostile},
		"registry scan":        {"registry scan " + hostile, "registry scan a:" + hostile, "registry scan prod --image " + hostile, "registry scan prod --timeout 10ms"},
		"registry preview":     {"registry preview prod --timeout 10ms", "registry preview prod --why told" + hostile, "registry preview prod -f " + config, "registry preview " + hostile},
		"registry images":      {"registry images", "registry images prod -A -o wide", "registry images -o json", "registry images --severity " + hostile, "registry images " + hostile},
		"registry image":       {"registry image img-1", "registry image img-2", "registry image shop/img-1:1" + hostile, "registry image " + hostile},
		"registry sbom":        {"registry sbom img-1", "registry sbom img-1 -o spdx", "registry sbom img-2", "registry sbom img-1 -o " + hostile},
		"registry sbom import": {"registry sbom import " + config + " --image x.example/a@sha256:" + strings.Repeat("a", 64), "registry sbom import " + config + " --image " + hostile, "registry sbom import " + hostile + " --image x.example/a@sha256:" + strings.Repeat("a", 64)},
		"registry vulns":       {"registry vulns img-1", "registry vulns img-1 -o wide", "registry vulns img-1 -o json", "registry vulns img-1 -o sarif", "registry vulns img-1 -o csv", "registry vulns img-1 -o html", "registry vulns img-2", "registry vulns img-1 --fail-on high"},
		"registry diff":        {"registry diff img-1 img-2", "registry diff img-1 img-1 --all", "registry diff img-1 --since 1d", "registry diff " + hostile + " img-1"},
		"registry who-has":     {"registry who-has CVE-2024-1", "registry who-has CVE-2024-1 -A -o wide", "registry who-has CVE-2024-1 -o csv", "registry who-has " + hostile, "registry who-has " + hostile + "@<1"},
		"registry retry":       {"registry retry prod --timeout 10ms", "registry retry " + hostile},
		"registry cancel":      {"registry cancel " + hostile, "registry cancel " + hostile + "/x"},
		"registry suspend":     {"registry suspend " + hostile},
		"registry resume":      {"registry resume " + hostile},
		"registry purge":       {"registry purge", "registry purge " + hostile},
		"registry doctor":      {"registry doctor"},
		"registry db":          {"registry db", "registry db -o yaml"},
		"version":              {"version"},
		"import":               {"import " + hostile + " --type sarif", "import " + config + " --type " + hostile, "import " + config + " --type sarif --name " + hostile},
		"uninstall":            {"uninstall --dry-run", "uninstall --dry-run --results=" + hostile},
		"options":              {"options"},
		"help":                 {"help", "help " + hostile},
		"completion bash":      {"completion bash"}, "completion zsh": {"completion zsh"},
		"completion fish": {"completion fish"}, "completion powershell": {"completion powershell"},
	}
}

// leaves are the paths of all commands that do something.
func leaves(c *cobra.Command, path []string) []string {
	var all []string
	if c.Runnable() && len(path) > 0 {
		all = append(all, strings.Join(path, " "))
	}
	for _, child := range c.Commands() {
		all = append(all, leaves(child, append(slices.Clone(path), child.Name()))...)
	}
	return all
}

// TestHostileTextIsEscapedForTerminals runs every command on objects full of escape sequences, on a terminal and into
// a pipe. What may reach a pipe byte for byte is data: results, objects as JSON and YAML, logs.
func TestHostileTextIsEscapedForTerminals(t *testing.T) {
	w := hostileWorld(t)
	calls := hostileCalls(t)
	s, err := session.New(session.Options{Streams: genericiooptions.IOStreams{}, Getenv: func(string) string { return "" }, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	root := cli.NewCommand(s)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, path := range leaves(root, nil) {
		if len(calls[path]) == 0 {
			t.Errorf("the command %q has no call in this test", path)
		}
	}
	data := []string{"raw done", "findings done -o json", "findings done -o jsonl", "findings done -o yaml", "findings done -o sarif", "findings done -o junit", "findings done -o html", "get done -o json", "get done -o yaml", "get done -o jsonpath={.spec.parameters}", "diff done before --all -o json", "tree -o json", "tree -o yaml", "cascade explain --scan done -o json", "settings -o yaml", "settings -o json", "exceptions list -o yaml", "reports get polr shop -o yaml", "reports get polr shop -o json", "registry images -o json", "registry sbom img-1 -o spdx", "registry vulns img-1 -o json", "registry vulns img-1 -o sarif", "registry vulns img-1 -o html"}
	for _, terminal := range []bool{true, false} {
		w.Color, w.Live = terminal, terminal
		printed := 0
		for _, call := range slices.Sorted(func(yield func(string) bool) {
			for _, each := range calls {
				for _, one := range each {
					if !yield(one) {
						return
					}
				}
			}
		}) {
			got := w.Run(strings.Split(call, " ")...)
			if strings.Contains(got.Out+got.Err, "unknown flag") || strings.Contains(got.Err, "unknown shorthand") {
				t.Errorf("%q is not a call: %s", call, got.Err)
			}
			if strings.Contains(got.Out+got.Err, "PWN") {
				printed++
			}
			found := active(got.Err)
			if terminal || !slices.Contains(data, call) {
				found = append(found, active(got.Out)...)
			}
			if len(found) > 0 {
				t.Errorf("%q (terminal %v) prints %s", call, terminal, strings.Join(found, "; "))
			}
		}
		if printed < 30 {
			t.Errorf("only %d calls have printed hostile text", printed)
		}
	}
}
