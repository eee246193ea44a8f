// SPDX-License-Identifier: Apache-2.0

package life

import (
	"strings"
	"testing"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/testobjects"
)

// TestDecideReportsOutages on Scans that have begun, once each.
func TestDecideReportsOutages(t *testing.T) {
	cases := map[string]struct {
		reason string
		state  executionv1.ScanState
		change func(*executionv1.Scan)
		told   bool
	}{
		"New":       {reason: "it waits for nothing of storage"},
		"Scanning":  {reason: "its lurker may", state: executionv1.ScanStateScanning, told: true},
		"Hooks":     {reason: "its hooks may", state: executionv1.ScanStateHookProcessing, told: true},
		"Suspended": {reason: "it waits for somebody", state: executionv1.ScanStateScanning, change: testobjects.Suspended},
		"Deleted":   {reason: "it goes", state: executionv1.ScanStateScanning, change: testobjects.Deleted},
		"Done":      {reason: "it has ended", state: executionv1.ScanStateDone},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := testobjects.Scan("s", testobjects.WithState(tc.state))
			if tc.change != nil {
				tc.change(s)
			}
			o := observationOf(s, func(o *Observation) { o.Outage = "connection refused" })
			d := Decision{Status: NewStatus(o).result()}
			d.ReportOutage(o)
			ready := FindCondition(d.Status.Conditions, executionv1.ConditionReady)
			if told := ready != nil && ready.Reason == executionv1.ReasonStorageUnavailable; told != tc.told || told != (d.Event != nil) {
				t.Fatalf("%s: %+v, notice %v", tc.reason, ready, d.Event)
			}
			if !tc.told {
				return
			}
			// The same outage in other words is not news.
			again := observationOf(s, func(o *Observation) { o.Outage = "connection reset by peer" })
			again.Scan.Status = *d.Status
			e := Decision{Status: NewStatus(again).result()}
			e.ReportOutage(again)
			if c := FindCondition(e.Status.Conditions, executionv1.ConditionReady); e.Event != nil || !strings.Contains(c.Message, "connection refused") {
				t.Errorf("told again: %+v, notice %v", c, e.Event)
			}
		})
	}
}
