// SPDX-License-Identifier: Apache-2.0

package scan_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/scan"
)

// health says what a test says.
type health struct {
	mu  sync.Mutex
	err error
	f   []func()
}

func (h *health) Outage() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func (h *health) OnChange(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.f = append(h.f, f)
}

func (h *health) set(err error) {
	h.mu.Lock()
	h.err = err
	callbacks := h.f
	h.mu.Unlock()
	for _, f := range callbacks {
		f()
	}
}

// TestStorageOutageIsShownOnRunningScans, whose pods wait for it without a word. How soon the operator
// sees it is what TestMonitorTellsOutages of package store shows.
func TestStorageOutageIsShownOnRunningScans(t *testing.T) {
	h := &health{}
	w := newWorld(t, queued(atMost(1)), func(o *scan.Options) { o.Health = h })
	w.Create(w.scanType(), w.parseDefinition(), w.scan("s"))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonRunning))
	w.Create(w.scan("queued"))
	w.Eventually(w.ready("queued")).Should(Equal(executionv1.ReasonQueued))

	h.set(errors.New("dial tcp 127.0.0.1:9000: connection refused"))
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonStorageUnavailable))
	s := w.get("s")
	w.Expect(s.Status.State).To(Equal(executionv1.ScanStateScanning))
	w.Expect(w.message("s", executionv1.ConditionScanned)).To(Equal("The scanner is running."))
	w.Expect(w.message("s", executionv1.ConditionReady)).To(ContainSubstring("connection refused"))
	w.Expect(w.ready("queued")()).To(Equal(executionv1.ReasonQueued))

	// Another error of the same outage changes nothing, and neither does another check.
	h.set(errors.New("read tcp 127.0.0.1:43210: connection reset by peer"))
	w.touch("s")
	touched := w.get("s").ResourceVersion
	w.Consistently(func() string { return w.get("s").ResourceVersion }, "1s").Should(Equal(touched))
	w.Eventually(func() string { return w.events("s") }).Should(ContainSubstring("Object storage cannot be used"))

	h.set(nil)
	w.Eventually(w.ready("s")).Should(Equal(executionv1.ReasonRunning))
	w.finish(w.job(executionv1.JobTypeScanner), batchv1.JobComplete, "CompletionsReached")
	w.Eventually(w.state("s")).Should(Equal(executionv1.ScanStateParsing))
	var list eventsv1.EventList
	w.Expect(w.Client.List(t.Context(), &list, client.InNamespace(w.Namespace))).To(Succeed())
	calls := 0
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Name == "s" && strings.Contains(e.Note, "Object storage") {
			calls++
			w.Expect(e.Reason).To(Equal(executionv1.ReasonStorageUnavailable))
		}
	}
	w.Expect(calls).To(Equal(1))
	w.Expect(w.get("s").Status.Conditions).To(ContainElement(And(HaveField("Type", executionv1.ConditionReady), HaveField("Status", metav1.ConditionUnknown))))
}
