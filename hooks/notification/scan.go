// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"cmp"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/render"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// scan is what messages say about the Scan.
type scan struct {
	*sdk.Scan

	decoded any // for templates
	state   string
	reason  string
	// severities and categories are {name, count}, in the order in which the Scan has them.
	severities, categories []any
}

func newScan(from *sdk.Scan) (*scan, error) {
	s := &scan{Scan: from}
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
	s.state, s.reason = status.Text("state").Or(""), status.Text("errorDescription").Or("")
	findings := child(status, "findings")
	s.severities, s.categories = counts(child(findings, "severities")), counts(child(findings, "categories"))
	return s, nil
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

// errored says that the Scan failed.
func (s *scan) errored() bool { return s.state == "Errored" }

// failure is what reporters tell of an Errored Scan.
func (s *scan) failure(key string) *entry {
	name := s.Metadata.Namespace + "/" + s.Metadata.Name
	return &entry{
		key: key, failure: true, severity: finding.High,
		title: fmt.Sprintf("Scan %s (%s) is Errored", name, s.Spec.ScanType),
		text:  "The scan did not come to its end: " + cmp.Or(s.reason, "no reason was given") + "\n",
	}
}
