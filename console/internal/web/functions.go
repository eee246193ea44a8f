// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"html/template"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/findings/scanview"
)

func (a *App) functions() template.FuncMap {
	return template.FuncMap{
		"asset":         a.assets.Path,
		"severityClass": SeverityClass,
		"severityName":  SeverityName,
		"stamp":         func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"ago":           func(t time.Time) string { return Ago(t, a.Now()) },
		"short":         Short,
		"count":         Count,
		"thousands":     Thousands,
		"link":          Link,
		"path":          url.PathEscape,
		"lower":         strings.ToLower,
		"set":           func(v any) bool { return v != nil && !reflect.ValueOf(v).IsZero() },
		"external":      External,
		"target":        TargetName,
	}
}

// External says whether a text is an address that a link may lead to: of the web, and nothing that runs.
func External(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && (parsed.Scheme == "https" || parsed.Scheme == "http") && parsed.Host != ""
}

// severityWords are the severities of findings and of reports, the worst first, with their classes of colour.
var severityWords = []struct{ class, name string }{
	{"c0", "Critical"}, {"c1", "High"}, {"c2", "Medium"}, {"c3", "Low"}, {"c4", "Info"},
}

// SeverityRank is 0 for critical to 4 for info, and 4 also for what is unknown.
func SeverityRank(severity string) int {
	switch strings.ToLower(severity) {
	case "critical":
		return 0
	case "high":
		return 1
	case "medium":
		return 2
	case "low":
		return 3
	}
	return 4
}

// SeverityClass is the class of colour of a severity.
func SeverityClass(severity string) string { return severityWords[SeverityRank(severity)].class }

// SeverityName is a severity for people.
func SeverityName(severity string) string { return severityWords[SeverityRank(severity)].name }

// Tally is how many findings have a severity.
type Tally struct {
	Severity string
	N        int64
}

// Tallies are the severities that findings have, the worst first.
func Tallies(f executionv1.FindingStats) (out []Tally) {
	for i, n := range scanview.Counts(f) {
		if n > 0 {
			out = append(out, Tally{scanview.Severities[i], n})
		}
	}
	return out
}

// shortDigest is how many digits of a digest people tell images apart by.
const shortDigest = 12

// TargetName is what people call a target: an image by the first digits of its digest.
func TargetName(target string) string {
	if digest, ok := strings.CutPrefix(target, "sha256:"); ok {
		return "image " + digest[:min(shortDigest, len(digest))]
	}
	return target
}

// None is the value of a filter that keeps what has no value. No target and no category is called so.
const None = "(none)"

// Ranked are the severities that results have, by their rank: critical, high, medium, low, info or unknown.
func Ranked(counts [5]int64) (out []Tally) {
	for i, n := range counts {
		if n > 0 {
			out = append(out, Tally{strings.ToLower(severityWords[i].name), n})
		}
	}
	return out
}

// Ago says how long ago, or how far ahead, a time is.
func Ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	if d := now.Sub(t); d >= 0 {
		return Short(d) + " ago"
	}
	return "in " + Short(t.Sub(now))
}

// Short is a length of time for people: 12s, 3m, 2h5m, 4d.
func Short(d time.Duration) string { return duration.HumanDuration(d.Round(time.Second)) }

// Count is a number with its noun: 1 finding, 2,400 findings.
func Count(n any, noun string) string {
	value := reflect.ValueOf(n)
	if !value.CanInt() {
		return fmt.Sprintf("%v %s", n, noun)
	}
	number := Thousands(value.Int())
	switch {
	case value.Int() == 1:
		return number + " " + noun
	case strings.HasSuffix(noun, "y"):
		return number + " " + strings.TrimSuffix(noun, "y") + "ies"
	}
	return number + " " + noun + "s"
}

// Thousands is a number with commas.
func Thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
