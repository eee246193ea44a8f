// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
)

var _ = Describe("Charts of hooks", Label("charts", "hooks"), func() {
	// Installs the chart of every hook for the whole cluster,
	// to run in one namespace. The binary in its image knows the hook that it asks for.
	Describe("install for the whole cluster, with a hook that the image knows", func() {
		for _, name := range everyChart() {
			if _, scanner := scannerCharts[name]; scanner {
				continue
			}
			It(name, func(ctx SpecContext) {
				known, err := exec.CommandContext(ctx, w.tools.Path("hook"), "list").Output()
				Expect(err).NotTo(HaveOccurred())
				ns := namespace(ctx)
				clusterRelease(ctx, install.Release{Chart: name, Name: ns + "-hook", Namespace: ns})
				var got executionv1.ClusterScanCompletionHook
				Expect(w.admin.Get(ctx, client.ObjectKey{Name: ns + "-hook"}, &got)).To(Succeed())
				Expect(got.Spec.ExecutionNamespace).To(Equal(ns), "it runs in namespace %q, want %q", got.Spec.ExecutionNamespace, ns)
				for _, e := range got.Spec.Env {
					if e.Name == "HOOK" && e.Value == name && strings.Contains(string(known), name) {
						return
					}
				}
				Fail(fmt.Sprintf("its env is %v, want HOOK=%s, one of:\n%s", envNames(got.Spec.Env), name, known))
			})
		}
	})
})

func envNames(env []corev1.EnvVar) []string {
	var out []string
	for _, e := range env {
		out = append(out, e.Name+"="+e.Value)
	}
	return out
}
