// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// fusedDefinition is a ParseDefinition whose parser can run in the scanner's pod.
func fusedDefinition() *executionv1.ParseDefinitionSpec {
	return &executionv1.ParseDefinitionSpec{
		Image: "docker.io/scanyard/parser:dev", ScanAccess: executionv1.ScanAccessHandover, Phases: executionv1.PhasesFused,
		Env: []corev1.EnvVar{{Name: "CRASH_ON_FAILED_VALIDATION", Value: "true"}}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
		Resources: defaultResources(),
	}
}

func fusedJob(t *testing.T, kind *executionv1.ScanTypeSpec, cfg Config) *batchv1.Job {
	t.Helper()
	scan := testobjects.Scan("nightly")
	job, err := NewScanner(Scanner{
		Scan: scan, ScanType: kind, UploadURL: "https://s3.example/raw?X-Amz-Signature=s", Attempt: 1, NoAccount: true,
		Parser: &Parser{
			Scan: scan, Definition: fusedDefinition(), FindingsUploadURL: "https://s3.example/findings?X-Amz-Signature=s",
			Handover: &Handover{Scan: []handover.Variable{{Name: handover.EnvScan, Value: "{}"}}}, Attempt: 1, Hooks: []string{"notify"},
		},
	}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func TestNewFusedScanner(t *testing.T) {
	never := func(k *executionv1.ScanTypeSpec) {
		k.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		k.JobTemplate.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	onFailure := func(k *executionv1.ScanTypeSpec) {
		k.JobTemplate.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	}
	for name, job := range map[string]*batchv1.Job{
		"fused-on-failure": fusedJob(t, testobjects.ScanTypeSpec(onFailure), testConfig),
		"fused-never":      fusedJob(t, testobjects.ScanTypeSpec(never), withUploads(withCA(testConfig))),
	} {
		t.Run(name, func(t *testing.T) {
			compare(t, name, job)
			if !executionv1.IsFused(job) {
				t.Error("the Job does not say that it runs both phases")
			}
		})
	}
}

// TestFusedScannerReachesNothing: the scanner mounts no volume of lurker and parser and has none of their variables, and the
// parser mounts no token.
func TestFusedScannerReachesNothing(t *testing.T) {
	pod := fusedJob(t, testobjects.ScanTypeSpec(), withUploads(withCA(testConfig))).Spec.Template.Spec
	volumes := map[string][]string{}
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			name := m.Name
			if m.ReadOnly {
				name += " (read-only)"
			}
			volumes[c.Name] = append(volumes[c.Name], name)
		}
		slices.Sort(volumes[c.Name])
	}
	want := map[string][]string{
		pod.Containers[0].Name: {"scan-results"},
		"parser":               {"ca-certificate (read-only)", "scan-results (read-only)", "scanyard-handoff (read-only)"},
		"lurker": {
			"ca-certificate (read-only)", "lurker-token (read-only)", "lurker-upload-token (read-only)", "scan-results (read-only)", "scanyard-handoff",
		},
	}
	if diff := cmp.Diff(want, volumes); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	for _, v := range pod.Containers[0].Env {
		if strings.Contains(v.Value, "Signature") || handover.IsVariable(v.Name) {
			t.Errorf("the scanner has the variable %s", v.Name)
		}
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the account's token is mounted into all containers")
	}
}

func TestSeparate(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	type world struct {
		scan *executionv1.Scan
		kind *executionv1.ScanTypeSpec
		def  *executionv1.ParseDefinitionSpec
		add  Additions
	}
	pod := func(w *world) *corev1.PodSpec { return &w.kind.JobTemplate.Spec.Template.Spec }
	for name, c := range map[string]struct {
		change func(*world)
		want   string
	}{
		"Fused":    {func(*world) {}, ""},
		"AskedFor": {func(w *world) { w.kind.Phases = executionv1.PhasesFused }, ""},
		"NonRoot": {func(w *world) {
			pod(w).SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(1000))}
		}, ""},
		"JobsOwnBounds": {func(w *world) {
			w.kind.JobTemplate.Spec.ActiveDeadlineSeconds, w.kind.JobTemplate.Spec.BackoffLimit = new(int64(5)), new(int32(1))
		}, ""},
		"NodesOfScan":    {func(w *world) { w.scan.Spec.NodeSelector = map[string]string{"a": "b"} }, ""},
		"VolumesOfScan":  {func(w *world) { w.scan.Spec.Volumes = []corev1.Volume{{Name: "own"}} }, ""},
		"InitContainer":  {func(w *world) { w.scan.Spec.InitContainers = []corev1.Container{{Name: "clone"}} }, ""},
		"NoDefinition":   {func(w *world) { w.def = nil }, "no ParseDefinition"},
		"ScanTypeSays":   {func(w *world) { w.kind.Phases = executionv1.PhasesSeparate }, "of the ScanType is Separate"},
		"OldParser":      {func(w *world) { w.def.Phases = "" }, "of the ParseDefinition is not Fused"},
		"ParserOfOthers": {func(w *world) { w.def.ScanAccess = executionv1.ScanAccessAPI }, "not Handover"},
		"ParserVolume":   {func(w *world) { w.def.Volumes = []corev1.Volume{{Name: "secret"}} }, "has volumes"},
		"ParserMount":    {func(w *world) { w.def.VolumeMounts = []corev1.VolumeMount{{Name: "secret"}} }, "has volumes"},
		"ParserNodes":    {func(w *world) { w.def.NodeSelector = map[string]string{"a": "b"} }, "chooses nodes"},
		"ParserTaints":   {func(w *world) { w.def.Tolerations = []corev1.Toleration{{}} }, "chooses nodes"},
		"OwnAccount":     {func(w *world) { pod(w).ServiceAccountName = "trivy" }, "account of its own"},
		"SharedPIDs":     {func(w *world) { pod(w).ShareProcessNamespace = new(true) }, "settings of its own"},
		"HostNetwork":    {func(w *world) { pod(w).HostNetwork = true }, "settings of its own"},
		"Runtime":        {func(w *world) { pod(w).RuntimeClassName = new("gvisor") }, "settings of its own"},
		"PodDeadline":    {func(w *world) { pod(w).ActiveDeadlineSeconds = new(int64(1)) }, "settings of its own"},
		"Root":           {func(w *world) { pod(w).SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))} }, "as root"},
		"RootBySettings": {func(w *world) {
			w.add.Scanner.PodSecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))}
		}, "as root"},
		"ParsersContext": {func(w *world) { w.add.Parser.PodSecurityContext = &corev1.PodSecurityContext{} }, "podSecurityContext for parsers"},
		"Beside":         {func(w *world) { pod(w).Containers = append(pod(w).Containers, corev1.Container{Name: "proxy"}) }, "further containers"},
		"Sidecar":        {func(w *world) { pod(w).InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: &always}} }, "runs on beside"},
		"SidecarOfScan": {func(w *world) {
			w.scan.Spec.InitContainers = []corev1.Container{{Name: "proxy", RestartPolicy: &always}}
		}, "runs on beside"},
		"SameName":      {func(w *world) { w.scan.Spec.InitContainers = []corev1.Container{{Name: "parser"}} }, "is called parser"},
		"FailurePolicy": {func(w *world) { w.kind.JobTemplate.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{} }, "Job of the ScanType"},
		"ManyPods":      {func(w *world) { w.kind.JobTemplate.Spec.Completions = ptr.To[int32](2) }, "Job of the ScanType"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{scan: testobjects.Scan("nightly"), kind: testobjects.ScanTypeSpec(), def: fusedDefinition()}
			c.change(w)
			got := Separate(w.scan, w.kind, w.def, w.add)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("want %q, got %q", c.want, got)
			}
		})
	}
}

// TestBeyond: scanner and parser do not work at the same time, so the pod asks for the larger of both.
func TestBeyond(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		all := corev1.ResourceList{}
		for name, q := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if q != "" {
				all[name] = resource.MustParse(q)
			}
		}
		return all
	}
	usual := list("200m", "100Mi")
	for name, c := range map[string]struct {
		parser  corev1.ResourceList
		scanner corev1.ResourceRequirements
		want    corev1.ResourceList
	}{
		"Nothing":     {usual, corev1.ResourceRequirements{}, list("200m", "100Mi")},
		"Less":        {usual, corev1.ResourceRequirements{Requests: list("50m", "60Mi")}, list("150m", "40Mi")},
		"More":        {usual, corev1.ResourceRequirements{Requests: list("2", "1Gi")}, list("20m", "20Mi")},
		"Limits":      {usual, corev1.ResourceRequirements{Limits: list("2", "1Gi")}, list("20m", "20Mi")},
		"SmallParser": {list("10m", "10Mi"), corev1.ResourceRequirements{Requests: list("2", "1Gi")}, list("10m", "10Mi")},
	} {
		got := beyond(c.parser, c.scanner)
		if len(got) != 2 || got.Cpu().Cmp(*c.want.Cpu()) != 0 || got.Memory().Cmp(*c.want.Memory()) != 0 {
			t.Errorf("%s: want %v, got %v", name, c.want, got)
		}
	}
}
