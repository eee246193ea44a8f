// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/aquasecurity/trivy/pkg/clock"
	"github.com/aquasecurity/trivy/pkg/sbom/core"
	"github.com/aquasecurity/trivy/pkg/sbom/cyclonedx"
	sbomio "github.com/aquasecurity/trivy/pkg/sbom/io"
	"github.com/aquasecurity/trivy/pkg/sbom/spdx"
	"github.com/aquasecurity/trivy/pkg/types"
	"github.com/google/uuid"
	spdxtypes "github.com/spdx/tools-golang/spdx"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// documents are made of a report. Equal reports have equal documents.
type documents struct {
	digest  string
	created time.Time
	report  types.Report
}

// identities guards the source of random identities, which is a global: documents draw theirs from the image, decoders from the machine.
var identities sync.RWMutex

// pathProperty tells in SPDX where a package was found. Trivy tells it of files with a sum only, and findings would have another target.
const pathProperty = "PkgPath"

// renamed gives properties with another name to one of them.
func renamed(properties []core.Property, from, to string) []core.Property {
	for i, p := range properties {
		if p.Name == from {
			properties[i].Name = to
		}
	}
	return properties
}

// make writes a document in one form: keys in order, no blanks.
func (d documents) make(ctx context.Context, format string) ([]byte, error) {
	identities.Lock()
	defer identities.Unlock()
	uuid.SetRand(rand.NewChaCha8(sha256.Sum256([]byte(format + d.digest))))
	defer uuid.SetRand(nil)
	ctx = clock.With(ctx, d.created)
	text, err := d.spdx(ctx)
	if format == protocol.CycloneDX {
		text, err = d.cyclonedx(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", format, err)
	}
	return canonical(text)
}

func (d documents) spdx(ctx context.Context) ([]byte, error) {
	bom, err := sbomio.NewEncoder().Encode(d.report)
	if err != nil {
		return nil, err
	}
	for _, c := range bom.Components() {
		c.Properties = renamed(c.Properties, core.PropertyFilePath, pathProperty)
	}
	document, err := spdx.NewMarshaler(EngineVersion).Marshal(ctx, bom)
	if err != nil {
		return nil, err
	}
	document.DocumentName = d.digest
	document.DocumentNamespace = "https://scanyard.io/spdx/" + d.digest + "/" + Name + "-" + EngineVersion
	slices.SortFunc(document.Packages, func(a, b *spdxtypes.Package) int {
		return cmp.Compare(a.PackageSPDXIdentifier, b.PackageSPDXIdentifier)
	})
	// Packages with equal content have one identifier, which a document may have once.
	document.Packages = slices.CompactFunc(document.Packages, func(a, b *spdxtypes.Package) bool {
		return a.PackageSPDXIdentifier == b.PackageSPDXIdentifier
	})
	document.Files = slices.CompactFunc(document.Files, func(a, b *spdxtypes.File) bool { return a.FileSPDXIdentifier == b.FileSPDXIdentifier })
	document.Relationships = slices.CompactFunc(document.Relationships, func(a, b *spdxtypes.Relationship) bool { return *a == *b })
	return json.Marshal(document)
}

func (d documents) cyclonedx(ctx context.Context) ([]byte, error) {
	bom, err := sbomio.NewEncoder(sbomio.WithBOMRef()).Encode(d.report)
	if err != nil {
		return nil, err
	}
	marshaler := cyclonedx.NewMarshaler(EngineVersion)
	document, err := marshaler.Marshal(ctx, bom)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).EncodeVersion(document, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

func canonical(text []byte) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("order document: %w", err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("order document: %w", err)
	}
	return out.Bytes(), nil
}
