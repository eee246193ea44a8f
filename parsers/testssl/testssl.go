// SPDX-License-Identifier: Apache-2.0

package testssl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "testssl-json",
		Summary:    "testssl.sh JSON, flat or pretty (--jsonfile, --jsonfile-pretty)",
		Kinds:      kinds(),
		Reach:      "tests that were done; a report in which a fatal problem left none is an error",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	rated := []string{finding.High, finding.Medium, finding.Low}
	information := []string{finding.Informational}
	endpoint := []sdk.Attribute{
		{Name: "hostname", Type: sdk.Text | sdk.Optional},
		{Name: "ip_addresses", Type: sdk.List | sdk.Optional},
		{Name: "port", Type: sdk.Number | sdk.Optional},
	}
	test := slices.Concat(endpoint, []sdk.Attribute{
		{Name: "test", Type: sdk.Text, Doc: "testssl's id of the test"},
		{Name: "original_severity", Type: sdk.Text},
	})
	offered := sdk.Attribute{Name: "tls_versions", Type: sdk.List, Doc: "those that it offers: TLS 1.2, …"}
	kind := func(category, when string, severities []string) sdk.Kind {
		return sdk.Kind{
			Category: category, When: when, Severities: severities, Attributes: test,
			Identity: []string{"location", "attributes.test"},
		}
	}
	return []sdk.Kind{
		kind(categoryVersion, "SSL 2, SSL 3, TLS 1.0 or TLS 1.1 is offered, and testssl rates that", rated),
		kind(categoryCertificate, "something about a certificate that testssl rates", rated),
		kind(categoryVulnerability, "a known weakness such as BEAST or Heartbleed that testssl rates", rated),
		kind(categoryHeader, "an HTTP header that is missing or says too much", rated),
		kind(categoryConfiguration, "anything else that testssl rates, such as weak ciphers", rated),
		kind(categoryProblem, "a test that could not be done", information),
		{
			Category: categoryService, When: "an endpoint whose protocols were tested", Severities: information, Identity: []string{"location"},
			Attributes: append(endpoint, offered),
		},
	}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	s := scan{emit: emit}
	err := jsonstream.Read(ctx, in, func(r *jsonstream.Reader) error {
		kind, err := r.Kind()
		switch {
		case err != nil:
			return err
		case kind == jsonstream.Array:
			return s.flat(ctx, r)
		}
		return s.pretty(ctx, r)
	})
	switch {
	case err != nil:
		return err
	case s.tested:
		in.Reached("tests were done")
	case s.fatal != "":
		return fmt.Errorf("testssl could not test anything: %.300s", s.fatal)
	case s.problems != "":
		in.NothingReached("no test could be done: %.300s", s.problems)
	default:
		in.ReachUnknown("the report holds no tests")
	}
	return nil
}

// scan makes findings, endpoint by endpoint.
type scan struct {
	emit   sdk.Emit
	at     endpoint
	tested bool   // whether any test was done
	fatal  string // what went wrong, if anything did
	// problems is the first thing that could not be done.
	problems string
	// versions are those that the endpoint offers; hasVersions says that they were tested.
	versions    []string
	hasVersions bool
}

// flat reads an array of tests, each with its endpoint.
func (s *scan) flat(ctx context.Context, r *jsonstream.Reader) error {
	err := jsondoc.Elements(ctx, r, "entry", func(o finding.Object) error {
		host, ip, _ := strings.Cut(jsondoc.Text(o, "ip"), "/")
		if err := s.move(newEndpoint(host, ip, jsondoc.Text(o, "port"))); err != nil {
			return err
		}
		return s.add(o)
	})
	if err != nil {
		return err
	}
	return s.move(endpoint{})
}

// pretty reads an object with an endpoint per element of scanResult. Problems stand outside of them.
func (s *scan) pretty(ctx context.Context, r *jsonstream.Reader) error {
	hasResult := false
	err := r.Object(func(key string) error {
		switch {
		case key == "scanResult":
			hasResult = true
			return jsondoc.Elements(ctx, r, "endpoint", s.addEndpoint)
		case strings.HasPrefix(key, "clientProblem"):
			return jsondoc.Elements(ctx, r, key, s.add)
		case key == "scanTime":
			v, err := r.Value()
			if text, ok := v.(string); ok && err == nil {
				return s.problem(text, "scanTime", "WARN")
			}
			return err
		}
		return nil
	})
	if err == nil && !hasResult {
		err = errors.New(`is not a testssl report: has no "scanResult"`)
	}
	return err
}

func (s *scan) addEndpoint(o finding.Object) error {
	if _, ok := o.Get("id"); ok { // a problem in place of an endpoint
		return s.add(o)
	}
	host := jsondoc.Text(o, "targetHost")
	if name := jsondoc.Text(o, "hostname"); name != "" { // one of several mail servers, whose domain is the target
		host = name
	}
	if err := s.move(newEndpoint(host, jsondoc.Text(o, "ip"), jsondoc.Text(o, "port"))); err != nil {
		return err
	}
	for _, section := range o {
		tests, ok := section.Value.([]any)
		if !ok {
			continue
		}
		for i, v := range tests {
			test, ok := v.(finding.Object)
			if !ok {
				return fmt.Errorf("%s %d: is not an object", section.Key, i)
			}
			if err := s.add(test); err != nil {
				return fmt.Errorf("%s %d: %w", section.Key, i, err)
			}
		}
	}
	return s.move(endpoint{})
}

// move ends the endpoint at hand if another one begins.
func (s *scan) move(to endpoint) error {
	if to == s.at {
		return nil
	}
	left := *s
	s.at, s.versions, s.hasVersions = to, nil, false
	if !left.hasVersions {
		return nil
	}
	f := left.at.newFinding("TLS Service", categoryService, finding.Informational)
	f.Attributes = append(f.Attributes, finding.Member{Key: "tls_versions", Value: left.versions})
	return s.emit(f)
}

// add takes one test.
func (s *scan) add(o finding.Object) error {
	id, err := jsondoc.Need(o, "id")
	if err != nil {
		return err
	}
	word, err := jsondoc.Need(o, "severity")
	if err != nil {
		return err
	}
	text := jsondoc.Text(o, "finding")
	rated, known := severities[word]
	switch {
	case !known:
		return fmt.Errorf("severity %.40q is none of testssl's", word)
	case word == "WARN" || word == "FATAL":
		if word == "FATAL" {
			s.fatal = id + ": " + text
		}
		return s.problem(text, id, word)
	}
	if id != "scanTime" && id != "service" {
		s.tested = true
	}
	s.addVersion(id, text)
	if rated == "" {
		return nil
	}
	return s.emit(s.at.rated(o, id, word, rated))
}

// severities are testssl's words and what they mean here, "" for what is not a finding.
var severities = map[string]string{
	"CRITICAL": finding.High, "HIGH": finding.High, "MEDIUM": finding.Medium, "LOW": finding.Low,
	"OK": "", "INFO": "", "DEBUG": "", "WARN": finding.Informational, "FATAL": finding.Informational,
}

var versions = map[string]string{
	"SSLv2": "SSL 2.0", "SSLv3": "SSL 3.0", "TLS1": "TLS 1.0", "TLS1_1": "TLS 1.1", "TLS1_2": "TLS 1.2", "TLS1_3": "TLS 1.3",
}

// addVersion remembers a protocol version, if the test is one for it. It comes up to once per test of an endpoint.
func (s *scan) addVersion(id, text string) {
	version, ok := versions[id]
	if !ok || len(s.versions) == len(versions) {
		return
	}
	if !s.hasVersions {
		s.hasVersions, s.versions = true, []string{}
	}
	for _, start := range []string{"offered", "vulnerable", "supported"} {
		if strings.HasPrefix(text, start) {
			s.versions = append(s.versions, version)
			return
		}
	}
}

func (s *scan) problem(text, id, word string) error {
	if s.problems == "" {
		s.problems = id + ": " + text
	}
	f := s.at.newFinding("testssl could not do all tests", categoryProblem, finding.Informational)
	if text != "" {
		f.Description = finding.String(text)
	}
	f.Attributes = append(f.Attributes, finding.Member{Key: "test", Value: id}, finding.Member{Key: "original_severity", Value: word})
	return s.emit(f)
}
