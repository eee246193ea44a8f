// SPDX-License-Identifier: Apache-2.0

package vexdoc

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/openvex/go-vex/pkg/vex"
	"github.com/package-url/packageurl-go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/apis/text"
)

// Statement is an exception that a document makes.
type Statement struct {
	Name string
	Spec settingsv1alpha2.ExceptionSpec
}

// Problem is a statement, or a part of one, that makes no exception.
type Problem struct {
	// Number is that of the statement in the document, from 1.
	Number int
	Text   string
}

// claim is what a statement of either format says.
type claim struct {
	id              string // of the statement
	references      []string
	status, justify string // in the words of OpenVEX, and false_positive
	reason          string
	products        []product
}

// product is what a statement is about: a package URL, and packages in it.
type product struct {
	id   string
	subs []string
}

// ErrFormat says that a document is of neither format.
var ErrFormat = errors.New("the document is neither OpenVEX nor CycloneDX in JSON")

// Read reads a document of either format.
func Read(data []byte) ([]Statement, []Problem, error) {
	var head struct {
		Context   string `json:"@context"`
		BOMFormat string `json:"bomFormat"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	var claims []claim
	var err error
	switch {
	case head.BOMFormat == cyclonedx.BOMFormat:
		claims, err = readCycloneDX(data)
	case strings.HasPrefix(head.Context, vex.ContextLocator()), strings.HasPrefix(head.Context, "https://openvex.dev/ns"):
		claims, err = readOpenVEX(data)
	default:
		err = ErrFormat
	}
	if err != nil {
		return nil, nil, err
	}
	var all []Statement
	var problems []Problem
	for i := range claims {
		s, said := claims[i].statement()
		for _, words := range said {
			problems = append(problems, Problem{i + 1, text.Line(words)})
		}
		if s != nil {
			all = append(all, *s)
		}
	}
	return all, problems, nil
}

func readOpenVEX(data []byte) ([]claim, error) {
	document, err := vex.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read OpenVEX: %w", err)
	}
	claims := make([]claim, 0, len(document.Statements))
	for i := range document.Statements {
		s := &document.Statements[i]
		c := claim{id: s.ID, status: string(s.Status), justify: string(s.Justification), reason: cmp.Or(s.ImpactStatement, s.StatusNotes)}
		for _, r := range append([]vex.VulnerabilityID{s.Vulnerability.Name}, s.Vulnerability.Aliases...) {
			c.references = append(c.references, string(r))
		}
		for j := range s.Products {
			p := product{id: identifierOf(&s.Products[j].Component)}
			for k := range s.Products[j].Subcomponents {
				p.subs = append(p.subs, identifierOf(&s.Products[j].Subcomponents[k].Component))
			}
			c.products = append(c.products, p)
		}
		claims = append(claims, c)
	}
	return claims, nil
}

func identifierOf(c *vex.Component) string { return cmp.Or(c.Identifiers[vex.PURL], c.ID) }

// cycloneStates are the words of OpenVEX for those of CycloneDX.
var cycloneStates = map[cyclonedx.ImpactAnalysisState]string{
	cyclonedx.IASResolved: string(vex.StatusFixed), cyclonedx.IASResolvedWithPedigree: string(vex.StatusFixed),
	cyclonedx.IASExploitable: string(vex.StatusAffected), cyclonedx.IASInTriage: string(vex.StatusUnderInvestigation),
	cyclonedx.IASFalsePositive: falsePositive, cyclonedx.IASNotAffected: string(vex.StatusNotAffected),
}

// falsePositive is a status that OpenVEX does not have.
const falsePositive = "false_positive"

// cycloneReasons are the words of OpenVEX for those of CycloneDX, the one that is written first.
var cycloneReasons = []struct {
	theirs cyclonedx.ImpactAnalysisJustification
	ours   vex.Justification
}{
	{cyclonedx.IAJRequiresDependency, vex.ComponentNotPresent},
	{cyclonedx.IAJCodeNotPresent, vex.VulnerableCodeNotPresent},
	{cyclonedx.IAJCodeNotReachable, vex.VulnerableCodeNotInExecutePath},
	{cyclonedx.IAJRequiresConfiguration, vex.VulnerableCodeCannotBeControlledByAdversary},
	{cyclonedx.IAJRequiresEnvironment, vex.VulnerableCodeCannotBeControlledByAdversary},
	{cyclonedx.IAJProtectedByMitigatingControl, vex.InlineMitigationsAlreadyExist},
	{cyclonedx.IAJProtectedByCompiler, vex.InlineMitigationsAlreadyExist},
	{cyclonedx.IAJProtectedAtRuntime, vex.InlineMitigationsAlreadyExist},
	{cyclonedx.IAJProtectedAtPerimeter, vex.InlineMitigationsAlreadyExist},
}

func readCycloneDX(data []byte) ([]claim, error) {
	bom := cyclonedx.BOM{}
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(data), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		return nil, fmt.Errorf("read CycloneDX: %w", err)
	}
	if bom.Vulnerabilities == nil {
		return nil, nil
	}
	packages := packagesOf(&bom)
	claims := make([]claim, 0, len(*bom.Vulnerabilities))
	for i := range *bom.Vulnerabilities {
		claims = append(claims, cycloneClaim(&(*bom.Vulnerabilities)[i], packages))
	}
	return claims, nil
}

// packagesOf are the package URLs of components by their bom-ref.
func packagesOf(bom *cyclonedx.BOM) map[string]string {
	packages := map[string]string{}
	if bom.Metadata != nil && bom.Metadata.Component != nil {
		packages[bom.Metadata.Component.BOMRef] = bom.Metadata.Component.PackageURL
	}
	if bom.Components != nil {
		for i := range *bom.Components {
			packages[(*bom.Components)[i].BOMRef] = (*bom.Components)[i].PackageURL
		}
	}
	return packages
}

func cycloneClaim(v *cyclonedx.Vulnerability, packages map[string]string) claim {
	c := claim{id: v.BOMRef, references: []string{v.ID}}
	if v.Analysis != nil {
		c.status, c.reason = cmp.Or(cycloneStates[v.Analysis.State], string(v.Analysis.State)), v.Analysis.Detail
		for _, r := range cycloneReasons {
			if r.theirs == v.Analysis.Justification {
				c.justify = string(r.ours)
			}
		}
	}
	if v.References != nil {
		for _, r := range *v.References {
			c.references = append(c.references, r.ID)
		}
	}
	if v.Affects != nil {
		for _, a := range *v.Affects {
			c.products = append(c.products, product{id: cmp.Or(packages[a.Ref], afterHash(a.Ref))})
		}
	}
	return c
}

// afterHash is the bom-ref of a link into another BOM, urn:cdx:SERIAL/VERSION#REF, and any other text as it is.
func afterHash(ref string) string {
	if _, rest, ok := strings.Cut(ref, "#"); ok && strings.HasPrefix(ref, "urn:cdx:") {
		if plain, err := url.PathUnescape(rest); err == nil {
			return plain
		}
	}
	return ref
}

var statuses = map[string]settingsv1alpha2.ExceptionStatus{
	string(vex.StatusNotAffected): settingsv1alpha2.ExceptionNotAffected, string(vex.StatusFixed): settingsv1alpha2.ExceptionMitigated,
	string(vex.StatusUnderInvestigation): settingsv1alpha2.ExceptionUnderInvestigation, falsePositive: settingsv1alpha2.ExceptionFalsePositive,
}

const (
	minReason, maxReason = 10, 2000
	maxEntries           = 100
)

// statement is the exception of a claim; nil where it makes none. problems say what was left out.
func (c *claim) statement() (s *Statement, problems []string) {
	var references []string
	for _, r := range c.references {
		if r = strings.ToUpper(text.Line(strings.TrimSpace(r))); r != "" && !slices.Contains(references, r) {
			references = append(references, r)
		}
	}
	status, ok := statuses[c.status]
	switch {
	case c.status == string(vex.StatusAffected):
		return nil, []string{"affected makes no exception"}
	case !ok:
		return nil, []string{fmt.Sprintf("status %q is not known", c.status)}
	case len(references) == 0:
		return nil, []string{"names no vulnerability"}
	}
	s = &Statement{}
	s.Spec.Status = status
	if status == settingsv1alpha2.ExceptionNotAffected {
		if c.justify == "" || !slices.Contains(vex.Justifications(), c.justify) {
			return nil, []string{fmt.Sprintf("not_affected needs a justification of OpenVEX, not %q", c.justify)}
		}
		s.Spec.Justification = settingsv1alpha2.Justification(c.justify)
	}
	for _, p := range c.products {
		entry, err := p.entry(references)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		s.Spec.Match.AnyOf = append(s.Spec.Match.AnyOf, *entry)
	}
	switch n := len(s.Spec.Match.AnyOf); {
	case len(c.products) == 0:
		return nil, append(problems, "names no product: it would hold for everything")
	case n == 0:
		return nil, problems
	case n > maxEntries:
		return nil, append(problems, fmt.Sprintf("has %d products, more than %d", n, maxEntries))
	}
	s.Spec.Reason = reasonOf(c.reason, c.status)
	s.identify(c.id)
	return s, problems
}

func reasonOf(words, status string) string {
	words = text.Cut(strings.TrimSpace(text.Line(words)), maxReason)
	if len([]rune(words)) < minReason {
		words = strings.TrimSpace("VEX document says " + status + ". " + words)
	}
	return words
}

var digest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// entry is what a product of a statement means.
func (p *product) entry(references []string) (*settingsv1alpha2.ExceptionEntry, error) {
	entry := &settingsv1alpha2.ExceptionEntry{References: references}
	id := text.Line(p.id)
	purl, err := packageurl.FromString(id)
	switch {
	case digest.MatchString(id):
		entry.Products = []string{id}
	case err != nil || id == "":
		return nil, fmt.Errorf("product %q is not a package URL", text.Cut(id, maxName))
	case purl.Type != packageurl.TypeOCI:
		entry.Packages = []string{id}
	case digest.MatchString(purl.Version):
		entry.Products = []string{purl.Version}
	default:
		return nil, fmt.Errorf("product %q has no digest: an image is meant by its digest", text.Cut(id, maxName))
	}
	for _, sub := range p.subs {
		if _, err := packageurl.FromString(sub); err != nil {
			return nil, fmt.Errorf("subcomponent %q is not a package URL", text.Cut(text.Line(sub), maxName))
		}
		if entry.Products == nil {
			return nil, fmt.Errorf("product %q has subcomponents and is not an image", text.Cut(id, maxName))
		}
		entry.Packages = append(entry.Packages, sub)
	}
	return entry, nil
}

// idPrefix begins the ids of statements that exceptions of ours make. NAME and the end follow.
const idPrefix = "urn:scanyard:exception:"

// maxName bounds foreign texts in messages.
const maxName = 200

var objectName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)

// identify gives the statement its name, and its end where the id is one of ours.
func (s *Statement) identify(id string) {
	if rest, ours := strings.CutPrefix(id, idPrefix); ours {
		name, end, _ := strings.Cut(rest, "?expires=")
		at, err := time.Parse(time.RFC3339, end)
		if objectName.MatchString(name) && (end == "" || err == nil) {
			s.Name = name
			if end != "" {
				stamp := metav1.NewTime(at.UTC())
				s.Spec.ExpiresAt = &stamp
			}
			return
		}
	}
	raw, err := json.Marshal([]any{s.Spec.Status, s.Spec.Match})
	if err != nil {
		raw = []byte(id)
	}
	sum := sha256.Sum256(raw)
	s.Name = "vex-" + hex.EncodeToString(sum[:8])
}
