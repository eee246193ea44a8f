// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// enabled is the annotation of a namespace that has what is in it scanned.
const enabled = "auto-discovery.securecodebox.io/enabled"

var _ = Describe("Auto-discovery in the cluster", Label("discovery"), func() {
	// Installs the chart and has a Service and an image scanned: once each. When the namespace is no longer included, the
	// ScheduledScans go. The rights that the chart gives are enough.
	It("scans a Service and an image once each, and stops when the namespace is no longer included", slow, func(ctx SpecContext) {
		build(ctx, "parser") // an image that is scanned
		ns, system := namespace(ctx), namespace(ctx)
		chart(ctx, "nmap", ns, nil)
		chart(ctx, "test-scan", ns, nil)
		port := listener(ctx)
		create(ctx,
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "shop"}, Ports: []corev1.ServicePort{{Name: "http", Port: int32(port)}}},
			},
			pod(ns, "shop", "docker.io/e2e/sh", "/bin/sh", "-c", "sleep 600"),
			// The image is one of a folder, so the node knows its digest, as a real one does.
			pod(ns, "worker", registry+"/parser:built", "/parser", "version"),
		)
		discover(ctx, system)
		defer func() {
			if CurrentSpecReport().Failed() {
				GinkgoWriter.Println("the log of the discovery:\n" + podLogs(ctx, system))
			}
		}()
		setAnnotation(ctx, ns, "true")

		service := fmt.Sprintf("shop-service-nmap-port-%d", port)
		var scheduled []executionv1.ScheduledScan
		eventually(ctx, "two ScheduledScans", func(ctx context.Context) (bool, error) {
			scheduled = scheduledScans(ctx, ns)
			return len(scheduled) == 2, nil
		})
		image := scheduled[slices.IndexFunc(scheduled, func(s executionv1.ScheduledScan) bool { return s.Name != service })].Name
		Expect(image).To(HavePrefix("parser-test-scan-at-"), "the ScheduledScan of the image is called %s", image)
		for _, name := range []string{service, image} {
			s := settled(ctx, runOf(ctx, ns, name))
			Expect(s.Status.State).To(Equal(executionv1.ScanStateDone), "the Scan of %s ended %s: %s", name, s.Status.State, s.Status.ErrorDescription)
			if name == service {
				// The name has what nmap calls the port, which is drawn.
				wantLines(keep(findings(ctx, s), "Open Port"), []string{strconv.Itoa(port)}, "port")
				continue
			}
			if want := registry + "/parser@sha256:"; len(s.Spec.Env) != 1 || !strings.HasPrefix(s.Spec.Env[0].Value, want) {
				Fail(fmt.Sprintf("the environment of the image's Scan is %v, want IMAGE=%s…", s.Spec.Env, want))
			}
		}
		if all := scansOf(ctx, ns); len(all) != 2 {
			Fail(fmt.Sprintf("there are %d Scans, want one for each target", len(all)))
		}

		setAnnotation(ctx, ns, "false")
		eventually(ctx, "the ScheduledScans to go", func(ctx context.Context) (bool, error) { return len(scheduledScans(ctx, ns)) == 0, nil })
		for line := range strings.Lines(podLogs(ctx, system)) {
			if lower := strings.ToLower(line); strings.Contains(lower, "forbidden") || strings.Contains(lower, "panic") || strings.Contains(lower, `"level":"error"`) {
				Fail(fmt.Sprintf("the discovery logged: %s", line))
			}
		}
	})
})

// discover installs the chart with the chart's configuration, adapted to scanners that
// run here.
func discover(ctx context.Context, system string) {
	GinkgoHelper()
	free, err := ports.Free(2)
	Expect(err).NotTo(HaveOccurred())
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
				// The other pod's image is not an image, but a program of the machine.
				"targetSelector": map[string]any{"matchLabels": map[string]any{"app": "worker"}},
			}},
		},
	}
	release(ctx, install.Release{Chart: "auto-discovery-kubernetes", Namespace: system, Values: map[string]any{"config": config}})
	DeferCleanup(func(ctx SpecContext) {
		Expect(w.helm.Uninstall(ctx, "auto-discovery-kubernetes", system)).To(Succeed())
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
func listener(ctx context.Context) int {
	GinkgoHelper()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

func setAnnotation(ctx context.Context, ns, value string) {
	GinkgoHelper()
	o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, enabled, value))
	Expect(w.admin.Patch(ctx, o, patch)).To(Succeed())
}

func scheduledScans(ctx context.Context, ns string) []executionv1.ScheduledScan {
	GinkgoHelper()
	var list executionv1.ScheduledScanList
	Expect(w.admin.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
	return list.Items
}

func scansOf(ctx context.Context, ns string) []executionv1.Scan {
	GinkgoHelper()
	var list executionv1.ScanList
	Expect(w.admin.List(ctx, &list, client.InNamespace(ns))).To(Succeed())
	return list.Items
}

// runOf waits for the first Scan of a ScheduledScan.
func runOf(ctx context.Context, ns, scheduled string) *executionv1.Scan {
	GinkgoHelper()
	var found *executionv1.Scan
	eventually(ctx, "a Scan of "+scheduled, func(ctx context.Context) (bool, error) {
		for _, s := range scansOf(ctx, ns) {
			if owner := executionv1.ScheduleOf(&s); owner != nil && owner.Name == scheduled {
				found = &s
			}
		}
		return found != nil, nil
	})
	return found
}
