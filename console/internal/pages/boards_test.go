// SPDX-License-Identifier: Apache-2.0

package pages_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanyard/scanyard/console/internal/consoletest"
)

func boardMap(namespace, name, reach, filters string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"scanyard.io/board": reach}},
		Data:       map[string]string{"title": "Board " + name, "filters": filters},
	}
}

func TestOwnBoards(t *testing.T) {
	w := consoletest.Full(t).Enter()
	w.Rows = consoletest.Rows(500)
	has(t, w.Get("/boards"), "You have no boards of your own.", "Nobody has shared a board")
	const list = "/findings?severity=high&ns=team-blue"
	if a := w.Post(list, "/boards", "board", "Monday morning", "title", "High", "address", list+"&after=x"); a.Path != "/myboards/Monday%20morning" {
		t.Fatalf("keeping a filter leads to %s:\n%s", a.Path, a.Body)
	}
	w.Post("/boards", "/boards", "board", "Monday morning", "title", "Failed", "address", "/scans?state=errored")
	w.Post("/boards", "/boards", "board", "Monday morning", "title", "Who", "address", "/teams?only=new")
	a := w.Get("/myboards/Monday%20morning")
	has(t, a, `href="/findings?ns=team-blue&amp;severity=high"`, "high</span>", "nightly-2", "Errored", `href="/teams?only=new">Open</a>`, "name: monday-morning")
	lacks(t, a, "after=", "medium</span>")
	a = w.Post("/boards", "/myboards/Monday%20morning/share", "namespace", "platform")
	if a.Path != "/boards/platform/monday-morning" {
		t.Fatalf("sharing leads to %s", a.Path)
	}
	has(t, a, "Who", "Failed")
	if a := w.Post("/boards", "/myboards/Monday%20morning/share", "namespace", "platform"); a.Code != http.StatusConflict {
		t.Errorf("sharing twice answers %d", a.Code)
	}
	w.Post("/boards", "/myboards/Monday%20morning/remove", "filter", "1")
	lacks(t, w.Get("/myboards/Monday%20morning"), "nightly-2")
	if a := w.Post("/boards", "/myboards/Monday%20morning/remove"); a.Path != "/boards" || !strings.Contains(a.Body, "You have no boards of your own.") {
		t.Errorf("deleting leads to %s", a.Path)
	}
	if a := w.Get("/myboards/Monday%20morning"); a.Code != http.StatusNotFound {
		t.Errorf("a board that is gone answers %d", a.Code)
	}
}

func TestBoardsTakeOnlyListsOfTheConsole(t *testing.T) {
	w := consoletest.Full(t).Enter()
	for _, address := range []string{"https://evil.example/findings", "//evil.example/findings", "javascript:alert(1)", "/logout", "/scans/team-blue/nmap-shop", ""} {
		if a := w.Post("/boards", "/boards", "board", "x", "title", "x", "address", address); a.Code != http.StatusBadRequest {
			t.Errorf("%q answers %d", address, a.Code)
		}
	}
	for _, name := range []string{"", "a/b", strings.Repeat("x", 61)} {
		if a := w.Post("/boards", "/boards", "board", name, "title", "x", "address", "/findings"); a.Code != http.StatusBadRequest {
			t.Errorf("a board called %q answers %d", name, a.Code)
		}
	}
}

func TestSharedBoards(t *testing.T) {
	objects := append(consoletest.Teams(),
		boardMap("team-blue", "ours", "team", "# what we look at\nHigh | /findings?severity=high\nNightly | /schedules\nAccepted | /exceptions\nBad | https://evil.example\n"),
		boardMap("platform", "all", "cluster", "Critical | /findings?severity=critical"),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team-blue", Name: "other"}})
	w := consoletest.New(t, objects...).Enter()
	w.Rows = consoletest.Rows(500)
	has(t, w.Get("/boards?ns=team-blue"), "Board ours", "Board all", "for the cluster")
	ours := w.Get("/boards/team-blue/ours")
	has(t, ours, `href="/findings?ns=team-blue&amp;severity=high"`, "Bad | https://evil.example", "an address must be that of a list of the console", `href="/schedules/team-blue/nightly"`, "accepted-tls", "Ends soon")
	lacks(t, ours, `href="https://evil`, "Share")
	has(t, w.Get("/boards/platform/all"), `href="/findings?severity=critical"`)
	for _, path := range []string{"/boards/team-blue/other", "/boards/team-blue/none"} {
		if a := w.Get(path); a.Code != http.StatusNotFound {
			t.Errorf("%s answers %d", path, a.Code)
		}
	}
	w.Denied = []string{"list configmaps"}
	has(t, w.Get("/boards?ns=team-red"), "You may not list configmaps in team-red.")
}
