// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/tests/follow"
	"github.com/scanyard/scanyard/tests/install"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
)

// The operator hands its decisions to the exporter that the chart puts beside it, which delivers them to a receiver beside the cluster.
var _ = Describe("Decisions of the operator", Label("forwarding"), Ordered, func() {
	var far receiver

	BeforeAll(func(ctx SpecContext) {
		suite := w
		w = &world{tools: suite.tools, hooks: suite.hooks}
		DeferCleanup(func() { w = suite })
		dir, err := os.MkdirTemp("", "scanyard-e2e-decisions-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		w.place = place{Dir: dir}
		cluster, err := w.startCluster(ctx, dir)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(cluster.Stop)
		Expect(w.connect(cluster)).To(Succeed())
		w.helm, err = install.NewHelm(ctx, w.tools.Programs, cluster.Kubeconfig, w.place.helm())
		Expect(err).NotTo(HaveOccurred())
		free, err := ports.Free(3)
		Expect(err).NotTo(HaveOccurred())
		far = receiver{address: fmt.Sprintf("127.0.0.1:%d", free[0]), http: fmt.Sprintf("127.0.0.1:%d", free[1])}
		program := exec.Command(w.tools.Path("receiver"), "run", "--store", filepath.Join(dir, "far"), "--listen", far.address, "--http-listen", far.http, "--insecure")
		program.Stderr = GinkgoWriter
		Expect(program.Start()).To(Succeed())
		DeferCleanup(func() {
			Expect(program.Process.Signal(os.Interrupt)).To(Succeed())
			Expect(program.Wait()).To(Succeed())
		})
		w.op, err = w.helm.InstallOperator(ctx, w.config, install.OperatorOptions{Store: cluster.ObjectStore, Values: map[string]any{
			"decisionExport": map[string]any{
				"enabled": true, "port": free[2], "clusterID": "0c9a7d3e-3f0e-4a54-9a55-8d1f3f5f7a10", "sinks": []string{"hub=grpc://" + far.address + ",insecure=true"},
			},
		}})
		Expect(err).NotTo(HaveOccurred())
		Expect(w.op.Ready(ctx, 2*time.Minute)).To(Succeed())
		following, stop := context.WithCancel(context.Background())
		DeferCleanup(stop)
		w.scans = follow.Start[*executionv1.Scan](following, w.admin, &executionv1.ScanList{}, nil)
		w.jobs = follow.Start(following, w.admin, &batchv1.JobList{}, w.ran.Add, client.HasLabels{executionv1.LabelJobType})
	})

	// arrives waits for a record at the far end, by event type and the name of what was decided about.
	arrives := func(ctx context.Context, eventType, name string) map[string]any {
		GinkgoHelper()
		var found map[string]any
		eventually(ctx, "the record "+eventType+" of "+name, func(ctx context.Context) (bool, error) {
			text, err := fetch(ctx, "http://"+far.http+"/v1/records")
			if err != nil {
				return false, err
			}
			for line := range strings.Lines(string(text)) {
				var event struct {
					Data map[string]any `json:"data"`
				}
				if err := json.Unmarshal([]byte(line), &event); err != nil {
					return false, err
				}
				if event.Data["eventType"] == eventType && event.Data["resourceName"] == name {
					found = event.Data
				}
			}
			return found != nil, nil
		})
		return found
	}

	It("arrive at a far end, by the exporter beside it", func(ctx SpecContext) {
		ns := namespace(ctx)
		create(ctx, shellType(ns, "test-txt"), parser(ns, "test-txt"))

		By("cancelling a Scan")
		cancelled := shellScan(ns, "cancelled", "sleep 600")
		create(ctx, cancelled)
		until(ctx, cancelled, "run", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateScanning })
		setCancel(ctx, cancelled, true, "somebody")
		Expect(arrives(ctx, "scan_cancelled", "cancelled")["details"]).To(And(HaveKeyWithValue("by", "somebody"), HaveKeyWithValue("scanType", "sh")))

		By("refusing a setting")
		wrong := &settingsv1alpha2.ScanSetting{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: settingsv1alpha2.Name},
			Spec:       settingsv1alpha2.ScanSettingSpec{JobPatches: []settingsv1alpha2.JobPatch{{Patch: "spec: {template: {spec: {hostNetwork: true}}}"}}},
		}
		eventually(ctx, "the setting to be refused", func(ctx context.Context) (bool, error) {
			err := w.admin.Create(ctx, wrong.DeepCopy(), client.DryRunAll)
			return err != nil, nil
		})
		refused := arrives(ctx, "webhook_violation", settingsv1alpha2.Name)
		Expect(refused).To(HaveKeyWithValue("resourceKind", "ScanSetting"))
		Expect(refused["details"]).To(HaveKeyWithValue("dryRun", true))
		Expect(fmt.Sprint(refused["input"])).NotTo(ContainSubstring("hostNetwork"))

		By("refusing a Scan, and letting another wait")
		createGlobal(ctx, &settingsv1alpha2.ClusterScanSetting{
			ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name},
			Spec:       settingsv1alpha2.ClusterScanSettingSpec{Limits: &settingsv1alpha2.ClusterLimits{MaxRunning: new(int32(1))}},
		})
		missing := shellScan(ns, "invalid", quick)
		missing.Spec.HookSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Sometimes"}}}
		create(ctx, missing)
		Expect(arrives(ctx, "scan_refused", "invalid")["details"]).To(HaveKeyWithValue("reason", executionv1.ReasonInvalidSpec))
		// The first Scan ends only when the second has been told to wait: however slow the machine is.
		first, second := shellScan(ns, "first", "sleep 600"), shellScan(ns, "second", quick)
		create(ctx, first)
		until(ctx, first, "run", func(s *executionv1.Scan) bool { return s.Status.State == executionv1.ScanStateScanning })
		create(ctx, second)
		until(ctx, second, "wait", func(s *executionv1.Scan) bool {
			admitted := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionAdmitted)
			return admitted != nil && admitted.Reason == executionv1.ReasonClusterLimit
		})
		setCancel(ctx, first, true, "somebody")
		wantDone(ctx, second)
		Expect(arrives(ctx, "scan_waited", "second")["details"]).To(HaveKeyWithValue("limit", executionv1.ReasonClusterLimit))
		text, err := fetch(ctx, "http://"+w.op.Metrics+"/metrics")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring(`scanyard_decisions_dropped_total{reason="buffer"} 0`))
	})
})
