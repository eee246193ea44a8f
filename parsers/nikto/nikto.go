// SPDX-License-Identifier: Apache-2.0

package nikto

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "nikto-json",
		Summary:    "nikto JSON report (-Format json)",
		Kinds:      kinds(),
		Reach:      "hosts in the report; nikto leaves out those without a web server",
		Parse:      parse,
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	return jsonstream.Read(ctx, in, func(report *jsonstream.Reader) error {
		kind, err := report.Kind()
		switch {
		case err != nil:
			return err
		case kind == jsonstream.Nothing:
			in.ReachUnknown("the report is empty")
			return nil
		case kind != jsonstream.Array:
			in.ReachUnknown("the report is not a list of hosts")
			return checkEmpty(report, kind)
		}
		return readHosts(ctx, in, report, emit)
	})
}

func readHosts(ctx context.Context, in *sdk.Input, report *jsonstream.Reader, emit sdk.Emit) error {
	hosts, answered := 0, 0
	err := report.Array(func(i int) error {
		host, err := report.Value()
		if err != nil {
			return err
		}
		hosts++
		if hasAnswered(host) {
			answered++
		}
		if err := parseHost(host, emit); err != nil {
			return fmt.Errorf("host %d: %w", i, err)
		}
		return ctx.Err()
	})
	switch {
	case hosts == 0:
		in.NothingReached("no web server answered")
	case answered == 0:
		in.ReachUnknown("nikto lists %s, but nothing that came from there", sdk.Counted(hosts, "host", "hosts"))
	default:
		in.Reached("%s answered", sdk.Counted(answered, "web server", "web servers"))
	}
	return err
}

// hasAnswered reports that a host has said something: its banner, or anything that a vulnerability was found in.
func hasAnswered(host any) bool {
	o, _ := host.(finding.Object)
	banner, _ := o.Get("banner")
	found, _ := o.Get("vulnerabilities")
	list, _ := found.([]any)
	return ecma.Truthy(banner) || len(list) > 0
}

// checkEmpty passes over a report that is not an array. It may not look as if there were something in it.
func checkEmpty(report *jsonstream.Reader, kind jsonstream.Kind) error {
	var length any
	var err error
	switch kind {
	case jsonstream.String:
		length, err = report.Value()
	case jsonstream.Object:
		err = report.Object(func(key string) error {
			if key != "length" {
				return nil
			}
			length, err = report.Value()
			return err
		})
	default:
		err = report.Skip()
	}
	if err != nil {
		return err
	}
	if ecma.Truthy(length) {
		return fmt.Errorf("the report is %s, must be an array of hosts", kind)
	}
	return nil
}

func parseHost(v any, emit sdk.Emit) error {
	if v == nil {
		return errors.New("is null, must be an object")
	}
	host, _ := v.(finding.Object) // any other value has no vulnerabilities
	found, _ := host.Get("vulnerabilities")
	if !ecma.Truthy(found) {
		return nil
	}
	vulnerabilities, ok := found.([]any)
	if !ok {
		return errors.New("has vulnerabilities that are not an array")
	}
	t := newTarget(host)
	for i, v := range vulnerabilities {
		if !ecma.Truthy(v) {
			continue
		}
		if err := t.parseVulnerability(v, emit); err != nil {
			return fmt.Errorf("vulnerability %d: %w", i, err)
		}
	}
	return nil
}

// target is what all findings of a host have in common.
type target struct {
	host finding.Object
	base string
	port float64
	ips  []any
}

func newTarget(host finding.Object) *target {
	t := &target{host: host, port: ecma.ParseInt(ecma.Property(host, "port"))}
	scheme := "http"
	if t.port == 443 || t.port == 8443 {
		scheme = "https"
	}
	t.base = scheme + "://" + ecma.Property(host, "host")
	ip, _ := host.Get("ip")
	t.ips = []any{ip}
	return t
}

func (t *target) parseVulnerability(v any, emit sdk.Emit) error {
	vulnerability, _ := v.(finding.Object)
	message, ok := vulnerability.Text("msg").Get()
	if !ok {
		return errors.New("has no msg, or one that is not a string")
	}
	references, err := referencesOf(vulnerability)
	if err != nil {
		return err
	}
	number := ecma.ParseInt(ecma.Property(vulnerability, "id"))
	c := classify(number)
	f := finding.Finding{
		Name:        finding.String(strings.TrimRightFunc(message, ecma.IsSpace)),
		Description: finding.Null(),
		Category:    finding.String(c.category),
		Location:    finding.String(t.base + ecma.Property(vulnerability, "url")),
		OSILayer:    finding.String("NETWORK"),
		Severity:    finding.String(c.severity),
		Attributes:  finding.Object{{Key: "ip_addresses", Value: t.ips}},
	}
	ecma.Copy(&f.Attributes, "hostname", t.host, "host")
	ecma.Copy(&f.Attributes, "banner", t.host, "banner")
	ecma.Copy(&f.Attributes, "method", vulnerability, "method")
	f.Attributes = append(f.Attributes,
		finding.Member{Key: "port", Value: t.port},
		finding.Member{Key: "niktoId", Value: number},
		finding.Member{Key: "references", Value: references})
	return emit(&f)
}

// referencesOf returns nil, or the reference as a URL and, if it is one of the CWE list, the weakness.
func referencesOf(vulnerability finding.Object) (any, error) {
	v := ecma.OrNull(vulnerability, "references")
	if v == nil {
		return nil, nil
	}
	text, ok := v.(string)
	if !ok {
		return nil, errors.New("has references that are not a string")
	}
	references := []any{reference("URL", text)}
	if strings.HasPrefix(text, "https://cwe.mitre.org") {
		number, ok := weakness(text)
		if !ok {
			return nil, fmt.Errorf("has the reference %.200q, which has no .html page", text)
		}
		references = append(references, reference("CWE", "CWE-"+number))
	}
	return references, nil
}

func reference(kind, value string) finding.Object {
	return finding.Object{{Key: "type", Value: kind}, {Key: "value", Value: value}}
}

// weakness returns the digits before the first .html, if there is one.
func weakness(url string) (string, bool) {
	page, _, ok := strings.Cut(url, ".html")
	return page[len(strings.TrimRight(page, "0123456789")):], ok
}
