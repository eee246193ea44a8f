// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/scanview"
)

// Facts are the input of a description.
type Facts struct {
	Scan   *executionv1.Scan
	Jobs   []batchv1.Job
	Events []corev1.Event
	// Withheld says what could not be read, and why.
	Withheld []string
	Now      time.Time
}

// Field is a line of a description: a name and a value.
type Field struct{ Name, Value string }

// Event is an Event, or several equal ones.
type Event struct {
	Age     string
	Type    string
	Reason  string
	Message string
}

// Description is what describe shows of a Scan.
type Description struct {
	Fields     []Field
	Phases     []scanview.Phase
	Categories []Field
	Conditions []metav1.Condition
	Events     []Event
	Next       []Advice
	Withheld   []string
}

// Describe decides what is shown of a Scan.
func Describe(f Facts) Description {
	return Description{
		Fields: fieldsOf(f), Phases: phasesOf(f), Categories: categories(f.Scan.Status.Findings),
		Conditions: conditionsToShow(f.Scan), Events: eventsOf(f.Events, f.Now), Next: Next(f.Scan), Withheld: f.Withheld,
	}
}

// phasesOf are the phases; of a hook, the message says how it runs.
func phasesOf(f Facts) []scanview.Phase {
	out := scanview.Detailed(f.Scan, f.Jobs)
	for i, p := range out {
		if p.Hook != nil {
			out[i].Message = hookMessage(p.Hook)
		}
	}
	return out
}

func hookMessage(h *executionv1.HookStatus) string {
	text := fmt.Sprintf("%s, priority %d", h.Type, h.Priority)
	if h.AfterFailure {
		text += ", runs since the Scan is Errored"
	}
	if h.State == executionv1.HookStateFailed && h.FailurePolicy == executionv1.HookIgnore {
		text += ", ignored as failurePolicy says"
	}
	return text
}

func fieldsOf(f Facts) []Field {
	s := f.Scan
	kind := "ScanType"
	if s.Mode() == executionv1.ClusterWide {
		kind = "ClusterScanType"
	}
	state := scanview.State(s)
	if d := scanview.Lifetime(s, f.Now); d > 0 {
		word := "for"
		if s.Settled() {
			word = "after"
		}
		state = fmt.Sprintf("%s %s %s", state, word, Short(d))
	}
	found := Findings(s.Status.Findings)
	if s.Settled() && s.Status.Findings.Count == nil {
		found = "none were counted"
	}
	out := []Field{
		{"Name", s.Name},
		{"Namespace", s.Namespace},
		{"Type", fmt.Sprintf("%s (%s)", s.Spec.ScanType, kind)},
		{"Parameters", Quoted(s.Spec.Parameters)},
		{"State", state},
		{"Says", scanview.Says(s)},
		{"Findings", found},
		{"Reached", reachedField(s)},
		{"Origin", origin(s)},
		{"Labels", pairs(s.Labels)},
		{"Created", s.CreationTimestamp.UTC().Format(time.RFC3339)},
	}
	if at := s.Status.FinishedAt; at != nil {
		out = append(out, Field{"Finished", at.UTC().Format(time.RFC3339)})
		if ttl := s.Spec.TTLSecondsAfterFinished; ttl != nil {
			out = append(out, Field{"Deleted", at.Add(time.Duration(*ttl)*time.Second).UTC().Format(time.RFC3339) + " (ttlSecondsAfterFinished)"})
		}
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionAdmitted); c != nil && c.Status == metav1.ConditionFalse {
		out = append(out, Field{"Queue", c.Message})
	}
	return slices.DeleteFunc(out, func(x Field) bool { return x.Value == "" })
}

func reachedField(s *executionv1.Scan) string {
	c := scanview.Reached(s)
	switch c.Status {
	case metav1.ConditionTrue:
		return withReason("yes", c.Message)
	case metav1.ConditionFalse:
		return withReason("nothing", c.Message)
	case metav1.ConditionUnknown:
		return withReason("not known", c.Message)
	}
	return ""
}

// Annotations in which a cascade notes where a Scan comes from.
const (
	annotationParent = "cascading.securecodebox.io/parent-scan"
	annotationChain  = "cascading.securecodebox.io/chain"
)

// origin returns what has started a Scan; empty if a user has.
func origin(s *executionv1.Scan) string {
	if owner := executionv1.ScheduleOf(s); owner != nil {
		return "run of ScheduledScan " + owner.Name
	}
	if parent := s.Annotations[annotationParent]; parent != "" {
		chain := strings.Split(s.Annotations[annotationChain], ",")
		return fmt.Sprintf("started by cascading rule %s from a finding of scan %s", chain[len(chain)-1], parent)
	}
	return ""
}

// Quoted joins arguments with quotes, as a shell would take them.
func Quoted(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = a
		if a == "" || strings.ContainsAny(a, " \t\n\"'\\$`|&;<>()*?[]#~{}!") {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ", ")
}

// categories are the categories of the findings, the most frequent first.
func categories(f executionv1.FindingStats) []Field {
	names := slices.SortedFunc(maps.Keys(f.FindingCategories), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.FindingCategories[b], f.FindingCategories[a]), strings.Compare(a, b))
	})
	var out []Field
	for _, n := range names {
		out = append(out, Field{n, strconv.FormatInt(f.FindingCategories[n], 10)})
	}
	return out
}

// conditionsToShow are Ready, and those that say more than Ready and the phases do.
func conditionsToShow(s *executionv1.Scan) []metav1.Condition {
	ready := scanview.Ready(s)
	phase := map[string]bool{
		executionv1.ConditionScanned: true, executionv1.ConditionParsed: true, executionv1.ConditionHooksCompleted: true,
		executionv1.ConditionAdmitted: true,
	}
	var out []metav1.Condition
	for _, c := range s.Status.Conditions {
		if c.Type == executionv1.ConditionTargetReached || c.Type == executionv1.ConditionStalled { // the fields show it, and Ready
			continue
		}
		plain := c.Reason == executionv1.ReasonCompleted || c.Reason == executionv1.ReasonRunning
		if phase[c.Type] && (plain || c.Reason == ready.Reason || c.Type == executionv1.ConditionAdmitted) {
			continue
		}
		out = append(out, c)
	}
	return out
}

// eventsOf are Events, the oldest first.
func eventsOf(events []corev1.Event, now time.Time) []Event {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return eventTime(&a).Compare(eventTime(&b)) })
	var out []Event
	for i := range events {
		e := &events[i]
		age := Short(now.Sub(eventTime(e)))
		if n := eventCount(e); n > 1 {
			age = fmt.Sprintf("%s (%d times)", age, n)
		}
		out = append(out, Event{age, e.Type, e.Reason, termsafe.Line(e.Message)})
	}
	return out
}

func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	default:
		return e.CreationTimestamp.Time
	}
}

func eventCount(e *corev1.Event) int32 {
	if e.Series != nil {
		return e.Series.Count
	}
	return e.Count
}
