// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// rendered returns the objects of a kind of what the chart renders.
func rendered[T any](t *testing.T, rendering, kind string) []T {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "charts", "internal", "golden", rendering+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for doc := range bytes.SplitSeq(raw, []byte("\n---\n")) {
		var head struct{ Kind string }
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatal(err)
		}
		if head.Kind != kind {
			continue
		}
		var o T
		if err := yaml.UnmarshalStrict(doc, &o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// TestChartsConfiguration: what the chart writes into the file is what the program reads.
func TestChartsConfiguration(t *testing.T) {
	for _, rendering := range []string{"auto-discovery-cloud-aws", "auto-discovery-cloud-aws-full"} {
		maps := rendered[corev1.ConfigMap](t, rendering, "ConfigMap")
		if len(maps) != 1 {
			t.Fatalf("%d ConfigMaps", len(maps))
		}
		s, err := Load(rendering, []byte(maps[0].Data["auto-discovery-cloud-aws.yaml"]), func(string) string { return "" }, "team")
		if err != nil {
			t.Fatal(err)
		}
		if len(s.templates) != 2 || s.AWS.Region != "eu-central-1" {
			t.Errorf("%s: %+v", rendering, s.Config)
		}
	}
}

// TestChartsRightsSuffice runs a life with the rights that the chart gives and no others.
func TestChartsRightsSuffice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "events")
	const account = "demo-auto-discovery-cloud-aws"
	for _, role := range rendered[rbacv1.Role](t, "auto-discovery-cloud-aws", "Role") {
		role.Namespace = w.namespace
		w.Expect(cluster.Client.Create(t.Context(), &role)).To(Succeed())
	}
	for _, binding := range rendered[rbacv1.RoleBinding](t, "auto-discovery-cloud-aws", "RoleBinding") {
		binding.Namespace, binding.Subjects[0].Namespace = w.namespace, w.namespace
		w.Expect(binding.Subjects[0].Name).To(Equal(account))
		w.Expect(cluster.Client.Create(t.Context(), &binding)).To(Succeed())
	}
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + w.namespace + ":" + account}
	api, err := client.New(config, client.Options{Scheme: cluster.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	w.metrics = NewMetrics(prometheus.NewRegistry())
	live := func() *Runner {
		return NewRunner(Options{
			Settings: w.settings(oneConfig), Client: api, Reader: api, Events: events.NewFakeRecorder(100),
			SQS: w.aws.SQS(), ECS: w.aws.ECS(), Clock: w.clock, Metrics: w.metrics,
		})
	}
	w.run(live())
	w.sent("", taskEvent(1, shop, "RUNNING", runs("1", "RUNNING", juiceImage, digest1)))
	w.sent("", taskEvent(1, shop, "RUNNING", runs("2", "RUNNING", juiceImage, digest1)))
	w.Expect(w.names()).To(ConsistOf(juice))
	w.sent("", taskEvent(2, shop, "STOPPED", runs("1", "STOPPED", juiceImage, ""), runs("2", "STOPPED", juiceImage, "")))
	w.Expect(w.names()).To(BeEmpty())

	for what, err := range map[string]error{
		"read Secrets":         api.List(t.Context(), &corev1.SecretList{}, client.InNamespace(w.namespace)),
		"look elsewhere":       api.List(t.Context(), &executionv1.ScheduledScanList{}, client.InNamespace("default")),
		"read Scans":           api.List(t.Context(), &executionv1.ScanList{}, client.InNamespace(w.namespace)),
		"delete them together": api.DeleteAllOf(t.Context(), &executionv1.ScheduledScan{}, client.InNamespace(w.namespace)),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}
}
