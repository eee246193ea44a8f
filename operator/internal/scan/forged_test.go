// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// as returns a client with the rights of a ServiceAccount of the world's namespace.
func (w *world) as(account string) client.Client {
	w.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + w.Namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + w.Namespace, "system:authenticated"},
	}
	c, err := client.New(config, client.Options{Scheme: cluster.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	return c
}

// account waits for the account of a Scan.
func (w *world) account(scan string) string {
	w.Helper()
	name := ""
	w.Eventually(func() string {
		var list corev1.ServiceAccountList
		w.Expect(w.Client.List(w.Context(), &list, client.InNamespace(w.Namespace))).To(Succeed())
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].Name, "scan-"+scan+"-") {
				name = list.Items[i].Name
			}
		}
		return name
	}).ShouldNot(BeEmpty())
	return name
}

// forge patches the status of a Scan as a pod could.
func (w *world) forge(as client.Client, scan, patch string) error {
	w.Helper()
	return as.Status().Patch(w.Context(), w.get(scan), client.RawPatch(types.MergePatchType, []byte(patch)))
}

// TestForgedResultIsNotBelieved: how the raw result is called and read is what the ScanType said
// when the scanner was started.
func TestForgedResultIsNotBelieved(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.hook("rewrite", executionv1.ReadAndWrite, 0), w.scan("s"))
	scanner := w.job(executionv1.JobTypeScanner)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateScanning))
	pod := w.as(w.account("s"))
	for _, file := range []string{"../scan-" + string(w.get("s").UID) + "/findings.json", "/x", "a/b", `..\\x`, ".", "..", `a\u0000b`, `a\nb`} {
		w.Expect(w.forge(pod, "s", `{"status":{"rawResultFile":"`+file+`"}}`)).To(Satisfy(apierrors.IsInvalid), file)
	}
	const forged = `{"status":{"rawResultFile":"findings.json","rawResultType":"other"}}`
	w.Expect(w.forge(pod, "s", forged)).To(Succeed())
	w.finish(scanner, batchv1.JobComplete, "CompletionsReached")
	parser := w.job(executionv1.JobTypeParser)
	w.Expect(parser.Spec.Template.Spec.Containers[0].Args[0]).To(ContainSubstring("/nmap-results.xml?"))

	w.Expect(w.forge(pod, "s", forged)).To(Succeed())
	// The ScanType is another one now, too.
	changed := &executionv1.ScanType{}
	w.Expect(w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.Namespace, Name: "nmap"}, changed)).To(Succeed())
	changed.Spec.ExtractResults = executionv1.ExtractResults{Type: "other", Location: executionv1.ResultsDir + "other.json"}
	w.Expect(w.Client.Update(t.Context(), changed)).To(Succeed())
	w.finish(parser, batchv1.JobComplete, "CompletionsReached")
	hook := w.job(executionv1.JobTypeReadAndWriteHook)
	args := hook.Spec.Template.Spec.Containers[0].Args
	w.Expect(args[0]).To(ContainSubstring("/nmap-results.xml?"))
	w.Expect(args[2]).To(ContainSubstring("/nmap-results.xml?"))

	w.Expect(w.forge(pod, "s", forged)).To(Succeed())
	w.finish(hook, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Expect(w.get("s").Status.RawResultFile).To(Equal("nmap-results.xml"))
	w.Expect(w.get("s").Status.RawResultType).To(Equal("nmap-xml"))
}

// writer is an account with the rights that parsers and hooks have where accounts are shared, or
// that a hook brings: on all Scans of the namespace, also on those that have ended.
func (w *world) writer() client.Client {
	w.Helper()
	w.Create(
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "writer"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{executionv1.SchemeGroupVersion.Group}, Resources: []string{"scans", "scans/status"}, Verbs: []string{"get", "patch"},
		}}},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "writer"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "writer"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "writer", Namespace: w.Namespace}},
		},
	)
	return w.as("writer")
}

// forgeries are what a pod might write into each field of a status, as JSON.
func forgeries() map[string][]string {
	const past, future = `"2001-01-01T00:00:00Z"`, `"2999-01-01T00:00:00Z"`
	link := []string{`"https://elsewhere.example/x?X-Amz-Signature=1"`, `null`}
	hook := func(name, more string) string {
		return fmt.Sprintf(`{"hookName":%q,"type":"ReadOnly","priority":0,%s}`, name, more)
	}
	var pending []string
	for i := range 200 {
		pending = append(pending, hook("webhook", fmt.Sprintf(`"state":"Pending","attempt":%d`, i)), hook(fmt.Sprintf("unknown-%d", i), `"state":"Pending"`))
	}
	condition := func(kind, status, reason, at string) string {
		return fmt.Sprintf(`[{"type":%q,"status":%q,"reason":%q,"message":"forged","lastTransitionTime":%s}]`, kind, status, reason, at)
	}
	return map[string][]string{
		"state":                  {`"Done"`, `"Errored"`, `""`, `"HookProcessing"`, `"ScanCompleted"`, `"Scanning"`, `"Odd"`},
		"finishedAt":             {past, future, `null`},
		"errorDescription":       {`"forged"`},
		"rawResultType":          {`"other"`, `null`},
		"rawResultFile":          {`"../scan-00000000-0000-0000-0000-000000000000/findings.json"`, `"findings.json"`, `null`},
		"findingDownloadLink":    link,
		"rawResultDownloadLink":  link,
		"findingHeadLink":        link,
		"rawResultHeadLink":      link,
		"scannerLogDownloadLink": link,
		"findings":               {`{"count":7,"severities":{"high":7}}`, `null`},
		"readAndWriteHookStatus": {`[` + hook("webhook", `"state":"Completed"`) + `]`},
		"orderedHookStatuses": {
			`[[` + strings.Join(pending, ",") + `]]`, `[[` + hook("webhook", `"state":"Pending","afterFailure":true`) + `]]`,
			`[[` + hook("unknown", `"state":"Failed"`) + `]]`, `[]`,
		},
		"conditions": {
			condition("Admitted", "True", "WaitedLongest", past), condition("Cancelled", "True", "CancelledByUser", past),
			condition("Parsed", "Unknown", "ParseDefinitionNotFound", past), condition("Rerun", "Unknown", "RerunWaits", future), `[]`,
		},
		"observedGeneration": {`99`},
		"lastRerun":          {`"scanner@1"`},
		"attempts":           {`{"scanner":7,"parser":9}`, `{"scanner":9223372036854775807}`, `{"scanner":-1}`},
		"containerFailure":   {`{"job":"scan-x","container":"x","exitCode":137,"message":"forged"}`, `null`},
		"forwarding":         {`[{"sink":"cluster/default","revision":9,"verdict":"Complete","seal":"forged"}]`, `null`},
		"queue":              {`{"position":1,"of":1,"namespacePosition":1,"namespaceOf":1}`, `null`},
		"startedAt":          {past, future, `null`},
		"storedFindings":     {`{"size":1,"sha256":"x"}`, `{"size":-1,"sha256":""}`, `null`},
	}
}

// TestForgedStatus: pods may write every field of the status in every state, also while the operator is
// away. Nothing of another Scan is read or written, no limit is passed, no Job is doubled, and each
// Scan ends as it would have.
func TestForgedStatus(t *testing.T) {
	for name, restarts := range map[string]bool{"Running": false, "Restarted": true} {
		t.Run(name, func(t *testing.T) { testForgedStatus(t, restarts) })
	}
}

// forgery forges every field of the status, each of a Scan of its own.
type forgery struct {
	*world
	pod      client.Client
	all      map[string][]string
	fields   []string
	restarts bool
	options  []worldOption
}

func newForgery(t *testing.T, restarts bool, limit func(scans int) []worldOption) *forgery {
	t.Helper()
	f := &forgery{world: newQuietWorld(t), all: forgeries(), restarts: restarts}
	for field := range reflect.TypeFor[executionv1.ScanStatus]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if len(f.all[name]) == 0 {
			t.Errorf("forge status.%s, too", name)
		}
		f.fields = append(f.fields, name)
	}
	f.options = limit(len(f.fields))
	f.run(nil, f.options...)
	f.pod = f.writer()
	for i := range f.fields {
		f.Create(f.scan(f.scanOf(i)))
	}
	return f
}

func (f *forgery) scanOf(i int) string { return fmt.Sprintf("s-%d", i) }

// states waits until all Scans have a state and counts the Jobs.
func (f *forgery) states(jobs int, want executionv1.ScanState) {
	f.Helper()
	f.Eventually(func() []string {
		var wrong []string
		for i, field := range f.fields {
			if s := f.get(f.scanOf(i)).Status; s.State != want {
				wrong = append(wrong, field+": "+string(s.State)+" "+s.ErrorDescription)
			}
		}
		return wrong
	}).Should(BeEmpty())
	f.Expect(f.jobs("")).To(HaveLen(jobs))
}

// forge writes what a pod might into the field of each Scan.
func (f *forgery) forge() {
	f.Helper()
	if f.restarts {
		f.stop()
	}
	for i, field := range f.fields {
		taken := 0
		for _, value := range f.all[field] {
			err := f.world.forge(f.pod, f.scanOf(i), `{"status":{"`+field+`":`+value+`}}`)
			if err != nil && !apierrors.IsInvalid(err) {
				f.Fatalf("forge %s as %s: %v", field, value, err)
			}
			if err == nil {
				taken++
			}
		}
		f.Expect(taken).To(BeNumerically(">", 0), "none of the forgeries of %s is valid", field)
	}
	if f.restarts {
		f.run(nil, f.options...)
	}
}

// end waits for one Job of a type of each Scan and ends them.
func (f *forgery) end(jobType string, kind batchv1.JobConditionType) {
	f.Helper()
	f.Eventually(func() []batchv1.Job { return f.jobs(jobType) }).Should(HaveLen(len(f.fields)))
	for _, j := range f.jobs(jobType) {
		f.finish(&j, kind, "ByTheTest")
	}
}

func testForgedStatus(t *testing.T, restarts bool) {
	f := newForgery(t, restarts, func(scans int) []worldOption { return []worldOption{queued(atMost(int32(scans)))} })
	f.states(0, executionv1.ScanStateNew)
	f.Eventually(f.ready(f.scanOf(0))).Should(ContainSubstring(executionv1.ReasonScanTypeNotFound))
	f.forge()
	f.Create(f.scanType(), f.parseDefinition(), f.hook("webhook", executionv1.ReadOnly, 0))
	f.Eventually(f.started).Should(HaveLen(len(f.fields)))
	f.Create(f.scan("waits"))
	for i, stage := range []struct {
		state   executionv1.ScanState
		jobType string
	}{
		{executionv1.ScanStateScanning, executionv1.JobTypeScanner},
		{executionv1.ScanStateParsing, executionv1.JobTypeParser},
		{executionv1.ScanStateHookProcessing, executionv1.JobTypeReadOnlyHook},
	} {
		n := len(f.fields) * (i + 1)
		f.Eventually(func() []batchv1.Job { return f.jobs(stage.jobType) }).Should(HaveLen(len(f.fields)))
		f.states(n, stage.state)
		f.forge()
		f.states(n, stage.state)
		f.end(stage.jobType, batchv1.JobComplete)
	}
	f.Eventually(f.started).Should(ContainElement("waits"))
	n := 3*len(f.fields) + 1
	f.states(n, executionv1.ScanStateDone)
	f.forge()
	f.Eventually(f.state("waits")).Should(Equal(executionv1.ScanStateScanning))
	f.states(n, executionv1.ScanStateDone)
	f.onlyOwnObjects()
}

// TestForgedErrored: the same of Scans that are Errored, with a hook that runs for it once.
func TestForgedErrored(t *testing.T) {
	for name, restarts := range map[string]bool{"Running": false, "Restarted": true} {
		t.Run(name, func(t *testing.T) {
			f := newForgery(t, restarts, func(int) []worldOption { return nil })
			onFailure := f.hook("failures", executionv1.ReadOnly, 0)
			onFailure.Spec.RunOn = executionv1.RunOnFailure
			f.Create(onFailure, f.parseDefinition(), f.scanType())
			f.end(executionv1.JobTypeScanner, batchv1.JobFailed)
			n := 2 * len(f.fields)
			f.Eventually(func() []batchv1.Job { return f.jobs("") }).Should(HaveLen(n))
			f.states(n, executionv1.ScanStateErrored)
			f.forge()
			f.states(n, executionv1.ScanStateErrored)
			f.end(executionv1.JobTypeReadOnlyHook, batchv1.JobComplete)
			f.states(n, executionv1.ScanStateErrored)
			f.forge()
			f.states(n, executionv1.ScanStateErrored)
			f.Consistently(func() []batchv1.Job { return f.jobs("") }, "500ms").Should(HaveLen(n))
		})
	}
}

// TestForgedOutcomes: what is written while no operator runs of hooks that wait, and of an end to
// which the Scan has not come, is not believed.
func TestForgedOutcomes(t *testing.T) {
	hook := func(name, state string, priority int) string {
		return fmt.Sprintf(`[{"hookName":%q,"type":"ReadOnly","priority":%d,"state":%q}]`, name, priority, state)
	}
	first := hook("first", "Completed", 1)
	cases := map[string]string{
		"Completed":  `"orderedHookStatuses":[` + first + `,` + hook("second", "Completed", 0) + `]`,
		"Failed":     `"orderedHookStatuses":[` + first + `,` + hook("second", "Failed", 0) + `]`,
		"InProgress": `"orderedHookStatuses":[` + first + `,` + hook("second", "InProgress", 0) + `]`,
		"Missing":    `"orderedHookStatuses":[` + first + `]`,
		"None":       `"orderedHookStatuses":null`,
		"Done":       `"state":"Done","orderedHookStatuses":[` + first + `,` + hook("second", "Completed", 0) + `]`,
		"Errored":    `"state":"Errored"`,
	}
	w := newQuietWorld(t)
	w.run(nil)
	pod := w.writer()
	w.Create(w.scanType(), w.parseDefinition(), w.hook("first", executionv1.ReadOnly, 1), w.hook("second", executionv1.ReadOnly, 0))
	each := func(n int, end string) {
		w.Eventually(func() []batchv1.Job { return w.jobs(end) }).Should(HaveLen(n))
		for _, j := range w.jobs(end) {
			if len(j.Status.Conditions) == 0 {
				w.finish(&j, batchv1.JobComplete, "CompletionsReached")
			}
		}
	}
	for name := range cases {
		w.Create(w.scan(strings.ToLower(name)))
	}
	each(len(cases), executionv1.JobTypeScanner)
	each(len(cases), executionv1.JobTypeParser)
	w.Eventually(func() []batchv1.Job { return w.jobs(executionv1.JobTypeReadOnlyHook) }).Should(HaveLen(len(cases)))
	w.stop()
	each(len(cases), executionv1.JobTypeReadOnlyHook)
	for name, forged := range cases {
		w.Expect(w.forge(pod, strings.ToLower(name), `{"status":{`+forged+`}}`)).To(Succeed())
	}
	w.run(nil)
	each(2*len(cases), executionv1.JobTypeReadOnlyHook)
	for name := range cases {
		w.Eventually(w.state(strings.ToLower(name))).Should(Equal(executionv1.ScanStateDone), name)
	}
	w.Expect(w.jobs("")).To(HaveLen(4 * len(cases)))
}

// TestJobsThatPassLeaveARecord: a Scan whose Jobs are gone when the operator is started again stays
// as it ended, and none of its hooks runs twice.
func TestJobsThatPassLeaveARecord(t *testing.T) {
	w := newQuietWorld(t)
	w.run(nil)
	passing := w.hook("passing", executionv1.ReadOnly, 1)
	passing.Spec.TTLSecondsAfterFinished = new(int32(0))
	w.Create(w.scanType(func(s *executionv1.ScanTypeSpec) { s.JobTemplate.Spec.TTLSecondsAfterFinished = new(int32(0)) }),
		w.parseDefinition(), passing, w.hook("stays", executionv1.ReadOnly, 0), w.scan("s"), w.scan("invalid", func(s *executionv1.Scan) { s.Spec.HookSelector = badSelector }))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeParser), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeReadOnlyHook), batchv1.JobComplete, "CompletionsReached")
	w.Eventually(func() []batchv1.Job { return w.jobs(executionv1.JobTypeReadOnlyHook) }).Should(HaveLen(2))
	w.Eventually(func() string { return w.get("s").Annotations[executionv1.AnnotationRecord] }).Should(MatchJSON(`{"began":"Scanning","hooks":{"passing":"Completed"}}`))
	for _, j := range w.jobs(executionv1.JobTypeReadOnlyHook) {
		if j.Spec.TTLSecondsAfterFinished != nil {
			w.Expect(w.Client.Delete(t.Context(), &j, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		}
	}
	w.stop()
	w.run(nil)
	last := w.job(executionv1.JobTypeReadOnlyHook)
	w.finish(last, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Expect(w.jobs(executionv1.JobTypeReadOnlyHook)).To(HaveLen(1))
	w.Eventually(w.state("invalid")).Should(Equal(executionv1.ScanStateErrored))
	w.stop()
	w.Expect(w.Client.DeleteAllOf(t.Context(), &batchv1.Job{}, client.InNamespace(w.Namespace), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	w.run(nil)
	w.Create(w.scan("later"))
	w.Eventually(w.state("later")).Should(Equal(executionv1.ScanStateScanning))
	w.Expect(w.get("s").Status.State).To(Equal(executionv1.ScanStateDone))
	w.Expect(w.get("invalid").Status.State).To(Equal(executionv1.ScanStateErrored))
	w.Expect(w.jobs("")).To(HaveLen(1))
}

// onlyOwnObjects finds in the Jobs of a world no URL but those of their own Scans.
func (w *world) onlyOwnObjects() {
	w.Helper()
	for _, j := range w.jobs("") {
		uid := string(metav1.GetControllerOf(&j).UID)
		text, err := json.Marshal(j.Spec.Template.Spec)
		w.Expect(err).NotTo(HaveOccurred())
		for _, part := range strings.Split(string(text), "http")[1:] {
			address, _, _ := strings.Cut(part, "?")
			// Hooks get the findings of the run before.
			if strings.HasSuffix(address, "/findings.json") && j.Labels[executionv1.LabelJobType] == executionv1.JobTypeReadOnlyHook {
				continue
			}
			allowed := []string{"/scan-" + uid + "/nmap-results.xml", "/scan-" + uid + "/findings.json"}
			if j.Labels[executionv1.LabelJobType] == executionv1.JobTypeScanner {
				allowed = append(allowed, "/scan-"+uid+"/"+executionv1.ScannerLogFile)
			}
			w.Expect(slices.ContainsFunc(allowed, func(end string) bool { return strings.HasSuffix(address, end) })).To(BeTrue(), "%s has %s", j.Name, address)
		}
	}
}

// TestForgedEndFreesNoSlot: a Scan whose pod says that it is Done holds its slot while its Jobs run.
func TestForgedEndFreesNoSlot(t *testing.T) {
	w := newWorld(t, queued(atMost(1)))
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s-0"))
	w.Eventually(w.state("s-0")).Should(Equal(executionv1.ScanStateScanning))
	pod := w.as(w.account("s-0"))
	w.Create(w.scan("s-1"), w.scan("s-2"))
	w.Expect(w.forge(pod, "s-0", `{"status":{"state":"Done"}}`)).To(Succeed())
	w.Eventually(w.state("s-0")).Should(Equal(executionv1.ScanStateScanning))
	// Also while no operator runs: the slot is not given away when the operator comes back.
	w.stop()
	w.Expect(w.forge(pod, "s-0", `{"status":{"state":"Done"}}`)).To(Succeed())
	w.run(nil, queued(atMost(1)))
	w.Eventually(w.state("s-0")).Should(Equal(executionv1.ScanStateScanning))
	w.Eventually(w.admitted("s-1")).Should(Equal("False " + executionv1.ReasonClusterLimit))
	w.Expect(w.started()).To(Equal([]string{"s-0"}))
	w.finishScan("s-0")
	w.Eventually(w.started).Should(HaveLen(2))
}

// TestForgedHooksStartNothing: hooks run that the Scan has selected, once.
func TestForgedHooksStartNothing(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition(), w.hook("webhook", executionv1.ReadOnly, 0), w.scan("s"))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.finish(w.job(executionv1.JobTypeParser), batchv1.JobComplete, "CompletionsReached")
	hook := w.job(executionv1.JobTypeReadOnlyHook)
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateHookProcessing))
	pod, forged := w.as(w.account("s")), `{"status":{"orderedHookStatuses":`+forgeries()["orderedHookStatuses"][0]+`}}`
	single := HaveField("Status.OrderedHookStatuses", HaveExactElements(HaveLen(1)))
	w.Expect(w.forge(pod, "s", forged)).To(Succeed())
	w.Eventually(func() *executionv1.Scan { return w.get("s") }).Should(single)
	w.stop()
	w.Expect(w.forge(pod, "s", forged)).To(Succeed())
	w.run(nil)
	w.Eventually(func() *executionv1.Scan { return w.get("s") }).Should(single)
	w.finish(hook, batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateDone))
	w.Expect(w.jobs(executionv1.JobTypeReadOnlyHook)).To(HaveLen(1))
}
