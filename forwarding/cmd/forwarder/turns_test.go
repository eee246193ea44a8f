// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
)

// TestNamespacesAreServedInTurn: many Scans of one namespace wait for a sink that does not answer, then one of another namespace does,
// too. The namespace that came last has its turn when the sink takes records, however many Scans of the other one have ended before.
func TestNamespacesAreServedInTurn(t *testing.T) {
	release, many, few := namespace(t), namespace(t), namespace(t)
	o := newOperator(t, release)
	setting(t, "127.0.0.1:1")
	var all []*executionv1.Scan
	for i := range 6 {
		all = append(all, finished(t, o, many, fmt.Sprint("many-", i), 3))
	}
	start(t, release, o, "--workers", "1")
	refused := func() {
		for _, scan := range all {
			eventually(t, scan.Name+" says why it waits", func() bool { return forwarded(t, scan).Reason == "ConnectionRefused" })
		}
	}
	refused()
	one := finished(t, o, few, "one", 3)
	all = append(all, one)
	refused()
	far := receivertest.Start(t, receivertest.Options{})
	setting(t, far.Address)
	for _, scan := range all {
		eventually(t, scan.Name+" is forwarded", func() bool { return forwarded(t, scan).Status == metav1.ConditionTrue })
	}
	var order []string
	must(t, far.Store.Records(0, far.Store.LastNumber(), func(a store.Arrival) error {
		if a.Record.GetClosing() != nil {
			order = append(order, a.Stream.GetName())
		}
		return nil
	}))
	if at := slices.Index(order, one.Name); at < 0 || at > 1 || len(order) != len(all) {
		t.Errorf("%v: the other namespace must have its turn after one Scan of the first", order)
	}
}
