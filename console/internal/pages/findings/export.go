// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"bufio"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/query"
	"github.com/scanyard/scanyard/findings/report"
)

// exportPage is how many rows of an export one question asks for.
const exportPage = 1000

// writer writes the rows of an export in one format.
type writer interface {
	row(r *row) error
	end() error
}

// formats are the files that a list can be had as.
var formats = map[string]struct {
	contentType, file string
	begin             func(io.Writer) (writer, error)
}{
	"csv":   {"text/csv; charset=utf-8; header=present", "findings.csv", newCSV},
	"json":  {"application/json", "findings.json", newJSON},
	"sarif": {"application/sarif+json", "findings.sarif", newSARIF},
}

// sendFile sends the filtered list as a file, page by page, so that its size costs no memory.
func sendFile(w http.ResponseWriter, q *web.Request) error {
	format, ok := formats[q.URL.Query().Get("format")]
	if !ok {
		return &web.Problem{Code: http.StatusBadRequest, Title: "There is no such format.", Text: "There are csv, json and sarif."}
	}
	f := filterOf(q)
	parts, err := []exportPart(nil), cluster.ErrAbsent
	if f.Status != statusFixed && f.Scan == "" {
		parts, err = partsOf(q, &f)
	}
	if err != nil && !errors.Is(err, cluster.ErrAbsent) {
		return err
	}
	w.Header().Set("Content-Type", format.contentType)
	w.Header().Set("Content-Disposition", `attachment; filename="`+format.file+`"`)
	buffered := bufio.NewWriter(w)
	out, beginErr := format.begin(buffered)
	if beginErr != nil {
		return beginErr
	}
	if err != nil {
		_, _, err = each(q.Context(), q, &f, func(scan *executionv1.Scan, e *report.Entry) error {
			r := storedRow(scan, e)
			return out.row(&r)
		})
	} else {
		err = sendParts(q.Context(), q, &f, parts, out)
	}
	if err == nil {
		err = out.end()
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		// The file has begun: only a connection that breaks tells the browser that it is not whole.
		return errors.Join(http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)), context.Canceled)
	}
	return nil
}

// exportPart is what an export asks for together: the findings of a severity in a namespace. A page of a part is found among the findings of the
// part; one of a million findings would be looked for among all of them, for each of a thousand pages.
type exportPart struct{ severity, namespace string }

// partsOf are the parts of what the filter keeps, the worst first.
func partsOf(q *web.Request, f *filter) (parts []exportPart, err error) {
	spec := f.spec("", q.Now)
	spec.GroupBy, spec.Sort, spec.Limit = []string{"severity", "namespace"}, nil, query.MaxGroups
	for {
		answer, err := q.Viewer.Ask(q.Context(), q.Scope, spec)
		if err != nil {
			return nil, err
		}
		for _, g := range answer.Groups {
			parts = append(parts, exportPart{g.Key["severity"], g.Key["namespace"]})
		}
		if spec.Continue = answer.Continue; spec.Continue == "" {
			break
		}
	}
	slices.SortFunc(parts, func(a, b exportPart) int {
		return cmp.Or(query.Rank(b.severity)-query.Rank(a.severity), strings.Compare(a.namespace, b.namespace))
	})
	return parts, nil
}

// spec is the question for the findings of a part, and where to ask it: of what is in no namespace, the cluster.
func (p exportPart) spec(q *web.Request, f *filter) (reportsv1alpha1.FindingQuerySpec, cluster.Scope) {
	spec, scope := f.spec("", q.Now), cluster.Scope{Names: []string{p.namespace}}
	spec.Limit = exportPage
	keepOnly(&spec, "severity", p.severity)
	if p.namespace == "" {
		scope = q.Scope
		keepOnly(&spec, "namespace", "")
	}
	return spec, scope
}

func sendParts(ctx context.Context, q *web.Request, f *filter, parts []exportPart, out writer) error {
	for _, part := range parts {
		spec, scope := part.spec(q, f)
		for {
			answer, err := q.Viewer.Ask(ctx, scope, spec)
			if err != nil {
				return err
			}
			for i := range answer.Rows {
				r := rowOf(&answer.Rows[i])
				if err := out.row(&r); err != nil {
					return err
				}
			}
			if spec.Continue = answer.Continue; spec.Continue == "" {
				break
			}
		}
	}
	return nil
}

type csvWriter struct{ to *csv.Writer }

func newCSV(w io.Writer) (writer, error) {
	c := &csvWriter{csv.NewWriter(w)}
	c.to.UseCRLF = true
	return c, c.write([]string{"severity", "name", "category", "identifier", "target", "namespace", "scanner", "cvss", "first_seen", "excepted"})
}

func (c *csvWriter) write(cells []string) error {
	for i := range cells {
		cells[i] = report.Inert(cells[i])
	}
	if err := c.to.Write(cells); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func (c *csvWriter) row(r *row) error {
	return c.write([]string{r.Severity, r.Name, r.Category, r.Policy, r.Target, r.Namespace, r.Source, r.Score, seen(r), r.Excepted})
}

func (c *csvWriter) end() error {
	c.to.Flush()
	return c.to.Error()
}

func seen(r *row) string {
	if r.FirstSeen.IsZero() {
		return ""
	}
	return r.FirstSeen.UTC().Format("2006-01-02T15:04:05Z")
}

// jsonRow is a row of the file.
type jsonRow struct {
	Severity   string `json:"severity"`
	Name       string `json:"name"`
	Category   string `json:"category,omitempty"`
	Identifier string `json:"identifier,omitempty"`
	Target     string `json:"target,omitempty"`
	Namespace  string `json:"namespace"`
	Scanner    string `json:"scanner"`
	CVSS       string `json:"cvss,omitempty"`
	FirstSeen  string `json:"firstSeen,omitempty"`
	Excepted   string `json:"excepted,omitempty"`
}

// listWriter writes the elements of a JSON list between a head and a foot.
type listWriter struct {
	to      io.Writer
	between string
	foot    string
	element func(*row) any
}

func newList(w io.Writer, head, foot string, element func(*row) any) (writer, error) {
	if _, err := io.WriteString(w, head); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return &listWriter{to: w, foot: foot, element: element}, nil
}

func (l *listWriter) row(r *row) error {
	text, err := json.Marshal(l.element(r))
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	if _, err := l.to.Write(append([]byte(l.between), text...)); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	l.between = ",\n"
	return nil
}

func (l *listWriter) end() error {
	if _, err := io.WriteString(l.to, l.foot); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

func newJSON(w io.Writer) (writer, error) {
	return newList(w, "[\n", "\n]\n", func(r *row) any {
		return jsonRow{r.Severity, r.Name, r.Category, r.Policy, r.Target, r.Namespace, r.Source, r.Score, seen(r), r.Excepted}
	})
}

// levels are the words of SARIF for severities.
var levels = map[int]string{0: "error", 1: "error", 2: "warning", 3: "note", 4: "note"}

func newSARIF(w io.Writer) (writer, error) {
	const head = `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{"tool":{"driver":{"name":"Scanyard"}},"results":[` + "\n"
	return newList(w, head, "\n]}]}\n", func(r *row) any {
		rule := r.Policy
		if rule == "" {
			rule = r.Category
		}
		result := map[string]any{
			"ruleId": rule, "level": levels[web.SeverityRank(r.Severity)], "message": map[string]string{"text": r.Name},
			"locations":  []any{map[string]any{"logicalLocations": []any{map[string]string{"fullyQualifiedName": r.Namespace + "/" + r.Target}}}},
			"properties": map[string]string{"severity": r.Severity, "scanner": r.Source, "namespace": r.Namespace},
		}
		if r.Excepted != "" {
			result["suppressions"] = []any{map[string]string{"kind": "external", "status": "accepted"}}
		}
		return result
	})
}
