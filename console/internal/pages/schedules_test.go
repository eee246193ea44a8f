// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/http"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/consoletest"
)

func scheduled(t *testing.T, w *consoletest.World, namespace, name string) *executionv1.ScheduledScan {
	t.Helper()
	s := &executionv1.ScheduledScan{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchedules(t *testing.T) {
	w := consoletest.Full(t).Enter()
	has(t, w.Get("/schedules"), "2 schedules: 1 failing, 1 on time, 0 suspended", "There is no ScanType zap in team-red", "every 24h", "The last 3 runs of nightly", "shop.example")
	lacks(t, w.Get("/schedules?state=failing"), ">nightly<")
	lacks(t, w.Get("/schedules?text=WEEK"), ">nightly<")
	has(t, w.Get("/schedules?state=suspended"), "No schedules match.")
	has(t, w.Get("/schedules?ns=platform"), "Nothing is scheduled in platform.")
	w.Denied = []string{"list scheduledscans"}
	has(t, w.Get("/schedules"), "You may not list scheduledscans.execution.securecodebox.io in all namespaces.")
}

func TestOneSchedule(t *testing.T) {
	w := consoletest.Full(t).Enter()
	const page = "/schedules/team-blue/nightly"
	has(t, w.Get(page), "nightly-1", "nightly-3", "no route to host", "Run now", "every 24h", "in 19h")
	w.Post(page, page+"/trigger")
	if at := scheduled(t, w, "team-blue", "nightly").Status.LastScheduleTime; at == nil || at.UTC().Year() != 2000 {
		t.Errorf("the run is asked for by %v", at)
	}
	w.Post(page, page+"/suspend", "suspend", "true")
	if !scheduled(t, w, "team-blue", "nightly").Suspended() {
		t.Error("the schedule is not suspended")
	}
	has(t, w.Get(page), "Suspended", "Resume")
	w.Post(page, page+"/suspend", "suspend", "false")
	if scheduled(t, w, "team-blue", "nightly").Suspended() {
		t.Error("the schedule is not resumed")
	}
	if a := w.Get("/schedules/team-blue/none"); a.Code != http.StatusNotFound {
		t.Errorf("a schedule that is not there answers %d", a.Code)
	}
	w.Denied = []string{"patch scheduledscans team-red", "patch scheduledscans/status team-red"}
	has(t, w.Get("/schedules/team-red/weekly"), "You may not patch scheduledscans.execution.securecodebox.io in team-red.", "You may not patch scheduledscans/status", "disabled")
	w.Denied = []string{"patch scheduledscans"}
	if a := w.Post(page, page+"/suspend", "suspend", "true"); a.Code != http.StatusForbidden {
		t.Errorf("suspending without the right answers %d", a.Code)
	}
}
