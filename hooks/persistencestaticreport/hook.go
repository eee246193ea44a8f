// SPDX-License-Identifier: Apache-2.0

package persistencestaticreport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Hook registers persistence-static-report.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:     "persistence-static-report",
		Summary:  "Writes reports beside the findings: a page of HTML, SARIF, JUnit, CSV and Markdown.",
		Excepted: sdk.ExceptedMark,
		Settings: append([]sdk.Setting{
			sdk.ExceptedSetting(sdk.ExceptedMark),
			{Name: "REPORT_FORMATS", Text: "which reports, separated by commas; default " + strings.Join(report.FormatNames(), ",")},
			{Name: "REPORT_TITLE", Text: "title of the page and the Markdown; default: the name of the Scan"},
			{Name: "REPORT_MAX_FINDINGS", Text: fmt.Sprintf("how many findings the page holds at most, the worst first; default %d", report.DefaultMaxFindings)},
			{Name: "REPORT_JUNIT_SEVERITY", Text: "findings of this severity and above are failures in JUnit: CRITICAL, HIGH, MEDIUM, LOW, INFORMATIONAL; default LOW"},
			{Name: "OUTPUT_URLS", Text: "set by the operator: where objects go, as JSON"},
		}, sdk.DeliverySettings()...),
		New: newHandler,
	}
}

type handler struct {
	formats     []report.Format
	title       string
	maxFindings int
	failOn      report.Threshold
	urls        map[string]string
}

func newHandler(env sdk.Env) (sdk.Handler, error) {
	h := &handler{title: strings.TrimSpace(env.Get("REPORT_TITLE")), failOn: report.AtLeast(report.Low)}
	if err := h.setFormats(env.Get("REPORT_FORMATS")); err != nil {
		return nil, err
	}
	var err error
	if h.maxFindings, err = env.Count("REPORT_MAX_FINDINGS", report.DefaultMaxFindings); err != nil {
		return nil, err
	}
	if h.maxFindings > report.MostFindings {
		return nil, fmt.Errorf(
			"REPORT_MAX_FINDINGS is %d, want %d at most: browsers do not show more with comfort, and the CSV has all",
			h.maxFindings, report.MostFindings,
		)
	}
	if text := env.Get("REPORT_JUNIT_SEVERITY"); text != "" {
		if h.failOn, err = report.ParseThreshold(text); err != nil {
			return nil, fmt.Errorf("REPORT_JUNIT_SEVERITY: %w", err)
		}
	}
	urls, err := env.Secret("OUTPUT_URLS")
	if err != nil || urls == "" {
		return h, err
	}
	if err := json.Unmarshal([]byte(urls), &h.urls); err != nil {
		return nil, errors.New("OUTPUT_URLS is not a JSON object of names and URLs") // not repeated: they are credentials
	}
	return h, nil
}

func (h *handler) setFormats(text string) error {
	if strings.TrimSpace(text) == "" {
		h.formats = report.Formats()
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		format, ok := report.FormatNamed(name)
		switch {
		case name == "":
		case !ok:
			return fmt.Errorf("REPORT_FORMATS has %q, want some of %s", name, strings.Join(report.FormatNames(), ","))
		case !slices.ContainsFunc(h.formats, func(f report.Format) bool { return f.Name == name }):
			h.formats = append(h.formats, format)
		}
	}
	if len(h.formats) == 0 {
		return errors.New("REPORT_FORMATS names no format, want some of " + strings.Join(report.FormatNames(), ","))
	}
	return nil
}

// Handle writes the reports of a Scan.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	for _, f := range h.formats {
		if h.urls[f.Object] == "" {
			return fmt.Errorf(
				"the operator gave no place for %s: spec.outputs of the hook must list this name, and the operator must know that field (OUTPUT_URLS)",
				f.Object,
			)
		}
	}
	in, err := h.input(ctx, s)
	if err != nil {
		return err
	}
	r, err := report.New(ctx, in)
	if err != nil {
		return err
	}
	client := s.Sender(delivery.Options{Remote: "the store"})
	for _, f := range h.formats {
		if err := put(ctx, client, r, f, h.urls[f.Object]); err != nil {
			return fmt.Errorf("%s: %w", f.Object, err)
		}
	}
	return nil
}

// input is what the reports of a Scan are made from.
func (h *handler) input(ctx context.Context, s *sdk.Session) (report.Input, error) {
	comparison, err := s.Compare(ctx)
	if err != nil {
		return report.Input{}, err
	}
	scan, err := report.ScanOf(s.Scan().Raw)
	if err != nil {
		return report.Input{}, err
	}
	scan.Title = h.title
	in := report.Input{
		Findings: s.EachFinding, Scan: scan, MaxFindings: h.maxFindings, FailOn: h.failOn, Siblings: h.formats,
	}
	held, omit, err := s.Goes(ctx)
	if err != nil {
		return report.Input{}, err
	}
	in.Exceptions = held
	if omit {
		in.Keep = func(e *report.Entry) bool { return !e.Excepted() }
	}
	if comparison.HasPrevious() {
		in.Comparison = comparison
	}
	return in, nil
}

func put(ctx context.Context, client *delivery.Client, r *report.Report, f report.Format, url string) error {
	body, err := sdk.Stage(ctx, func(ctx context.Context, w io.Writer) error { return r.Write(ctx, w, f) })
	if err != nil {
		return fmt.Errorf("make it: %w", err)
	}
	_, err = client.Do(ctx, &delivery.Request{
		Method: http.MethodPut, URL: url, Body: body, Header: http.Header{"Content-Type": {f.ContentType}},
	})
	if status, ok := errors.AsType[*delivery.StatusError](err); ok && status.Status == http.StatusForbidden {
		return fmt.Errorf("%w (perhaps its URL has run out; URL_EXPIRATION_HOOK of the operator makes it last longer)", err)
	}
	return err
}
