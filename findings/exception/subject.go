// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"slices"
	"strings"

	"github.com/package-url/packageurl-go"

	"github.com/scanyard/scanyard/apis/finding"
)

// subject is what exceptions ask of a finding. What is dear is read when it is asked for.
type subject struct {
	object                                          finding.Object
	fingerprint, name, category, location, severity string
	references                                      []string // in upper case
	attributes                                      finding.Object
	purl                                            *packageurl.PackageURL
	hasPurl, hasProducts                            bool
	texts                                           bool // attributes may be texts that were something else
	productList                                     []string
}

// read takes a finding, in the memory of the one before.
func (s *subject) read(f finding.Object) {
	*s = subject{object: f, references: s.references[:0], productList: s.productList[:0]}
	for i := range f {
		switch key, value := f[i].Key, f[i].Value; key {
		case "fingerprint":
			s.fingerprint = textOf(value)
		case "name":
			s.name = textOf(value)
		case "category":
			s.category = textOf(value)
		case "location":
			s.location = textOf(value)
		case "severity":
			s.severity = strings.ToUpper(textOf(value))
		case "attributes":
			s.attributes, _ = value.(finding.Object)
		case "references":
			s.readReferences(value)
		}
	}
}

func (s *subject) readReferences(value any) {
	list, _ := value.([]any)
	for _, v := range list {
		if o, ok := v.(finding.Object); ok {
			if text, ok := o.Text("value").Get(); ok {
				s.references = append(s.references, strings.ToUpper(text))
			}
		}
	}
}

func textOf(v any) string {
	text, _ := v.(string)
	return text
}

// products are what the finding says of the image that it is about.
func (s *subject) products() []string {
	if s.hasProducts {
		return s.productList
	}
	s.hasProducts = true
	if digest, ok := s.attributes.Text("digest").Get(); ok && digest != "" {
		s.productList = append(s.productList, digest)
	}
	if s.location != "" {
		reference := s.location
		if _, after, ok := strings.Cut(reference, "://"); ok {
			reference = after
		}
		s.productList = append(s.productList, reference)
		if _, digest, ok := strings.Cut(reference, "@"); ok && !slices.Contains(s.productList, digest) {
			s.productList = append(s.productList, digest)
		}
	}
	return s.productList
}

func (s *subject) inPackages(list []pack) bool {
	if !s.hasPurl {
		s.hasPurl = true
		if text, ok := s.attributes.Text("purl").Get(); ok {
			if purl, err := packageurl.FromString(text); err == nil {
				s.purl = &purl
			}
		}
	}
	return s.purl != nil && slices.ContainsFunc(list, func(p pack) bool { return p.fits(s.purl) })
}

// hasAttribute looks for a key with dots as well: some scanners have such keys.
func (s *subject) hasAttribute(a attribute) bool {
	if v, ok := s.attributes.Get(a.key); ok {
		return s.equal(v, a.value)
	}
	at := s.attributes
	for i, key := range a.path {
		v, ok := at.Get(key)
		if !ok {
			return false
		}
		if i == len(a.path)-1 {
			return s.equal(v, a.value)
		}
		if at, ok = v.(finding.Object); !ok {
			return false
		}
	}
	return false
}

// equal compares an attribute with what an exception asks for.
func (s *subject) equal(v, wanted any) bool {
	return isScalar(v) && (v == wanted || s.texts && v == finding.ToString(wanted))
}
