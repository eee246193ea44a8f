// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/contents"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
)

// HeaderContinue is where a page of lines ends.
const HeaderContinue = "Scanyard-Continue"

// besideAtOnce is how many rows of findings are read at a time.
const besideAtOnce = 500

// stop ends a walk over findings.
var errStop = errors.New("enough")

// findings walks over the findings of a report, from the one with a number on, as this namespace sees them.
func (s *Service) findings(ctx context.Context, report *reportsv1.VulnerabilityReport, from int,
	visit func(i int, f *reportsv1.VulnerabilityFinding) error,
) error {
	key := s.reports.Key(report.Namespace, report.Name)
	info, err := contents.Of(ctx, s.store, key, kinds.FormatFindings)
	if err != nil {
		return err
	}
	var kept beside
	n := 0
	each := func(f *reportsv1.VulnerabilityFinding) error {
		i := n
		if n++; i < from {
			return nil
		}
		f.Fingerprint = kinds.Fingerprint(&report.Spec.ImageRef, f)
		row, err := kept.at(ctx, s, key, i)
		if err != nil {
			return err
		}
		f.FirstSeenAt = row.firstSeen()
		s.suppress(report.Namespace, f, row)
		return visit(i, f)
	}
	return s.walk(ctx, report, info, each)
}

// walk walks over the findings of a report as they were taken in.
func (s *Service) walk(ctx context.Context, report *reportsv1.VulnerabilityReport, info *contents.Info,
	each func(f *reportsv1.VulnerabilityFinding) error,
) error {
	if info == nil { // they are in the object
		for i := range report.Spec.Findings {
			if err := each(report.Spec.Findings[i].DeepCopy()); err != nil {
				return unlessStopped(err)
			}
		}
		return nil
	}
	reader, err := contents.Open(ctx, s.store, info.Content)
	if err != nil {
		return err
	}
	return unlessStopped(eachLine(reader, func(l *line) error {
		if l.PURL != "" {
			return errStop // keys follow the findings
		}
		return each(&l.VulnerabilityFinding)
	}))
}

func unlessStopped(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// beside knows what the rows of some findings say that the findings do not.
type beside struct {
	from int
	rows []besideRow
}

// besideRow is when a finding was seen first, and which exception matches it, as KIND/NAME.
type besideRow struct {
	seen       sql.NullInt64
	exception  string
	suppressed bool
}

// firstSeen is nil where it is not known.
func (r *besideRow) firstSeen() *metav1.Time {
	if !r.seen.Valid {
		return nil
	}
	at := metav1.NewTime(time.Unix(r.seen.Int64, 0).UTC())
	return &at
}

func (b *beside) at(ctx context.Context, s *Service, key string, i int) (*besideRow, error) {
	if i < b.from || i >= b.from+len(b.rows) {
		b.from, b.rows = i, make([]besideRow, besideAtOnce)
		err := s.store.Query(ctx, func(tx *sqldb.Tx) error {
			rows, err := tx.Query(ctx, `SELECT r.i, r.first_seen, r.suppressed, COALESCE(n.s, '') FROM objects o JOIN results r ON r.object = o.id
				LEFT JOIN names n ON n.id = r.exception WHERE o."key" = ? AND r.i >= ? AND r.i < ?`, key, i, i+besideAtOnce)
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }() // errors of reading are those of Err
			for rows.Next() {
				var at, suppressed int
				row := besideRow{seen: sql.NullInt64{Valid: true}}
				if err := rows.Scan(&at, &row.seen.Int64, &suppressed, &row.exception); err != nil {
					return err
				}
				row.suppressed = suppressed != 0
				b.rows[at-i] = row
			}
			return rows.Err()
		})
		if err != nil {
			return nil, err
		}
	}
	return &b.rows[i-b.from], nil
}

// stored reads a report that must be there.
func (s *Service) stored(ctx context.Context, at target) (*reportsv1.VulnerabilityReport, error) {
	report := &reportsv1.VulnerabilityReport{}
	err := s.reports.Get(ctx, s.reports.Key(at.namespace, at.name), storage.GetOptions{}, report)
	if storage.IsNotFound(err) {
		return nil, apierrors.NewNotFound(reportsv1.SchemeGroupVersion.WithResource("vulnerabilityreports").GroupResource(), at.name)
	}
	return report, err
}

// filter is what a request wants of findings.
type filter struct {
	least               int
	severities          []string
	pkg, vulnerability  string
	fixable, suppressed *bool
	limit, from         int
}

var ranks = map[string]int{"CRITICAL": 5, "HIGH": 4, "MEDIUM": 3, "LOW": 2, "UNKNOWN": 1, "": 1}

func newFilter(query url.Values) (*filter, error) {
	f := &filter{pkg: lower(query.Get("package")), vulnerability: lower(query.Get("vulnerability"))}
	for _, severity := range query["severity"] {
		if ranks[severity] == 0 || severity == "" {
			return nil, apierrors.NewBadRequest("severity must be CRITICAL, HIGH, MEDIUM, LOW or UNKNOWN, is " + severity)
		}
		f.severities = append(f.severities, severity)
	}
	if least := query.Get("minSeverity"); least != "" {
		if f.least = ranks[least]; f.least == 0 {
			return nil, apierrors.NewBadRequest("minSeverity must be CRITICAL, HIGH, MEDIUM, LOW or UNKNOWN, is " + least)
		}
	}
	for name, into := range map[string]**bool{"fixable": &f.fixable, "suppressed": &f.suppressed} {
		if text := query.Get(name); text != "" {
			value, err := strconv.ParseBool(text)
			if err != nil {
				return nil, apierrors.NewBadRequest(name + " must be true or false, is " + text)
			}
			*into = &value
		}
	}
	for name, into := range map[string]*int{"limit": &f.limit, "continue": &f.from} {
		if text := query.Get(name); text != "" {
			value, err := strconv.Atoi(text)
			if err != nil || value < 0 {
				return nil, apierrors.NewBadRequest(name + " must be a number, is " + text)
			}
			*into = value
		}
	}
	return f, nil
}

func (f *filter) takes(finding *reportsv1.VulnerabilityFinding) bool {
	severity := finding.Severity
	if severity == "" {
		severity = "UNKNOWN"
	}
	switch {
	case len(f.severities) > 0 && !slices.Contains(f.severities, severity), ranks[severity] < f.least:
		return false
	case f.pkg != "" && lower(finding.Package.Name) != f.pkg:
		return false
	case f.vulnerability != "" && !isCalled(finding, f.vulnerability):
		return false
	case f.fixable != nil && *f.fixable != (len(finding.FixedVersions) > 0):
		return false
	}
	return f.suppressed == nil || *f.suppressed == (finding.Suppressed != nil)
}

// isCalled tells whether a name in lower case is one of a finding's vulnerability.
func isCalled(finding *reportsv1.VulnerabilityFinding, name string) bool {
	return lower(finding.VulnerabilityID) == name || slices.ContainsFunc(finding.Aliases, func(alias string) bool { return lower(alias) == name })
}

// page looks where the page that begins at a finding ends: at the finding with this number; 0 if nothing is left.
func (s *Service) page(ctx context.Context, report *reportsv1.VulnerabilityReport, f *filter) (next int, err error) {
	if f.limit == 0 {
		return 0, nil
	}
	taken := 0
	err = s.findings(ctx, report, f.from, func(i int, finding *reportsv1.VulnerabilityFinding) error {
		if !f.takes(finding) {
			return nil
		}
		if taken++; taken > f.limit {
			next = i
			return errStop
		}
		return nil
	})
	return next, err
}

// getFindings streams findings.
func (s *Service) getFindings(w http.ResponseWriter, req *http.Request, at target) error {
	ctx, query := req.Context(), req.URL.Query()
	f, err := newFilter(query)
	if err != nil {
		return err
	}
	lines := false
	switch format := query.Get("format"); format {
	case "", "json":
	case "jsonl":
		lines = true
	default:
		return apierrors.NewBadRequest("format must be json or jsonl, is " + format)
	}
	report, err := s.stored(ctx, at)
	if err != nil {
		return err
	}
	next, err := s.page(ctx, report, f)
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	if lines {
		header.Set("Content-Type", "application/x-ndjson")
	}
	token := ""
	if next > 0 {
		token = strconv.Itoa(next)
		header.Set(HeaderContinue, token)
	}
	w.WriteHeader(http.StatusOK)
	out := bufio.NewWriter(w)
	err = s.writeFindings(ctx, out, report, f, next, lines)
	if err == nil && !lines {
		_, err = fmt.Fprintf(out, `],"continue":%q}`+"\n", token)
	}
	if err == nil {
		err = out.Flush()
	}
	abortOn(0, err)
	return nil
}

func (s *Service) writeFindings(ctx context.Context, out *bufio.Writer, report *reportsv1.VulnerabilityReport, f *filter, next int, lines bool) error {
	between := ","
	if lines {
		between = "\n"
	} else if _, err := out.WriteString(`{"findings":[`); err != nil {
		return err
	}
	written := 0
	return s.findings(ctx, report, f.from, func(i int, finding *reportsv1.VulnerabilityFinding) error {
		if next > 0 && i >= next {
			return errStop
		}
		if !f.takes(finding) {
			return nil
		}
		data, err := json.Marshal(finding)
		if err != nil {
			return err
		}
		if lines {
			data = append(data, between...)
		} else if written > 0 {
			data = append([]byte(between), data...)
		}
		written++
		_, err = out.Write(data)
		return err
	})
}

// getTags streams the tags of a repository.
func (s *Service) getTags(w http.ResponseWriter, req *http.Request, at target) error {
	ctx, query := req.Context(), req.URL.Query()
	repository := &reportsv1.Repository{}
	if err := s.repositories.Get(ctx, s.repositories.Key(at.namespace, at.name), storage.GetOptions{}, repository); err != nil {
		return notThere(err, "repositories", at.name)
	}
	info, err := contents.Of(ctx, s.store, s.repositories.Key(at.namespace, at.name), kinds.FormatTags)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	if info == nil {
		_, _ = io.WriteString(w, `{"tags":[]}`+"\n") // the client may have gone
		return nil
	}
	if query.Get("tag") == "" && query.Get("selected") == "" {
		return s.stream(w, req, info)
	}
	reader, err := contents.Open(ctx, s.store, info.Content)
	if err != nil {
		return err
	}
	selected := query.Get("selected")
	out := bufio.NewWriter(w)
	_, err = out.WriteString(`{"tags":[`)
	first := true
	if err == nil {
		err = eachTag(reader, func(tag *reportsv1.Tag, raw []byte) error {
			if (query.Has("tag") && tag.Tag != query.Get("tag")) || (selected != "" && strconv.FormatBool(tag.Selected) != selected) {
				return nil
			}
			if !first {
				raw = append([]byte{','}, raw...)
			}
			first = false
			_, err := out.Write(raw)
			return err
		})
	}
	if err == nil {
		_, err = out.WriteString("]}\n")
	}
	if err == nil {
		err = out.Flush()
	}
	abortOn(0, err)
	return nil
}

// notThere names what is not there.
func notThere(err error, resource, name string) error {
	if storage.IsNotFound(err) {
		return apierrors.NewNotFound(reportsv1.SchemeGroupVersion.WithResource(resource).GroupResource(), name)
	}
	return sqlstorage.StatusOf(err)
}
