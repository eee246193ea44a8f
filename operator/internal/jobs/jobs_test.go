// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// update rewrites testdata from what the builders build: UPDATE=1 go test ./internal/jobs.
// Each file is then compared with the contract by hand.
var update = os.Getenv("UPDATE") != ""

var testConfig = Config{Lurker: Lurker{
	Image: "docker.io/scanyard/lurker:dev", PullPolicy: corev1.PullIfNotPresent,
	SeccompProfile: corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
}}

func withCA(c Config) Config {
	c.CustomCA = CustomCA{ConfigMap: "company-ca", Key: "public.crt"}
	return c
}

func withUploads(c Config) Config {
	c.UploadEndpoint = UploadEndpoint{URL: "https://scanyard.scanyard-system.svc:8443/v1/upload-url", CA: "PEM"}
	return c
}

// fullScan sets every field of a Scan that reaches a Job.
func fullScan(s *executionv1.Scan) {
	s.Labels = map[string]string{"team": "a", executionv1.LabelManagedBy: "argo"}
	s.Annotations = map[string]string{"not": "copied"}
	s.Spec.Env = []corev1.EnvVar{{Name: "FROM_SCAN", Value: "1"}}
	s.Spec.Volumes = []corev1.Volume{{Name: "scan-volume"}}
	s.Spec.VolumeMounts = []corev1.VolumeMount{{Name: "scan-volume", MountPath: "/scan"}}
	s.Spec.InitContainers = []corev1.Container{{Name: "scan-init", Image: "init"}}
	s.Spec.NodeSelector = map[string]string{"disk": "ssd", "zone": "scan"}
	s.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	s.Spec.Tolerations = []corev1.Toleration{{Key: "from-scan"}}
	s.Spec.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
}

// fullType sets every field of a ScanType that a Scan is merged with.
func fullType(t *executionv1.ScanTypeSpec) {
	j := &t.JobTemplate
	j.Annotations = map[string]string{"from": "job-template", "sidecar.istio.io/inject": "true"}
	j.Spec.TTLSecondsAfterFinished, j.Spec.ActiveDeadlineSeconds, j.Spec.Suspend = ptr.To[int32](60), ptr.To[int64](600), new(false)
	p := &j.Spec.Template
	p.Labels = map[string]string{"from": "pod-template", "team": "type"}
	p.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true", "from": "pod-template"}
	p.Spec.Volumes = []corev1.Volume{{Name: "type-volume"}}
	p.Spec.NodeSelector = map[string]string{"zone": "type", "arch": "amd64"}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "from-type"}}
	p.Spec.InitContainers = []corev1.Container{{Name: "type-init", Image: "init", VolumeMounts: []corev1.VolumeMount{{Name: "type-volume", MountPath: "/t"}}}}
	c := &p.Spec.Containers[0]
	c.Args = []string{"dropped"}
	c.Env = []corev1.EnvVar{{Name: "FROM_TYPE", Value: "1"}}
	c.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "extra", Image: "extra"})
}

func TestNewScanner(t *testing.T) {
	const u = "https://s3.example/raw?X-Amz-Signature=s"
	cases := map[string]struct {
		scan   *executionv1.Scan
		kind   *executionv1.ScanTypeSpec
		config Config
	}{
		"scanner-minimal":     {testobjects.Scan("nightly"), testobjects.ScanTypeSpec(), testConfig},
		"scanner-full":        {testobjects.Scan("nightly", fullScan), testobjects.ScanTypeSpec(fullType), withUploads(withCA(testConfig))},
		"scanner-own-account": {testobjects.Scan("nightly"), testobjects.ScanTypeSpec(func(t *executionv1.ScanTypeSpec) { t.JobTemplate.Spec.Template.Spec.ServiceAccountName = "trivy-k8s" }), testConfig},
		// The token of that account is for the ScanType's containers, not for those of the Scan.
		"scanner-own-account-full": {testobjects.Scan("nightly", fullScan), testobjects.ScanTypeSpec(fullType, func(t *executionv1.ScanTypeSpec) { t.JobTemplate.Spec.Template.Spec.ServiceAccountName = "trivy-k8s" }), testConfig},
		"scanner-cleared": {
			testobjects.Scan("nightly", func(s *executionv1.Scan) {
				s.Spec.Tolerations, s.Spec.Affinity = []corev1.Toleration{}, &corev1.Affinity{}
			}),
			testobjects.ScanTypeSpec(fullType), testConfig,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.kind.DeepCopy()
			got, err := NewScanner(Scanner{Scan: tc.scan, ScanType: tc.kind, UploadURL: u, LogUploadURL: "https://s3.example/log?X-Amz-Signature=s", Attempt: 1}, tc.config)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, name, got)
			if diff := cmp.Diff(before, tc.kind); diff != "" {
				t.Errorf("the ScanType was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestOwnAccountsTokenIsCovered: a container of the Scan that mounts something over the token
// already is left alone, and where there is no token nothing is covered.
func TestOwnAccountsTokenIsCovered(t *testing.T) {
	scan := testobjects.Scan("s", func(s *executionv1.Scan) {
		s.Spec.Volumes = []corev1.Volume{{Name: "own"}}
		s.Spec.InitContainers = []corev1.Container{{Name: "covered", VolumeMounts: []corev1.VolumeMount{{Name: "own", MountPath: tokenDir}}}, {Name: "bare"}}
	})
	account := func(t *executionv1.ScanTypeSpec) { t.JobTemplate.Spec.Template.Spec.ServiceAccountName = "own" }
	off := func(t *executionv1.ScanTypeSpec) {
		t.JobTemplate.Spec.Template.Spec.AutomountServiceAccountToken = new(false)
	}
	for name, tc := range map[string]struct {
		kind *executionv1.ScanTypeSpec
		want []int
	}{
		"OwnAccount":         {testobjects.ScanTypeSpec(account), []int{1, 1}},
		"OwnAccountNoToken":  {testobjects.ScanTypeSpec(account, off), []int{1, 0}},
		"AccountOfTheLurker": {testobjects.ScanTypeSpec(), []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			job, err := NewScanner(Scanner{Scan: scan, ScanType: tc.kind, Attempt: 1}, testConfig)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, c := range job.Spec.Template.Spec.InitContainers {
				got = append(got, len(c.VolumeMounts))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("mounts of the init containers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTakesToken: no Scan brings a token of an account that is not its own.
func TestTakesToken(t *testing.T) {
	volume := func(p corev1.VolumeProjection) executionv1.ScanSpec {
		return executionv1.ScanSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{p}}}}}}
	}
	for name, tc := range map[string]struct {
		spec executionv1.ScanSpec
		want string
	}{
		"Token":         {volume(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}), "spec.volumes[0].projected.sources[0].serviceAccountToken"},
		"OtherAudience": {volume(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t", Audience: "vault"}}), "spec.volumes[0].projected.sources[0].serviceAccountToken"},
		"ConfigMap":     {volume(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{}}), ""},
		"Secret":        {executionv1.ScanSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := TakesToken(&tc.spec); (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
				t.Errorf("%q, want one that begins with %q", got, tc.want)
			}
		})
	}
}

func TestNewScannerWithoutContainer(t *testing.T) {
	kind := testobjects.ScanTypeSpec(func(t *executionv1.ScanTypeSpec) { t.JobTemplate.Spec.Template.Spec.Containers = nil })
	_, err := NewScanner(Scanner{Scan: testobjects.Scan("s"), ScanType: kind, Attempt: 1}, testConfig)
	if err == nil || !strings.Contains(err.Error(), "containers is empty") {
		t.Errorf("error %v, want one that names the field", err)
	}
}

func TestNewParser(t *testing.T) {
	full := &executionv1.ParseDefinitionSpec{
		Image: "parser", ImagePullPolicy: corev1.PullAlways, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
		TTLSecondsAfterFinished: ptr.To[int32](30), Env: []corev1.EnvVar{{Name: "FROM_DEFINITION", Value: "1"}},
		Volumes: []corev1.Volume{{Name: "definition-volume"}}, VolumeMounts: []corev1.VolumeMount{{Name: "definition-volume", MountPath: "/d"}},
		NodeSelector: map[string]string{"zone": "definition", "arch": "amd64"}, Tolerations: []corev1.Toleration{{Key: "from-definition"}},
		Affinity:  &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}},
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
	}
	cases := map[string]struct {
		scan   *executionv1.Scan
		def    *executionv1.ParseDefinitionSpec
		config Config
	}{
		"parser-minimal":    {testobjects.Scan("nightly"), &executionv1.ParseDefinitionSpec{Image: "parser"}, testConfig},
		"parser-full":       {testobjects.Scan("nightly", fullScan), full, withCA(testConfig)},
		"parser-definition": {testobjects.Scan("nightly"), full, testConfig},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			compare(t, name, NewParser(Parser{Scan: tc.scan, Definition: tc.def, Result: Result{File: "nmap-results.xml", Type: "nmap-xml"}, RawResultURL: "https://s3/raw?q", FindingsUploadURL: "https://s3/findings?q", ServiceAccount: "scan-nightly-1", Attempt: 1, Hooks: []string{"notify", "webhook"}}, tc.config))
		})
	}
}

func TestNewHook(t *testing.T) {
	urls := HookURLs{RawResult: "get-raw", Findings: "get-findings", RawResultUpload: "put-raw", FindingsUpload: "put-findings"}
	full := testobjects.HookSpec(executionv1.ReadAndWrite, 3)
	full.ServiceAccountName, full.TTLSecondsAfterFinished = new("own"), ptr.To[int32](30)
	full.Env = []corev1.EnvVar{{Name: "FROM_HOOK", Value: "1"}}
	full.Volumes, full.VolumeMounts = []corev1.Volume{{Name: "hook-volume"}}, []corev1.VolumeMount{{Name: "hook-volume", MountPath: "/h"}}
	placed := testobjects.HookSpec(executionv1.ReadOnly, 0)
	placed.NodeSelector, placed.Tolerations = map[string]string{"zone": "hook"}, []corev1.Toleration{{Key: "from-hook"}}
	placed.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
	cases := map[string]struct {
		scan   *executionv1.Scan
		in     Hook
		config Config
	}{
		"hook-minimal": {testobjects.Scan("nightly"), Hook{Name: "webhook", Spec: testobjects.HookSpec(executionv1.ReadOnly, 0), Type: executionv1.ReadOnly, ServiceAccount: "scan-nightly-1"}, testConfig},
		"hook-full":    {testobjects.Scan("nightly", fullScan), Hook{Name: "webhook", Spec: full, Type: executionv1.ReadAndWrite, ServiceAccount: "own"}, withCA(testConfig)},
		"hook-away":    {testobjects.Scan("nightly", testobjects.ClusterWide), Hook{Name: "webhook", Spec: testobjects.HookSpec(executionv1.ReadOnly, 0), Type: executionv1.ReadOnly, ExecutionNamespace: "hooks", ServiceAccount: "hook-webhook-1"}, testConfig},
		// Neither nodes nor labels of the Scan get into another namespace, but the hook's own do.
		"hook-away-full": {testobjects.Scan("nightly", testobjects.ClusterWide, fullScan), Hook{Name: "webhook", Spec: placed, Type: executionv1.ReadOnly, ExecutionNamespace: "hooks", ServiceAccount: "hook-webhook-1"}, testConfig},
		"hook-long-name": {testobjects.Scan("nightly"), Hook{Name: strings.Repeat("long.", 20) + "name", Spec: testobjects.HookSpec(executionv1.ReadOnly, 0), Type: executionv1.ReadOnly, ServiceAccount: "scan-nightly-1"}, testConfig},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.in.Scan, tc.in.URLs, tc.in.Attempt, tc.in.Result = tc.scan, urls, 1, Result{File: "nmap-results.xml", Type: "nmap-xml"}
			compare(t, name, NewHook(tc.in, tc.config))
		})
	}
}

// TestHookEnvironment: our additions come after the hook's own variables, which win.
func TestHookEnvironment(t *testing.T) {
	spec := testobjects.HookSpec(executionv1.ReadOnly, 0)
	spec.Env = []corev1.EnvVar{{Name: "HOOK_NAME", Value: "own"}}
	job := NewHook(Hook{Scan: testobjects.Scan("s"), Name: "report", Spec: spec, Type: executionv1.ReadOnly, Attempt: 1, URLs: HookURLs{
		PreviousFindings: "http://store/previous", Outputs: map[string]string{"b.csv": "http://store/b", "a.html": "http://store/a"},
	}}, testConfig)
	got := map[string]string{}
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		if _, twice := got[e.Name]; twice {
			t.Errorf("%s is there twice", e.Name)
		}
		got[e.Name] = e.Value
	}
	want := map[string]string{
		"NAMESPACE": "", "SCAN_NAME": "s", "HOOK_NAME": "own", "PREVIOUS_FINDINGS_URL": "http://store/previous",
		"OUTPUT_URLS": `{"a.html":"http://store/a","b.csv":"http://store/b"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// compare holds a Job as a whole against its file.
func compare(t *testing.T, name string, got *batchv1.Job) {
	t.Helper()
	file := filepath.Join("testdata", name+".yaml")
	if update {
		out, err := yaml.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want batchv1.Job
	if err := yaml.UnmarshalStrict(raw, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// TestRunNumbers: Jobs of re-runs have other names, the number and what they were made for;
// those of the first run have neither, whatever labels the Scan has.
func TestRunNumbers(t *testing.T) {
	scan := testobjects.Scan("s")
	scan.Labels = map[string]string{executionv1.LabelAttempt: "7", "team": "blue"}
	hook := Hook{Scan: scan, Name: "report", Spec: testobjects.HookSpec(executionv1.ReadOnly, 0), Type: executionv1.ReadOnly}
	all := func(attempt int, rerun string) []*batchv1.Job {
		scanner, err := NewScanner(Scanner{Scan: scan, ScanType: testobjects.ScanTypeSpec(), Attempt: attempt, Rerun: rerun}, testConfig)
		if err != nil {
			t.Fatal(err)
		}
		in := hook
		in.Attempt, in.Rerun = attempt, rerun
		return []*batchv1.Job{
			scanner, NewHook(in, testConfig),
			NewParser(Parser{Scan: scan, Definition: &executionv1.ParseDefinitionSpec{Image: "parser"}, Attempt: attempt, Rerun: rerun}, testConfig),
		}
	}
	first, second := all(1, ""), all(2, "parser@x")
	for i := range first {
		if first[i].Name == second[i].Name {
			t.Errorf("two runs have one name, %s", first[i].Name)
		}
		_, numbered := first[i].Labels[executionv1.LabelAttempt]
		_, rerun := first[i].Annotations[executionv1.AnnotationRerun]
		if numbered || rerun || first[i].Labels["team"] != "blue" {
			t.Errorf("Job of the first run: labels %v, annotations %v", first[i].Labels, first[i].Annotations)
		}
		if second[i].Labels[executionv1.LabelAttempt] != "2" || second[i].Annotations[executionv1.AnnotationRerun] != "parser@x" {
			t.Errorf("Job of a re-run: labels %v, annotations %v", second[i].Labels, second[i].Annotations)
		}
	}
	if scan.Labels[executionv1.LabelAttempt] != "7" {
		t.Error("the Scan itself was changed")
	}
}
