// SPDX-License-Identifier: Apache-2.0

package message

import (
	"cmp"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/render"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// Scan is what messages say about the Scan.
type Scan struct {
	*sdk.Scan

	decoded any // for templates
	state   string
	Reason  string
	// unreached says that the scanner reached nothing; empty if it did, or if it is unknown.
	unreached string
	// severities and categories are {name, count}, in the order in which the Scan has them.
	severities, categories []any
}

// NewScan reads what messages say about a Scan.
func NewScan(from *sdk.Scan) (*Scan, error) {
	s := &Scan{Scan: from}
	var err error
	if s.decoded, err = render.Data(from.Raw); err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	fill(s.decoded, "metadata", "name", "namespace", "creationTimestamp")
	fill(s.decoded, "spec", "scanType")
	fill(s.decoded, "status", "errorDescription")
	value, err := finding.DecodeValue(from.Raw, 0)
	if err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	status := child(value, "status")
	s.state, s.Reason = status.Text("state").Or(""), status.Text("errorDescription").Or("")
	s.unreached = unreached(status)
	findings := child(status, "findings")
	s.severities, s.categories = counts(child(findings, "severities")), counts(child(findings, "categories"))
	return s, nil
}

// unreached makes a sentence of the condition TargetReached of a status, if that is False.
func unreached(status finding.Object) string {
	conditions, _ := status.Get("conditions")
	list, _ := conditions.([]any)
	for _, c := range list {
		condition, _ := c.(finding.Object)
		if condition.Text("type").Or("") != "TargetReached" || condition.Text("status").Or("") != "False" {
			continue
		}
		if message := condition.Text("message").Or(""); message != "" {
			return "Nothing was reached: " + message + "."
		}
		return "Nothing was reached."
	}
	return ""
}

// fill gives members that are missing the empty text, which templates can print.
func fill(value any, part string, keys ...string) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	inner, ok := object[part].(map[string]any)
	if !ok {
		inner = map[string]any{}
		object[part] = inner
	}
	for _, key := range keys {
		if inner[key] == nil {
			inner[key] = ""
		}
	}
}

func child(value any, key string) finding.Object {
	object, _ := value.(finding.Object)
	member, _ := object.Get(key)
	inner, _ := member.(finding.Object)
	return inner
}

func counts(object finding.Object) []any {
	list := make([]any, 0, len(object))
	for _, m := range object {
		list = append(list, map[string]any{"name": m.Key, "count": finding.ToString(m.Value)})
	}
	return list
}

// Errored says that the Scan failed.
func (s *Scan) Errored() bool { return s.state == "Errored" }

// Failure is the report about an Errored Scan.
func (s *Scan) Failure(key string) *Entry {
	name := s.Metadata.Namespace + "/" + s.Metadata.Name
	return &Entry{
		Key: key, Failure: true, Severity: finding.High,
		Title: fmt.Sprintf("Scan %s (%s) is Errored", name, s.Spec.ScanType),
		Text:  "The scan did not come to its end: " + cmp.Or(s.Reason, "no reason was given") + "\n",
	}
}
