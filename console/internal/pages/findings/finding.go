// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	apifinding "github.com/scanyard/scanyard/apis/finding"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/findings/report"
)

type finding = apifinding.Reference

func escape(text string) string { return url.PathEscape(text) }

// node is a value of the attributes with what is below it.
type node struct {
	Name, Value string
	Below       []node
}

// maxDepth bounds the tree that is shown.
const maxDepth = 12

func nodeOf(name string, v any, depth int) node {
	n := node{Name: name}
	switch v := v.(type) {
	case apifinding.Object:
		if depth < maxDepth {
			for _, m := range v {
				n.Below = append(n.Below, nodeOf(m.Key, m.Value, depth+1))
			}
			return n
		}
	case []any:
		if depth < maxDepth {
			for i, item := range v {
				n.Below = append(n.Below, nodeOf(strconv.Itoa(i+1), item, depth+1))
			}
			return n
		}
	}
	n.Value = apifinding.ToString(v)
	return n
}

// elsewhere is a namespace that has a finding of the same identifier.
type elsewhere struct {
	Namespace string
	Count     int64
	Link      string
}

// detail is what the page of a finding shows.
type detail struct {
	Severity, Name, Category, Location, Description, Mitigation, Layer, Identified string
	Key, Fingerprint                                                               string
	Namespace, Scan, ScanType                                                      string
	References                                                                     []finding
	Attributes                                                                     []node
	// Except is the command that excepts the finding; empty where the fingerprint is not a plain word.
	Except string
	// ExceptLink leads to the form for an exception, filled in.
	ExceptLink    string
	Raw, Markdown string
	Exception     *mark
	Runs          runs
	Elsewhere     []elsewhere
	Policy        string
	// Same is what findings elsewhere have in common with this one: the identifier, else the name.
	Same string
}

type mark struct{ Name, Link, Status, Reason, Until string }

// stored shows a finding of a Scan.
func (p *pages) stored(q *web.Request) (*web.View, error) {
	namespace, name, wanted := q.URL.Query().Get("ns"), q.URL.Query().Get("scan"), q.PathValue("key")
	return p.ofScan(q, namespace, name, func(e *report.Entry) bool { return e.Fingerprint == wanted || e.ID == wanted })
}

func (p *pages) ofScan(q *web.Request, namespace, name string, is func(*report.Entry) bool) (*web.View, error) {
	if namespace == "" || name == "" {
		return nil, &web.Problem{
			Code: http.StatusNotFound, Title: "This address does not say which Scan the finding is of.", Text: "It must have the parameters ns and scan.",
			Remedy: "Look for the finding in the list of findings.",
		}
	}
	scan := &executionv1.Scan{}
	if err := q.Viewer.Get(q.Context(), client.ObjectKey{Namespace: namespace, Name: name}, scan); err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	input, err := q.Viewer.Findings(q.Context(), scan)
	if err != nil {
		return nil, &web.Problem{Code: 404, Title: "The findings of this Scan cannot be read.", Text: err.Error()}
	}
	var found *detail
	var same compare.Mark
	err = input.Each(q.Context(), func(e *report.Entry) error {
		if !is(e) {
			return nil
		}
		found = detailOf(scan, e)
		var err error
		if same, err = compare.MarkOf(e.Element); err != nil {
			return fmt.Errorf("read finding: %w", err)
		}
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if found == nil {
		return nil, &web.Problem{Code: 404, Title: "This run does not have the finding.", Text: "It may be fixed, or the scanner has run again.", Remedy: ""}
	}
	if found.Runs, err = runsOf(q, scan, same); err != nil {
		return nil, err
	}
	return p.show(q, found)
}

func detailOf(scan *executionv1.Scan, e *report.Entry) *detail {
	d := &detail{
		Severity: severityOf(e.Severity), Name: e.Name, Category: e.Category, Location: e.Location, Description: e.Description, Mitigation: e.Mitigation,
		Layer: e.OSILayer, Identified: e.IdentifiedAt, Key: e.Fingerprint, Fingerprint: e.Fingerprint, Namespace: scan.Namespace, Scan: scan.Name,
		ScanType: scan.Spec.ScanType, References: e.References,
	}
	if d.Key == "" {
		d.Key = e.ID
	}
	for _, m := range e.Attributes {
		d.Attributes = append(d.Attributes, nodeOf(m.Key, m.Value, 1))
	}
	var raw bytes.Buffer
	if json.Indent(&raw, e.Element, "", "  ") == nil {
		d.Raw = raw.String()
	}
	for _, r := range e.References {
		if r.Type == "CVE" || strings.HasPrefix(strings.ToUpper(r.Value), "CVE-") {
			d.Policy = r.Value
			break
		}
	}
	if m := e.Exception; m != nil {
		d.Exception = &mark{Name: m.Kind + " " + m.Name, Status: string(m.Status), Reason: m.Reason}
		d.Exception.Link = "/exceptions/" + escape(scan.Namespace) + "/" + escape(m.Name)
		if m.Kind == exception.ClusterKind {
			d.Exception.Link = "/clusterexceptions/" + escape(m.Name)
		}
		if m.ExpiresAt != nil {
			d.Exception.Until = m.ExpiresAt.UTC().Format(time.DateOnly)
		}
	}
	return d
}

// reportOf is a report of a namespace, or of the cluster.
func reportOf(q *web.Request, namespace, name string) (*wgpolicyv1alpha2.PolicyReport, error) {
	r, key := &wgpolicyv1alpha2.PolicyReport{}, client.ObjectKey{Namespace: namespace, Name: name}
	if namespace != "" {
		if err := q.Viewer.Get(q.Context(), key, r); err != nil {
			return nil, fmt.Errorf("read report: %w", err)
		}
		return r, nil
	}
	c := &wgpolicyv1alpha2.ClusterPolicyReport{}
	if err := q.Viewer.Get(q.Context(), key, c); err != nil {
		return nil, fmt.Errorf("read report of the cluster: %w", err)
	}
	r.ObjectMeta, r.Scope, r.Results = c.ObjectMeta, c.Scope, c.Results
	return r, nil
}

// reported shows a finding that a report holds: as its Scan has it, while that is there.
func (p *pages) reported(q *web.Request) (*web.View, error) {
	v := q.URL.Query()
	index, err := strconv.Atoi(v.Get("index"))
	if err != nil || index < 0 {
		return nil, &web.Problem{Code: 400, Title: "There is no such finding."}
	}
	r, err := reportOf(q, v.Get("ns"), v.Get("report"))
	if err != nil {
		return nil, err
	}
	if index >= len(r.Results) {
		return nil, &web.Problem{Code: 404, Title: "This report does not have the finding any more.", Text: "It may be fixed, or the scanner has run again."}
	}
	result := &r.Results[index]
	id := result.Properties["id"]
	if scan := r.Labels[policyreport.LabelScan]; scan != "" && id != "" {
		view, err := p.ofScan(q, r.Namespace, scan, func(e *report.Entry) bool { return e.ID == id })
		if err == nil || q.Context().Err() != nil {
			return view, err
		}
	}
	d := &detail{
		Severity: string(result.Severity), Name: result.Rule, Category: result.Category, Location: result.Properties["location"], Description: result.Message,
		Mitigation: result.Properties["mitigation"], Layer: result.Properties["osi_layer"], Key: id, Namespace: r.Namespace,
		Scan: r.Labels[policyreport.LabelScan], ScanType: strings.TrimPrefix(result.Source, "scanyard/"), Policy: result.PolicyName(),
	}
	if d.Name == "" {
		d.Name = result.PolicyName()
	}
	for text := range strings.SplitSeq(result.Properties["references"], ",") {
		if text != "" {
			d.References = append(d.References, finding{Value: text})
		}
	}
	for name, value := range result.Properties {
		if attribute, ok := strings.CutPrefix(name, "attr."); ok {
			d.Attributes = append(d.Attributes, node{Name: attribute, Value: value})
		}
	}
	sortNodes(d.Attributes)
	if raw, err := json.MarshalIndent(result, "", "  "); err == nil {
		d.Raw = string(raw)
	}
	return p.show(q, d)
}

func (p *pages) show(q *web.Request, d *detail) (*web.View, error) {
	notes := d.elsewhere(q)
	if d.Scan != "" && plainWord(d.Fingerprint) {
		d.Except = fmt.Sprintf(`scanyard exceptions create -n %s --from %s --fingerprint %s --status Accepted --reason "…" --expires 90d`,
			d.Namespace, d.Scan, d.Fingerprint)
	}
	d.ExceptLink = exceptLink(d)
	d.Markdown = markdownOf(d)
	return &web.View{Title: d.Name, Section: "Findings", Template: p.oneTemplate, Data: d, Notes: notes}, nil
}

// elsewhere fills which namespaces have findings like this one: of its identifier, or of its name where it has none.
func (d *detail) elsewhere(q *web.Request) (notes []string) {
	field, parameter := "policy", "policy"
	if d.Same = d.Policy; d.Same == "" {
		d.Same, field, parameter = d.Name, "rule", "q"
	}
	answer, err := q.Viewer.Ask(q.Context(), q.Scope, reportsv1alpha1.FindingQuerySpec{
		Where: []reportsv1alpha1.Term{{Field: field, Op: "==", Value: d.Same}}, GroupBy: []string{"namespace"}, Limit: perPage,
	})
	if err != nil {
		return web.Notes("Who else has it", nil, err)
	}
	for _, g := range answer.Groups {
		name := g.Key["namespace"]
		d.Elsewhere = append(d.Elsewhere, elsewhere{name, g.Count, web.Link("/findings", parameter, d.Same, "ns", name)})
	}
	return nil
}

// exceptLink leads to the form for an exception of a finding: by its fingerprint, else by what it is and where.
func exceptLink(d *detail) string {
	switch {
	case d.Exception != nil:
		return ""
	case d.Fingerprint != "":
		return web.Link("/exceptions/new", "namespace", d.Namespace, "fingerprints", d.Fingerprint, "finding", d.Name)
	}
	return web.Link(
		"/exceptions/new", "namespace", d.Namespace, "names", literal(d.Name), "categories", literal(d.Category), "locations", literal(d.Location),
		"finding", d.Name,
	)
}

// literal is a text as a glob that means as much: one character of any kind for each that a glob gives a meaning.
func literal(text string) string { return strings.ReplaceAll(text, "*", "?") }

// markdownOf is the finding for a ticket. Foreign text stands in a block of code, where it has no meaning.
func markdownOf(d *detail) string {
	var out strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&out, "%s: %s\n", name, strings.ReplaceAll(value, "```", "` ` `"))
		}
	}
	out.WriteString("```text\n")
	line("Finding", d.Name)
	line("Severity", web.SeverityName(d.Severity))
	line("Category", d.Category)
	line("Location", d.Location)
	line("Scan", d.Namespace+"/"+d.Scan)
	line("Fingerprint", d.Fingerprint)
	line("Description", d.Description)
	line("Mitigation", d.Mitigation)
	for _, r := range d.References {
		line("Reference", r.Value)
	}
	out.WriteString("```\n")
	return out.String()
}

// plainWord says whether a text means nothing to a shell.
func plainWord(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}
