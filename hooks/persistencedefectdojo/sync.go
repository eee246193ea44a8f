// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// importedCategory is that of findings which only DefectDojo has.
const importedCategory = "DefectDojo Imported Finding"

// syncer brings back what DefectDojo knows.
type syncer struct {
	*handler

	api     *api
	session *sdk.Session
	test    int64

	known     *known
	endpoints map[int64]*endpoint
	originals map[int64]finding.Object
}

// run changes the findings; sdk.ErrReadOnly says that it must not, and that nothing was done.
func (s *syncer) run(ctx context.Context) error {
	return s.session.UpdateFindings(ctx, func(ctx context.Context, out *sdk.Output) error {
		if s.known == nil { // the first of perhaps two passes
			if err := s.fetch(ctx); err != nil {
				return err
			}
		}
		return s.write(ctx, out)
	})
}

func (s *syncer) fetch(ctx context.Context) error {
	if err := s.pause(ctx); err != nil {
		return err
	}
	s.endpoints, s.originals = map[int64]*endpoint{}, map[int64]finding.Object{}
	all := newKnown()
	query := url.Values{"test": {strconv.FormatInt(s.test, 10)}, "is_mitigated": {"false"}, "prefetch": {"endpoints"}, "o": {"id"}}
	err := s.api.eachPage(ctx, "findings/", query, 0, func(p *page) error { return s.take(ctx, all, p) })
	switch {
	case errors.Is(err, errTooMany) && s.mode != syncReplace:
		s.session.Notef("%v; further findings stay as they are", err)
	case err != nil:
		return err
	}
	s.known = all
	return nil
}

// pause gives DefectDojo the time that DEFECTDOJO_REFETCH_WAIT_SECONDS says, by asking twice.
func (s *syncer) pause(ctx context.Context) error {
	if s.wait == 0 {
		return nil
	}
	asked := false
	request := s.api.pageRequest("findings/", url.Values{"test": {strconv.FormatInt(s.test, 10)}, "limit": {"1"}}, 0)
	request.Check = func(*delivery.Answer) error {
		if asked {
			return nil
		}
		asked = true
		return delivery.TryAgain(fmt.Errorf("and is given %s to find duplicates", s.wait), s.wait)
	}
	_, err := s.api.client.Do(ctx, request)
	return err
}

// take remembers the findings of a page.
func (s *syncer) take(ctx context.Context, all *known, p *page) error {
	var prefetched struct {
		Endpoints map[string]*endpoint `json:"endpoints"`
	}
	if len(p.Prefetch) > 0 {
		if err := json.Unmarshal(p.Prefetch, &prefetched); err != nil {
			return fmt.Errorf("the response is not the expected JSON: %w", err)
		}
	}
	for _, raw := range p.Results {
		d := &dojoFinding{}
		if err := json.Unmarshal(raw, d); err != nil {
			return fmt.Errorf("the response is not the expected JSON: %w", err)
		}
		if d.IsMitigated || d.Test != s.test {
			continue // an older DefectDojo may not know the filter
		}
		for _, id := range d.Endpoints {
			e, err := s.endpoint(ctx, id, prefetched.Endpoints)
			if err != nil {
				return err
			}
			d.places = append(d.places, e)
		}
		if s.mode == syncAnnotate {
			d.Description = "" // is not written
		}
		all.add(d)
	}
	return nil
}

func (s *syncer) endpoint(ctx context.Context, id int64, prefetched map[string]*endpoint) (*endpoint, error) {
	if e, ok := s.endpoints[id]; ok {
		return e, nil
	}
	key := strconv.FormatInt(id, 10)
	e := prefetched[key]
	if e == nil {
		e = &endpoint{}
		if _, err := s.api.get(ctx, "endpoints/"+key+"/", e); err != nil && !isForbidden(err) {
			return nil, err
		}
	}
	s.endpoints[id] = e
	return e, nil
}

func isForbidden(err error) bool {
	status, ok := errors.AsType[*delivery.StatusError](err)
	return ok && status.Status == http.StatusForbidden
}

func (s *syncer) write(ctx context.Context, out *sdk.Output) error {
	matched := map[int64]bool{}
	err := s.session.EachFinding(ctx, func(element []byte) error {
		d, err := s.writeOwn(ctx, element, out)
		if d != nil {
			matched[d.ID] = true
		}
		return err
	})
	if err != nil || s.mode == syncAnnotate {
		return err
	}
	for _, d := range s.known.all {
		if matched[d.ID] {
			continue
		}
		f := s.imported(d)
		if err := s.annotate(ctx, &f.Attributes, d); err != nil {
			return err
		}
		if err := out.Write(f); err != nil {
			return err
		}
	}
	return nil
}

// writeOwn writes a finding of the Scan and returns DefectDojo's record of it.
func (s *syncer) writeOwn(ctx context.Context, element []byte, out *sdk.Output) (*dojoFinding, error) {
	var f finding.Finding
	if err := json.Unmarshal(element, &f); err != nil {
		return nil, fmt.Errorf("read finding: %w", err)
	}
	id := f.ID.Or("")
	if id == "" {
		var err error
		if id, err = s.session.FindingID(element); err != nil {
			return nil, err
		}
	}
	d := s.known.find(id, &f)
	switch {
	case d == nil && s.mode == syncReplace:
		return nil, nil // neither a record nor a fault
	case d == nil:
		return nil, out.WriteRaw(element)
	}
	if err := s.annotate(ctx, &f.Attributes, d); err != nil {
		return nil, err
	}
	f.Extra.Delete("attributes") // that were no object
	return d, out.Write(&f)
}

// annotate adds what DefectDojo says. Names are those that rules and templates of users know.
func (s *syncer) annotate(ctx context.Context, attributes *finding.Object, d *dojoFinding) error {
	if *attributes == nil {
		*attributes = finding.Object{}
	}
	for _, m := range s.view(d) {
		attributes.Set(m.Key, m.Value)
	}
	if !d.Duplicate || d.DuplicateFinding == nil {
		return nil
	}
	original, err := s.original(ctx, *d.DuplicateFinding)
	if err != nil {
		return err
	}
	attributes.Set("defectdojo.org/original-finding-id", *d.DuplicateFinding)
	if original != nil {
		attributes.Set("defectdojo.org/original-finding", original)
	}
	return nil
}

func (s *syncer) view(d *dojoFinding) finding.Object {
	return finding.Object{
		{Key: "defectdojo.org/finding-id", Value: d.ID},
		{Key: "defectdojo.org/finding-url", Value: s.api.link("finding", d.ID)},
		{Key: "defectdojo.org/test-id", Value: d.Test},
		{Key: "defectdojo.org/test-url", Value: s.api.link("test", d.Test)},
		{Key: "duplicate", Value: d.Duplicate},
		{Key: "falsePositive", Value: d.FalsePositive},
		{Key: "riskAccepted", Value: d.RiskAccepted},
		{Key: "outOfScope", Value: d.OutOfScope},
	}
}

// original is the finding that others are duplicates of; nil where the user may not see it.
func (s *syncer) original(ctx context.Context, id int64) (finding.Object, error) {
	if o, ok := s.originals[id]; ok {
		return o, nil
	}
	d := &dojoFinding{}
	found, err := s.api.get(ctx, "findings/"+strconv.FormatInt(id, 10)+"/", d)
	if err != nil && !isForbidden(err) {
		return nil, err
	}
	var o finding.Object
	if found && err == nil {
		for _, e := range d.Endpoints[:min(1, len(d.Endpoints))] { // only the first is shown
			place, err := s.endpoint(ctx, e, nil)
			if err != nil {
				return nil, err
			}
			d.places = append(d.places, place)
		}
		f := s.imported(d)
		f.Attributes = s.view(d)
		text, err := f.AppendJSON(nil)
		if err != nil {
			return nil, fmt.Errorf("write finding: %w", err)
		}
		value, err := finding.DecodeValue(text, 0)
		if err != nil {
			return nil, fmt.Errorf("read finding: %w", err)
		}
		o, _ = value.(finding.Object)
	}
	s.originals[id] = o
	return o, nil
}

// imported makes a finding of one that only DefectDojo has. Its id is the same in every run.
func (s *syncer) imported(d *dojoFinding) *finding.Finding {
	return &finding.Finding{
		ID:          finding.String(delivery.Key(s.address, "finding", strconv.FormatInt(d.ID, 10))),
		Name:        finding.String(d.Title),
		Description: finding.String(d.Description),
		Category:    finding.String(importedCategory),
		ParsedAt:    finding.StringOrNull(d.Created),
		Severity:    finding.String(d.severity()),
		Location:    finding.String(d.location()),
	}
}
