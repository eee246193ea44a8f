// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/terminal"
)

var _ = Describe("The command line", Label("cli"), func() {
	It("lets a team do all that it does, with the shipped role alone", Label("smoke"), func(ctx SpecContext) {
		forget("test-scan", "held", "ended", "again")
		s := &transcript{}
		s.run(ctx, w.alice, 0, "get", "types")
		s.run(ctx, w.alice, 0, "get")
		s.run(ctx, w.alice, 0, "scan", "test-scan", "--wait", "-l", "app=shop")
		s.run(ctx, w.alice, 0, "get")
		s.run(ctx, w.alice, 0, "get", "test-scan", "-o", "jsonpath={.status.state}/{.status.findings.count}")
		s.run(ctx, w.alice, 0, "get", "-l", "app=shop", "-o", "name")
		s.run(ctx, w.alice, 0, "describe", "test-scan")
		s.run(ctx, w.alice, 0, "wait", "test-scan", "--quiet")
		s.run(ctx, w.alice, 2, "wait", "test-scan", "--fail-on", "info", "--quiet")
		s.run(ctx, w.alice, 0, "wait", "test-scan", "--fail-on", "high", "--quiet")
		s.run(ctx, w.alice, 0, "queue")
		s.run(ctx, w.alice, 0, "settings")
		s.run(ctx, w.alice, 0, "scan", "sh", "--name", "held", "--", "sleep 5")
		s.run(ctx, w.alice, 0, "suspend", "held")
		s.run(ctx, w.alice, 0, "resume", "held")
		s.run(ctx, w.alice, 0, "cancel", "held")
		s.run(ctx, w.alice, 1, "wait", "held", "--quiet")
		s.run(ctx, w.alice, 1, "cancel", "held")
		s.run(ctx, w.alice, 0, "delete", "held", "test-scan")
		s.run(ctx, w.alice, 0, "get")
		s.compare("TestTeam")
	})

	It("says what is wrong, with a remedy", func(ctx SpecContext) {
		forget("twice")
		s := &transcript{}
		s.run(ctx, w.alice, 1, "scan")
		s.run(ctx, w.alice, 1, "scan", "tset-scan", "--", "x")
		s.run(ctx, w.alice, 1, "scan", "nikto", "--", "-h", "x")
		s.run(ctx, w.alice, 1, "scan", "test-scan", "--cluster-wide")
		s.run(ctx, w.alice, 1, "scan", "test-scan", "--fail-on", "worst")
		s.run(ctx, w.alice, 1, "scan", "test-scan", "--ttl", "soon")
		s.run(ctx, w.alice, 1, "scan", "test-scan", "--unknown")
		s.run(ctx, w.alice, 1, "scan", "test-scan", "-sV", "127.0.0.1")
		s.run(ctx, w.alice, 1, "scan", "test-scan", "127.0.0.1")
		s.run(ctx, w.alice, 0, "scan", "test-scan", "--name", "twice")
		s.run(ctx, w.alice, 1, "scan", "test-scan", "--name", "twice")
		s.run(ctx, w.alice, 1, "get", "twcie")
		s.run(ctx, w.alice, 1, "get", "-o", "xml")
		s.run(ctx, w.alice, 1, "describe", "twcie")
		s.run(ctx, w.alice, 1, "logs", "twice", "lurker")
		s.run(ctx, w.alice, 1, "trigger", "nightly")
		s.run(ctx, w.alice, 1, "delete")
		s.run(ctx, w.alice, 1, "get", "-A")
		s.run(ctx, w.victor, 1, "scan", "test-scan")
		s.run(ctx, w.victor, 1, "delete", "twice")
		s.run(ctx, w.nobody, 1, "get")
		s.run(ctx, terminal.Program{Path: w.binary, Env: []string{"KUBECONFIG=/dev/null"}}, 1, "get")
		s.run(ctx, w.root, 0, "get", "-n", "nowhere")
		s.run(ctx, w.root, 1, "get", "--context", "nowhere")
		s.run(ctx, w.root, 1, "get", "--server", "https://127.0.0.1:1")
		s.compare("TestBadInput")
	})

	It("tells what the roles of a team let it see, and what is missing for whom", func(ctx SpecContext) {
		operatorIsReady(ctx)
		s := &transcript{}
		s.run(ctx, w.root, 0, "doctor", "-n", team)
		s.run(ctx, w.alice, 0, "doctor", "--type", "sh", "--", "echo hello"+found)
		s.run(ctx, w.victor, 0, "doctor", "--no-scan")
		s.run(ctx, w.alice, 1, "doctor", "--type", "sh", "--timeout", "1s", "--", "sleep 20")
		s.run(ctx, w.nobody, 1, "doctor", "--no-scan")
		s.compare("TestDoctor")
	})

	It("tells who waits its place and the reason, and whose limit it is", func(spec SpecContext) {
		forget("runs", "waits")
		setting := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "settings.scanyard.io/v1alpha2", "kind": "ScanSetting", "metadata": map[string]any{"name": "default", "namespace": team},
			"spec": map[string]any{"limits": map[string]any{"maxRunning": int64(1)}},
		}}
		Expect(w.admin.Create(spec, setting)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(w.admin.Delete(ctx, setting)).To(Succeed()) })
		wants(typed(spec, w.alice, 0, "settings").Out, "limits.maxRunning   1       namespace")
		typed(spec, w.alice, 0, "scan", "sh", "--name", "runs", "--", "sleep 5"+found)
		ctx := bounded(spec)
		r, err := w.alice.Watch(ctx, func(line string) bool {
			defer GinkgoRecover()
			if strings.Contains(line, "Waits for its turn") {
				wants(typed(ctx, w.alice, 0, "queue").Out, "waits   sh     1", "NamespaceLimit")
			}
			return true
		}, "scan", "sh", "--name", "waits", "--wait", "--", "true"+found)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Code).To(Equal(0), "%v %s", err, r.Said())
		wants(r.Out, "Waits for its turn. Position 1 of 1", "scan waits is Done")
	})

	It("prints the logs of all phases of an ended scan, and of one", func(ctx SpecContext) {
		forget("talks")
		typed(ctx, w.alice, 0, "scan", "sh", "--name", "talks", "--wait", "--", "echo hello"+found)
		all := typed(ctx, w.alice, 0, "logs", "talks").Out
		wants(all, "[scanner] hello\n", "[scanner/lurker] ", "[parser] ")
		if got := typed(ctx, w.alice, 0, "logs", "talks", "scanner", "-c", "sh", "--no-prefix").Out; got != "hello\n" {
			Fail(fmt.Sprintf("got %q", got))
		}
		if got := typed(ctx, w.alice, 0, "logs", "talks", "hooks"); got.Out != "" {
			Fail(fmt.Sprintf("got %q", got.Out))
		}
	})

	It("starts now a schedule that comes once in four years", func(ctx SpecContext) {
		schedule := &executionv1.ScheduledScan{
			ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "rarely"},
			Spec:       executionv1.ScheduledScanSpec{Schedule: "0 0 29 2 *", ScanSpec: &executionv1.ScanSpec{ScanType: "test-scan", Parameters: []string{}}},
		}
		Expect(w.admin.Create(ctx, schedule)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(w.admin.Delete(ctx, schedule)).To(Succeed()) })
		got := typed(ctx, w.alice, 0, "trigger", "rarely", "--wait", "--timeout", "1m")
		wants(got.Out, "scheduledscan/rarely triggered", "is Done")
		wants(typed(ctx, w.alice, 0, "get", "schedules").Out, "rarely")
		typed(ctx, w.alice, 0, "suspend", "scheduledscan/rarely")
		wants(typed(ctx, w.alice, 0, "trigger", "rarely").ErrOut, "It is suspended")
	})

	It("continues where a scan has failed, once that is mended", func(ctx SpecContext) {
		forget("mends")
		typed(ctx, w.alice, 0, "scan", "sh", "--name", "mends", "--", "sleep 30")
		typed(ctx, w.alice, 0, "cancel", "mends")
		typed(ctx, w.alice, 1, "wait", "mends")
		typed(ctx, w.alice, 3, "retry", "mends", "scanner", "--wait", "--timeout", "3s")
		typed(ctx, w.alice, 0, "delete", "mends")
		typed(ctx, w.alice, 0, "scan", "sh", "--name", "mends", "--wait", "--", "true"+found)
		wants(typed(ctx, w.alice, 0, "retry", "mends", "parser", "--wait").Out, "mends: parser run again", "is Done")
		wants(typed(ctx, w.alice, 1, "retry", "mends").ErrOut, "say what to run again")
	})

	It("speaks of kubectl under the name of a plugin", func(ctx SpecContext) {
		link := filepath.Join(GinkgoT().TempDir(), "kubectl-scanyard")
		Expect(os.Symlink(w.binary, link)).To(Succeed())
		plugin := terminal.Program{Path: link, Env: w.root.Env}
		wants(typed(ctx, plugin, 0, "scan", "--help").Out, "kubectl scanyard scan [TYPE] [flags] -- PARAMETERS...", "  kubectl scanyard scan nmap -- -sV scanme.nmap.org")
		wants(typed(ctx, plugin, 1, "get", "-n", team, "--nonsense").ErrOut, "See: kubectl scanyard get --help")
	})

	It("completes what is in the cluster", func(ctx SpecContext) {
		forget("to-complete")
		typed(ctx, w.alice, 0, "scan", "test-scan", "--name", "to-complete")
		for name, tc := range map[string]struct {
			args []string
			want string
		}{
			"Types":      {[]string{"scan", "te"}, "test-scan\n"},
			"Scans":      {[]string{"describe", "to-"}, "to-complete\n"},
			"Severities": {[]string{"wait", "x", "--fail-on", ""}, "medium\n"},
			"Formats":    {[]string{"get", "-o", ""}, "jsonpath=\n"},
			"Words":      {[]string{"get", "sch"}, "schedules\n"},
			"Suspend":    {[]string{"suspend", "to-"}, "to-complete\n"},
		} {
			By(name, func() {
				wants(typed(ctx, w.alice, 0, append([]string{"__complete"}, tc.args...)...).Out, tc.want)
			})
		}
		wants(typed(ctx, w.root, 0, "__complete", "get", "-n", "bl").Out, team+"\n")
		for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
			Expect(typed(ctx, w.root, 0, "completion", shell).Out).NotTo(BeEmpty(), "nothing for %s", shell)
		}
	})

	It("packs a bundle that has what helps, and nothing that is secret", func(ctx SpecContext) {
		forget("bundled")
		const secret = "hunter2-XYZ"
		typed(ctx, w.alice, 0, "scan", "sh", "--name", "bundled", "--wait", "--", "echo --password="+secret+found)
		path := filepath.Join(GinkgoT().TempDir(), "bundle.tar.gz")
		wants(typed(ctx, w.root, 0, "support-bundle", "-n", team, "-O", path).Out, path)
		wants(typed(ctx, w.root, 1, "support-bundle", "-n", team, "-O", path).ErrOut, "exists")
		files := unpack(path)
		for _, want := range []string{"versions.txt", "namespaces/blue/Scan/bundled.yaml", "namespaces/blue/ScanType/sh.yaml", "namespaces/scanyard-system/Deployment/scanyard-controller-manager.yaml"} {
			Expect(files["scanyard-support/"+want]).NotTo(BeEmpty(), "%s is missing", want)
		}
		logs := 0
		for name, text := range files {
			for _, bad := range []string{secret, "X-Amz-", w.cluster.ObjectStore.SecretKey} {
				Expect(text).NotTo(ContainSubstring(bad), "%s holds %q", name, bad)
			}
			if strings.HasSuffix(name, "lurker.log") || strings.HasSuffix(name, "manager.log") {
				logs++
			}
			Expect(strings.HasSuffix(name, "/sh.log")).To(BeFalse(), "%s is the log of a scanner", name)
		}
		Expect(logs).To(BeNumerically(">=", 2), "logs of lurker and operator are missing")
		// A team's own bundle says what it may not see.
		own := filepath.Join(GinkgoT().TempDir(), "own.tar.gz")
		typed(ctx, w.alice, 0, "support-bundle", "-O", own)
		wants(unpack(own)["scanyard-support/notes.txt"], "you may not list")
	})

	It("does what users of scbctl type", func(ctx SpecContext) {
		forget("of-scbctl")
		got := typed(ctx, w.alice, 0, "scan", "sh", "--name", "of-scbctl", "--follow", "--", "echo hello"+found)
		wants(got.Out, "[scanner] hello\n")
		wants(got.ErrOut, "is Done")
		wants(typed(ctx, w.alice, 0, "cascade").Out, "of-scbctl")
		// Under the name of its type; and once more, which scbctl refuses.
		first := typed(ctx, w.alice, 0, "scan", "test-scan").Out
		second := typed(ctx, w.alice, 0, "scan", "test-scan").Out
		forget("test-scan", strings.TrimSuffix(strings.TrimPrefix(second, "scan.execution.securecodebox.io/"), " created\n"))
		if first != "scan.execution.securecodebox.io/test-scan created\n" || first == second {
			Fail(fmt.Sprintf("got %q, then %q", first, second))
		}
	})

	It("says by its exit code that the time was over; the scan continues", func(ctx SpecContext) {
		forget("slow")
		began := time.Now()
		got := typed(ctx, w.alice, 3, "scan", "sh", "--name", "slow", "--timeout", "2s", "--", "sleep 4"+found)
		Expect(time.Since(began)).To(BeNumerically(">=", 2*time.Second), "it did not wait")
		wants(got.ErrOut, "it continues", "scanyard wait slow -n blue --as alice")
		typed(ctx, w.alice, 0, "wait", "slow")
	})
})

// operatorIsReady waits until the Deployment says so, which it does a little after the operator.
func operatorIsReady(ctx context.Context) {
	GinkgoHelper()
	err := wait.PollUntilContextCancel(bounded(ctx), 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		d := &appsv1.Deployment{}
		err := w.admin.Get(ctx, client.ObjectKey{Namespace: install.Namespace, Name: "scanyard-controller-manager"}, d)
		return d.Status.ReadyReplicas > 0, err
	})
	Expect(err).NotTo(HaveOccurred())
}

func unpack(path string) map[string]string {
	GinkgoHelper()
	f, err := os.Open(path)
	Expect(err).NotTo(HaveOccurred())
	defer f.Close()
	zip, err := gzip.NewReader(f)
	Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		b, err := io.ReadAll(r)
		Expect(err).NotTo(HaveOccurred())
		files[h.Name] = string(b)
	}
}
