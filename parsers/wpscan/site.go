// SPDX-License-Identifier: Apache-2.0

package wpscan

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const (
	keyFindings = "interesting_findings"
	keyAborted  = "scan_aborted"
)

// site is what the first pass takes from a report.
type site struct {
	report   finding.Object
	findings jsonstream.Kind // what interesting_findings is, "" if it is missing
}

func (s *site) read(report *jsonstream.Reader) error {
	kind, err := report.Kind()
	switch {
	case err != nil:
		return err
	case kind == jsonstream.Nothing:
		return nil
	case kind != jsonstream.Object:
		return report.Skip() // a value that has no target_url
	}
	return report.Object(func(key string) error {
		switch key {
		case "banner", "stop_time", "target_url", "target_ip", "requests_done", "version", "plugin", keyAborted:
			v, err := report.Value()
			if err != nil {
				return err
			}
			s.report.Set(key, v)
		case keyFindings:
			s.findings, err = report.Kind()
			return err
		}
		return nil
	})
}

// reportReach reports what was reached. WPScan names the target once it has found a WordPress there.
func (s *site) reportReach(in *sdk.Input, hasTarget bool) {
	reason, aborted := s.report.Text(keyAborted).Get()
	switch {
	case hasTarget:
		in.Reached("the site answered")
	case aborted:
		in.NothingReached("WPScan gave up: %.400s", strings.TrimRight(reason, ". \n"))
	default:
		in.ReachUnknown("the report names no target")
	}
}

// finding is that of the site itself. It refuses a report that cannot be made findings of.
func (s *site) finding(target any) (*finding.Finding, error) {
	v, _ := s.report.Get("banner")
	if v == nil {
		return nil, errors.New("the report has no banner; run WPScan without --no-banner")
	}
	banner, _ := v.(finding.Object)
	stopped, err := s.stopTime()
	if err != nil {
		return nil, err
	}
	switch plugin, _ := s.report.Get("plugin"); {
	case s.findings != jsonstream.Array:
		return nil, fmt.Errorf("the report has no list of %s", keyFindings)
	case ecma.Truthy(plugin):
		return nil, errors.New(`the report has a key "plugin", which WPScan does not write`)
	}
	ip, _ := s.report.Get("target_ip")
	f := &finding.Finding{
		Name:         finding.String("WordPress Service"),
		Description:  finding.String("WordPress Service Information"),
		IdentifiedAt: finding.String(stopped),
		Category:     finding.String("WordPress Service"),
		OSILayer:     finding.String("APPLICATION"),
		Severity:     finding.String(finding.Informational),
		References:   finding.References{Null: true},
		Attributes: finding.Object{
			{Key: "hostname", Value: target},
			{Key: "ip_addresses", Value: []any{ip}},
		},
	}
	ecma.SetText(f, &f.Location, "location", s.report, "target_url")
	ecma.Copy(&f.Attributes, "wpscan_version", banner, "version")
	ecma.Copy(&f.Attributes, "wpscan_requests", s.report, "requests_done")
	v, _ = s.report.Get("version")
	version, _ := v.(finding.Object)
	ecma.Copy(&f.Extra, "confidence", version, "confidence")
	for _, c := range []struct{ to, from string }{
		{"wp_version", "number"},
		{"wp_release_date", "release_date"},
		{"wp_release_status", "status"},
		{"wp_interesting_entries", "interesting_entries"},
		{"wp_found_by", "found_by"},
		{"wp_confirmed_by", "confirmed_by"},
		{"wp_vulnerabilities", "vulnerabilities"},
	} {
		ecma.Copy(&f.Attributes, c.to, version, c.from)
	}
	return f, nil
}

// stopTime is the end of the scan, which the report has in seconds.
func (s *site) stopTime() (string, error) {
	v, ok := s.report.Get("stop_time")
	if !ok {
		return "", errors.New("the report has no stop_time; the scan was probably aborted, run it again")
	}
	stopped, ok := ecma.Date(number(v) * 1000)
	if !ok {
		return "", fmt.Errorf("the report's stop_time %.100q is not a time", finding.ToString(v))
	}
	return stopped, nil
}

// number is Number(v) of a decoded value; NaN also for the notations that begin with 0x, 0o and 0b.
func number(v any) float64 {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 1
		}
		return 0
	case float64:
		return v
	}
	s := strings.TrimRight(ecma.TrimLeft(finding.ToString(v)), " \t\r\n")
	if s == "" {
		return 0
	}
	if strings.Trim(s, "+-.0123456789eE") != "" {
		return math.NaN()
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return f
}
