// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/cluster"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/findings/scanview"
)

// proposedDays is how long an exception lasts that the form proposes.
const proposedDays = 90

// described is a status or a justification with what it means.
type described struct{ Value, Means string }

var statusMeanings = []described{
	{string(settingsv1alpha2.ExceptionAccepted), "the risk is taken for a time"},
	{string(settingsv1alpha2.ExceptionFalsePositive), "the scanner is wrong"},
	{string(settingsv1alpha2.ExceptionNotAffected), "it cannot be exploited here"},
	{string(settingsv1alpha2.ExceptionMitigated), "something else prevents it"},
	{string(settingsv1alpha2.ExceptionUnderInvestigation), "somebody looks into it: marks findings, and counts them"},
}

var justifications = []described{
	{string(settingsv1alpha2.ComponentNotPresent), "the component is not there"},
	{string(settingsv1alpha2.VulnerableCodeNotPresent), "the vulnerable code is not there"},
	{string(settingsv1alpha2.VulnerableCodeNotInPath), "the vulnerable code never runs"},
	{string(settingsv1alpha2.VulnerableCodeNotControlled), "nobody outside can reach the vulnerable code"},
	{string(settingsv1alpha2.InlineMitigationsExist), "mitigations are built in"},
}

// matched is a finding that the exception of the form would match.
type matched struct{ Severity, Name, Location, Scan, Namespace, Link string }

// shownMatches is how many of them are shown.
const shownMatches = 20

// preview is what the exception would match in the newest runs.
type preview struct {
	Findings []matched
	Total    int
	Scans    int
}

// form is what the form holds, as it was typed.
type form struct {
	CSRF                                                      string
	Namespace, Cluster, Name, Status, Justification, Reason   string
	Expires, Reviewer, Ticket, Expression                     string
	Fingerprints, References, Names, Categories, Locations    string
	Packages, Products, ScanTypes, Scans, Targets, Namespaces string
	NamespaceLabels                                           string
	Severities                                                []string
	AllSeverities                                             []string
	Statuses, Justifications                                  []described
	Problems                                                  []string
	Preview                                                   *preview
	Tomorrow                                                  string
	Denied                                                    string
	More                                                      bool
	Finding                                                   string
}

// formOf reads the form from the values of a request.
func formOf(q *web.Request, v url.Values) *form {
	text := func(name string) string { return strings.TrimSpace(strings.Join(v[name], "\n")) }
	f := &form{
		CSRF: q.Session.CSRF, Namespace: text("namespace"), Cluster: text("cluster"), Name: text("name"), Status: text("status"),
		Justification: text("justification"), Reason: text("reason"), Expires: text("expires"), Reviewer: text("reviewer"), Ticket: text("ticket"),
		Expression: text("expression"), Fingerprints: text("fingerprints"), References: text("references"), Names: text("names"),
		Categories: text("categories"), Locations: text("locations"), Packages: text("packages"), Products: text("products"),
		ScanTypes: text("scanTypes"), Scans: text("scans"), Targets: text("targets"), Namespaces: text("namespaces"), Severities: v["severities"],
		NamespaceLabels: text("namespaceLabels"),
		Statuses:        statusMeanings, Justifications: justifications, Tomorrow: dateOf(q.Now.AddDate(0, 0, 1)), Finding: text("finding"),
	}
	for _, s := range report.SeverityNames() {
		f.AllSeverities = append(f.AllSeverities, strings.ToUpper(s))
	}
	further := f.Names + f.Categories + f.Locations + f.Packages + f.Products + f.Expression + f.ScanTypes + f.Scans + f.Targets
	f.More = further+f.Namespaces+f.NamespaceLabels+f.Cluster != "" || len(f.Severities) > 0
	return f
}

// Has says whether a severity is chosen.
func (f *form) Has(severity string) bool { return slices.Contains(f.Severities, severity) }

func (p *pages) view(f *form) *web.View {
	return &web.View{Title: "Make an exception", Section: "Exceptions", Template: p.formTemplate, Data: f}
}

// empty shows the form, filled in as the address says.
func (p *pages) empty(q *web.Request) (*web.View, error) {
	f := formOf(q, q.URL.Query())
	notes, err := f.choose(q)
	if err != nil {
		return nil, err
	}
	f.Namespace = cmp.Or(f.Namespace, q.Scope.Single(), q.Viewer.Namespace)
	f.Status = cmp.Or(f.Status, string(settingsv1alpha2.ExceptionAccepted))
	f.Expires = cmp.Or(f.Expires, dateOf(q.Now.AddDate(0, 0, proposedDays)))
	if f.Namespace != "" && f.Cluster == "" {
		if _, f.Denied, err = q.Rights(settingsv1alpha2.SchemeGroupVersion.Group, "findingexceptions", f.Namespace, "create"); err != nil {
			return nil, err
		}
	}
	view := p.view(f)
	view.Notes = notes
	return view, nil
}

// send makes the exception of the form, or shows what it would match.
func (p *pages) send(q *web.Request) (string, *web.View, error) {
	if err := q.ParseForm(); err != nil {
		return "", nil, &web.Problem{Code: 400, Title: "The form cannot be read.", Text: err.Error()}
	}
	f := formOf(q, q.PostForm)
	object, problems := f.object(q.Now)
	if f.Problems = problems; len(problems) > 0 {
		return "", p.view(f), nil
	}
	if q.PostForm.Get("do") == "preview" {
		view := p.view(f)
		var err error
		view.Code = http.StatusOK
		f.Preview, view.Notes, err = previewOf(q, object)
		return "", view, err
	}
	err := q.Viewer.Create(q.Context(), object)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsAlreadyExists(err) {
		f.Problems = saidBy(err)
		return "", p.view(f), nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("make exception: %w", err)
	}
	return path(object.GetNamespace(), object.GetName()), nil, nil
}

// saidBy are the sentences of the API server about what it refuses.
func saidBy(err error) (out []string) {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return []string{err.Error()}
	}
	if details := status.ErrStatus.Details; details != nil {
		for _, c := range details.Causes {
			out = append(out, strings.TrimPrefix(c.Field+": "+c.Message, ": "))
		}
	}
	if len(out) == 0 {
		out = []string{status.ErrStatus.Message}
	}
	return out
}

// lines are the values of a field with one on each line.
func lines(text string) (out []string) {
	for line := range strings.Lines(text) {
		if value := strings.TrimSpace(line); value != "" && !slices.Contains(out, value) {
			out = append(out, value)
		}
	}
	return out
}

// The bounds of a reason, as the kind has them.
const (
	shortestReason = 10
	longestReason  = 2000
)

// object is the exception that the form says, or what is wrong with it.
func (f *form) object(now time.Time) (client.Object, []string) {
	var problems []string
	wrong := func(text string) { problems = append(problems, text) }
	spec := settingsv1alpha2.ExceptionSpec{
		Status: settingsv1alpha2.ExceptionStatus(f.Status), Justification: settingsv1alpha2.Justification(f.Justification),
		Reason: strings.ReplaceAll(f.Reason, "\r\n", "\n"), Reviewer: f.Reviewer, Ticket: f.Ticket,
	}
	if !slices.Contains(statuses, spec.Status) {
		wrong("Status: choose one.")
	}
	switch notAffected := spec.Status == settingsv1alpha2.ExceptionNotAffected; {
	case notAffected && spec.Justification == "":
		wrong("Justification: “Not affected” needs one.")
	case !notAffected:
		spec.Justification = ""
	}
	if n := len([]rune(spec.Reason)); n < shortestReason || n > longestReason {
		wrong(fmt.Sprintf("Reason: must have %d to %d characters: say why, for the auditor in a year.", shortestReason, longestReason))
	}
	switch end, err := endOf(f.Expires, now); {
	case f.Expires == "" && spec.Status == settingsv1alpha2.ExceptionAccepted:
		wrong("End: a risk is accepted for a time, so it needs one.")
	case f.Expires == "":
	case err != nil:
		wrong("End: " + err.Error() + ".")
	default:
		spec.ExpiresAt = end
	}
	if spec.Ticket != "" && !web.External(spec.Ticket) {
		wrong("Ticket: must be an address that begins with https:// or http://.")
	}
	entry := settingsv1alpha2.ExceptionEntry{
		Fingerprints: lines(f.Fingerprints), References: lines(f.References), Names: lines(f.Names), Categories: lines(f.Categories),
		Locations: lines(f.Locations), Severities: f.Severities, Packages: lines(f.Packages), Products: lines(f.Products), Expression: f.Expression,
	}
	if len(partsOf(&entry)) == 0 {
		wrong("Findings: say which are meant, by a fingerprint, a reference or one of the other fields.")
	}
	spec.Match.AnyOf = []settingsv1alpha2.ExceptionEntry{entry}
	scope := settingsv1alpha2.ExceptionScope{ScanTypes: lines(f.ScanTypes), Scans: lines(f.Scans), Targets: lines(f.Targets)}
	name := cmp.Or(f.Name, nameOf(&spec, &scope))
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		wrong("Name: " + strings.Join(errs, "; ") + ".")
	}
	if f.Cluster == "" {
		if errs := validation.IsDNS1123Label(f.Namespace); len(errs) > 0 {
			wrong("Namespace: " + strings.Join(errs, "; ") + ".")
		}
	}
	selector := f.selector(wrong)
	object := f.kindOf(name, spec, scope, selector)
	if len(problems) == 0 {
		if k, ok := keptOf(object); ok {
			if problem := exception.Check(k.Exception); problem != nil {
				wrong(problem.String())
			}
		}
	}
	return object, problems
}

// selector is that of namespaces, nil without one.
func (f *form) selector(wrong func(string)) *metav1.LabelSelector {
	if f.Cluster == "" && f.Namespaces+f.NamespaceLabels != "" {
		wrong("Namespaces: only an exception of the whole cluster can name some.")
	}
	if f.NamespaceLabels == "" {
		return nil
	}
	selector, err := metav1.ParseToLabelSelector(f.NamespaceLabels)
	if err != nil {
		wrong("Namespaces with labels: " + err.Error() + ".")
	}
	return selector
}

func (f *form) kindOf(
	name string, spec settingsv1alpha2.ExceptionSpec, scope settingsv1alpha2.ExceptionScope, selector *metav1.LabelSelector,
) client.Object {
	scoped := len(scope.ScanTypes)+len(scope.Scans)+len(scope.Targets) > 0
	if f.Cluster == "" {
		e := &settingsv1alpha2.FindingException{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
		e.Spec.ExceptionSpec = spec
		if scoped {
			e.Spec.Scope = &scope
		}
		return e
	}
	e := &settingsv1alpha2.ClusterFindingException{ObjectMeta: metav1.ObjectMeta{Name: name}}
	e.Spec.ExceptionSpec = spec
	if namespaces := lines(f.Namespaces); scoped || len(namespaces) > 0 || selector != nil {
		e.Spec.Scope = &settingsv1alpha2.ClusterExceptionScope{ExceptionScope: scope, Namespaces: namespaces, NamespaceSelector: selector}
	}
	return e
}

// nameOf is a name for an exception without one: that of what it matches, so that the same one is not made twice.
func nameOf(spec *settingsv1alpha2.ExceptionSpec, scope *settingsv1alpha2.ExceptionScope) string {
	raw, err := json.Marshal([]any{spec.Match, scope})
	if err != nil {
		return strings.ToLower(string(spec.Status)) // no field of the form has a value that cannot be written
	}
	return fmt.Sprintf("%s-%x", strings.ToLower(string(spec.Status)), sha256.Sum256(raw))[:len(spec.Status)+11]
}

func dateOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// endOf reads a day, or a time.
func endOf(text string, now time.Time) (*metav1.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		at, err := time.Parse(layout, strings.TrimSpace(text))
		if err != nil {
			continue
		}
		if !at.After(now) {
			return nil, fmt.Errorf("%s is over: now is %s", text, now.UTC().Format(time.RFC3339))
		}
		return new(metav1.NewTime(at.UTC())), nil
	}
	return nil, fmt.Errorf("%q must be a day such as 2027-01-31", text)
}

// maxScans is how many newest runs a preview reads.
const maxScans = 20

// previewOf reads the newest runs for findings that an exception would match.
func previewOf(q *web.Request, object client.Object) (*preview, []string, error) {
	k, ok := keptOf(object)
	if !ok {
		return nil, nil, fmt.Errorf("%T is not an exception", object)
	}
	scope := q.Scope
	if k.Namespace != "" {
		scope = cluster.Scope{Names: []string{k.Namespace}}
	}
	scans, denials, err := q.Viewer.Scans(q.Context(), scope)
	if err != nil {
		return nil, nil, err
	}
	notes := web.Notes("Scans", denials, nil)
	latest := scanview.Latest(scans)
	if len(latest) > maxScans {
		notes = append(notes, fmt.Sprintf("Only the newest %d of %d scans are read for this preview.", maxScans, len(latest)))
		latest = latest[:maxScans]
	}
	out := &preview{}
	compiled := k.Exception
	compiled.Spec.NotBefore = nil // what it will match, whenever it begins
	list := []exception.Exception{compiled}
	matcher := exception.Compile(list, q.Now)
	for _, s := range latest {
		input, err := q.Viewer.Findings(q.Context(), s)
		if err == nil {
			err = out.read(q.Context(), q.Viewer, s, input, list, matcher)
		}
		switch {
		case err == nil:
			out.Scans++
		case errors.Is(err, cluster.ErrNoFindings):
		case q.Context().Err() != nil:
			return nil, nil, err
		default:
			notes = append(notes, fmt.Sprintf("Findings of Scan %s in %s are missing in this preview: %v", s.Name, s.Namespace, err))
		}
	}
	return out, notes, nil
}

func (p *preview) read(
	ctx context.Context, v *cluster.Viewer, scan *executionv1.Scan, input *report.Input, list []exception.Exception, matcher *exception.Matcher,
) error {
	seen, err := v.ExceptionScan(ctx, scan, list)
	if err != nil {
		return err
	}
	input.Exceptions = matcher.For(seen)
	return input.Each(ctx, func(e *report.Entry) error {
		if e.Exception == nil {
			return nil
		}
		if p.Total++; len(p.Findings) < shownMatches {
			p.Findings = append(p.Findings, matched{
				Severity: strings.ToLower(e.Severity.String()), Name: e.Name, Location: e.Location, Scan: input.Scan.Name, Namespace: input.Scan.Namespace,
				Link: web.Link("/findings/"+url.PathEscape(cmp.Or(e.Fingerprint, e.ID)), "ns", input.Scan.Namespace, "scan", input.Scan.Name),
			})
		}
		return nil
	})
}
