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

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

const (
	defaultMaxFindings = 50_000
	// mostFindings is beyond what browsers show with comfort.
	mostFindings = 250_000
)

// format is a kind of report.
type format struct {
	name string
	// object is what it is called in the store.
	object      string
	contentType string
	write       func(ctx context.Context, r *report, w io.Writer) error
}

// formats are all there are.
var formats = []format{
	{"html", "report.html", "text/html; charset=utf-8", writePage},
	{"sarif", "report.sarif", "application/sarif+json", writeSARIF},
	{"junit", "report.junit.xml", "application/xml", writeJUnit},
	{"csv", "report.csv", "text/csv; charset=utf-8; header=present", writeCSV},
	{"markdown", "report.md", "text/markdown; charset=utf-8", writeMarkdown},
}

func formatNames() string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	return strings.Join(names, ",")
}

// Hook registers persistence-static-report.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:    "persistence-static-report",
		Summary: "Writes reports beside the findings: a page of HTML, SARIF, JUnit, CSV and Markdown.",
		Settings: append([]sdk.Setting{
			{Name: "REPORT_FORMATS", Text: "which reports, separated by commas; default " + formatNames()},
			{Name: "REPORT_TITLE", Text: "what stands above the page and the Markdown; default: the name of the Scan"},
			{Name: "REPORT_MAX_FINDINGS", Text: fmt.Sprintf("how many findings the page holds at most, the worst first; default %d", defaultMaxFindings)},
			{Name: "REPORT_JUNIT_SEVERITY", Text: "findings of this severity and above are failures in JUnit: HIGH, MEDIUM, LOW or INFORMATIONAL; default LOW"},
			{Name: "OUTPUT_URLS", Text: "set by the operator: where objects go, as JSON"},
		}, sdk.DeliverySettings()...),
		New: newHandler,
	}
}

type handler struct {
	formats     []format
	title       string
	maxFindings int
	failFrom    severity
	urls        map[string]string
}

func newHandler(env sdk.Env) (sdk.Handler, error) {
	h := &handler{title: strings.TrimSpace(env.Get("REPORT_TITLE")), failFrom: low}
	if err := h.setFormats(env.Get("REPORT_FORMATS")); err != nil {
		return nil, err
	}
	var err error
	if h.maxFindings, err = env.Count("REPORT_MAX_FINDINGS", defaultMaxFindings); err != nil {
		return nil, err
	}
	if h.maxFindings > mostFindings {
		return nil, fmt.Errorf("REPORT_MAX_FINDINGS is %d, want %d at most: browsers do not show more with comfort, and the CSV has all", h.maxFindings, mostFindings)
	}
	if text := strings.ToUpper(env.Get("REPORT_JUNIT_SEVERITY")); text != "" {
		i := slices.Index(severityNames[:], text)
		if i < 0 {
			return nil, errors.New("REPORT_JUNIT_SEVERITY is none of " + strings.Join(severityNames[:], ", "))
		}
		h.failFrom = severity(i)
	}
	urls, err := env.Secret("OUTPUT_URLS")
	if err != nil || urls == "" {
		return h, err
	}
	if err := json.Unmarshal([]byte(urls), &h.urls); err != nil {
		return nil, errors.New("OUTPUT_URLS is no JSON object of names and URLs") // not repeated: they are credentials
	}
	return h, nil
}

func (h *handler) setFormats(text string) error {
	if strings.TrimSpace(text) == "" {
		h.formats = formats
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		i := slices.IndexFunc(formats, func(f format) bool { return f.name == name })
		switch {
		case name == "":
		case i < 0:
			return fmt.Errorf("REPORT_FORMATS has %q, want some of %s", name, formatNames())
		case !slices.ContainsFunc(h.formats, func(f format) bool { return f.name == name }):
			h.formats = append(h.formats, formats[i])
		}
	}
	if len(h.formats) == 0 {
		return errors.New("REPORT_FORMATS names no format, want some of " + formatNames())
	}
	return nil
}

// Handle writes the reports of a Scan.
func (h *handler) Handle(ctx context.Context, s *sdk.Session) error {
	for _, f := range h.formats {
		if h.urls[f.object] == "" {
			return fmt.Errorf("the operator gave no place for %s: spec.outputs of the hook must list this name, and the operator must know that field (OUTPUT_URLS)", f.object)
		}
	}
	comparison, err := s.Compare(ctx)
	if err != nil {
		return err
	}
	r := &report{handler: h, session: s, comparison: comparison}
	if err := r.readScan(); err != nil {
		return err
	}
	if err := r.survey(ctx); err != nil {
		return err
	}
	client := s.Sender(delivery.Options{FarEnd: "the store"})
	for _, f := range h.formats {
		if err := put(ctx, client, r, f, h.urls[f.object]); err != nil {
			return fmt.Errorf("%s: %w", f.object, err)
		}
	}
	return nil
}

func put(ctx context.Context, client *delivery.Client, r *report, f format, url string) error {
	body, err := sdk.Stage(ctx, func(ctx context.Context, w io.Writer) error { return f.write(ctx, r, w) })
	if err != nil {
		return fmt.Errorf("make it: %w", err)
	}
	_, err = client.Do(ctx, &delivery.Request{
		Method: http.MethodPut, URL: url, Body: body, Header: http.Header{"Content-Type": {f.contentType}},
	})
	if status, ok := errors.AsType[*delivery.StatusError](err); ok && status.Status == http.StatusForbidden {
		return fmt.Errorf("%w (perhaps its URL has run out; URL_EXPIRATION_HOOK of the operator makes it last longer)", err)
	}
	return err
}
