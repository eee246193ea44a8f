// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/terminal"
)

var update = flag.Bool("update", false, "write the golden files")

// patience bounds a test, only to end a broken one.
const patience = 3 * time.Minute

// team is the namespace of the team that the users work in.
const team = "blue"

// world is the cluster that all tests share. They run one after the other: some restart
// parts of it.
type world struct {
	cluster *localcluster.Cluster
	admin   client.WithWatch
	op      *install.Operator
	// root is the cluster's admin; alice may edit in the team's namespace, victor may
	// view it; nobody may do anything.
	root, alice, victor, nobody terminal.Program
	binary                      string
}

var w world

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	flag.Parse()
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cli:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "scanyard-cli-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	programs, err := install.FromEnvironment("../..")
	if err != nil {
		return 1, err
	}
	images := filepath.Join(dir, "images.yaml")
	if err := install.WriteImagesMap(images, append(programs.Images(), install.Image{Image: "docker.io/cli/sh"})); err != nil {
		return 1, err
	}
	w.cluster, err = localcluster.Start(ctx, localcluster.Options{
		Binary: programs.Path("localcluster"), DataDir: filepath.Join(dir, "cluster"), Timeout: 2 * time.Minute,
		Node: localcluster.NodeOptions{ImagesMap: images, Backoff: localcluster.Duration(500 * time.Millisecond)},
	})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, w.cluster.Stop()) }()
	if err := w.install(ctx, programs, dir); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func (w *world) install(ctx context.Context, p install.Programs, dir string) error {
	config, err := w.cluster.RESTConfig()
	if err != nil {
		return err
	}
	if w.admin, err = scans.Connect(config); err != nil {
		return err
	}
	helm, err := install.NewHelm(ctx, p, w.cluster.Kubeconfig, filepath.Join(dir, "helm"))
	if err != nil {
		return err
	}
	if w.op, err = helm.InstallOperator(ctx, config, install.OperatorOptions{Store: w.cluster.ObjectStore, Args: []string{"--missing-kind-grace=2s"}}); err != nil {
		return err
	}
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, shellType("sh")}
	for user, role := range map[string]string{"alice": "edit", "victor": "view"} {
		objects = append(objects, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: user},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})
	}
	for _, o := range objects {
		if err := w.admin.Create(ctx, o); err != nil {
			return fmt.Errorf("create %s: %w", o.GetName(), err)
		}
	}
	if err := helm.Install(ctx, install.Release{Chart: "test-scan", Namespace: team}); err != nil {
		return err
	}
	w.binary = p.Path("scanyard")
	w.root = terminal.Program{Path: w.binary, Env: []string{"KUBECONFIG=" + w.cluster.Kubeconfig, "KUBECACHEDIR=" + filepath.Join(dir, "cache"), "TERM=xterm"}}
	w.alice = w.root.With("--as", "alice", "-n", team)
	w.victor = w.root.With("--as", "victor", "-n", team)
	w.nobody = w.root.With("--as", "nobody", "-n", team)
	return w.op.Ready(ctx, 2*time.Minute)
}

// shellType is a ScanType whose scanner runs the first parameter as a script.
func shellType(name string) *executionv1.ScanType {
	no, yes := false, true
	t := &executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: name}}
	t.Spec.ExtractResults = executionv1.ExtractResults{Type: "test-txt", Location: "/home/securecodebox/hello-world.txt"}
	t.Spec.JobTemplate = batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyOnFailure,
		Containers: []corev1.Container{{
			Name: name, Image: "docker.io/cli/sh", Command: []string{"/bin/sh", "-c"},
			SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes, AllowPrivilegeEscalation: &no},
		}},
	}}}}
	return t
}

// found ends a script well.
const found = "; touch /home/securecodebox/hello-world.txt"

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// typed runs a call and wants an exit code.
func typed(t *testing.T, p terminal.Program, code int, args ...string) terminal.Result {
	t.Helper()
	r, err := p.Run(bounded(t), args...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	if r.Code != code {
		t.Fatalf("%q: want exit code %d, got %s", args, code, r.Said())
	}
	return r
}

// wants makes sure that a text holds others.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is missing in:\n%s", p, text)
		}
	}
}

// forget deletes Scans when the test ends.
func forget(t *testing.T, names ...string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		r, err := w.root.Run(ctx, append([]string{"-n", team, "delete", "--ignore-not-found"}, names...)...)
		if err != nil || r.Code != 0 {
			t.Errorf("delete %v: %v %s", names, err, r.Said())
		}
	})
}

// What differs from run to run.
var varying = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`\b(doctor|test-scan)-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "$1-<random>"},
	{regexp.MustCompile(`-[0-9a-f]{10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?\b`), "-<hash>"},
	{regexp.MustCompile(`\b(\d+m)?\d+(ms|s|m)\b`), "<t>"},
	{regexp.MustCompile(`Kubernetes v[0-9.]+`), "Kubernetes <version>"},
	{regexp.MustCompile(`\(\d+ bytes\)`), "(<n> bytes)"},
	{regexp.MustCompile(` {2,}`), "  "}, // the width of columns
	{regexp.MustCompile(`(?m) +$`), ""},
}

func normal(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}

// transcript is what was typed and said.
type transcript struct {
	t    *testing.T
	text strings.Builder
}

// run types a call, and writes down what it says.
func (s *transcript) run(p terminal.Program, code int, args ...string) {
	s.t.Helper()
	r := typed(s.t, p, code, args...)
	fmt.Fprintf(&s.text, "$ scanyard %s\n%s", strings.Join(args, " "), normal(r.Out))
	if r.ErrOut != "" {
		fmt.Fprintf(&s.text, "stderr:\n%s", normal(r.ErrOut))
	}
	fmt.Fprintf(&s.text, "exit code %d\n\n", r.Code)
}

// compare compares with the golden file of the test.
func (s *transcript) compare() {
	s.t.Helper()
	golden := filepath.Join("testdata", s.t.Name()+".txt")
	if *update {
		if err := os.WriteFile(golden, []byte(s.text.String()), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), s.text.String()); diff != "" {
		s.t.Errorf("other than %s (-update writes it):\n%s", golden, diff)
	}
}
