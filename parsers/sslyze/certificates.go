// SPDX-License-Identifier: Apache-2.0

package sslyze

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

// ownCA is sslyze's name of the trust store that its user gave it.
const ownCA = "Supplied CA file"

// objection is what there is to say against a certificate.
type objection struct{ name, description, mitigation string }

var unreadable = objection{
	name: "ASN.1 Parsing Error",
	description: "An error occurred while parsing the ASN.1 value in the certificate. This may be due to a corrupted certificate, " +
		"improper formatting, or incompatibility with the cryptography library.",
	mitigation: "Verify the integrity of the certificate, or inspect the certificate for custom or non-standard extensions.",
}

// objections are looked through in order.
var objections = []struct {
	applies func(*deployment) bool
	objection
}{
	{
		func(d *deployment) bool { return d.has("leaf certificate has no matching subjectAltName") },
		objection{name: "Invalid Hostname", description: "Hostname of Server didn't match the certificates subject names"},
	},
	{
		func(d *deployment) bool { return d.selfSigned },
		objection{name: "Self-Signed Certificate", description: "Certificate is self-signed"},
	},
	{
		func(d *deployment) bool { return d.has("cert is not valid at validation time") },
		objection{name: "Expired Certificate", description: "Certificate has expired"},
	},
	{
		func(d *deployment) bool {
			untrusted := d.has("Certificate is missing required extension") || d.has("chain construction exceeds max depth")
			return untrusted && !d.vouchedFor
		},
		objection{
			name:        "Untrusted Certificate Root",
			description: "The certificate chain contains a certificate not trusted ", // its readers know the space
		},
	},
}

// deployment is a certificate as the server presents it.
type deployment struct {
	errors     []any // texts, or lists of them
	vouchedFor bool  // by the user's own CA
	selfSigned bool
}

// has reports that an error contains a text.
func (d *deployment) has(text string) bool {
	return slices.ContainsFunc(d.errors, func(v any) bool {
		switch v := v.(type) {
		case string:
			return strings.Contains(v, text)
		case []any:
			return slices.Contains(v, any(text))
		}
		return false
	})
}

func (d *deployment) trusted() bool { return len(d.errors) == 0 || d.vouchedFor }

// objectionsTo returns what there is to say against the certificates of a server, at most one objection each.
func objectionsTo(result finding.Object) ([]objection, error) {
	info := result
	for _, key := range []string{"certificate_info", "result"} {
		v, _ := info.Get(key)
		info, _ = v.(finding.Object) // any other value has no members
	}
	if ecma.OrNull(info, "certificate_deployments") == nil {
		return []objection{unreadable}, nil
	}
	list, err := listOf(info, "certificate_deployments")
	if err != nil {
		return nil, err
	}
	deployments := make([]*deployment, len(list))
	for i, v := range list {
		if deployments[i], err = newDeployment(v); err != nil {
			return nil, fmt.Errorf("certificate deployment %d: %w", i, err)
		}
	}
	if !slices.ContainsFunc(deployments, func(d *deployment) bool { return !d.trusted() }) {
		return nil, nil
	}
	var found []objection
	for _, d := range deployments {
		for _, o := range objections {
			if o.applies(d) {
				found = append(found, o.objection)
				break
			}
		}
	}
	return found, nil
}

func newDeployment(v any) (*deployment, error) {
	o, ok := v.(finding.Object)
	if !ok {
		return nil, errors.New("is not an object")
	}
	d := &deployment{}
	validations, _ := o.Get("path_validation_results")
	list, ok := validations.([]any)
	if !ok {
		return nil, errors.New("path_validation_results is not an array")
	}
	for i, v := range list {
		if err := d.addValidation(v); err != nil {
			return nil, fmt.Errorf("path validation %d: %w", i, err)
		}
	}
	chain, _ := o.Get("received_certificate_chain")
	certificates, _ := chain.([]any)
	if len(certificates) == 0 {
		return nil, errors.New("received_certificate_chain holds no certificate")
	}
	var err error
	if d.selfSigned, err = isSelfSigned(certificates[0]); err != nil {
		return nil, fmt.Errorf("first certificate: %w", err)
	}
	return d, nil
}

// addValidation takes what one trust store says.
func (d *deployment) addValidation(v any) error {
	validation, ok := v.(finding.Object)
	if !ok {
		return errors.New("is not an object")
	}
	failure, ok := validation.Get("validation_error")
	switch failure.(type) {
	case nil:
		if !ok {
			return errors.New("has no validation_error, must be null or a string")
		}
	case string, []any:
		d.errors = append(d.errors, failure)
	default:
		return errors.New("has a validation_error that is not a string")
	}
	store, err := part(validation, "trust_store")
	if err != nil {
		return err
	}
	succeeded := ecma.OrNull(validation, "was_validation_successful") != nil
	if succeeded && store.Text("name") == finding.String(ownCA) {
		d.vouchedFor = true
	}
	return nil
}

func isSelfSigned(v any) (bool, error) {
	certificate, ok := v.(finding.Object)
	if !ok {
		return false, errors.New("is not an object")
	}
	var names [2]any
	for i, key := range []string{"subject", "issuer"} {
		of, err := part(certificate, key)
		if err != nil {
			return false, err
		}
		name, ok := of.Get("rfc4514_string")
		if !ok {
			name = finding.Text{} // missing is not null
		}
		names[i] = name
	}
	return !isReference(names[0]) && !isReference(names[1]) && names[0] == names[1], nil
}
