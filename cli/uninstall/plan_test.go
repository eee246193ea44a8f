// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

func at(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// full is an installation that is in use.
func full() Inventory {
	return Inventory{
		Schedules: []types.NamespacedName{at("blue", "nightly")},
		Scans:     []Scan{{at("blue", "nmap"), true, nil}, {at("green", "trivy"), false, nil}},
		Releases: []Release{
			{at("scanyard-system", "scanyard"), "scanyard"},
			{at("scanyard-system", "reports"), "reports"},
			{at("blue", "nmap"), "nmap"},
			{at("scanyard-system", "discovery"), "auto-discovery-kubernetes"},
		},
		Operator: true, Works: true,
		Accounts: []types.NamespacedName{at("blue", "lurker"), at("green", "lurker")},
		CRDs:     []CRD{{"scans.execution.securecodebox.io", 0}, {"scansettings.settings.scanyard.io", 2}},
		Leftovers: []Leftover{
			{NamespacedName: at("scanyard-system", "e341d981.securecodebox.io"), Kind: "Lease", Holds: "which replica of the operator works"},
			{NamespacedName: at("scanyard-system", "scanyard-cluster-id"), Kind: "ConfigMap", Holds: "the ID", Kept: "a later installation takes it up"},
		},
		Boards:  []types.NamespacedName{at("blue", "mine")},
		Volumes: []Volume{{at("scanyard-system", "data-scanyard-minio-0"), "results of scans"}, {at("scanyard-system", "mine"), ""}},
	}
}

func TestPlan(t *testing.T) {
	unheld := func(i *Inventory) { i.Scans = i.Scans[1:] }
	noSources := func(i *Inventory) { i.Schedules, i.Releases = nil, i.Releases[:3] }
	noScans := func(i *Inventory) { noSources(i); i.Scans = nil }
	noCharts := func(i *Inventory) { noScans(i); i.Releases, i.Operator, i.Works = nil, false, false }
	for name, tc := range map[string]struct {
		reason string
		change func(*Inventory)
		o      Options
		// want are the states of sources, scans, releases, what programs made, volumes and CRDs.
		want string
		says string
	}{
		"Full":           {"discovery would make schedules anew", func(*Inventory) {}, Options{Results: ResultsKeep}, "by hand, later, later, later, stays, stays", "helm -n scanyard-system uninstall discovery"},
		"Schedules":      {"schedules start scans", func(i *Inventory) { i.Releases = i.Releases[:3] }, Options{Results: ResultsKeep}, "ready, later, later, later, stays, stays", "1 schedule: deleted (1 in blue)"},
		"ResultsUnsaid":  {"results are never deleted without being told", noSources, Options{}, "done, to decide, later, later, stays, stays", "--results=keep or --results=delete"},
		"ResultsKept":    {"scans go first", noSources, Options{Results: ResultsKeep}, "done, ready, later, later, stays, stays", "their results stay in the bucket"},
		"ResultsDeleted": {"as told", noSources, Options{Results: ResultsDelete}, "done, ready, later, later, stays, stays", "their results in the bucket are deleted"},
		"NoOperator": {
			"finalizers would stay for ever", func(i *Inventory) { noSources(i); i.Works = false },
			Options{Results: ResultsKeep},
			"done, to decide, later, later, stays, stays", "the finalizers of 1 scan stay: install it again, or say --without-operator",
		},
		"WithoutOperator": {
			"as told", func(i *Inventory) { noSources(i); i.Works = false },
			Options{Results: ResultsKeep, WithoutOperator: true},
			"done, ready, later, later, stays, stays", "the finalizers of 1 scan are taken off",
		},
		"WithoutOperatorDelete": {
			"nobody could delete results", func(i *Inventory) { noSources(i); i.Works = false },
			Options{Results: ResultsDelete, WithoutOperator: true},
			"done, to decide, later, later, stays, stays", "no operator runs that could delete results",
		},
		"NotHeld": {
			"a scan without a finalizer just goes", func(i *Inventory) { noSources(i); unheld(i); i.Works = false },
			Options{Results: ResultsKeep},
			"done, ready, later, later, stays, stays", "1 scan: deleted (1 in green)",
		},
		"FinalizerOfOthers": {
			"what others wait for is theirs", func(i *Inventory) {
				noSources(i)
				i.Works, i.Scans[1].Others = false, []string{"backup.example.com/copy"}
			},
			Options{Results: ResultsKeep, WithoutOperator: true},
			"done, ready, later, later, stays, stays", "1 scan with finalizers of others, which only those take off: backup.example.com/copy",
		},
		"Charts":   {"Helm's are Helm's", noScans, Options{}, "done, done, by hand, later, stays, stays", "helm -n blue uninstall nmap"},
		"NoHelm":   {"an operator by other means", func(i *Inventory) { noScans(i); i.Releases = nil }, Options{}, "done, done, by hand, later, stays, stays", "remove its Deployment"},
		"Accounts": {"an operator would make them anew", noCharts, Options{}, "done, done, done, ready, stays, stays", "2 ServiceAccounts, each with its Role and RoleBinding (1 in blue, 1 in green)"},
		"CRDs": {
			"what people have written goes with them", func(i *Inventory) { noCharts(i); i.Accounts, i.Leftovers = nil, nil },
			Options{CRDs: true},
			"done, done, done, done, stays, ready",
			"scansettings.settings.scanyard.io, with 2 objects",
		},
		"CRDsStay": {"nobody asked", func(i *Inventory) { noCharts(i); i.Accounts, i.Leftovers = nil, nil }, Options{}, "done, done, done, done, stays, stays", "--crds removes them"},
		"Volumes":  {"data is left alone", func(*Inventory) {}, Options{}, "by hand, later, later, later, stays, stays", "volume claim data-scanyard-minio-0 in namespace scanyard-system: results of scans"},
		"VolumesAsked": {
			"as told", func(i *Inventory) { noCharts(i); i.Accounts, i.Leftovers = nil, nil },
			Options{Volumes: true},
			"done, done, done, done, ready, stays", "volume claim data-scanyard-minio-0",
		},
		"VolumesOfOthers": {
			"nobody knows what is on them", func(i *Inventory) { noCharts(i); i.Volumes = i.Volumes[1:] },
			Options{Volumes: true},
			"done, done, done, ready, done, stays", "volume claim mine in namespace scanyard-system, which is not known here",
		},
		"Leftovers": {
			"nobody needs them without the programs", func(i *Inventory) { noCharts(i); i.Accounts = nil },
			Options{},
			"done, done, done, ready, stays, stays", "Lease e341d981.securecodebox.io in namespace scanyard-system: which replica of the operator works",
		},
		"Kept": {
			"the next installation needs it", func(i *Inventory) { noCharts(i); i.Accounts, i.Leftovers = nil, i.Leftovers[1:] },
			Options{},
			"done, done, done, done, stays, stays", "ConfigMap scanyard-cluster-id in namespace scanyard-system: the ID; a later installation takes it up",
		},
		"Boards":  {"people have made them", noCharts, Options{}, "done, done, done, ready, stays, stays", "1 board of the console, which people have made (1 in blue)"},
		"Nothing": {"a cluster without it", func(i *Inventory) { *i = Inventory{} }, Options{}, "done, done, done, done, done, done", "results in the bucket"},
	} {
		t.Run(name, func(t *testing.T) {
			i := full()
			tc.change(&i)
			var states, said []string
			for _, s := range Plan(i, tc.o) {
				if s.Key != stepRest {
					states = append(states, string(s.State))
				}
				said = append(append(said, s.Says...), s.Type...)
			}
			if diff := cmp.Diff(tc.want, strings.Join(states, ", ")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if all := strings.Join(said, "\n"); !strings.Contains(all, tc.says) {
				t.Errorf("%s: does not say %q:\n%s", tc.reason, tc.says, all)
			}
		})
	}
}

func TestOfOthers(t *testing.T) {
	all := []string{executionv1.FinalizerStorage, "foregroundDeletion", executionv1.FinalizerDelivery, executionv1.FinalizerStorageLegacy, "backup.example.com/copy"}
	if diff := cmp.Diff([]string{"foregroundDeletion", "backup.example.com/copy"}, ofOthers(all)); diff != "" {
		t.Error(diff)
	}
}

func TestOnVolume(t *testing.T) {
	pods := func(chart, component string) map[string]string {
		return map[string]string{labelName: chart, labelComponent: component, "app.kubernetes.io/instance": "mine"}
	}
	helm := func(chart string) map[string]string {
		return map[string]string{labelName: chart, "helm.sh/chart": chart + "-0.9.0", labelManagedBy: "Helm"}
	}
	for name, tc := range map[string]struct {
		reason, claim string
		labels        map[string]string
		want          string
	}{
		"Store":    {"of the bundled store", "data-scanyard-minio-0", pods("scanyard", "minio"), "results of scans, in the bundled store"},
		"Queue":    {"of the exporter's StatefulSet", "queue-forwarding-exporter-0", pods("forwarding", "exporter"), "records that an exporter has yet to send"},
		"Receiver": {"Helm keeps it", "forwarding-receiver", helm("forwarding"), "what the receiver has received"},
		"Cache":    {"of a worker's StatefulSet", "cache-registry-worker-1", pods("registry", "worker"), "vulnerability databases and layers, which a worker loads again"},
		"Reports":  {"Helm keeps it", "reports", helm("reports"), "the reports"},
		"Backup":   {"beside them", "reports-backup", helm("reports"), "backups of the reports"},
		"Another":  {"another chart may be called reports", "reports", map[string]string{labelName: "reports"}, ""},
		"Registry": {"another registry", "registry-data", map[string]string{labelName: "registry", labelComponent: "worker"}, ""},
		"Bare":     {"of nobody", "data-scanyard-minio-0", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: tc.claim, Labels: tc.labels}}
			if diff := cmp.Diff(tc.want, onVolume(claim)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestIsHeld(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	lease := func(holder string, ago time.Duration) *coordinationv1.LeaseSpec {
		return &coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: new(metav1.NewMicroTime(now.Add(-ago))), LeaseDurationSeconds: new(int32(15))}
	}
	for name, tc := range map[string]struct {
		reason string
		lease  *coordinationv1.LeaseSpec
		want   bool
	}{
		"Held":   {"renewed a moment ago", lease("operator-1", 2*time.Second), true},
		"Killed": {"renewed no more", lease("operator-1", time.Minute), false},
		"Ended":  {"given back at the end", lease("", 2*time.Second), false},
		"Bare":   {"nobody has it", &coordinationv1.LeaseSpec{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := isHeld(tc.lease, now); got != tc.want {
				t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
}

// TestOperatorLast: what it has to clean up goes before the operator.
func TestOperatorLast(t *testing.T) {
	got := commands(append(full().Releases, Release{at("z", "zap"), "zap-automation-framework"}, Release{at("scanyard-system", "forwarding"), "forwarding"}), func(chart string) bool {
		return !startsScans(chart)
	})
	want := []string{
		"helm -n blue uninstall nmap", "helm -n z uninstall zap", "helm -n scanyard-system uninstall forwarding",
		"helm -n scanyard-system uninstall reports", "helm -n scanyard-system uninstall scanyard",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
