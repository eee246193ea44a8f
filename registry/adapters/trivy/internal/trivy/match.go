// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	trivydb "github.com/aquasecurity/trivy-db/pkg/db"
	dbtypes "github.com/aquasecurity/trivy-db/pkg/types"
	detector "github.com/aquasecurity/trivy/pkg/detector/ospkg"
	"github.com/aquasecurity/trivy/pkg/fanal/applier"
	ftypes "github.com/aquasecurity/trivy/pkg/fanal/types"
	"github.com/aquasecurity/trivy/pkg/sbom/core"
	"github.com/aquasecurity/trivy/pkg/sbom/cyclonedx"
	sbomio "github.com/aquasecurity/trivy/pkg/sbom/io"
	"github.com/aquasecurity/trivy/pkg/sbom/spdx"
	"github.com/aquasecurity/trivy/pkg/scan/langpkg"
	"github.com/aquasecurity/trivy/pkg/scan/ospkg"
	"github.com/aquasecurity/trivy/pkg/types"
	"github.com/aquasecurity/trivy/pkg/vulnerability"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

// maxSBOM is the most that an SBOM may have.
const maxSBOM = 256 << 20

// matching asks Trivy's scanners for vulnerabilities.
var matching = types.ScanOptions{PkgTypes: types.PkgTypes, Scanners: types.Scanners{types.VulnerabilityScanner}}

// severities are taken from the source that Trivy prefers for an advisory.
var severities = []dbtypes.SourceID{"auto"}

func (e *engine) match(ctx context.Context, call serve.Call) (any, error) {
	var params protocol.MatchParams
	if err := call.Params(&params); err != nil {
		return nil, err
	}
	if !slices.Contains(formats, params.SBOM.Format) {
		return nil, protocol.Errorf(protocol.Unsupported, "there is no format %q", params.SBOM.Format)
	}
	database, release, err := e.databases.use(params.DatabaseDir)
	if err != nil {
		return nil, err
	}
	defer release()
	bill, err := read(ctx, params)
	if err != nil {
		return nil, err
	}
	result := protocol.MatchResult{BySeverity: map[string]int{}, Database: protocol.DatabaseName{Version: database.Version, BuiltAt: database.BuiltAt}}
	if params.SBOM.Producer != "" && params.SBOM.Producer != Name {
		result.Warnings = append(result.Warnings, "the SBOM was made by "+params.SBOM.Producer+": packages may lack what is needed to match them")
	}
	results, err := detect(ctx, bill.target)
	if errors.Is(err, detector.ErrUnsupportedOS) {
		result.Warnings = append(result.Warnings, fmt.Sprintf("the distribution %s is not known to the detectors", bill.target.OS.Family))
	} else if err != nil {
		return nil, err
	}
	findings := findingsOf(results, bill, params.Image.Layers)
	if len(findings) > protocol.MaxFindings {
		return nil, protocol.Errorf(protocol.TooLarge, "there are more than %d findings", protocol.MaxFindings)
	}
	for _, f := range findings {
		result.BySeverity[f.Severity]++
	}
	result.Findings = len(findings)
	if result.File, err = call.WriteFile(params.Out, func(w io.Writer) error { return lines(w, findings) }); err != nil {
		return nil, err
	}
	if params.KeysOut != "" {
		keys := keysOf(bill.target)
		file, err := call.WriteFile(params.KeysOut, func(w io.Writer) error { return lines(w, keys) })
		if err != nil {
			return nil, err
		}
		result.Keys, result.KeysFile = len(keys), &file
	}
	return result, nil
}

func lines[T any](w io.Writer, list []T) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, entry := range list {
		if err := encoder.Encode(entry); err != nil {
			return err
		}
	}
	return nil
}

// bill is an SBOM as it was read.
type bill struct {
	target types.ScanTarget
	// diffIDs are those of the image's layers, in order, where the SBOM tells them.
	diffIDs []string
}

// read takes an SBOM from its file, and merges it as Trivy does with SBOMs.
func read(ctx context.Context, params protocol.MatchParams) (bill, error) {
	text, err := load(params.SBOM.Path)
	if err != nil {
		return bill{}, err
	}
	sbom, err := decode(ctx, params.SBOM.Format, text)
	if err != nil {
		return bill{}, protocol.Errorf(protocol.InvalidInput, "read SBOM: %v", err)
	}
	blob := ftypes.BlobInfo{SchemaVersion: ftypes.BlobJSONSchemaVersion, PackageInfos: sbom.Packages, Applications: sbom.Applications}
	if sbom.Metadata.OS != nil {
		blob.OS = *sbom.Metadata.OS
	} else if params.Image.OS.Family != "" {
		blob.OS = ftypes.OS{Family: ftypes.OSType(params.Image.OS.Family), Name: params.Image.OS.Version}
	}
	detail := applier.ApplyLayers([]ftypes.BlobInfo{blob})
	n := len(detail.Packages)
	for _, a := range detail.Applications {
		n += len(a.Packages)
	}
	if n > protocol.MaxPackages {
		return bill{}, protocol.Errorf(protocol.TooLarge, "the SBOM has more than %d packages", protocol.MaxPackages)
	}
	return bill{
		target:  types.ScanTarget{Name: params.Image.Digest, OS: detail.OS, Packages: detail.Packages, Applications: used(detail.Applications)},
		diffIDs: sbom.Metadata.DiffIDs,
	}, nil
}

func load(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, protocol.Errorf(protocol.InvalidInput, "read SBOM: %v", err)
	}
	defer f.Close() //nolint:errcheck // what was only read
	text, err := io.ReadAll(io.LimitReader(f, maxSBOM+1))
	if err != nil {
		return nil, fmt.Errorf("read SBOM: %w", err)
	}
	if len(text) > maxSBOM {
		return nil, protocol.Errorf(protocol.TooLarge, "the SBOM has more than 256 MiB")
	}
	return text, nil
}

func decode(ctx context.Context, format string, text []byte) (types.SBOM, error) {
	identities.RLock()
	defer identities.RUnlock()
	bom := core.NewBOM(core.Options{GenerateBOMRef: format == protocol.CycloneDX})
	var into any = &spdx.SPDX{BOM: bom}
	if format == protocol.CycloneDX {
		into = &cyclonedx.BOM{BOM: bom}
	}
	var sbom types.SBOM
	if err := json.Unmarshal(text, into); err != nil {
		return sbom, fmt.Errorf("decode document: %w", err)
	}
	for _, c := range bom.Components() {
		c.Properties = renamed(c.Properties, pathProperty, core.PropertyFilePath)
	}
	if err := sbomio.NewDecoder(bom).Decode(ctx, &sbom); err != nil {
		return sbom, fmt.Errorf("understand document: %w", err)
	}
	return sbom, nil
}

// detect asks the detectors of the distribution and of the ecosystems. With ErrUnsupportedOS the results are those of the ecosystems.
func detect(ctx context.Context, target types.ScanTarget) (types.Results, error) {
	results, err := langpkg.NewScanner().Scan(ctx, target, matching)
	if err != nil {
		return nil, fmt.Errorf("match packages of applications: %w", err)
	}
	system, _, err := ospkg.NewScanner().Scan(ctx, target, matching)
	if err != nil && !errors.Is(err, detector.ErrUnsupportedOS) {
		return nil, fmt.Errorf("match packages of the distribution: %w", err)
	}
	if err == nil && system.Target != "" {
		results = append(results, system)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	client := vulnerability.NewClient(trivydb.Config{})
	for i := range results {
		client.FillInfo(results[i].Vulnerabilities, severities)
	}
	return results, err
}
