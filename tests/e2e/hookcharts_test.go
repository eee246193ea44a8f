// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/install"
)

// TestHookChartsInstallClusterWide installs the chart of every hook for the whole cluster,
// to run in one namespace. The binary in its image knows the hook that it asks for.
func TestHookChartsInstallClusterWide(t *testing.T) {
	t.Parallel()
	known, err := exec.CommandContext(t.Context(), w.tools.Path("hook"), "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range everyChart(t) {
		if _, scanner := scannerCharts[name]; scanner {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t)
			clusterRelease(t, install.Release{Chart: name, Name: ns + "-hook", Namespace: ns})
			var got executionv1.ClusterScanCompletionHook
			if err := w.admin.Get(t.Context(), client.ObjectKey{Name: ns + "-hook"}, &got); err != nil {
				t.Fatal(err)
			}
			if got.Spec.ExecutionNamespace != ns {
				t.Errorf("it runs in namespace %q, want %q", got.Spec.ExecutionNamespace, ns)
			}
			for _, e := range got.Spec.Env {
				if e.Name == "HOOK" && e.Value == name && strings.Contains(string(known), name) {
					return
				}
			}
			t.Errorf("its env is %v, want HOOK=%s, one of:\n%s", envNames(got.Spec.Env), name, known)
		})
	}
}

func envNames(env []corev1.EnvVar) []string {
	var out []string
	for _, e := range env {
		out = append(out, e.Name+"="+e.Value)
	}
	return out
}
