// SPDX-License-Identifier: Apache-2.0

package subfinder

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// includeTarget is the environment variable that asks for a finding for the domain itself.
const includeTarget = "INCLUDE_TARGET_DOMAIN"

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "subfinder-json",
		Summary:    "subfinder JSON lines (-json)",
		Kinds:      kinds(),
		Reach:      "subdomains; without any it is unknown, since sources that fail are not reported",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const asReported = sdk.Text | sdk.AsReported
	return []sdk.Kind{{
		Category:   "Subdomain",
		When:       "a subdomain that subfinder reports, or the domain of the Scan if that is asked for",
		Severities: []string{finding.Informational},
		Attributes: []sdk.Attribute{
			{Name: "domain", Type: asReported, Doc: "that was asked for"},
			{Name: "hostname", Type: asReported, Doc: "the subdomain"},
			{Name: "ip_address", Type: sdk.Text | sdk.Null | sdk.AsReported, Doc: "if subfinder runs with -ip"},
			{Name: "ip_addresses", Type: sdk.List},
			{Name: "source", Type: asReported, Doc: "where subfinder has it from; parser for the domain of the Scan"},
		},
		Identity: []string{"location"},
	}}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	domain, err := targetDomain(in)
	if err != nil {
		return err
	}
	found, err := parseLines(ctx, in, emit)
	if err != nil {
		return err
	}
	if found == 0 {
		in.ReachUnknown("subfinder has found nothing, and does not report whether its sources answered")
	} else {
		in.Reached("sources answered: %s", sdk.Counted(found, "subdomain", "subdomains"))
	}
	if domain == "" {
		return nil
	}
	return subdomain(finding.Object{
		{Key: "host", Value: domain},
		{Key: "input", Value: domain},
		{Key: "source", Value: "parser"},
	}, emit)
}

// targetDomain looks for the domain among the Scan's parameters, if there shall be a finding for it.
func targetDomain(in *sdk.Input) (string, error) {
	if !strings.EqualFold(in.Env(includeTarget), "true") {
		return "", nil
	}
	parameters := in.Scan.Spec.Parameters
	if parameters == nil {
		return "", errors.New(includeTarget + " is true, but the Scan has no parameters to take the domain from")
	}
	for i, p := range parameters {
		option, value, hasValue := strings.Cut(p, "=")
		switch {
		case option != "-d" && option != "-domain" && option != "--domain":
		case hasValue:
			return unquote(value), nil
		case i+1 < len(parameters):
			return parameters[i+1], nil
		}
	}
	return "", nil
}

// unquote takes off one quotation mark on either side.
func unquote(s string) string {
	const marks = `"'`
	if s != "" && strings.IndexByte(marks, s[0]) >= 0 {
		s = s[1:]
	}
	if s != "" && strings.IndexByte(marks, s[len(s)-1]) >= 0 {
		s = s[:len(s)-1]
	}
	return s
}

func parseLines(ctx context.Context, in *sdk.Input, emit sdk.Emit) (found int, err error) {
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer raw.Close()
	r := trimmedLines{in: jsonstream.NewLines(raw, in.Limits.JSON())}
	for {
		v, err := r.next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return 0, err
		}
		if v == nil {
			return 0, r.in.Fail(errors.New("is null, must be a subdomain"))
		}
		item, _ := v.(finding.Object)
		if err := errors.Join(subdomain(item, emit), ctx.Err()); err != nil {
			return 0, r.in.Fail(err)
		}
		found++
	}
}

// trimmedLines reads a text as if it were trimmed as a whole and then cut into lines: what may only stand at the end
// is remembered, and is an error if something follows.
type trimmedLines struct {
	in    *jsonstream.Lines
	began bool
	last  error // set by what must be last
}

// next decodes the next line.
func (t *trimmedLines) next() (any, error) {
	for {
		line, err := t.in.Next()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimFunc(line, ecma.IsSpace)) > 0 {
			return t.decode(line)
		}
		if t.began && t.last == nil {
			t.last = t.in.Fail(errors.New("is empty, must be a subdomain"))
		}
	}
}

func (t *trimmedLines) decode(line []byte) (any, error) {
	if t.last != nil {
		return nil, t.last
	}
	if !t.began {
		line = bytes.TrimLeftFunc(line, ecma.IsSpace)
	}
	t.began = true
	v, err := t.in.Decode(line)
	if err == nil {
		return v, nil
	}
	t.last = err // unless it is for white space that JSON does not know
	return t.in.Decode(bytes.TrimRightFunc(line, ecma.IsSpace))
}

func subdomain(item finding.Object, emit sdk.Emit) error {
	addresses := []any{}
	ip := ecma.OrNull(item, "ip")
	if ip != nil {
		addresses = append(addresses, ip)
	}
	f := finding.Finding{
		IdentifiedAt: finding.Null(),
		Description:  finding.String("Found subdomain " + ecma.Property(item, "host")),
		Category:     finding.String("Subdomain"),
		OSILayer:     finding.String("NETWORK"),
		Severity:     finding.String(finding.Informational),
		Attributes:   finding.Object{{Key: "ip_address", Value: ip}, {Key: "ip_addresses", Value: addresses}},
	}
	ecma.SetText(&f, &f.Name, "name", item, "host")
	ecma.SetText(&f, &f.Location, "location", item, "host")
	ecma.Copy(&f.Attributes, "domain", item, "input")
	ecma.Copy(&f.Attributes, "hostname", item, "host")
	ecma.Copy(&f.Attributes, "source", item, "source")
	return emit(&f)
}
