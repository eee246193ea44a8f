// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		Volumes:  []types.NamespacedName{at("scanyard-system", "minio")},
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
		// want are the states of sources, scans, releases, accounts and CRDs.
		want string
		says string
	}{
		"Full":           {"discovery would make schedules anew", func(*Inventory) {}, Options{Results: ResultsKeep}, "by hand, later, later, later, stays", "helm -n scanyard-system uninstall discovery"},
		"Schedules":      {"schedules start scans", func(i *Inventory) { i.Releases = i.Releases[:3] }, Options{Results: ResultsKeep}, "ready, later, later, later, stays", "1 schedule: deleted (1 in blue)"},
		"ResultsUnsaid":  {"results are never deleted without being told", noSources, Options{}, "done, to decide, later, later, stays", "--results=keep or --results=delete"},
		"ResultsKept":    {"scans go first", noSources, Options{Results: ResultsKeep}, "done, ready, later, later, stays", "their results stay in the bucket"},
		"ResultsDeleted": {"as told", noSources, Options{Results: ResultsDelete}, "done, ready, later, later, stays", "their results in the bucket are deleted"},
		"NoOperator": {
			"finalizers would stay for ever", func(i *Inventory) { noSources(i); i.Works = false },
			Options{Results: ResultsKeep},
			"done, to decide, later, later, stays", "the finalizers of 1 scan stay: install it again, or say --without-operator",
		},
		"WithoutOperator": {
			"as told", func(i *Inventory) { noSources(i); i.Works = false },
			Options{Results: ResultsKeep, WithoutOperator: true},
			"done, ready, later, later, stays", "the finalizers of 1 scan are taken off",
		},
		"WithoutOperatorDelete": {
			"nobody could delete results", func(i *Inventory) { noSources(i); i.Works = false },
			Options{Results: ResultsDelete, WithoutOperator: true},
			"done, to decide, later, later, stays", "no operator runs that could delete results",
		},
		"NotHeld": {
			"a scan without a finalizer just goes", func(i *Inventory) { noSources(i); unheld(i); i.Works = false },
			Options{Results: ResultsKeep},
			"done, ready, later, later, stays", "1 scan: deleted (1 in green)",
		},
		"FinalizerOfOthers": {
			"what others wait for is theirs", func(i *Inventory) {
				noSources(i)
				i.Works, i.Scans[1].Others = false, []string{"backup.example.com/copy"}
			},
			Options{Results: ResultsKeep, WithoutOperator: true},
			"done, ready, later, later, stays", "1 scan with finalizers of others, which only those take off: backup.example.com/copy",
		},
		"Charts":   {"Helm's are Helm's", noScans, Options{}, "done, done, by hand, later, stays", "helm -n blue uninstall nmap"},
		"NoHelm":   {"an operator by other means", func(i *Inventory) { noScans(i); i.Releases = nil }, Options{}, "done, done, by hand, later, stays", "remove its Deployment"},
		"Accounts": {"an operator would make them anew", noCharts, Options{}, "done, done, done, ready, stays", "2 ServiceAccounts, each with its Role and RoleBinding (1 in blue, 1 in green)"},
		"CRDs": {
			"what people have written goes with them", func(i *Inventory) { noCharts(i); i.Accounts = nil },
			Options{CRDs: true},
			"done, done, done, done, ready",
			"scansettings.settings.scanyard.io, with 2 objects",
		},
		"CRDsStay": {"nobody asked", func(i *Inventory) { noCharts(i); i.Accounts = nil }, Options{}, "done, done, done, done, stays", "--crds removes them"},
		"Volumes":  {"data is left alone", func(*Inventory) {}, Options{}, "by hand, later, later, later, stays", "volume claim minio in namespace scanyard-system"},
		"Nothing":  {"a cluster without it", func(i *Inventory) { *i = Inventory{} }, Options{}, "done, done, done, done, done", "results in the bucket"},
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
