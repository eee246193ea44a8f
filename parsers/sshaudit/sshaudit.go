// SPDX-License-Identifier: Apache-2.0

package sshaudit

import (
	"context"
	"errors"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "ssh-audit-json",
		Summary:    "ssh-audit JSON report (--json)",
		Kinds:      kinds(),
		Reach:      "the server's banner or its algorithms",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const textOrNull = sdk.Text | sdk.Null
	return []sdk.Kind{
		{
			Category: "SSH Service", When: "an SSH server that answers",
			Severities: []string{finding.Informational}, Identity: []string{"location"},
			Attributes: []sdk.Attribute{
				{Name: "hostname", Type: textOrNull, Doc: "of the target, unless that is an IPv4 address"},
				{Name: "ip_address", Type: textOrNull, Doc: "of the target, if that is an IPv4 address"},
				{Name: "server_banner", Type: textOrNull | sdk.AsReported},
				{Name: "ssh_version", Type: textOrNull | sdk.AsReported, Doc: "of the protocol"},
				{Name: "ssh_lib_cpe", Type: textOrNull | sdk.AsReported, Doc: "name and version of the software"},
				{Name: "key_algorithms", Type: sdk.List | sdk.AsReported},
				{Name: "encryption_algorithms", Type: sdk.List | sdk.AsReported},
				{Name: "mac_algorithms", Type: sdk.List | sdk.AsReported},
				{Name: "compression_algorithms", Type: sdk.List | sdk.AsReported},
				{Name: "key_exchange_algorithms", Type: sdk.List | sdk.AsReported},
				{Name: "fingerprints", Type: sdk.List | sdk.AsReported, Doc: "of the host keys"},
			},
		},
		{
			Category: "SSH Policy Violation", When: "algorithms that should be removed, changed or added",
			Severities: []string{finding.High, finding.Medium, finding.Low},
			// two levels can name the same, with other algorithms
			Identity: []string{"name", "location", "attributes.algorithms"},
			Attributes: []sdk.Attribute{
				{Name: "algorithms", Type: sdk.List, Doc: "their names, some with a note"},
			},
		},
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	report, err := read(ctx, in)
	if err != nil {
		return err
	}
	target, _ := report.Get("target")
	reportReach(in, report, ecma.Truthy(target))
	if !ecma.Truthy(target) {
		return nil
	}
	text, ok := target.(string)
	if !ok {
		return errors.New("the report's target is not a string")
	}
	parts := strings.Split(text, ":")
	location := "ssh://" + parts[0]
	recommended, _ := report.Get("recommendations")
	if recommended == nil {
		return errors.New("recommendations: are missing or null; ssh-audit writes them from release 3 on")
	}
	violations, err := violationsOf(recommended, location)
	if err != nil {
		return err
	}
	if err := emit(service(report, parts, location)); err != nil {
		return err
	}
	for i := range violations {
		if err := emit(&violations[i]); err != nil {
			return err
		}
	}
	return nil
}

// reportReach reports what was reached: a server that sends neither a banner nor a list of algorithms speaks no SSH.
func reportReach(in *sdk.Input, report finding.Object, hasTarget bool) {
	v, _ := report.Get("banner")
	banner, _ := v.(finding.Object)
	raw, _ := banner.Get("raw")
	protocol, _ := banner.Get("protocol")
	algorithms, _ := report.Get("kex")
	switch {
	case !hasTarget:
		in.ReachUnknown("the report names no target")
	case ecma.Truthy(raw), ecma.Truthy(protocol), algorithms != nil:
		in.Reached("the SSH server answered")
	default:
		in.NothingReached("no SSH server answered")
	}
}

// read returns the report, or no members where it is anything but an object.
func read(ctx context.Context, in *sdk.Input) (report finding.Object, err error) {
	err = jsonstream.Read(ctx, in, func(doc *jsonstream.Reader) error {
		kind, err := doc.Kind()
		switch {
		case err != nil || kind == jsonstream.Nothing:
			return err
		case kind != jsonstream.Object:
			return doc.Skip()
		}
		v, err := doc.Value()
		report, _ = v.(finding.Object) // the kind says so
		return err
	})
	return report, err
}

// service is the finding about the server itself. The target has been split at its colons.
func service(report finding.Object, target []string, location string) *finding.Finding {
	host, address := finding.StringOrNull(target[0]), finding.Null()
	if isAddress(target[0]) {
		host, address = address, host
	}
	port := finding.Null()
	if len(target) > 1 {
		port = finding.StringOrNull(target[1])
	}
	v, _ := report.Get("banner")
	banner, _ := v.(finding.Object) // any other value has no members
	f := &finding.Finding{
		Name:        finding.String("SSH Service"),
		Description: finding.String("Information about Used SSH Algorithms"),
		Category:    finding.String("SSH Service"),
		OSILayer:    finding.String("APPLICATION"),
		Severity:    finding.String(finding.Informational),
		Location:    finding.String(location),
		Extra:       finding.Object{{Key: "port", Value: port}},
		Attributes: finding.Object{
			{Key: "hostname", Value: host},
			{Key: "ip_address", Value: address},
			{Key: "server_banner", Value: ecma.OrNull(banner, "raw")},
			{Key: "ssh_version", Value: ecma.OrNull(banner, "protocol")},
		},
	}
	ecma.Copy(&f.Attributes, "ssh_lib_cpe", banner, "software")
	for _, c := range []struct{ to, from string }{
		{"key_algorithms", "key"},
		{"encryption_algorithms", "enc"},
		{"mac_algorithms", "mac"},
		{"compression_algorithms", "compression"},
		{"key_exchange_algorithms", "kex"},
		{"fingerprints", "fingerprints"},
	} {
		ecma.Copy(&f.Attributes, c.to, report, c.from)
	}
	return f
}

// isAddress tells an IPv4 address that does not begin with 0. Numbers below 100 may have one leading 0.
func isAddress(s string) bool {
	numbers := strings.Split(s, ".")
	if len(numbers) != 4 || s[0] == '0' {
		return false
	}
	for _, n := range numbers {
		if !isOctet(n) {
			return false
		}
	}
	return true
}

func isOctet(s string) bool {
	if s == "" || len(s) > 3 || len(s) == 3 && s[0] == '0' {
		return false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
		n = 10*n + int(c-'0')
	}
	return n <= 255
}
