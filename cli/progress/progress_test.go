// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/session"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func parsing(message string) *executionv1.Scan {
	c := func(kind string, status metav1.ConditionStatus, reason, message string, after time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon.Add(after))}
	}
	return &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{Name: "nmap"},
		Status: executionv1.ScanStatus{State: executionv1.ScanStateParsing, StartedAt: new(metav1.NewTime(noon)), Conditions: []metav1.Condition{
			c(executionv1.ConditionReady, metav1.ConditionUnknown, executionv1.ReasonRunning, message, 0),
			c(executionv1.ConditionScanned, metav1.ConditionTrue, executionv1.ReasonCompleted, "The raw result is stored.", 5*time.Second),
			c(executionv1.ConditionParsed, metav1.ConditionUnknown, executionv1.ReasonRunning, message, 5*time.Second),
		}},
	}
}

func plain(_ session.Paint, text string) string { return text }

func TestBlock(t *testing.T) {
	got := block(parsing("The parser is running."), noon.Add(8*time.Second), 40, plain)
	want := []string{
		"nmap  Parsing  8s",
		"  ✓ scanner     5s  The raw result is s…",
		"  ● parser      3s  The parser is runni…",
		"  · hooks",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, line := range got {
		if n := len([]rune(line)); n > 40 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

func TestBlockOfAFreshScan(t *testing.T) {
	got := block(&executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Name: "nmap"}}, noon, 0, plain)
	want := []string{"nmap  Waiting", "  · scanner", "  · parser", "  · hooks", "  It waits for the operator."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func reporter(out *bytes.Buffer, live bool) (*Reporter, *time.Time) {
	now := noon
	s := &session.Session{Program: "scanyard", ConfigFlags: genericclioptions.NewConfigFlags(true), Now: func() time.Time { return now }}
	return New(s, out, live), &now
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	r, now := reporter(&out, false)
	r.Update(parsing("The parser is running."))
	*now = now.Add(3 * time.Second)
	r.Update(parsing("The parser is running.")) // says nothing new
	r.Update(parsing("Container \"x\" fails\nand is \x1b[31mrestarted."))
	r.Away(errors.New("connection refused"))
	r.Away(nil)
	want := strings.Join([]string{
		"   0s  nmap  Parsing         The parser is running.",
		"   3s  nmap  Parsing         Container \"x\" fails and is \uFFFD[31mrestarted.",
		"   3s  The API server is away, trying again: connection refused",
		"   3s  The API server is back.", "",
	}, "\n")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestLive(t *testing.T) {
	var out bytes.Buffer
	r, _ := reporter(&out, true)
	r.Update(parsing("one"))
	first := out.Len()
	r.Update(parsing("two"))
	again := out.String()[first:]
	if !strings.HasPrefix(again, "\x1b[4A\x1b[J") {
		t.Errorf("the block before is not drawn over: %q", again)
	}
	if strings.Count(again, "\n") != 4 {
		t.Errorf("a block of another height: %q", again)
	}
}
