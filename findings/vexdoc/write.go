// SPDX-License-Identifier: Apache-2.0

package vexdoc

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/openvex/go-vex/pkg/vex"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Formats are those that Write knows.
var Formats = []string{"openvex", "cyclonedx"}

var errUnsaid = errors.New("a VEX document cannot say it")

// Check says why an exception cannot be written in a format: a document names vulnerabilities, package URLs and digests only,
// and OpenVEX has neither accepted risks nor false positives.
func Check(s *Statement, format string) error {
	c, err := claimOf(s, format)
	if err != nil {
		return err
	}
	again, problems := c.statement()
	if again == nil || len(problems) > 0 || again.Name != s.Name || !sameSpec(&again.Spec, &s.Spec) {
		return fmt.Errorf("%w: it has more than references with packages or digests", errUnsaid)
	}
	return nil
}

func sameSpec(a, b *settingsv1alpha2.ExceptionSpec) bool {
	x, y := *a.DeepCopy(), *b.DeepCopy()
	if (x.ExpiresAt == nil) != (y.ExpiresAt == nil) || x.ExpiresAt != nil && !x.ExpiresAt.Time.Equal(y.ExpiresAt.Time) {
		return false
	}
	x.ExpiresAt, y.ExpiresAt = nil, nil
	return reflect.DeepEqual(x, y)
}

// claimOf is what a document says of an exception.
func claimOf(s *Statement, format string) (*claim, error) {
	c := &claim{id: idPrefix + s.Name, justify: string(s.Spec.Justification), reason: s.Spec.Reason}
	if s.Spec.ExpiresAt != nil {
		c.id += "?expires=" + s.Spec.ExpiresAt.UTC().Format(time.RFC3339)
	}
	for word, status := range statuses {
		if status == s.Spec.Status && (word != falsePositive || format == "cyclonedx") {
			c.status = word
		}
	}
	if c.status == "" {
		return nil, fmt.Errorf("%w: its status is %s", errUnsaid, s.Spec.Status)
	}
	for i := range s.Spec.Match.AnyOf {
		e := &s.Spec.Match.AnyOf[i]
		c.references = e.References
		switch {
		case len(e.Products) == 1 && digest.MatchString(e.Products[0]):
			if format == "cyclonedx" && len(e.Packages) > 0 {
				return nil, fmt.Errorf("%w: CycloneDX has no packages within an image", errUnsaid)
			}
			c.products = append(c.products, product{e.Products[0], e.Packages})
		case len(e.Packages) == 1 && len(e.Products) == 0:
			c.products = append(c.products, product{id: e.Packages[0]})
		default:
			return nil, fmt.Errorf("%w: each entry must have one package URL or one digest", errUnsaid)
		}
	}
	return c, nil
}

// Write writes exceptions that Check has let pass.
func Write(out io.Writer, list []Statement, format string, now time.Time) error {
	claims := make([]claim, 0, len(list))
	for i := range list {
		c, err := claimOf(&list[i], format)
		if err != nil {
			return err
		}
		claims = append(claims, *c)
	}
	if format == "cyclonedx" {
		return writeCycloneDX(out, claims, now)
	}
	return writeOpenVEX(out, claims, now)
}

func writeOpenVEX(out io.Writer, claims []claim, now time.Time) error {
	document := vex.New()
	document.Author, document.Timestamp, document.Version = "scanyard", &now, 1
	for i := range claims {
		c := &claims[i]
		s := vex.Statement{ID: c.id, Status: vex.Status(c.status), Vulnerability: vex.Vulnerability{Name: vex.VulnerabilityID(c.references[0])}}
		for _, r := range c.references[1:] {
			s.Vulnerability.Aliases = append(s.Vulnerability.Aliases, vex.VulnerabilityID(r))
		}
		s.Justification, s.StatusNotes = vex.Justification(c.justify), c.reason
		for _, p := range c.products {
			product := vex.Product{Component: vex.Component{ID: p.id}}
			for _, sub := range p.subs {
				product.Subcomponents = append(product.Subcomponents, vex.Subcomponent{Component: vex.Component{ID: sub}})
			}
			s.Products = append(s.Products, product)
		}
		document.Statements = append(document.Statements, s)
	}
	raw, err := json.Marshal(document.Statements)
	if err != nil {
		return fmt.Errorf("write OpenVEX: %w", err)
	}
	sum := sha256.Sum256(raw)
	document.ID = "urn:scanyard:vex:" + hex.EncodeToString(sum[:])
	if err := document.ToJSON(out); err != nil {
		return fmt.Errorf("write OpenVEX: %w", err)
	}
	return nil
}

func writeCycloneDX(out io.Writer, claims []claim, now time.Time) error {
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: now.UTC().Format(time.RFC3339)}
	var all []cyclonedx.Vulnerability
	for i := range claims {
		c := &claims[i]
		v := cyclonedx.Vulnerability{BOMRef: c.id, ID: c.references[0], Analysis: &cyclonedx.VulnerabilityAnalysis{Detail: c.reason}}
		for state, word := range cycloneStates {
			if word == c.status && state != cyclonedx.IASResolvedWithPedigree {
				v.Analysis.State = state
			}
		}
		for _, r := range slices.Backward(cycloneReasons) { // the first of them is left
			if string(r.ours) == c.justify {
				v.Analysis.Justification = r.theirs
			}
		}
		var references []cyclonedx.VulnerabilityReference
		for _, r := range c.references[1:] {
			references = append(references, cyclonedx.VulnerabilityReference{ID: r})
		}
		if references != nil {
			v.References = &references
		}
		var affects []cyclonedx.Affects
		for _, p := range c.products {
			affects = append(affects, cyclonedx.Affects{Ref: p.id})
		}
		v.Affects = &affects
		all = append(all, v)
	}
	bom.Vulnerabilities = &all
	var buffer bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&buffer, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return fmt.Errorf("write CycloneDX: %w", err)
	}
	if _, err := io.WriteString(out, strings.TrimRight(buffer.String(), "\n")+"\n"); err != nil {
		return fmt.Errorf("write CycloneDX: %w", err)
	}
	return nil
}
