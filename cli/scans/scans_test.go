// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/view"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newSession(stdin string) (*session.Session, *bytes.Buffer) {
	var out bytes.Buffer
	return &session.Session{
		IOStreams: genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: &out, ErrOut: &out},
		Program:   "scanyard", ConfigFlags: genericclioptions.NewConfigFlags(true), Now: func() time.Time { return noon },
	}, &out
}

// facts is what a case of TestDescribe holds.
type facts struct {
	Scan     *executionv1.Scan `json:"scan"`
	Jobs     []batchv1.Job     `json:"jobs"`
	Events   []corev1.Event    `json:"events"`
	Withheld []string          `json:"withheld"`
}

func TestDescribe(t *testing.T) {
	cases, err := filepath.Glob("testdata/describe/*.yaml")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var f facts
			if err := yaml.UnmarshalStrict(raw, &f); err != nil {
				t.Fatal(err)
			}
			s, out := newSession("")
			d := view.Describe(view.Facts{Scan: f.Scan, Jobs: f.Jobs, Events: f.Events, Withheld: f.Withheld, Now: noon})
			if err := printDescription(s, out, d); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(path, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBuild(t *testing.T) {
	const file = `{apiVersion: execution.securecodebox.io/v1, kind: Scan, metadata: {name: of-file, labels: {a: "1"}}, spec: {scanType: nmap, parameters: [x]}}`
	for name, tc := range map[string]struct {
		order createOptions
		args  []string
		dash  int
		want  executionv1.Scan
		err   string
	}{
		"TypeAndParameters": {createOptions{}, []string{"nmap", "-p", "80"}, 1, executionv1.Scan{Spec: executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"-p", "80"}}}, ""},
		"NoParameters":      {createOptions{}, []string{"nmap"}, -1, executionv1.Scan{Spec: executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{}}}, ""},
		"All": {
			createOptions{name: "n", clusterWide: true, labels: []string{"a=b=c"}, annotations: []string{"x="}, ttl: "1h", priority: 5},
			[]string{"nmap"},
			-1,
			executionv1.Scan{
				ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b=c"}, Annotations: map[string]string{"x": ""}},
				Spec: executionv1.ScanSpec{
					ScanType: "nmap", Parameters: []string{}, ResourceMode: ptr.To(executionv1.ClusterWide), TTLSecondsAfterFinished: ptr.To[int32](3600), Priority: ptr.To[int32](5),
				},
			},
			"",
		},
		"FromFile": {
			createOptions{from: "-", labels: []string{"b=2"}},
			nil, -1,
			executionv1.Scan{
				TypeMeta:   metav1.TypeMeta{APIVersion: "execution.securecodebox.io/v1", Kind: "Scan"},
				ObjectMeta: metav1.ObjectMeta{Name: "of-file", Labels: map[string]string{"a": "1", "b": "2"}},
				Spec:       executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"x"}},
			},
			"",
		},
		"FromFileWithParameters": {
			createOptions{from: "-", name: "other"},
			[]string{"y"},
			0,
			executionv1.Scan{
				TypeMeta:   metav1.TypeMeta{APIVersion: "execution.securecodebox.io/v1", Kind: "Scan"},
				ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"a": "1"}},
				Spec:       executionv1.ScanSpec{ScanType: "nmap", Parameters: []string{"y"}},
			},
			"",
		},
		"BadName":  {createOptions{name: "No Name"}, []string{"nmap"}, -1, executionv1.Scan{}, `--name "No Name"`},
		"BadLabel": {createOptions{labels: []string{"x"}}, []string{"nmap"}, -1, executionv1.Scan{}, "KEY=VALUE"},
		"BadTTL":   {createOptions{ttl: "soon"}, []string{"nmap"}, -1, executionv1.Scan{}, `--ttl "soon": must be a time`},
		"NoFile":   {createOptions{from: "testdata/none.yaml"}, nil, -1, executionv1.Scan{}, "--from"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.order.session, _ = newSession(file)
			got, err := tc.order.build(tc.args, tc.dash)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadScan(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"NotYAML":      {"{", "--from stdin"},
		"OtherKind":    {"apiVersion: v1\nkind: Secret\n", `kind "Secret"`},
		"UnknownField": {"apiVersion: execution.securecodebox.io/v1\nkind: Scan\nspec: {scantypes: nmap}\n", `unknown field "spec.scantypes"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readScan(strings.NewReader(tc.text), "-"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestUnknownType(t *testing.T) {
	scan := func(name string, mode executionv1.ResourceMode) *executionv1.Scan {
		return &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: "blue"}, Spec: executionv1.ScanSpec{ScanType: name, ResourceMode: &mode}}
	}
	for name, tc := range map[string]struct {
		scan           *executionv1.Scan
		local, cluster []string
		want           string
	}{
		"Near":      {scan("nmpa", executionv1.NamespaceLocal), []string{"nmap"}, nil, `there is no ScanType "nmpa" in namespace blue; did you mean nmap? Otherwise install it with: helm install nmpa <charts>/nmpa --namespace blue (installed: nmap)`},
		"None":      {scan("nikto", executionv1.NamespaceLocal), nil, nil, `there is no ScanType "nikto" in namespace blue; install it with: helm install nikto <charts>/nikto --namespace blue (none is installed)`},
		"InCluster": {scan("nmap", executionv1.NamespaceLocal), nil, []string{"nmap"}, `there is no ScanType "nmap" in namespace blue; there is a ClusterScanType of that name, though: add --cluster-wide, or see: scanyard get types --cluster-wide`},
		"InNamespace": {
			scan("nmap", executionv1.ClusterWide),
			[]string{"nmap"},
			nil,
			`there is no ClusterScanType "nmap"; the namespace has a ScanType of that name, though: leave out --cluster-wide`,
		},
		"NotInCluster": {scan("nikto", executionv1.ClusterWide), nil, []string{"nmap"}, `there is no ClusterScanType "nikto"; a cluster admin installs it with: helm install nikto <charts>/nikto --set clusterWide=true (installed: nmap)`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, unknownType("scanyard", tc.scan, tc.local, tc.cluster).Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRetryPhase(t *testing.T) {
	scan := func(state executionv1.ScanState, failed string, hooks ...string) *executionv1.Scan {
		s := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Status: executionv1.ScanStatus{State: state}}
		if failed != "" {
			s.Status.Conditions = []metav1.Condition{{Type: failed, Status: metav1.ConditionFalse, Reason: "x"}}
		}
		for _, h := range hooks {
			s.Status.OrderedHookStatuses = append(s.Status.OrderedHookStatuses, []executionv1.HookStatus{{HookName: h}})
		}
		return s
	}
	for name, tc := range map[string]struct {
		scan       *executionv1.Scan
		asked      string
		want, fail string
	}{
		"WhereItFailed": {scan(executionv1.ScanStateErrored, executionv1.ConditionParsed), "", "parser", ""},
		"Asked":         {scan(executionv1.ScanStateErrored, executionv1.ConditionParsed), "scanner", "scanner", ""},
		"Hook":          {scan(executionv1.ScanStateDone, "", "notify"), "hook/notify", "hook/notify", ""},
		"NoSuchHook":    {scan(executionv1.ScanStateDone, "", "notify"), "hook/notfy", "", `no hook "notfy"; it has: notify`},
		"Running":       {scan(executionv1.ScanStateParsing, ""), "", "", "has not ended"},
		"Done":          {scan(executionv1.ScanStateDone, ""), "", "", "say what to run again"},
		"Unknown":       {scan(executionv1.ScanStateErrored, ""), "", "", "does not show in which phase"},
		"BadPhase":      {scan(executionv1.ScanStateDone, ""), "lurker", "", "none of scanner, parser, hooks"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := retryPhase(tc.scan, tc.asked)
			if got != tc.want || (tc.fail == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tc.want, tc.fail)
			}
		})
	}
}
