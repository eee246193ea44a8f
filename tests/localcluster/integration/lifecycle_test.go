// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/scanyard/scanyard/tests/localcluster"
)

func TestAPIServerKillKeepsData(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	create(t, k, newPod(ns, "across", sh("c", "sleep 2; echo survived")))
	if _, err := k.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	podWhen(t, k, ns, "across", "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	for _, component := range []string{localcluster.APIServer, localcluster.Etcd} {
		if err := shared.Kill(t.Context(), component); err != nil {
			t.Fatal(err)
		}
		if _, err := k.CoreV1().ConfigMaps(ns).Get(shortly(t), "kept", metav1.GetOptions{}); err == nil {
			t.Errorf("a read was answered while %s was down", component)
		}
		if err := shared.StartComponent(t.Context(), component); err != nil {
			t.Fatal(err)
		}
		eventually(t, "data after "+component+" came back", func(ctx context.Context) (bool, error) {
			m, err := k.CoreV1().ConfigMaps(ns).Get(ctx, "kept", metav1.GetOptions{})
			return err == nil && m.Data["k"] == "v", nil
		})
	}
	var p *corev1.Pod
	eventually(t, "the pod to finish across the restarts", func(ctx context.Context) (bool, error) {
		var err error
		p, err = k.CoreV1().Pods(ns).Get(ctx, "across", metav1.GetOptions{})
		return err == nil && finished(p), nil
	})
	if p.Status.Phase != corev1.PodSucceeded || p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("got phase %s after %d restarts, want Succeeded after 0", p.Status.Phase, p.Status.ContainerStatuses[0].RestartCount)
	}
}

// shortly is a context for a call that is expected to fail.
func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestNodeKillRestartsByPolicy(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	never, again := newPod(ns, "never", sh("c", "sleep 60")), newPod(ns, "again", sh("c", "test -f /d/x && exit 0; touch /d/x; echo once; sleep 60"))
	again.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	again.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	again.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "d", MountPath: "/d"}}
	for _, p := range []*corev1.Pod{never, again} {
		create(t, k, p)
		podWhen(t, k, ns, p.Name, "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	}
	// A container runs some time before its script has done anything.
	eventually(t, "the script to have made its file", func(context.Context) (bool, error) {
		return logs(t, k, ns, "again", &corev1.PodLogOptions{}) == "once\n", nil
	})
	if err := shared.Kill(t.Context(), localcluster.Node); err != nil {
		t.Fatal(err)
	}
	if err := shared.StartComponent(t.Context(), localcluster.Node); err != nil {
		t.Fatal(err)
	}
	p := podWhen(t, k, ns, "never", "finished", finished)
	if s := p.Status.ContainerStatuses[0].State.Terminated; p.Status.Phase != corev1.PodFailed || s.ExitCode != 137 || s.Reason != "ContainerStatusUnknown" {
		t.Errorf("never: got phase %s and %+v", p.Status.Phase, s)
	}
	p = podWhen(t, k, ns, "again", "finished", finished)
	if p.Status.Phase != corev1.PodSucceeded || p.Status.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("again: got phase %s after %d restarts", p.Status.Phase, p.Status.ContainerStatuses[0].RestartCount)
	}
}

func TestAttach(t *testing.T) {
	c, err := localcluster.Attach(shared.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list {
		if s.Running {
			names = append(names, s.Name)
		}
	}
	if got, want := strings.Join(names, " "), strings.Join(localcluster.Components, " "); got != want {
		t.Errorf("running: got %s, want %s", got, want)
	}
	if _, err := localcluster.Attach(t.TempDir()); !errors.Is(err, localcluster.ErrNoCluster) {
		t.Errorf("got %v for a folder without a cluster", err)
	}
	if err := c.Restart(t.Context(), "nonsense"); err == nil || !strings.Contains(err.Error(), "kube-apiserver") {
		t.Errorf("got %v, want an error that lists the components", err)
	}
}

func TestSimulatedNodesRunManyJobs(t *testing.T) {
	c, err := localcluster.Start(t.Context(), localcluster.Options{
		Binary: os.Getenv("LOCALCLUSTER_BIN"), JobSyncs: 50,
		Node: localcluster.NodeOptions{SimNodes: 5, SimDelay: localcluster.Duration(100 * time.Millisecond), PodStartDelay: localcluster.Duration(2 * time.Second)},
	})
	if err != nil {
		t.Fatal(err)
	}
	stopAfter(t, c)
	k := client(t, c)
	ns := namespace(t, k)
	const jobs = 200
	began := time.Now()
	for i := range jobs {
		j := newJob(ns, fmt.Sprintf("j%d", i), corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "anything"}}})
		if _, err := k.BatchV1().Jobs(ns).Create(t.Context(), j, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all Jobs to complete", func(ctx context.Context) (bool, error) {
		list, err := k.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		done := 0
		for i := range list.Items {
			if jobComplete(&list.Items[i]) {
				done++
			}
		}
		return done == jobs, nil
	})
	t.Logf("%d simulated Jobs in %.1f s", jobs, time.Since(began).Seconds())
	pods, err := k.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		// The API has whole seconds, so one of the two may be lost by rounding.
		p := &pods.Items[i]
		if waited := p.Status.StartTime.Sub(p.CreationTimestamp.Time); waited < time.Second {
			t.Errorf("pod %s started after %s, before its start delay had passed", p.Name, waited)
		}
	}
	// A pod that asks for the real node still gets it.
	p := newPod(ns, "real", corev1.Container{Name: "c", Image: "none"})
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "local"}
	create(t, k, p)
	podWhen(t, k, ns, "real", "waiting for its image", func(p *corev1.Pod) bool { return waitingFor(p) == "ImagePullBackOff" })
}

func stopAfter(t *testing.T, c *localcluster.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestEnvtestFindsTheServers(t *testing.T) {
	assets := t.TempDir()
	run(t, "assets", assets)
	// The default is 20 s, which a busy machine does not hold.
	env := &envtest.Environment{BinaryAssetsDirectory: assets, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: 2 * time.Minute}
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	}()
	k, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
}

// run runs the command line and returns what it says.
func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), os.Getenv("LOCALCLUSTER_BIN"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("localcluster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestCommandLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cluster")
	contains(t, run(t, "up", "--detach", "--data-dir", dir), "ready", "KUBECONFIG")
	down := func(args ...string) string { return run(t, append([]string{"down", "--data-dir", dir}, args...)...) }
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			exec.Command(os.Getenv("LOCALCLUSTER_BIN"), "down", "--data-dir", dir).Run()
		}
	})
	contains(t, run(t, "status", "--data-dir", dir), "kube-apiserver", "running", "S3 bucket")
	contains(t, run(t, "kubectl", "--data-dir", dir, "create", "configmap", "cm"), "created")
	contains(t, run(t, "restart", "s3", "--data-dir", dir), "done")
	out, err := exec.CommandContext(t.Context(), os.Getenv("LOCALCLUSTER_BIN"), "up", "--data-dir", dir).CombinedOutput()
	if err == nil {
		t.Error("a second up in the same folder did not fail")
	}
	contains(t, string(out), "already runs", "localcluster down")
	contains(t, down("--keep-data"), "kept")
	contains(t, run(t, "up", "--detach", "--data-dir", dir), "ready")
	contains(t, run(t, "kubectl", "--data-dir", dir, "get", "configmap", "cm"), "cm")
	rollBack(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "mine"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, down(), "removed")
	stopped = true
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "mine" {
		t.Errorf("left after down: %v (%v), want only the file that up did not make", left, err)
	}
}

// rollBack takes the cluster of TestCommandLine, which has a ConfigMap "cm", back to a checkpoint.
func rollBack(t *testing.T, dir string) {
	t.Helper()
	stored := func(args ...string) string { return run(t, append(args, "--data-dir", dir)...) }
	kubectl := func(args ...string) string { return run(t, append([]string{"kubectl", "--data-dir", dir}, args...)...) }
	stored("stop", localcluster.ControllerManager)
	stored("stop", localcluster.Node)
	stored("checkpoint")
	kubectl("delete", "configmap", "cm")
	kubectl("create", "configmap", "new")
	buckets, err := filepath.Glob(filepath.Join(dir, "s3", "objects", "*"))
	if err != nil || len(buckets) != 1 {
		t.Fatalf("buckets: %v (%v), want one", buckets, err)
	}
	object := filepath.Join(buckets[0], "object")
	if err := os.WriteFile(object, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	stored("rollback")
	eventually(t, "the objects of the checkpoint", func(context.Context) (bool, error) {
		names := kubectl("get", "configmaps", "-o", "name")
		return strings.Contains(names, "configmap/cm\n") && !strings.Contains(names, "configmap/new\n"), nil
	})
	if _, err := os.Stat(object); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the object in the S3 server: got %v, want that it is gone", err)
	}
	if _, err := os.Stat(buckets[0]); err != nil {
		t.Errorf("the bucket is gone: %v", err)
	}
}

func TestTakenPortIsReportedWithItsHolder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Getenv("LOCALCLUSTER_BIN"), "up", "--data-dir", filepath.Join(t.TempDir(), "c"), "--api-port", port)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err == nil {
		t.Fatal("up on a taken port did not fail")
	}
	contains(t, out.String(), "port "+port+" is taken by", fmt.Sprintf("(pid %d)", os.Getpid()))
	if strings.Contains(out.String(), "ready") {
		t.Errorf("something was started first:\n%s", out.String())
	}
}
