// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// enabled is the annotation of a namespace that has what is in it scanned.
const enabled = "auto-discovery.securecodebox.io/enabled"

// TestAutoDiscovery installs the chart and has a Service and an image scanned: once each. When the namespace is no longer included, the
// ScheduledScans go. The rights that the chart gives are enough.
func TestAutoDiscovery(t *testing.T) {
	t.Parallel()
	build(t, "parser") // an image that is scanned
	ns, system := namespace(t), namespace(t)
	chart(t, "nmap", ns, nil)
	chart(t, "test-scan", ns, nil)
	port := listener(t)
	create(t,
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "shop"}, Ports: []corev1.ServicePort{{Name: "http", Port: int32(port)}}},
		},
		pod(ns, "shop", "docker.io/e2e/sh", "/bin/sh", "-c", "sleep 600"),
		// The image is one of a folder, so the node knows its digest, as a real one does.
		pod(ns, "worker", registry+"/parser:built", "/parser", "version"),
	)
	discover(t, system)
	defer func() {
		if t.Failed() {
			t.Log("the log of the discovery:\n" + podLogs(t, system))
		}
	}()
	setAnnotation(t, ns, "true")

	service := fmt.Sprintf("shop-service-nmap-port-%d", port)
	var scheduled []executionv1.ScheduledScan
	eventually(t, "two ScheduledScans", func(ctx context.Context) (bool, error) {
		scheduled = scheduledScans(ctx, t, ns)
		return len(scheduled) == 2, nil
	})
	image := scheduled[slices.IndexFunc(scheduled, func(s executionv1.ScheduledScan) bool { return s.Name != service })].Name
	if !strings.HasPrefix(image, "parser-test-scan-at-") {
		t.Errorf("the ScheduledScan of the image is called %s", image)
	}
	for _, name := range []string{service, image} {
		s := settled(t, runOf(t, ns, name))
		if s.Status.State != executionv1.ScanStateDone {
			t.Errorf("the Scan of %s ended %s: %s", name, s.Status.State, s.Status.ErrorDescription)
		}
		if name == service {
			wantLines(t, keep(findings(t, s), "Open Port"), []string{fmt.Sprintf("Open Port: %d", port)}, "name")
			continue
		}
		if want := registry + "/parser:built"; len(s.Spec.Env) != 1 || s.Spec.Env[0].Value != want {
			t.Errorf("the environment of the image's Scan is %v, want IMAGE=%s", s.Spec.Env, want)
		}
	}
	if all := scansOf(t.Context(), t, ns); len(all) != 2 {
		t.Errorf("there are %d Scans, want one for each target", len(all))
	}

	setAnnotation(t, ns, "false")
	eventually(t, "the ScheduledScans to go", func(ctx context.Context) (bool, error) { return len(scheduledScans(ctx, t, ns)) == 0, nil })
	for line := range strings.Lines(podLogs(t, system)) {
		if lower := strings.ToLower(line); strings.Contains(lower, "forbidden") || strings.Contains(lower, "panic") || strings.Contains(lower, `"level":"error"`) {
			t.Errorf("the discovery logged: %s", line)
		}
	}
}

// discover installs the chart with the chart's configuration, adapted to scanners that
// run here.
func discover(t *testing.T, system string) {
	t.Helper()
	free, err := ports.Free(2)
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{
		"health":  map[string]any{"healthProbeBindAddress": fmt.Sprintf(":%d", free[0])},
		"metrics": map[string]any{"bindAddress": fmt.Sprintf(":%d", free[1])},
		"removal": map[string]any{"delay": "0s"},
		"serviceAutoDiscovery": map[string]any{
			"ports": map[string]any{"httpNames": []string{"http"}},
			"scanConfigs": []map[string]any{{
				"name": "nmap", "scanType": "nmap", "repeatInterval": "168h", "parameters": []string{"-p", "{{ .Host.Port }}", "127.0.0.1"},
				"annotations": map[string]any{"defectdojo.securecodebox.io/product-name": "{{ .Cluster.Name }} | {{ .Namespace.Name }} | {{ .Target.Name }}"},
			}},
		},
		"containerAutoDiscovery": map[string]any{
			"enabled": true, "imagesWithoutDigest": "ScanByTag",
			"scanConfigs": []map[string]any{{
				"name": "test-scan", "scanType": "test-scan", "repeatInterval": "168h",
				"env": []map[string]any{{"name": "IMAGE", "value": "{{ .ImageID }}"}},
				// The other pod's image is no image, but a program of the machine.
				"targetSelector": map[string]any{"matchLabels": map[string]any{"app": "worker"}},
			}},
		},
	}
	release(t, install.Release{Chart: "auto-discovery-kubernetes", Namespace: system, Values: map[string]any{"config": config}})
	t.Cleanup(func() {
		if err := w.helm.Uninstall(context.WithoutCancel(t.Context()), "auto-discovery-kubernetes", system); err != nil {
			t.Error(err)
		}
	})
}

func pod(ns, name, image string, command ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
			Name: "main", Image: image, Command: command,
		}}},
	}
}

// listener is a port at which something listens.
func listener(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func setAnnotation(t *testing.T, ns, value string) {
	t.Helper()
	o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, enabled, value))
	if err := w.admin.Patch(t.Context(), o, patch); err != nil {
		t.Fatal(err)
	}
}

func scheduledScans(ctx context.Context, t *testing.T, ns string) []executionv1.ScheduledScan {
	t.Helper()
	var list executionv1.ScheduledScanList
	if err := w.admin.List(ctx, &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func scansOf(ctx context.Context, t *testing.T, ns string) []executionv1.Scan {
	t.Helper()
	var list executionv1.ScanList
	if err := w.admin.List(ctx, &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// runOf waits for the first Scan of a ScheduledScan.
func runOf(t *testing.T, ns, scheduled string) *executionv1.Scan {
	t.Helper()
	var found *executionv1.Scan
	eventually(t, "a Scan of "+scheduled, func(ctx context.Context) (bool, error) {
		for _, s := range scansOf(ctx, t, ns) {
			if owner := executionv1.ScheduleOf(&s); owner != nil && owner.Name == scheduled {
				found = &s
			}
		}
		return found != nil, nil
	})
	return found
}
