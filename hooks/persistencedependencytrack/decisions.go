// SPDX-License-Identifier: Apache-2.0

package persistencedependencytrack

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/distribution/reference"

	"github.com/scanyard/scanyard/apis/finding"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/apis/text"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/vulnerability"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const (
	// maxFindings is how many bytes the findings of a project may have.
	maxFindings = 64 << 20
	// maxDetails is how many bytes of an exception's reason are told.
	maxDetails = 1024
	// ours begins the details of the decisions that the hook makes: whoever decides otherwise by hand writes others.
	ours = "scanyard: "
)

// decision is an analysis as Dependency-Track takes it.
// https://docs.dependencytrack.org/triage/analysis-states/
type decision struct {
	Project       string `json:"project"`
	Component     string `json:"component"`
	Vulnerability string `json:"vulnerability"`
	State         string `json:"analysisState"`
	Justification string `json:"analysisJustification"`
	Response      string `json:"analysisResponse"`
	Details       string `json:"analysisDetails"`
	Suppressed    bool   `json:"isSuppressed"`
}

// notSet is the word of Dependency-Track for what nobody has decided.
const notSet = "NOT_SET"

// states are the words of Dependency-Track for those of exceptions. A risk that is accepted is exploitable, and stays.
var states = map[settingsv1alpha2.ExceptionStatus][2]string{
	settingsv1alpha2.ExceptionAccepted:           {"EXPLOITABLE", "WILL_NOT_FIX"},
	settingsv1alpha2.ExceptionFalsePositive:      {"FALSE_POSITIVE", notSet},
	settingsv1alpha2.ExceptionNotAffected:        {"NOT_AFFECTED", notSet},
	settingsv1alpha2.ExceptionMitigated:          {"RESOLVED", notSet},
	settingsv1alpha2.ExceptionUnderInvestigation: {"IN_TRIAGE", notSet},
}

// justifications are the words of Dependency-Track, which are those of CycloneDX, for those of OpenVEX.
var justifications = map[settingsv1alpha2.Justification]string{
	"component_not_present":                             "REQUIRES_DEPENDENCY",
	"vulnerable_code_not_present":                       "CODE_NOT_PRESENT",
	"vulnerable_code_not_in_execute_path":               "CODE_NOT_REACHABLE",
	"vulnerable_code_cannot_be_controlled_by_adversary": "REQUIRES_CONFIGURATION",
	"inline_mitigations_already_exist":                  "PROTECTED_BY_MITIGATING_CONTROL",
}

// decisionOf is what is decided of a finding by the exception that matches; nil for none.
func decisionOf(mark *exception.Mark) decision {
	d := decision{State: notSet, Justification: notSet, Response: notSet}
	if mark == nil {
		return d
	}
	words := states[mark.Status]
	d.State, d.Response, d.Suppressed = words[0], words[1], mark.Suppresses()
	if word := justifications[mark.Justification]; word != "" {
		d.Justification = word
	}
	d.Details = ours + mark.Kind + "/" + mark.Name + ": " + text.Cut(mark.Reason, maxDetails)
	return d
}

// found is a finding of Dependency-Track.
type found struct {
	Component struct {
		UUID    string `json:"uuid"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
	} `json:"component"`
	Vulnerability struct {
		UUID     string              `json:"uuid"`
		ID       string              `json:"vulnId"`
		Title    string              `json:"title"`
		Severity string              `json:"severity"`
		Aliases  []map[string]string `json:"aliases"`
		CWEs     []struct {
			ID int `json:"cweId"`
		} `json:"cwes"`
	} `json:"vulnerability"`
	Analysis struct {
		State      string `json:"state"`
		Suppressed bool   `json:"isSuppressed"`
	} `json:"analysis"`
}

// isDecided says that somebody has decided something.
func (f *found) isDecided() bool {
	return f.Analysis.Suppressed || f.Analysis.State != "" && f.Analysis.State != notSet
}

// object is what exceptions ask of the finding of a component of an image.
func (f *found) object(image string) (finding.Object, error) {
	report := &reportsv1.VulnerabilityReport{}
	report.Spec.Repository = image
	if parts := reference.ReferenceRegexp.FindStringSubmatch(image); parts != nil {
		report.Spec.Repository, report.Spec.Tag, report.Spec.Digest = parts[1], parts[2], parts[3]
	}
	v := &reportsv1.VulnerabilityFinding{
		VulnerabilityID: f.Vulnerability.ID, Title: f.Vulnerability.Title, Severity: f.Vulnerability.Severity,
		Package: reportsv1.VulnerablePackage{Name: f.Component.Name, Version: f.Component.Version, PURL: f.Component.PURL},
	}
	for _, alias := range f.Vulnerability.Aliases {
		for _, id := range alias {
			v.Aliases = append(v.Aliases, id)
		}
	}
	for _, cwe := range f.Vulnerability.CWEs {
		v.CWEs = append(v.CWEs, "CWE-"+strconv.Itoa(cwe.ID))
	}
	return vulnerability.Object(report, v, "")
}

// deciding tells Dependency-Track of exceptions.
type deciding struct {
	*handler

	client  *delivery.Client
	held    *exception.Selection
	image   string
	project string
	// changed is how many decisions were made or taken back.
	changed int
}

// decide makes decisions of the exceptions that match what Dependency-Track has found, and takes back those whose exception holds
// no longer. An API key that may make none has made none: without exceptions it need not.
func (h *handler) decide(ctx context.Context, s *sdk.Session, p *project, b *bom, token string) error {
	held, _, err := s.Goes(ctx)
	if err != nil || s.TakesNoNotice() {
		return err
	}
	if !held.IsEmpty() && h.wait == 0 {
		if err := h.await(ctx, s, token, usualWait); err != nil {
			return fmt.Errorf("an exception holds for the Scan, and %w", err)
		}
	}
	o := h.options()
	o.MaxAnswer = maxFindings
	d := &deciding{handler: h, client: s.Sender(o), held: held, image: b.name}
	if may, err := d.lookUp(ctx, p); err != nil || !may {
		return err
	}
	var all []found
	if may, err := d.get(ctx, "/api/v1/finding/project/"+url.PathEscape(d.project)+"?suppressed=true", &all); err != nil || !may {
		return err
	}
	for i := range all {
		if err := d.one(ctx, &all[i]); err != nil {
			return err
		}
	}
	if d.changed > 0 {
		s.Notef("told of exceptions by %d decisions", d.changed)
	}
	return nil
}

// decisionAdvice says which permissions are missing.
const decisionAdvice = "an exception holds for the Scan; the team of the API key needs the permissions VIEW_PORTFOLIO, VIEW_VULNERABILITY and " +
	"VULNERABILITY_ANALYSIS to tell of it, or set EXCEPTED to send"

// get reads an answer. May is false where there is nothing to be read, and no exception that would have to be told.
func (d *deciding) get(ctx context.Context, path string, into any) (may bool, err error) {
	var none []int
	if d.held.IsEmpty() {
		none = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound}
	}
	answer, err := d.client.Do(ctx, &delivery.Request{
		Method: http.MethodGet, URL: d.address + path, Header: http.Header{"X-Api-Key": {d.apiKey}}, Accept: none,
	})
	if isDenied(err) {
		return false, fmt.Errorf("%w; %s", err, decisionAdvice)
	}
	if err != nil || answer.Status >= http.StatusBadRequest {
		return false, err
	}
	if err := answer.JSON(into); err != nil {
		return false, fmt.Errorf("read the response of Dependency-Track: %w", err)
	}
	return true, nil
}

func (d *deciding) lookUp(ctx context.Context, p *project) (may bool, err error) {
	var got struct {
		UUID string `json:"uuid"`
	}
	may, err = d.get(ctx, "/api/v1/project/lookup?"+url.Values{"name": {p.name}, "version": {p.version}}.Encode(), &got)
	d.project = got.UUID
	return may && got.UUID != "", err
}

// one decides of one finding. What a person has decided stays.
func (d *deciding) one(ctx context.Context, f *found) error {
	object, err := f.object(d.image)
	if err != nil {
		return err
	}
	var mark *exception.Mark
	if m, ok := d.held.Match(object); ok {
		mark = &m
	}
	if mark == nil && !f.isDecided() {
		return nil
	}
	wanted := decisionOf(mark)
	wanted.Project, wanted.Component, wanted.Vulnerability = d.project, f.Component.UUID, f.Vulnerability.UUID
	if f.isDecided() {
		var before decision
		query := url.Values{"project": {d.project}, "component": {wanted.Component}, "vulnerability": {wanted.Vulnerability}}
		may, err := d.get(ctx, "/api/v1/analysis?"+query.Encode(), &before)
		same := before.Details == wanted.Details && before.State == wanted.State && before.Suppressed == wanted.Suppressed
		if err != nil || !may || same || !strings.HasPrefix(before.Details, ours) {
			return err
		}
	}
	return d.put(ctx, &wanted)
}

func (d *deciding) put(ctx context.Context, wanted *decision) error {
	body, err := delivery.JSON(wanted)
	if err != nil {
		return err
	}
	_, err = d.client.Do(ctx, &delivery.Request{
		Method: http.MethodPut, URL: d.address + "/api/v1/analysis", Body: body,
		Header: http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {d.apiKey}},
	})
	if isDenied(err) {
		return fmt.Errorf("%w; %s", err, decisionAdvice)
	}
	d.changed++
	return err
}
