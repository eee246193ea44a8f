// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/scan"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/operator/internal/testworld"
	"github.com/scanyard/scanyard/settings"
)

type (
	clusterSpec = settingsv1alpha2.ClusterScanSettingSpec
	ownSpec     = settingsv1alpha2.ScanSettingSpec
)

// settings creates the settings of the world's namespace.
func (w *world) settings(spec ownSpec) *settingsv1alpha2.ScanSetting {
	w.Helper()
	s := &settingsv1alpha2.ScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}, Spec: spec}
	w.settingsChange(func() { w.Create(s) })
	return s
}

// settingsChange waits until the operator has seen a change of settings: a Scan that is started
// before goes by the old ones.
func (w *world) settingsChange(change func()) {
	w.Helper()
	var before, after *settings.Effective
	w.Eventually(func() (err error) {
		before, err = w.tenancy.Effective(w.Context(), w.Namespace)
		return err
	}).Should(Succeed())
	change()
	w.Eventually(func() (bool, error) {
		var err error
		after, err = w.tenancy.Effective(w.Context(), w.Namespace)
		return before != after, err
	}).Should(BeTrue())
}

// clusterSettings creates the settings of the cluster, which all tests share.
func (w *world) clusterSettings(spec clusterSpec) {
	w.Helper()
	s := &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}, Spec: spec}
	w.settingsChange(func() { w.Expect(w.Client.Create(w.Context(), s)).To(Succeed()) })
	w.Cleanup(func() {
		if err := w.Client.Delete(context.Background(), s); err != nil {
			w.Errorf("delete ClusterScanSetting: %v", err)
		}
		// The operator of the next test begins with what the cache of the API server has, which may be behind.
		w.Eventually(func() (int, error) {
			var list settingsv1alpha2.ClusterScanSettingList
			err := w.Client.List(context.Background(), &list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
			return len(list.Items), err
		}).Should(BeZero())
	})
}

// lead brings a Scan through its Jobs, with what they store.
func (w *world) lead(name string) (scanner, parser, hook *batchv1.Job) {
	w.Helper()
	scanner = w.job(executionv1.JobTypeScanner)
	w.put(w.get(name), "nmap-results.xml", "raw")
	w.finish(scanner.DeepCopy(), batchv1.JobComplete, "CompletionsReached")
	parser = w.job(executionv1.JobTypeParser)
	w.put(w.get(name), executionv1.FindingsFile, "[]")
	w.finish(parser.DeepCopy(), batchv1.JobComplete, "CompletionsReached")
	hook = w.job(executionv1.JobTypeReadOnlyHook)
	w.finish(hook.DeepCopy(), batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state(name)).Should(Equal(executionv1.ScanStateDone))
	return scanner, parser, hook
}

func envOf(c *corev1.Container) string {
	var all []string
	for _, v := range c.Env {
		all = append(all, v.Name+"="+v.Value)
	}
	return strings.Join(all, " ")
}

// TestSettingsReachEveryJob: additions, defaults and patches, of the cluster and the namespace.
func TestSettingsReachEveryJob(t *testing.T) {
	w := newWorld(t)
	w.clusterSettings(clusterSpec{
		Jobs: &settingsv1alpha2.Jobs{
			ImagePullSecrets: []settingsv1alpha2.PullSecret{{Name: "mirror"}}, Env: []corev1.EnvVar{{Name: "FROM", Value: "cluster"}},
			Proxy: &settingsv1alpha2.Proxy{HTTPS: "http://proxy:3128", NoProxy: []string{"example.com"}}, CACertificate: &settingsv1alpha2.CACertificate{ConfigMap: "ca", Key: "ca.crt"},
		},
		JobPatches: []settingsv1alpha2.JobPatch{{Patch: "spec: {template: {spec: {priorityClassName: scans}}}"}},
	})
	memory := func(q string) *settingsv1alpha2.PhaseDefaults {
		return &settingsv1alpha2.PhaseDefaults{
			Resources:          &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(q)}},
			SecurityContext:    &corev1.SecurityContext{RunAsUser: new(int64(7))},
			PodSecurityContext: &corev1.PodSecurityContext{FSGroup: new(int64(8))},
		}
	}
	w.settings(ownSpec{
		Phases: &settingsv1alpha2.Phases{Scanner: memory("1Gi"), Parser: memory("2Gi"), Hook: memory("3Gi")},
		JobPatches: []settingsv1alpha2.JobPatch{
			{Target: &settingsv1alpha2.PatchTarget{Phases: []settingsv1alpha2.Phase{"Scanner"}, ScanTypes: []string{"nmap"}}, Patch: "- {op: add, path: /spec/template/spec/runtimeClassName, value: gvisor}"},
			{Target: &settingsv1alpha2.PatchTarget{Hooks: []string{"slack"}}, Patch: "spec: {template: {spec: {schedulerName: slow}}}"},
		},
	})
	w.Create(w.scanType(), w.parseDefinition(), w.hook("slack", executionv1.ReadOnly, 0), w.scan("s"))
	scanner, parser, hook := w.lead("s")

	for phase, j := range map[string]*batchv1.Job{"scanner": scanner, "parser": parser, "hook": hook} {
		pod := j.Spec.Template.Spec
		w.Expect(pod.ImagePullSecrets).To(ContainElement(corev1.LocalObjectReference{Name: "mirror"}), phase)
		w.Expect(pod.PriorityClassName).To(Equal("scans"), phase)
		w.Expect(*pod.SecurityContext.FSGroup).To(Equal(int64(8)), phase)
		c := pod.Containers[0]
		w.Expect(envOf(&c)).To(And(ContainSubstring("FROM=cluster"), ContainSubstring("HTTPS_PROXY=http://proxy:3128 https_proxy="), ContainSubstring("NO_PROXY=example.com,localhost")), phase)
		w.Expect(*c.SecurityContext.RunAsUser).To(Equal(int64(7)), phase)
		w.Expect(c.VolumeMounts).To(ContainElement(HaveField("MountPath", "/etc/ssl/certs/ca.crt")), phase)
		w.Expect(pod.RuntimeClassName != nil).To(Equal(phase == "scanner"), phase)
		w.Expect(pod.SchedulerName == "slow").To(Equal(phase == "hook"), phase)
		w.Expect(c.Resources.Limits.Memory().String()).To(Equal(map[string]string{"scanner": "1Gi", "parser": "2Gi", "hook": "3Gi"}[phase]))
	}
	lurker := scanner.Spec.Template.Spec.Containers[1]
	w.Expect(envOf(&lurker)).To(And(ContainSubstring("HTTPS_PROXY"), Not(ContainSubstring("FROM="))))
	w.Expect(*hook.Spec.Template.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(BeTrue(), "what the settings do not say stays restricted")
}

// TestTeamsDoNotReachHooksThatRunElsewhere: those run with the cluster admin's account and
// Secrets; the settings of the namespace they run in hold.
func TestTeamsDoNotReachHooksThatRunElsewhere(t *testing.T) {
	away := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "away-"}}
	NewWithT(t).Expect(cluster.Client.Create(t.Context(), away)).To(Succeed())
	w := newWorldWith(t, []string{away.Name})
	patch := func(value string) []settingsv1alpha2.JobPatch {
		return []settingsv1alpha2.JobPatch{{Patch: "metadata: {annotations: {patched: " + value + "}}"}}
	}
	w.settings(ownSpec{JobPatches: patch("team"), Jobs: &settingsv1alpha2.Jobs{Env: []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://spy"}}}})
	other := &settingsv1alpha2.ScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name, Namespace: away.Name}, Spec: ownSpec{JobPatches: patch("admin")}}
	w.Create(other)
	hook := &executionv1.ClusterScanCompletionHook{
		ObjectMeta: metav1.ObjectMeta{Name: "away-" + w.Namespace},
		Spec:       executionv1.ClusterScanCompletionHookSpec{ExecutionNamespace: away.Name},
	}
	hook.Spec.ScanCompletionHookSpec = *w.hook("away", executionv1.ReadOnly, 0).Spec.DeepCopy()
	kind := w.clusterKinds(hook)
	w.Create(w.scan("s", func(s *executionv1.Scan) {
		s.Spec.ScanType, s.Spec.ResourceMode = kind, ptr.To(executionv1.ClusterWide)
	}))
	w.Expect(w.job(executionv1.JobTypeScanner).Annotations["patched"]).To(Equal("team"))
	w.completeAll()
	var list batchv1.JobList
	w.Eventually(func() []batchv1.Job {
		w.Expect(w.Client.List(w.Context(), &list, client.InNamespace(away.Name))).To(Succeed())
		return list.Items
	}).Should(HaveLen(1))
	w.Expect(list.Items[0].Annotations["patched"]).To(Equal("admin"))
	w.Expect(envOf(&list.Items[0].Spec.Template.Spec.Containers[0])).NotTo(ContainSubstring("spy"))
}

func TestPatchThatDoesNotFitAJobEndsTheScan(t *testing.T) {
	w := newWorld(t)
	w.settings(ownSpec{JobPatches: []settingsv1alpha2.JobPatch{{Patch: "- {op: remove, path: /spec/template/spec/tolerations/0}"}}})
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.ready("s")()).To(Equal(executionv1.ReasonPatchFailed))
	w.Expect(w.message("s", executionv1.ConditionReady)).To(And(ContainSubstring("ScanSetting default, spec.jobPatches[0]"), ContainSubstring("line 1"), ContainSubstring("narrow the target")))
	w.Expect(w.jobs("")).To(BeEmpty())
}

// TestForbiddenScanFails: the message has the field, the allowed values and whom to ask.
func TestForbiddenScanFails(t *testing.T) {
	host := []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
	cases := map[string]struct {
		reason  string
		scan    func(*executionv1.Scan)
		kind    func(*executionv1.ScanTypeSpec)
		def     func(*executionv1.ParseDefinitionSpec)
		hook    func(*executionv1.ScanCompletionHookSpec)
		allowed bool
		want    string
	}{
		"ScanVolume":     {reason: "the Scan's own", scan: func(s *executionv1.Scan) { s.Spec.Volumes = host }, want: `spec.volumes[0]: volume "host" is of type hostPath`},
		"TypeVolume":     {reason: "that of a ScanType of the namespace", kind: func(k *executionv1.ScanTypeSpec) { k.JobTemplate.Spec.Template.Spec.Volumes = host }, want: "ScanType nmap: spec.jobTemplate.spec.template.spec.volumes[0]"},
		"ServiceAccount": {reason: "with its rights", kind: func(k *executionv1.ScanTypeSpec) { k.JobTemplate.Spec.Template.Spec.ServiceAccountName = "admin" }, want: `serviceAccountName: ServiceAccount "admin" is not allowed`},
		"ParserVolume":   {reason: "of a ParseDefinition of the namespace", def: func(d *executionv1.ParseDefinitionSpec) { d.Volumes = host }, want: "ParseDefinition nmap-xml: spec.volumes[0]"},
		"HookAccount":    {reason: "of a hook of the namespace", hook: func(h *executionv1.ScanCompletionHookSpec) { h.ServiceAccountName = new("admin") }, want: `Hook "slack": spec.serviceAccountName`},
		"Allowed": {
			reason: "what is on the lists", allowed: true,
			scan: func(s *executionv1.Scan) { s.Spec.Volumes = []corev1.Volume{{Name: "tmp"}} },
			kind: func(k *executionv1.ScanTypeSpec) { k.JobTemplate.Spec.Template.Spec.ServiceAccountName = "scanner" },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.settings(ownSpec{Allowed: &settingsv1alpha2.Allowed{
				VolumeTypes: &[]settingsv1alpha2.VolumeType{"emptyDir", "secret"}, ServiceAccounts: &[]string{"scanner"},
			}})
			kind, def, hook, s := w.scanType(), w.parseDefinition(), w.hook("slack", executionv1.ReadOnly, 0), w.scan("s")
			change(tc.scan, s)
			change(tc.kind, &kind.Spec)
			change(tc.def, &def.Spec)
			change(tc.hook, &hook.Spec)
			w.Create(kind, def, hook, s)
			if tc.allowed {
				w.job(executionv1.JobTypeScanner)
				return
			}
			w.completeAll()
			w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored), tc.reason)
			w.Expect(w.message("s", executionv1.ConditionReady)).To(And(ContainSubstring(tc.want), ContainSubstring("ask the cluster admin")), tc.reason)
		})
	}
}

func change[T any](f func(*T), o *T) {
	if f != nil {
		f(o)
	}
}

// TestScansMayTightenDeadlinesOnly: what a Scan asks for beyond the settings does not count.
func TestScansMayTightenDeadlinesOnly(t *testing.T) {
	w := newWorld(t)
	w.settings(ownSpec{Deadlines: &settingsv1alpha2.Deadlines{ScannerSeconds: new(int64(1))}})
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s", func(s *executionv1.Scan) {
		s.Spec.Deadlines = &executionv1.Deadlines{ScannerSeconds: new(int64(3600))}
	}))
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateErrored))
	w.Expect(w.ready("s")()).To(Equal(executionv1.ReasonDeadlineExceeded))
	w.Expect(w.message("s", executionv1.ConditionReady)).To(ContainSubstring("1s"))
}

// TestChangedTTLHoldsForEndedScans: also for those that ask for more, and for those that have
// ended before.
func TestChangedTTLHoldsForEndedScans(t *testing.T) {
	w := newWorld(t)
	w.completeAll()
	w.Create(w.scanType(), w.parseDefinition(), w.scan("kept"), w.scan("long", func(s *executionv1.Scan) { s.Spec.TTLSecondsAfterFinished = new(int32(100000)) }))
	w.Eventually(w.state("kept")).Should(Equal(executionv1.ScanStateDone))
	w.Eventually(w.state("long")).Should(Equal(executionv1.ScanStateDone))
	w.settings(ownSpec{TTL: &settingsv1alpha2.TTL{MaxSeconds: new(int32(1))}})
	w.Eventually(w.gone("kept")).Should(BeTrue())
	w.Eventually(w.gone("long")).Should(BeTrue())
}

func TestLinksCanBeSwitchedOffForANamespace(t *testing.T) {
	w := newWorld(t)
	w.settings(ownSpec{Storage: &settingsv1alpha2.Storage{LinksInStatus: new(false)}})
	w.Create(w.scanType(), w.parseDefinition(), w.hook("h", executionv1.ReadOnly, 0), w.scan("s"))
	w.lead("s")
	w.Expect(w.get("s").Status.FindingDownloadLink).To(BeEmpty())
	w.Expect(w.get("s").Status.RawResultHeadLink).To(BeEmpty())
}

// TestResultsStayWhereTheyWereWritten: with credentials and prefix of the namespace; a later
// change of the settings neither loses them nor keeps them from being deleted, and only the
// settings say where they are.
func TestResultsStayWhereTheyWereWritten(t *testing.T) {
	w := newWorld(t)
	w.clusterSettings(clusterSpec{Storage: &settingsv1alpha2.ClusterStorage{AllowNamespaces: new(true)}})
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s3"}, StringData: map[string]string{
		"accessKey": cluster.Storage.AccessKey, "secretKey": cluster.Storage.SecretKey,
	}})
	own := w.settings(ownSpec{Storage: &settingsv1alpha2.Storage{Bucket: cluster.Storage.Bucket, Prefix: "team/a", CredentialsSecret: "s3"}})
	w.Create(w.scanType(), w.parseDefinition(), w.hook("h", executionv1.ReadOnly, 0), w.scan("s", func(s *executionv1.Scan) {
		s.Annotations = map[string]string{executionv1.AnnotationStoragePlace: `{"bucket":"copied-from-a-parent"}`}
	}))
	scanner, _, _ := w.lead("s")
	s := w.get("s")
	var place store.Place
	w.Expect(json.Unmarshal([]byte(s.Annotations[executionv1.AnnotationStoragePlace]), &place)).To(Succeed())
	w.Expect(place).To(Equal(store.Place{Bucket: cluster.Storage.Bucket, Prefix: "team/a", CredentialsSecret: "s3"}))
	key := fmt.Sprintf("/%s/team/a/scan-%s/", cluster.Storage.Bucket, s.UID)
	w.Expect(strings.Join(scanner.Spec.Template.Spec.Containers[1].Args, " ")).To(ContainSubstring(key))
	w.Expect(s.Status.FindingDownloadLink).To(ContainSubstring(key + "findings.json"))
	w.Expect(w.stored(s, executionv1.FindingsFile)).To(BeTrue())

	own.Spec.Storage = nil
	w.settingsChange(func() { w.Expect(w.Client.Update(w.Context(), own)).To(Succeed()) })
	w.Create(w.scan("later"))
	w.Eventually(w.state("later")).Should(Equal(executionv1.ScanStateScanning))
	w.Expect(w.get("later").Annotations).NotTo(HaveKey(executionv1.AnnotationStoragePlace))

	w.Expect(w.stored(s, executionv1.FindingsFile)).To(BeTrue())
	w.Expect(w.Client.Delete(w.Context(), s)).To(Succeed())
	w.Eventually(w.gone("s")).Should(BeTrue())
	w.Expect(w.stored(s, executionv1.FindingsFile)).To(BeFalse())
}

// TestPlacesThatAreNotAllowedAreNotUsed: whoever may edit a Scan can write the annotation.
func TestPlacesThatAreNotAllowedAreNotUsed(t *testing.T) {
	w := newWorld(t)
	w.Create(w.scanType(), w.parseDefinition())
	for name, place := range map[string]string{
		"other-bucket": `{"bucket":"of-others"}`, "prefix": `{"prefix":"of-others"}`, "secret": `{"bucket":"any","credentialsSecret":"s3"}`, "up": `{"prefix":"a/../../b"}`, "noise": `{"url":"http://elsewhere"}`,
	} {
		// With the finalizer there already, the operator does not write where results lie.
		w.Create(w.scan(name, func(s *executionv1.Scan) {
			s.Finalizers = []string{executionv1.FinalizerStorage}
			s.Annotations = map[string]string{executionv1.AnnotationStoragePlace: place}
		}))
		w.Eventually(w.ready(name)).Should(Equal(executionv1.ReasonStorageUnavailable), name)
	}
	w.Expect(w.message("other-bucket", executionv1.ConditionReady)).To(ContainSubstring("spec.storage.buckets of the ClusterScanSetting"))
	for _, name := range []string{"prefix", "secret"} {
		w.Expect(w.message(name, executionv1.ConditionReady)).To(ContainSubstring("spec.storage.allowNamespaces of the ClusterScanSetting"), name)
	}
	w.Expect(w.jobs("")).To(BeEmpty())
}

// TestForgedPlaceDoesNotReachOthers: a Scan whose annotation is changed to the prefix of
// another tenant's Scan stores nothing there, gets no link to there and removes nothing there;
// where the cluster lets no namespace choose, it says so, and its deletion is bounded.
func TestForgedPlaceDoesNotReachOthers(t *testing.T) {
	w := newWorld(t, func(o *scan.Options) { o.Settings.CleanupDeadline = time.Second })
	w.Create(w.scanType(), w.parseDefinition(), w.hook("h", executionv1.ReadOnly, 0))
	victim := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "victim", Namespace: "other-team", UID: "0d6f7f0c-0000-4000-8000-000000000001"}}
	w.put(victim, "nmap-results.xml", "raw")
	w.put(victim, executionv1.FindingsFile, "[]")
	edit := func(name string, change func(*executionv1.Scan)) {
		was := w.get(name)
		s := was.DeepCopy()
		change(s)
		w.Expect(w.Client.Patch(w.Context(), s, client.MergeFrom(was))).To(Succeed())
	}
	forge := func(name string, annotations map[string]string) {
		edit(name, func(s *executionv1.Scan) { maps.Copy(s.Annotations, annotations) })
	}
	forged := store.Place{Prefix: "scan-" + string(victim.UID)}.String()

	w.Create(w.scan("not-allowed", withAnnotations))
	w.lead("not-allowed")
	honest := w.get("not-allowed").Status.FindingDownloadLink
	forge("not-allowed", map[string]string{executionv1.AnnotationStoragePlace: forged, executionv1.AnnotationRerun: "links@1"})
	w.Eventually(func() string { return w.events("not-allowed") }).Should(ContainSubstring("spec.storage.allowNamespaces of the ClusterScanSetting"))
	w.Expect(w.get("not-allowed").Status.FindingDownloadLink).To(Equal(honest))
	w.Expect(w.Client.Delete(w.Context(), w.get("not-allowed"))).To(Succeed())
	w.Eventually(w.gone("not-allowed")).Should(BeTrue())
	w.Expect(w.stored(victim, executionv1.FindingsFile)).To(BeTrue())

	w.clusterSettings(clusterSpec{Storage: &settingsv1alpha2.ClusterStorage{AllowNamespaces: new(true)}})
	w.Create(w.scan("allowed", withAnnotations, func(s *executionv1.Scan) { s.Spec.Suspend = new(true) }))
	w.Eventually(func() []string { return w.get("allowed").Finalizers }).Should(ContainElement(executionv1.FinalizerStorage))
	forge("allowed", map[string]string{executionv1.AnnotationStoragePlace: forged})
	edit("allowed", func(s *executionv1.Scan) { s.Spec.Suspend = nil })
	key := "/scan-" + string(victim.UID) + "/scan-" + string(w.get("allowed").UID) + "/"
	w.Eventually(func() string { return scannerArgs(w.jobs(executionv1.JobTypeScanner)) }).Should(ContainSubstring(key))
	w.put(w.get("allowed"), executionv1.FindingsFile, "[]")
	w.Expect(w.Client.Delete(w.Context(), w.get("allowed"))).To(Succeed())
	w.Eventually(w.gone("allowed")).Should(BeTrue())
	w.Expect(w.stored(victim, executionv1.FindingsFile)).To(BeTrue(), "what lies below the own UID is removed, and nothing else")
	w.Expect(w.stored(victim, "nmap-results.xml")).To(BeTrue())
}

// scannerArgs returns the arguments of the lurkers of some Jobs.
func scannerArgs(jobs []batchv1.Job) string {
	var all []string
	for i := range jobs {
		all = append(all, jobs[i].Spec.Template.Spec.Containers[1].Args...)
	}
	return strings.Join(all, " ")
}

// withAnnotations gives a Scan a map that tests write into.
func withAnnotations(s *executionv1.Scan) { s.Annotations = map[string]string{"test": "true"} }

// TestMissingCredentialsAreWaitedFor: the Scan says which Secret to make, and continues when it
// exists; its results are never written elsewhere in silence.
func TestMissingCredentialsAreWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.clusterSettings(clusterSpec{Storage: &settingsv1alpha2.ClusterStorage{AllowNamespaces: new(true)}})
	w.settings(ownSpec{Storage: &settingsv1alpha2.Storage{Bucket: "team-bucket", CredentialsSecret: "s3"}})
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonStorageUnavailable))
	w.Expect(w.message("s", executionv1.ConditionReady)).To(ContainSubstring("the Secret " + w.Namespace + "/s3 does not exist: create it with the keys accessKey and secretKey"))
	w.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s3"}, StringData: map[string]string{"accessKey": "team", "secretKey": "secret"}})
	w.Eventually(w.state("s"), testworld.Patience).Should(Equal(executionv1.ScanStateScanning))
	args := strings.Join(w.job(executionv1.JobTypeScanner).Spec.Template.Spec.Containers[1].Args, " ")
	w.Expect(args).To(And(ContainSubstring("/team-bucket/"), ContainSubstring("X-Amz-Credential=team%2F")))
}
