// SPDX-License-Identifier: Apache-2.0

package sslyze

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

const (
	serviceInfo        = "TLS Service Info"
	outdatedVersion    = "Outdated TLS Version"
	invalidCertificate = "Invalid Certificate"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "sslyze-json",
		Summary:    "sslyze JSON report (--json_out)",
		Kinds:      kinds(),
		Reach:      "connectivity_status of the servers, and server strings that cannot be resolved",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	server := []sdk.Attribute{
		{Name: "hostname", Type: sdk.Text | sdk.AsReported},
		{Name: "ip_addresses", Type: sdk.List, Doc: "the one that sslyze has asked"},
		{Name: "port", Type: sdk.Number | sdk.AsReported},
	}
	return []sdk.Kind{
		{
			Category: serviceInfo, When: "a server that could be reached",
			Severities: []string{finding.Informational}, Identity: []string{"location"},
			Attributes: append([]sdk.Attribute{
				{Name: "tls_versions", Type: sdk.List, Doc: "those with a cipher suite that the server accepts: SSL 2.0 to TLS 1.3"},
				{Name: "cipher_suites", Type: sdk.List, Doc: "OpenSSL's names of those that the server accepts"},
			}, server...),
		},
		{
			Category: outdatedVersion, When: "a version below TLS 1.2 that the server accepts",
			Severities: []string{finding.Medium}, Identity: []string{"location", "attributes.outdated_version"},
			Attributes: append([]sdk.Attribute{{Name: "outdated_version", Type: sdk.Text}}, server...),
		},
		{
			Category: invalidCertificate, When: "a certificate that is not trusted, or that sslyze could not read",
			Severities: []string{finding.Medium}, Identity: []string{"name", "location"}, Attributes: server,
		},
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	r := &report{}
	err := jsonstream.Read(ctx, in, func(doc *jsonstream.Reader) error { return r.read(ctx, doc) })
	if err != nil {
		return err
	}
	r.reportReach(in)
	if !r.hasServer {
		return nil
	}
	server, ok := r.server.(finding.Object)
	if !ok {
		return errors.New("the first server result is not an object")
	}
	if !hasConnection(server) {
		return nil
	}
	findings, err := findingsOf(server, r.completed)
	if err != nil {
		return fmt.Errorf("the first server result: %w", err)
	}
	for i := range findings {
		if err := emit(&findings[i]); err != nil {
			return err
		}
	}
	return nil
}

// report is what counts of a report.
type report struct {
	server    any
	hasServer bool
	completed any

	servers, reached, invalid int
	counted                   bool
}

// reportReach reports what was reached. All servers count, though only the first has findings.
func (r *report) reportReach(in *sdk.Input) {
	total := r.servers + r.invalid
	switch {
	case r.reached > 0:
		in.Reached("%d of %d servers answered", r.reached, total)
	case total > 0 && r.servers == 0:
		in.NothingReached("0 of %d servers could be resolved", total)
	case total > 0:
		in.NothingReached("0 of %d servers answered", total)
	case r.counted:
		in.NothingReached("0 servers were scanned")
	default:
		in.ReachUnknown("the report has no list of servers")
	}
}

func (r *report) count(reached bool) {
	r.servers++
	if reached {
		r.reached++
	}
}

const connectivity = "connectivity_status"

func hasConnection(server finding.Object) bool {
	status, _ := server.Get(connectivity)
	return status != "ERROR"
}

// isReached looks at a server without findings. Most of such a server is not decoded.
func isReached(raw []byte) bool {
	if !bytes.Contains(raw, []byte(connectivity)) {
		return true
	}
	v, err := finding.NewDecoder(0).Pick(raw, map[string]bool{connectivity: true})
	server, _ := v.(finding.Object)
	return err == nil && hasConnection(server)
}

func (r *report) read(ctx context.Context, doc *jsonstream.Reader) error {
	kind, err := doc.Kind()
	if err != nil || kind == jsonstream.Nothing {
		return err
	}
	switch kind {
	case jsonstream.Null:
		return errors.New("the report is null, must be an object")
	case jsonstream.Object:
		return doc.Object(func(key string) error {
			switch key {
			case "server_scan_results":
				return r.readServers(ctx, doc)
			case "invalid_server_strings":
				kind, err := doc.Kind()
				if err != nil || kind != jsonstream.Array {
					return err
				}
				return doc.Array(func(int) error {
					r.invalid++
					return nil
				})
			case "date_scans_completed":
				r.completed, err = doc.Value()
				return err
			}
			return nil
		})
	default:
		return doc.Skip() // a value that has no servers
	}
}

func (r *report) readServers(ctx context.Context, doc *jsonstream.Reader) error {
	kind, err := doc.Kind()
	if err != nil {
		return err
	}
	if kind != jsonstream.Array {
		servers, err := doc.Value()
		if err == nil && ecma.Truthy(servers) {
			err = fmt.Errorf("server_scan_results is %s, must be an array", kind)
		}
		return err
	}
	r.counted = true
	return doc.Array(func(i int) error {
		if i > 0 {
			raw, err := doc.Raw()
			if err != nil {
				return err
			}
			r.count(isReached(raw))
			return ctx.Err()
		}
		r.hasServer = true
		r.server, err = doc.Value()
		first, _ := r.server.(finding.Object)
		r.count(hasConnection(first))
		return err
	})
}

// findingsOf makes the findings of one server.
func findingsOf(server finding.Object, completed any) ([]finding.Finding, error) {
	common, err := commonOf(server, completed)
	if err != nil {
		return nil, err
	}
	result, err := part(server, "scan_result")
	if err != nil {
		return nil, err
	}
	offered, err := suitesOf(result)
	if err != nil {
		return nil, err
	}
	f := *common
	f.Name = finding.String("TLS Service")
	f.Description = finding.String("")
	f.Category = finding.String(serviceInfo)
	f.Severity = finding.String(finding.Informational)
	f.Mitigation = finding.Null()
	f.Attributes = append(slices.Clip(f.Attributes),
		finding.Member{Key: "tls_versions", Value: offered.versions},
		finding.Member{Key: "cipher_suites", Value: offered.suites})
	list := []finding.Finding{f}
	for _, version := range offered.outdated {
		f := *common
		f.Name = finding.String("TLS Version " + version + " is considered insecure")
		f.Description = finding.String("The server uses outdated or insecure tls versions.")
		f.Category = finding.String(outdatedVersion)
		f.Severity = finding.String(finding.Medium)
		f.Mitigation = finding.String("Upgrade to a higher tls version.")
		f.Attributes = append(slices.Clip(f.Attributes),
			finding.Member{Key: "outdated_version", Value: version})
		list = append(list, f)
	}
	objections, err := objectionsTo(result)
	if err != nil {
		return nil, err
	}
	for _, o := range objections {
		f := *common
		f.Name = finding.String(o.name)
		f.Description = finding.String(o.description)
		f.Category = finding.String(invalidCertificate)
		f.Severity = finding.String(finding.Medium)
		f.Mitigation = finding.StringOrNull(o.mitigation)
		list = append(list, f)
	}
	return list, nil
}

// commonOf is what all findings of a server share.
func commonOf(server finding.Object, completed any) (*finding.Finding, error) {
	place, err := part(server, "server_location")
	if err != nil {
		return nil, err
	}
	host := ecma.Property(place, "ip_address")
	if name := ecma.OrNull(place, "hostname"); name != nil {
		host = finding.ToString(name)
	}
	address, _ := place.Get("ip_address")
	f := &finding.Finding{
		Location: finding.String(host + ":" + ecma.Property(place, "port")),
		OSILayer: finding.String("PRESENTATION"),
		Extra:    finding.Object{{Key: "reference"}},
	}
	ecma.Copy(&f.Attributes, "hostname", place, "hostname")
	f.Attributes = append(f.Attributes, finding.Member{Key: "ip_addresses", Value: []any{address}})
	ecma.Copy(&f.Attributes, "port", place, "port")
	if ecma.Truthy(completed) {
		time, ok := ecma.Date(completed)
		if !ok {
			return nil, fmt.Errorf("date_scans_completed %.100q is not a date", finding.ToString(completed))
		}
		f.IdentifiedAt = finding.String(time)
	}
	return f, nil
}

// part returns a member that has to be there. What is not an object has no members.
func part(of finding.Object, key string) (finding.Object, error) {
	v, _ := of.Get(key)
	if v == nil {
		return nil, fmt.Errorf("has no %s", key)
	}
	o, _ := v.(finding.Object)
	return o, nil
}
