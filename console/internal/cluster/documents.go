// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// Package is a package of an SBOM.
type Package struct{ Name, Version, Type, PURL string }

// spdxPackage is what of a package of an SPDX document is shown.
type spdxPackage struct {
	SPDXID      string `json:"SPDXID"`
	Name        string `json:"name"`
	VersionInfo string `json:"versionInfo"`
	Purpose     string `json:"primaryPackagePurpose"`
	Refs        []struct {
		Type    string `json:"referenceType"`
		Locator string `json:"referenceLocator"`
	} `json:"externalRefs"`
}

// documentPath is where the reports API serves what belongs to an image.
func documentPath(namespace, resource, name, sub string) string {
	base := "/apis/" + reportsv1alpha1.SchemeGroupVersion.String() + "/namespaces/" + url.PathEscape(namespace)
	return base + "/" + resource + "/" + url.PathEscape(name) + "/" + sub
}

// open begins to read a document of the reports API. One that is not there is ErrAbsent.
func (v *Viewer) open(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	body, err := v.Stream(ctx, path, query)
	if apierrors.IsNotFound(err) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, fmt.Errorf("read from the reports API: %w", err)
	}
	return body, nil
}

// Packages calls a function with every package of an image's SBOM, as it is read.
func (v *Viewer) Packages(ctx context.Context, namespace, image string, do func(Package) error) error {
	body, err := v.open(ctx, documentPath(namespace, "sboms", image, "document"), nil)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // only read from
	if err := eachPackage(json.NewDecoder(body), do); err != nil {
		return fmt.Errorf("read SBOM: %w", err)
	}
	return nil
}

var errNotSPDX = errors.New("it is no SPDX document")

// eachPackage reads the list "packages" of a document, element by element, and leaves out the rest.
func eachPackage(d *json.Decoder, do func(Package) error) error {
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return errors.Join(errNotSPDX, err)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		if key != "packages" {
			var other json.RawMessage
			if err := d.Decode(&other); err != nil {
				return fmt.Errorf("decode: %w", err)
			}
			continue
		}
		return eachListed(d, do)
	}
	return nil
}

// eachListed reads the elements of a list of packages.
func eachListed(d *json.Decoder, do func(Package) error) error {
	if token, err := d.Token(); err != nil || token != json.Delim('[') {
		return errors.Join(errNotSPDX, err)
	}
	for d.More() {
		var p spdxPackage
		if err := d.Decode(&p); err != nil {
			return fmt.Errorf("decode: %w", err)
		}
		if p.isImage() {
			continue
		}
		if err := do(p.packageOf()); err != nil {
			return err
		}
	}
	return nil
}

// isImage says whether the package is what the document describes, rather than a part of it.
func (p *spdxPackage) isImage() bool { return p.Purpose == "CONTAINER" }

func (p *spdxPackage) packageOf() Package {
	out := Package{Name: p.Name, Version: p.VersionInfo}
	for _, ref := range p.Refs {
		if ref.Type == "purl" {
			out.PURL = ref.Locator
			if kind, _, ok := bytes.Cut(bytes.TrimPrefix([]byte(ref.Locator), []byte("pkg:")), []byte("/")); ok {
				out.Type = string(kind)
			}
			break
		}
	}
	return out
}

// VulnerabilityFilter narrows the vulnerabilities of an image.
type VulnerabilityFilter struct {
	Severity, Package, Vulnerability string
	Fixable                          bool
	Limit                            int
	Continue                         string
}

// Vulnerabilities are a page of those of an image, the worst first.
func (v *Viewer) Vulnerabilities(ctx context.Context, namespace, image string, f VulnerabilityFilter) (*VulnerabilityPage, error) {
	query := url.Values{"format": {"json"}, "limit": {strconv.Itoa(f.Limit)}}
	for name, value := range map[string]string{"severity": f.Severity, "package": f.Package, "vulnerability": f.Vulnerability, "continue": f.Continue} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.Fixable {
		query.Set("fixable", "true")
	}
	body, err := v.open(ctx, documentPath(namespace, "vulnerabilityreports", image, "findings"), query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // only read from
	out := &VulnerabilityPage{}
	if err := json.NewDecoder(io.LimitReader(body, maxVulnerabilities)).Decode(out); err != nil {
		return nil, fmt.Errorf("read vulnerabilities: %w", err)
	}
	return out, nil
}

// maxVulnerabilities bounds what a page of vulnerabilities may have, in bytes.
const maxVulnerabilities = 32 << 20

// VulnerabilityPage is a page of vulnerabilities.
type VulnerabilityPage struct {
	Findings []reportsv1alpha1.VulnerabilityFinding `json:"findings"`
	Continue string                                 `json:"continue,omitempty"`
}
