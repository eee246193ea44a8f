// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/terminal"
)

// TestTeam: all that a team does in its namespace, with the shipped role alone.
func TestTeam(t *testing.T) {
	forget(t, "test-scan", "held", "ended", "again")
	s := &transcript{t: t}
	s.run(w.alice, 0, "get", "types")
	s.run(w.alice, 0, "get")
	s.run(w.alice, 0, "scan", "test-scan", "--wait", "-l", "app=shop")
	s.run(w.alice, 0, "get")
	s.run(w.alice, 0, "get", "test-scan", "-o", "jsonpath={.status.state}/{.status.findings.count}")
	s.run(w.alice, 0, "get", "-l", "app=shop", "-o", "name")
	s.run(w.alice, 0, "describe", "test-scan")
	s.run(w.alice, 0, "wait", "test-scan", "--quiet")
	s.run(w.alice, 2, "wait", "test-scan", "--fail-on", "info", "--quiet")
	s.run(w.alice, 0, "wait", "test-scan", "--fail-on", "high", "--quiet")
	s.run(w.alice, 0, "queue")
	s.run(w.alice, 0, "settings")
	s.run(w.alice, 0, "scan", "sh", "--name", "held", "--", "sleep 5")
	s.run(w.alice, 0, "suspend", "held")
	s.run(w.alice, 0, "resume", "held")
	s.run(w.alice, 0, "cancel", "held")
	s.run(w.alice, 1, "wait", "held", "--quiet")
	s.run(w.alice, 1, "cancel", "held")
	s.run(w.alice, 0, "delete", "held", "test-scan")
	s.run(w.alice, 0, "get")
	s.compare()
}

// TestBadInput: whatever is wrong is said with a remedy.
func TestBadInput(t *testing.T) {
	forget(t, "twice")
	s := &transcript{t: t}
	s.run(w.alice, 1, "scan")
	s.run(w.alice, 1, "scan", "tset-scan", "--", "x")
	s.run(w.alice, 1, "scan", "nikto", "--", "-h", "x")
	s.run(w.alice, 1, "scan", "test-scan", "--cluster-wide")
	s.run(w.alice, 1, "scan", "test-scan", "--fail-on", "critical")
	s.run(w.alice, 1, "scan", "test-scan", "--ttl", "soon")
	s.run(w.alice, 1, "scan", "test-scan", "--unknown")
	s.run(w.alice, 0, "scan", "test-scan", "--name", "twice")
	s.run(w.alice, 1, "scan", "test-scan", "--name", "twice")
	s.run(w.alice, 1, "get", "twcie")
	s.run(w.alice, 1, "get", "-o", "xml")
	s.run(w.alice, 1, "describe", "twcie")
	s.run(w.alice, 1, "logs", "twice", "lurker")
	s.run(w.alice, 1, "trigger", "nightly")
	s.run(w.alice, 1, "delete")
	s.run(w.alice, 1, "get", "-A")
	s.run(w.victor, 1, "scan", "test-scan")
	s.run(w.victor, 1, "delete", "twice")
	s.run(w.nobody, 1, "get")
	s.run(terminal.Program{Path: w.binary, Env: []string{"KUBECONFIG=/dev/null"}}, 1, "get")
	s.run(w.root, 1, "get", "--context", "nowhere")
	s.run(w.root, 1, "get", "--server", "https://127.0.0.1:1")
	s.compare()
}

// TestDoctor: what the roles of a team let it see, and what is missing for whom.
func TestDoctor(t *testing.T) {
	operatorIsReady(t)
	s := &transcript{t: t}
	s.run(w.root, 0, "doctor", "-n", team)
	s.run(w.alice, 0, "doctor", "--type", "sh", "--", "echo hello"+found)
	s.run(w.victor, 0, "doctor", "--no-scan")
	s.run(w.alice, 1, "doctor", "--type", "sh", "--timeout", "1s", "--", "sleep 20")
	s.run(w.nobody, 1, "doctor", "--no-scan")
	s.compare()
}

// operatorIsReady waits until the Deployment says so, which it does a little after the operator.
func operatorIsReady(t *testing.T) {
	t.Helper()
	err := wait.PollUntilContextCancel(bounded(t), 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		d := &appsv1.Deployment{}
		err := w.admin.Get(ctx, client.ObjectKey{Namespace: install.Namespace, Name: "scanyard-controller-manager"}, d)
		return d.Status.ReadyReplicas > 0, err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestQueue: who waits is told with its place and the reason, and settings tells whose limit it is.
func TestQueue(t *testing.T) {
	forget(t, "runs", "waits")
	setting := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "settings.scanyard.io/v1alpha1", "kind": "ScanSetting", "metadata": map[string]any{"name": "default", "namespace": team},
		"spec": map[string]any{"limits": map[string]any{"maxRunning": int64(1)}},
	}}
	if err := w.admin.Create(t.Context(), setting); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.admin.Delete(context.Background(), setting); err != nil {
			t.Error(err)
		}
	})
	wants(t, typed(t, w.alice, 0, "settings").Out, "limits.maxRunning   1       namespace")
	typed(t, w.alice, 0, "scan", "sh", "--name", "runs", "--", "sleep 5"+found)
	ctx := bounded(t)
	r, err := w.alice.Watch(ctx, func(line string) bool {
		if strings.Contains(line, "Waits for its turn") {
			wants(t, typed(t, w.alice, 0, "queue").Out, "waits   sh     1", "NamespaceLimit")
		}
		return true
	}, "scan", "sh", "--name", "waits", "--wait", "--", "true"+found)
	if err != nil || r.Code != 0 {
		t.Fatalf("%v %s", err, r.Said())
	}
	wants(t, r.Out, "Waits for its turn. Position 1 of 1", "scan waits is Done")
}

// TestLogs: the logs of all phases of an ended scan, and of one.
func TestLogs(t *testing.T) {
	forget(t, "talks")
	typed(t, w.alice, 0, "scan", "sh", "--name", "talks", "--wait", "--", "echo hello"+found)
	all := typed(t, w.alice, 0, "logs", "talks").Out
	wants(t, all, "[scanner] hello\n", "[scanner/lurker] ", "[parser] ")
	if got := typed(t, w.alice, 0, "logs", "talks", "scanner", "-c", "sh", "--no-prefix").Out; got != "hello\n" {
		t.Errorf("got %q", got)
	}
	if got := typed(t, w.alice, 0, "logs", "talks", "hooks"); got.Out != "" {
		t.Errorf("got %q", got.Out)
	}
}

// TestTrigger: a schedule that comes once in four years starts now.
func TestTrigger(t *testing.T) {
	schedule := &executionv1.ScheduledScan{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "rarely"},
		Spec:       executionv1.ScheduledScanSpec{Schedule: "0 0 29 2 *", ScanSpec: &executionv1.ScanSpec{ScanType: "test-scan", Parameters: []string{}}},
	}
	if err := w.admin.Create(t.Context(), schedule); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.admin.Delete(t.Context(), schedule); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	got := typed(t, w.alice, 0, "trigger", "rarely", "--wait", "--timeout", "1m")
	wants(t, got.Out, "scheduledscan/rarely triggered", "is Done")
	wants(t, typed(t, w.alice, 0, "get", "schedules").Out, "rarely")
	typed(t, w.alice, 0, "suspend", "scheduledscan/rarely")
	wants(t, typed(t, w.alice, 0, "trigger", "rarely").ErrOut, "It is suspended")
}

// TestRetry: a scan that failed goes on where it failed, once that is mended.
func TestRetry(t *testing.T) {
	forget(t, "mends")
	typed(t, w.alice, 0, "scan", "sh", "--name", "mends", "--", "sleep 30")
	typed(t, w.alice, 0, "cancel", "mends")
	typed(t, w.alice, 1, "wait", "mends")
	typed(t, w.alice, 3, "retry", "mends", "scanner", "--wait", "--timeout", "3s")
	typed(t, w.alice, 0, "delete", "mends")
	typed(t, w.alice, 0, "scan", "sh", "--name", "mends", "--wait", "--", "true"+found)
	wants(t, typed(t, w.alice, 0, "retry", "mends", "parser", "--wait").Out, "mends: parser run again", "is Done")
	wants(t, typed(t, w.alice, 1, "retry", "mends").ErrOut, "say what to run again")
}

// TestPlugin: under the name of a plugin, help and advice speak of kubectl.
func TestPlugin(t *testing.T) {
	link := filepath.Join(t.TempDir(), "kubectl-scanyard")
	if err := os.Symlink(w.binary, link); err != nil {
		t.Fatal(err)
	}
	plugin := terminal.Program{Path: link, Env: w.root.Env}
	wants(t, typed(t, plugin, 0, "scan", "--help").Out, "kubectl scanyard scan [TYPE] [flags] -- PARAMETERS...", "  kubectl scanyard scan nmap -- -sV scanme.nmap.org")
	wants(t, typed(t, plugin, 1, "get", "-n", team, "--nonsense").ErrOut, "See: kubectl scanyard get --help")
}

// TestCompletion: shells complete what is in the cluster.
func TestCompletion(t *testing.T) {
	forget(t, "to-complete")
	typed(t, w.alice, 0, "scan", "test-scan", "--name", "to-complete")
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
		t.Run(name, func(t *testing.T) {
			wants(t, typed(t, w.alice, 0, append([]string{"__complete"}, tc.args...)...).Out, tc.want)
		})
	}
	wants(t, typed(t, w.root, 0, "__complete", "get", "-n", "bl").Out, team+"\n")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if typed(t, w.root, 0, "completion", shell).Out == "" {
			t.Errorf("nothing for %s", shell)
		}
	}
}

// TestSupportBundle: it has what helps, and nothing that is secret.
func TestSupportBundle(t *testing.T) {
	forget(t, "bundled")
	const secret = "hunter2-XYZ"
	typed(t, w.alice, 0, "scan", "sh", "--name", "bundled", "--wait", "--", "echo --password="+secret+found)
	path := filepath.Join(t.TempDir(), "bundle.tar.gz")
	wants(t, typed(t, w.root, 0, "support-bundle", "-n", team, "-O", path).Out, path)
	wants(t, typed(t, w.root, 1, "support-bundle", "-n", team, "-O", path).ErrOut, "exists")
	files := unpack(t, path)
	for _, want := range []string{"versions.txt", "namespaces/blue/Scan/bundled.yaml", "namespaces/blue/ScanType/sh.yaml", "namespaces/scanyard-system/Deployment/scanyard-controller-manager.yaml"} {
		if files["scanyard-support/"+want] == "" {
			t.Errorf("%s is missing", want)
		}
	}
	logs := 0
	for name, text := range files {
		for _, bad := range []string{secret, "X-Amz-", w.cluster.ObjectStore.SecretKey} {
			if strings.Contains(text, bad) {
				t.Errorf("%s holds %q", name, bad)
			}
		}
		if strings.HasSuffix(name, "lurker.log") || strings.HasSuffix(name, "manager.log") {
			logs++
		}
		if strings.HasSuffix(name, "/sh.log") {
			t.Errorf("%s is the log of a scanner", name)
		}
	}
	if logs < 2 {
		t.Error("logs of lurker and operator are missing")
	}
	// A team's own bundle says what it may not see.
	own := filepath.Join(t.TempDir(), "own.tar.gz")
	typed(t, w.alice, 0, "support-bundle", "-O", own)
	wants(t, unpack(t, own)["scanyard-support/notes.txt"], "you may not list")
}

func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(b)
	}
}

// TestScbctl: what users of scbctl type.
func TestScbctl(t *testing.T) {
	forget(t, "of-scbctl")
	got := typed(t, w.alice, 0, "scan", "sh", "--name", "of-scbctl", "--follow", "--", "echo hello"+found)
	wants(t, got.Out, "[scanner] hello\n")
	wants(t, got.ErrOut, "is Done")
	wants(t, typed(t, w.alice, 0, "cascade").Out, "of-scbctl")
	// Under the name of its type; and once more, which scbctl refuses.
	first := typed(t, w.alice, 0, "scan", "test-scan").Out
	second := typed(t, w.alice, 0, "scan", "test-scan").Out
	forget(t, "test-scan", strings.TrimSuffix(strings.TrimPrefix(second, "scan.execution.securecodebox.io/"), " created\n"))
	if first != "scan.execution.securecodebox.io/test-scan created\n" || first == second {
		t.Errorf("got %q, then %q", first, second)
	}
}

// TestTimeout: the exit code says that the time was over; the scan goes on.
func TestTimeout(t *testing.T) {
	forget(t, "slow")
	began := time.Now()
	got := typed(t, w.alice, 3, "scan", "sh", "--name", "slow", "--timeout", "2s", "--", "sleep 4"+found)
	if time.Since(began) < 2*time.Second {
		t.Error("it did not wait")
	}
	wants(t, got.ErrOut, "it goes on", "scanyard wait slow -n blue --as alice")
	typed(t, w.alice, 0, "wait", "slow")
}
