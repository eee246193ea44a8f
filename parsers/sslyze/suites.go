// SPDX-License-Identifier: Apache-2.0

package sslyze

import (
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

// versions are those that sslyze tries, from the oldest.
var versions = []struct {
	name, key string
	outdated  bool
}{
	{"SSL 2.0", "ssl_2_0_cipher_suites", true},
	{"SSL 3.0", "ssl_3_0_cipher_suites", true},
	{"TLS 1.0", "tls_1_0_cipher_suites", true},
	{"TLS 1.1", "tls_1_1_cipher_suites", true},
	{"TLS 1.2", "tls_1_2_cipher_suites", false},
	{"TLS 1.3", "tls_1_3_cipher_suites", false},
}

// offer is what a server accepts.
type offer struct {
	versions, outdated []string
	suites             []any
}

func suitesOf(result finding.Object) (*offer, error) {
	o := &offer{versions: []string{}, suites: []any{}}
	seen := map[any]bool{}
	for _, version := range versions {
		tried, err := part(result, version.key)
		if err != nil {
			return nil, err
		}
		v, _ := tried.Get("result")
		outcome, _ := v.(finding.Object) // any other value has no members
		accepted, err := listOf(outcome, "accepted_cipher_suites")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", version.key, err)
		}
		if len(accepted) > 0 {
			o.versions = append(o.versions, version.name)
			if version.outdated {
				o.outdated = append(o.outdated, version.name)
			}
		}
		for i, suite := range accepted {
			if err := o.add(suite, seen); err != nil {
				return nil, fmt.Errorf("%s: accepted suite %d: %w", version.key, i, err)
			}
		}
	}
	return o, nil
}

// add takes a suite's name unless it has been seen. Names that are lists or objects are never the same.
func (o *offer) add(v any, seen map[any]bool) error {
	accepted, ok := v.(finding.Object)
	if !ok {
		return errors.New("is not an object")
	}
	suite, err := part(accepted, "cipher_suite")
	if err != nil {
		return err
	}
	name, ok := suite.Get("openssl_name")
	if !isReference(name) {
		key := name
		if !ok {
			key = finding.Text{} // missing is not null
		}
		if seen[key] {
			return nil
		}
		seen[key] = true
	}
	o.suites = append(o.suites, name)
	return nil
}

// isReference tells what ECMAScript compares by identity: two of them are never the same here.
func isReference(v any) bool {
	switch v.(type) {
	case []any, finding.Object:
		return true
	}
	return false
}

// listOf returns the elements of a member: none where it is missing or falsy.
func listOf(of finding.Object, key string) ([]any, error) {
	v := ecma.OrNull(of, key)
	list, ok := v.([]any)
	if !ok && v != nil {
		return nil, fmt.Errorf("%s is not an array", key)
	}
	return list, nil
}
