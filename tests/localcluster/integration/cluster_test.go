// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/scanyard/scanyard/tests/localcluster"
)

// shared is the cluster that most tests use, each with a namespace of its own.
var shared *localcluster.Cluster

// inImage is the argument by which this program, packed into an image, knows
// that it runs as a container.
const inImage = "say-hello-from-an-image"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == inImage {
		host, err := os.Hostname()
		fmt.Printf("hello from %s as %d, error %v\n", host, os.Getuid(), err)
		os.Exit(0)
	}
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	bin := os.Getenv("LOCALCLUSTER_BIN")
	if bin == "" {
		fmt.Fprintf(os.Stderr, "LOCALCLUSTER_BIN is not set. Build the local cluster and name it:\n  %s\n  export LOCALCLUSTER_BIN=$PWD/../bin/localcluster\n", localcluster.BuildCommand)
		return 1
	}
	dir, err := os.MkdirTemp("", "localcluster-it-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	mapping := filepath.Join(dir, "map.yaml")
	if err := os.WriteFile(mapping, []byte("images:\n- image: host\n- image: rooted\n  user: \"0\"\n"), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	images := filepath.Join(dir, "images")
	if err := writeImage(images); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	shared, err = localcluster.Start(context.Background(), localcluster.Options{
		Binary: bin, DataDir: filepath.Join(dir, "cluster"),
		Node: localcluster.NodeOptions{ImagesMap: mapping, Images: images, Backoff: localcluster.Duration(500 * time.Millisecond)},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func client(t *testing.T, c *localcluster.Cluster) kubernetes.Interface {
	t.Helper()
	cfg, err := c.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// namespace makes one for the test, with its default ServiceAccount.
func namespace(t *testing.T, k kubernetes.Interface) string {
	t.Helper()
	n, err := k.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "it-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "default ServiceAccount", func(ctx context.Context) (bool, error) {
		_, err := k.CoreV1().ServiceAccounts(n.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	return n.Name
}

const patience = 2 * time.Minute

// eventually polls a condition; the wait is bounded only to end a broken test.
func eventually(t *testing.T, what string, f func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, f); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// sh is a container that runs a script with the machine's shell.
func sh(name, script string) corev1.Container {
	return corev1.Container{Name: name, Image: "host", Command: []string{"/bin/sh", "-c", script}}
}

func newPod(ns, name string, c ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: c},
	}
}

func create(t *testing.T, k kubernetes.Interface, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	out, err := k.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// podWhen returns the pod once it satisfies the condition.
func podWhen(t *testing.T, k kubernetes.Interface, ns, name, what string, f func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var p *corev1.Pod
	err := wait.PollUntilContextTimeout(t.Context(), 30*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		got, err := k.CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		p = got
		return f(p), nil
	})
	if err != nil {
		t.Fatalf("waiting for pod %s to be %s: %v; last status: %+v", name, what, err, p)
	}
	return p
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// output runs a pod to its end and returns its first container's log.
func output(t *testing.T, k kubernetes.Interface, p *corev1.Pod) (string, *corev1.Pod) {
	t.Helper()
	create(t, k, p)
	done := podWhen(t, k, p.Namespace, p.Name, "finished", finished)
	return logs(t, k, p.Namespace, p.Name, &corev1.PodLogOptions{Container: p.Spec.Containers[0].Name}), done
}

func logs(t *testing.T, k kubernetes.Interface, ns, name string, o *corev1.PodLogOptions) string {
	t.Helper()
	r, err := k.CoreV1().Pods(ns).GetLogs(name, o).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func newJob(ns, name string, spec corev1.PodSpec) *batchv1.Job {
	limit := int32(3)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       batchv1.JobSpec{BackoffLimit: &limit, Template: corev1.PodTemplateSpec{Spec: spec}},
	}
}

func jobComplete(j *batchv1.Job) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

//go:fix inline
func ptr[T any](v T) *T { return new(v) }

func contains(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("missing %q in:\n%s", w, got)
		}
	}
}
