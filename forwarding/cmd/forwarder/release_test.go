// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	apiresults "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
)

// asked are the requests to remove results, in their order.
type asked struct {
	mutex    sync.Mutex
	requests []apiresults.ReleaseRequest
	// refusal is what the operator says of a Scan, by name.
	refusal map[string]string
}

func (a *asked) answer(t *testing.T) func(apiresults.ReleaseRequest) *apiresults.Refusal {
	t.Helper()
	return func(r apiresults.ReleaseRequest) *apiresults.Refusal {
		a.mutex.Lock()
		defer a.mutex.Unlock()
		a.requests = append(a.requests, r)
		if reason := a.refusal[r.Name]; reason != "" {
			return &apiresults.Refusal{Reason: reason, Message: "by the test"}
		}
		if r.DryRun {
			return nil
		}
		scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
		patch := []byte(`{"metadata":{"annotations":{"` + executionv1.AnnotationReleased + `":"1"}}}`)
		if err := cluster.Client.Patch(t.Context(), scan, client.RawPatch(types.MergePatchType, patch)); err != nil {
			t.Error(err)
		}
		return nil
	}
}

// of are the requests for one Scan.
func (a *asked) of(name string) (found []apiresults.ReleaseRequest) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, r := range a.requests {
		if r.Name == name {
			found = append(found, r)
		}
	}
	return found
}

// stored is what is said of the results of a Scan.
func stored(t *testing.T, scan *executionv1.Scan) string {
	t.Helper()
	must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(scan), scan))
	if c := meta.FindStatusCondition(scan.Status.Conditions, executionv1.ConditionResultsStored); c != nil {
		return string(c.Status) + " " + c.Reason
	}
	return ""
}

const remove = `, "inClusterStorage": {"afterForwarding": "Remove"}`

// TestResultsAreReleased: the operator is asked first whether it would, then to do it, with what was proved; what it refuses is
// kept, and said.
func TestResultsAreReleased(t *testing.T) {
	release, space := namespace(t), namespace(t)
	o := newOperator(t, release)
	a := &asked{refusal: map[string]string{"compared": apiresults.ReasonNeededForComparison}}
	o.release = a.answer(t)
	far := receivertest.Start(t, receivertest.Options{})
	setting(t, far.Address, remove)
	_, address := start(t, release, o, "--storage-switch")
	scan, compared := finished(t, o, space, "goes", 3), finished(t, o, space, "compared", 3)
	eventually(t, "the results are released", func() bool { return len(a.of("goes")) == 2 })
	got := a.of("goes")
	entry := func() executionv1.SinkProgress { forwarded(t, scan); return scan.Status.Forwarding[0] }()
	for i, r := range got {
		if r.DryRun != (i == 0) || r.UID != string(scan.UID) || r.Revision != 1 || r.Records != 4 || r.Chain != entry.Chain || r.ETag != string(scan.UID) ||
			!slices.Equal(r.Sinks, []string{"cluster/default"}) {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	eventually(t, "the newest run is kept", func() bool { return stored(t, compared) == "True KeptForComparison" })
	eventually(t, "people are told", func() bool {
		var list eventsv1.EventList
		must(t, cluster.Client.List(t.Context(), &list, client.InNamespace(space)))
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "ResultsRemoved" && e.Regarding.Name == "goes" && strings.Contains(e.Note, "cluster/default")
		})
	})
	if text := metricsOf(t, address); !strings.Contains(text, "scanyard_forwarding_results_released_total 1\n") {
		t.Error(lines(text, "scanyard_forwarding_results"))
	}
	if r := a.of("compared"); slices.ContainsFunc(r, func(r apiresults.ReleaseRequest) bool { return !r.DryRun }) {
		t.Errorf("what the operator would keep was asked for: %+v", r)
	}
}

// TestResultsAreReleasedWhenTheFarEndIsBack: the forwarder finds the far end away, and nothing is left to be sent when the far end is
// back. The sink is healthy nevertheless, and the results go, although the operator keeps all while the settings call a sink ill.
func TestResultsAreReleasedWhenTheFarEndIsBack(t *testing.T) {
	release, space := namespace(t), namespace(t)
	o := newOperator(t, release)
	a := &asked{}
	answer := a.answer(t)
	o.release = func(r apiresults.ReleaseRequest) *apiresults.Refusal {
		if healthOf(t) == corev1.ConditionFalse {
			return &apiresults.Refusal{Reason: apiresults.ReasonNotHealthy, Message: "not healthy: cluster/default"}
		}
		return answer(r)
	}
	far := receivertest.Start(t, receivertest.Options{})
	setting(t, far.Address)
	first, _ := start(t, release, o, "--storage-switch")
	scan := finished(t, o, space, "goes", 3)
	eventually(t, "the Scan is forwarded", func() bool { return forwarded(t, scan).Status == metav1.ConditionTrue })
	stop(t, first)
	far.Server.Stop()
	setting(t, far.Address, remove)
	start(t, release, o, "--storage-switch")
	eventually(t, "the results are kept", func() bool {
		return stored(t, scan) == "True ForwardingUnhealthy" && healthOf(t) == corev1.ConditionFalse
	})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", far.Address)
	must(t, err)
	receivertest.Start(t, receivertest.Options{Listener: listener, Receiver: receiver.Options{Keeper: far.Store}})
	eventually(t, "the sink is healthy again", func() bool { return healthOf(t) == corev1.ConditionTrue })
	eventually(t, "the results are released", func() bool { return len(a.of("goes")) == 2 })
}

// healthOf is what the setting says of its sink.
func healthOf(t *testing.T) corev1.ConditionStatus {
	t.Helper()
	s := &settingsv1alpha2.ClusterScanSetting{}
	must(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: settingsv1alpha2.Name}, s))
	if len(s.Status.Sinks) != 1 {
		return corev1.ConditionUnknown
	}
	return s.Status.Sinks[0].Healthy
}

// TestNoReleaseWithoutSwitch, and the Scan says what to do.
func TestNoReleaseWithoutSwitch(t *testing.T) {
	release, space := namespace(t), namespace(t)
	o := newOperator(t, release)
	a := &asked{}
	o.release = a.answer(t)
	far := receivertest.Start(t, receivertest.Options{})
	setting(t, far.Address, remove)
	start(t, release, o)
	scan := finished(t, o, space, "stays", 3)
	eventually(t, "the Scan says so", func() bool { return stored(t, scan) == "True StorageSwitchOff" })
	if r := a.of("stays"); len(r) > 0 {
		t.Errorf("asked was %+v", r)
	}
}

// steps is a far end and an operator, of which the test learns each question about a Scan before it is answered.
type steps struct {
	receiver.Keeper

	mutex sync.Mutex
	at    string // where the forwarder is killed
	kill  func()
	begun bool // since then, what is asked is of the storage switch
}

// reached kills the forwarder where the test wants it.
func (s *steps) reached(step string) {
	s.mutex.Lock()
	kill := s.kill
	if !s.begun || s.at != step {
		kill = nil
	}
	if kill != nil {
		s.at = ""
	}
	s.mutex.Unlock()
	if kill != nil {
		kill()
	}
}

func (s *steps) arm(at string, kill func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.at, s.kill, s.begun = at, kill, true
}

// Stream is asked for the proof of what is stored.
func (s *steps) Stream(authority string, id *forwardingv1.StreamId) (*forwardingv1.StreamState, error) {
	s.reached("proof")
	return s.Keeper.Stream(authority, id)
}

// TestKilledAtEachStepOfTheSwitch: a forwarder that is killed while it gives results up begins anew with the first step, unless the operator
// has taken the results already. Nobody is asked to remove what was not proved and agreed upon by the same process.
func TestKilledAtEachStepOfTheSwitch(t *testing.T) {
	release, space := namespace(t), namespace(t)
	o := newOperator(t, release)
	a := &asked{}
	answer := a.answer(t)
	store := receivertest.Start(t, receivertest.Options{}).Store
	s := &steps{Keeper: store}
	far := receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Keeper: s}})
	o.release = func(r apiresults.ReleaseRequest) *apiresults.Refusal {
		step := map[bool]string{true: "ask", false: "release"}[r.DryRun]
		s.reached(step)
		refusal := answer(r)
		s.reached(step + " done")
		return refusal
	}
	for at, before := range map[string]int{"proof": 0, "ask": 1, "ask done": 1, "release": 2, "release done": 2} {
		t.Run(at, func(t *testing.T) {
			setting(t, far.Address)
			name := strings.ReplaceAll(at, " ", "-")
			scan := finished(t, o, space, name, 3)
			first, _ := start(t, release, o, "--storage-switch", "--leader-elect=false")
			eventually(t, "the Scan is forwarded", func() bool { return forwarded(t, scan).Status == metav1.ConditionTrue })
			killed := make(chan struct{})
			s.arm(at, func() {
				if err := first.Process.Kill(); err != nil {
					t.Error(err)
				}
				_ = first.Wait() // it was killed
				close(killed)
			})
			setting(t, far.Address, remove)
			<-killed
			eventually(t, "the operator has dealt with what it was asked", func() bool { return len(a.of(name)) == before })
			must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(scan), scan))
			if given := scan.Annotations[executionv1.AnnotationReleased] != ""; given && !strings.HasPrefix(at, "release") {
				t.Error("the results were given up before the forwarder asked for it")
			}
			start(t, release, o, "--storage-switch", "--leader-elect=false")
			eventually(t, "the results are given up", func() bool {
				must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(scan), scan))
				return scan.Annotations[executionv1.AnnotationReleased] == "1"
			})
			requests := a.of(name)
			if after := requests[before:]; len(after) > 0 && !after[0].DryRun {
				t.Errorf("the second forwarder begins with %+v", after[0])
			}
			for _, r := range requests {
				if r.Records != 4 || len(r.Chain) != 64 || r.UID != string(scan.UID) {
					t.Errorf("asked was %+v", r)
				}
			}
		})
	}
}
