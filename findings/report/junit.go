// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// writeJUnit writes a test case per finding. Cases of a severity that counts fail, excepted ones are skipped, the others pass. A
// Scan without findings has one case that passes, since build servers take a report without cases for an error. A Scan that has
// reached nothing has a case with an error instead, or before the others, unless that is allowed.
func writeJUnit(ctx context.Context, r *Report, w io.Writer) error {
	unreached, tests, errs := r.Scan.unreached(), max(1, r.stats.total), 0
	if unreached != "" {
		tests = r.stats.total + 1
		if !r.AllowUnreached {
			errs = 1
		}
	}
	skipped := fmt.Sprintf(` skipped="%d"`, r.Excepted())
	suite := fmt.Sprintf(`name=%s tests="%d" failures="%d" errors="%d"%s time="0"`,
		attribute(r.Scan.Title), tests, r.Failing(), errs, skipped)
	timestamp := ""
	if r.Scan.Finished != "" {
		timestamp = fmt.Sprintf(` timestamp="%s"`, strings.TrimSuffix(r.Scan.Finished, "Z"))
	}
	err := writeAll(w, xml.Header, "<testsuites ", strings.Replace(suite, skipped, "", 1), ">\n<testsuite ", suite, timestamp, ">\n")
	if err != nil {
		return err
	}
	switch {
	case unreached != "":
		err = writeAll(w, `<testcase name="targets were reached" classname=`, attribute(r.Scan.Type), ` time="0">`, unreachedCase(unreached, errs), "</testcase>\n")
	case r.stats.total == 0:
		err = writeAll(w, `<testcase name="no findings" classname=`, attribute(r.Scan.Type), ` time="0"></testcase>`, "\n")
	}
	if err != nil {
		return err
	}
	err = r.Each(ctx, func(e *Entry) error {
		name := e.Name
		if e.Location != "" {
			name += " (" + e.Location + ")"
		}
		text := fmt.Sprintf("<testcase name=%s classname=%s time=\"0\">", attribute(name), attribute(e.Category))
		if e.Excepted() {
			text += "<skipped message=" + attribute(e.exception()) + "></skipped>"
		} else if r.FailOn.Reached(e) {
			text += fmt.Sprintf(
				"<failure message=%s type=%s>%s</failure>", attribute(e.Severity.Words()+": "+e.Name),
				attribute(e.Severity.String()), character(e.details()),
			)
		} else if details := e.details(); details != "" {
			text += "<system-out>" + character(details) + "</system-out>"
		}
		return writeAll(w, text, "</testcase>\n")
	})
	if err != nil {
		return err
	}
	return writeAll(w, "</testsuite>\n</testsuites>\n")
}

// unreachedCase is what the test case of a Scan that has reached nothing holds.
func unreachedCase(text string, errs int) string {
	if errs == 0 {
		return "<system-out>" + character(text) + "</system-out>"
	}
	return `<error message=` + attribute(text) + ` type="NothingReached"></error>`
}

// details are the texts of a finding, for people.
func (e *Entry) details() string {
	var parts []string
	if e.Location != "" {
		parts = append(parts, "Location: "+e.Location)
	}
	if e.Description != "" {
		parts = append(parts, e.Description)
	}
	if e.Mitigation != "" {
		parts = append(parts, "Mitigation: "+e.Mitigation)
	}
	for _, ref := range e.References {
		parts = append(parts, strings.TrimSpace(ref.Type+" "+ref.Value))
	}
	return strings.Join(parts, "\n")
}

// attribute is a text as the value of an XML attribute, with its quotes.
func attribute(text string) string { return `"` + character(text) + `"` }

// character escapes; what XML cannot hold at all becomes U+FFFD.
func character(text string) string {
	var out bytes.Buffer
	if err := xml.EscapeText(&out, []byte(text)); err != nil {
		return "" // a buffer takes everything
	}
	return out.String()
}
