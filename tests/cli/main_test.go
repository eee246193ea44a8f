// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/suite"
	"github.com/scanyard/scanyard/tests/terminal"
)

var update = flag.Bool("update", false, "write the golden files")

// patience bounds a test, only to end a broken one.
const patience = 3 * time.Minute

// team is the namespace of the team that the users work in.
const team = "blue"

// world is the cluster that all specs share. They run one after the other: some restart
// parts of it.
type world struct {
	cluster *localcluster.Cluster
	admin   client.WithWatch
	helm    *install.Helm
	op      *install.Operator
	// root is the cluster's admin; alice may edit in the team's namespace, victor may
	// view it; nobody may do anything.
	root, alice, victor, nobody terminal.Program
	binary                      string
}

var w world

func TestCLI(t *testing.T) { suite.Run(t, "The command line") }

var _ = BeforeSuite(func(ctx SpecContext) {
	dir := GinkgoT().TempDir()
	programs, err := install.FromEnvironment("../..")
	Expect(err).NotTo(HaveOccurred())
	images := filepath.Join(dir, "images.yaml")
	Expect(install.WriteImagesMap(images, append(programs.Images(), install.Image{Image: "docker.io/cli/sh"}))).To(Succeed())
	w.cluster, err = localcluster.Start(ctx, localcluster.Options{
		Binary: programs.Path("localcluster"), DataDir: filepath.Join(dir, "cluster"), Timeout: 5 * time.Minute,
		Node: localcluster.NodeOptions{ImagesMap: images, Backoff: localcluster.Duration(500 * time.Millisecond)},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.cluster.Stop)
	Expect(w.install(ctx, programs, dir)).To(Succeed())
}, NodeTimeout(5*time.Minute))

func (w *world) install(ctx context.Context, p install.Programs, dir string) error {
	config, err := w.cluster.RESTConfig()
	if err != nil {
		return err
	}
	if w.admin, err = scans.Connect(config); err != nil {
		return err
	}
	if w.helm, err = install.NewHelm(ctx, p, w.cluster.Kubeconfig, filepath.Join(dir, "helm")); err != nil {
		return err
	}
	if w.op, err = w.helm.InstallOperator(ctx, config, install.OperatorOptions{Store: w.cluster.ObjectStore, Args: []string{"--missing-kind-grace=2s"}}); err != nil {
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
	if err := w.helm.Install(ctx, install.Release{Chart: "test-scan", Namespace: team}); err != nil {
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

func bounded(ctx context.Context) context.Context {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, patience)
	DeferCleanup(cancel)
	return ctx
}

// typed runs a call and wants an exit code.
func typed(ctx context.Context, p terminal.Program, code int, args ...string) terminal.Result {
	GinkgoHelper()
	r, err := p.Run(bounded(ctx), args...)
	Expect(err).NotTo(HaveOccurred(), "%q", args)
	Expect(r.Code).To(Equal(code), "%q: want exit code %d, got %s", args, code, r.Said())
	return r
}

// wants makes sure that a text holds others.
func wants(text string, parts ...string) {
	GinkgoHelper()
	for _, p := range parts {
		Expect(text).To(ContainSubstring(p), "%q is missing in:\n%s", p, text)
	}
}

// forget deletes Scans when the test ends.
func forget(names ...string) {
	GinkgoHelper()
	DeferCleanup(func(ctx SpecContext) {
		r, err := w.root.Run(ctx, append([]string{"-n", team, "delete", "--ignore-not-found"}, names...)...)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Code).To(BeZero(), "delete %v: %s", names, r.Said())
	}, NodeTimeout(time.Minute))
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
	{regexp.MustCompile(`(?m)^  <t>  test-scan  Parsing  .*\n`), ""}, // a parser of less than a second is not shown
}

func normal(text string) string {
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}

// transcript is what was typed and said.
type transcript struct {
	text strings.Builder
}

// run types a call, and writes down what it says.
func (s *transcript) run(ctx context.Context, p terminal.Program, code int, args ...string) {
	GinkgoHelper()
	r := typed(ctx, p, code, args...)
	fmt.Fprintf(&s.text, "$ scanyard %s\n%s", strings.Join(args, " "), normal(r.Out))
	if r.ErrOut != "" {
		fmt.Fprintf(&s.text, "stderr:\n%s", normal(r.ErrOut))
	}
	fmt.Fprintf(&s.text, "exit code %d\n\n", r.Code)
}

// compare compares with the golden file of the test.
func (s *transcript) compare(name string) {
	GinkgoHelper()
	golden := filepath.Join("testdata", name+".txt")
	if *update {
		Expect(os.WriteFile(golden, []byte(s.text.String()), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(golden)
	Expect(err).NotTo(HaveOccurred())
	Expect(s.text.String()).To(BeComparableTo(string(want)), "other than %s (-update writes it)", golden)
}
