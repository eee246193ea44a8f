// SPDX-License-Identifier: Apache-2.0

package ncrack

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/xmlsax"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "ncrack-xml",
		Summary:    "Ncrack XML output (-oX)",
		Kinds:      kinds(),
		Reach:      "credentials; without any it is unknown, since services that do not answer are listed as well",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const optional = sdk.Text | sdk.Optional
	return []sdk.Kind{{
		Category:   "Discovered Credentials",
		When:       "a user name and password that the service accepts",
		Severities: []string{finding.High},
		Attributes: []sdk.Attribute{
			{Name: "port", Type: optional, Doc: "a text, not a number"},
			{Name: "ip_addresses", Type: sdk.List},
			{Name: "protocol", Type: optional},
			{Name: "service", Type: optional},
			{Name: "username", Type: optional},
			{Name: "password", Type: optional, Doc: "encrypted with age, if the ParseDefinition names a key"},
		},
		Identity: []string{"location", "attributes.username"},
	}}
}

// serviceElements is how many times the largest element a service with all its credentials may take.
const serviceElements = 2

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	seal, err := newSealer(in.Env)
	if err != nil {
		return err
	}
	raw, err := in.Source.Open(ctx)
	if err != nil {
		return err
	}
	defer raw.Close()
	r := reader{
		xml:   xmlsax.NewReader(raw, xmlsax.Limits{MaxTag: in.Limits.MaxElement, MaxDepth: in.Limits.MaxDepth}),
		limit: serviceElements * in.Limits.MaxElement,
	}
	accepted := 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := r.next()
		if errors.Is(err, io.EOF) {
			reportReach(in, accepted, r.services)
			return nil
		}
		if err != nil {
			return explain(err)
		}
		if err := r.service.write(seal, emit); err != nil {
			return err
		}
		if len(r.service.credentials) > 0 {
			accepted++
		}
	}
}

// reportReach reports what was reached. Ncrack lists services that do not answer as it does those that accept nothing.
func reportReach(in *sdk.Input, accepted, services int) {
	if accepted == 0 {
		in.ReachUnknown("0 of %d services accepted credentials, and Ncrack does not report which answered", services)
		return
	}
	in.Reached("%d of %d services accepted credentials", accepted, services)
}

// explain adds what a user can do about it.
func explain(err error) error {
	if errors.Is(err, xmlsax.ErrTruncated) {
		return fmt.Errorf("read the Ncrack XML: %w (Ncrack was probably stopped before its end; run the scan again)", err)
	}
	return fmt.Errorf("read the Ncrack XML: %w", err)
}

func (s *service) write(seal *sealer, emit sdk.Emit) error {
	location := finding.ToString(s.name) + "://" + finding.ToString(s.addr) + ":" + finding.ToString(s.port)
	var ip any
	if addr, ok := s.addr.Get(); ok {
		ip = addr
	}
	for _, c := range s.credentials {
		password, err := seal.password(c.password)
		if err != nil {
			return fmt.Errorf("credentials for %.200q: %w", location, err)
		}
		err = emit(&finding.Finding{
			Name:        finding.String("Credentials for Service " + location + " discovered via bruteforce."),
			Description: finding.String(""),
			Category:    finding.String("Discovered Credentials"),
			Location:    finding.String(location),
			OSILayer:    finding.String("APPLICATION"),
			Severity:    finding.String(finding.High),
			Mitigation:  finding.String("Use a more secure password or disable the service at " + location),
			Attributes: finding.Object{
				{Key: "port", Value: s.port},
				{Key: "ip_addresses", Value: []any{ip}},
				{Key: "protocol", Value: s.protocol},
				{Key: "service", Value: s.name},
				{Key: "username", Value: c.username},
				{Key: "password", Value: password},
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
