// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/anchore/syft/syft/format/common/cyclonedxhelpers"
	"github.com/anchore/syft/syft/format/common/spdxhelpers"
	syftsbom "github.com/anchore/syft/syft/sbom"
	"github.com/google/uuid"
	"github.com/spdx/tools-golang/spdx"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/report"
)

// documents are made of what Syft has listed. Equal lists have equal documents.
type documents struct {
	digest  string
	created time.Time
	sbom    syftsbom.SBOM
}

// make writes a document in one form: keys in order, no blanks.
func (d documents) make(format string) ([]byte, error) {
	text, err := d.spdx()
	if format == protocol.CycloneDX {
		text, err = d.cyclonedx()
	}
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", format, err)
	}
	return report.Canonical(text)
}

func (d documents) spdx() ([]byte, error) {
	document := spdxhelpers.ToFormatModel(d.sbom)
	document.DocumentName = d.digest
	document.DocumentNamespace = report.Namespace(d.digest, engineName)
	document.CreationInfo.Created = d.created.Format(time.RFC3339)
	slices.SortFunc(document.Packages, func(a, b *spdx.Package) int {
		return cmp.Compare(a.PackageSPDXIdentifier, b.PackageSPDXIdentifier)
	})
	slices.SortFunc(document.Files, func(a, b *spdx.File) int { return cmp.Compare(a.FileSPDXIdentifier, b.FileSPDXIdentifier) })
	slices.SortFunc(document.Relationships, func(a, b *spdx.Relationship) int {
		return cmp.Or(
			cmp.Compare(a.RefA.ElementRefID, b.RefA.ElementRefID), cmp.Compare(a.RefB.ElementRefID, b.RefB.ElementRefID),
			cmp.Compare(a.Relationship, b.Relationship), cmp.Compare(a.RelationshipComment, b.RelationshipComment),
		)
	})
	return json.Marshal(document)
}

func (d documents) cyclonedx() ([]byte, error) {
	document := cyclonedxhelpers.ToFormatModel(d.sbom)
	document.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(report.Namespace(d.digest, engineName))).URN()
	document.Metadata.Timestamp = d.created.Format(time.RFC3339)
	if list := document.Components; list != nil {
		slices.SortFunc(*list, func(a, b cdx.Component) int {
			return cmp.Or(cmp.Compare(a.BOMRef, b.BOMRef), cmp.Compare(a.Name, b.Name))
		})
	}
	if list := document.Dependencies; list != nil {
		for _, d := range *list {
			if d.Dependencies != nil {
				slices.Sort(*d.Dependencies)
			}
		}
		slices.SortFunc(*list, func(a, b cdx.Dependency) int { return cmp.Compare(a.Ref, b.Ref) })
	}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).EncodeVersion(document, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
