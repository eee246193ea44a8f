// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

// maxSBOM is the most bytes that an SBOM may have.
const maxSBOM = 256 << 20

// Load reads the file of an SBOM. Errors have the codes InvalidInput and TooLarge.
func Load(name string) ([]byte, error) {
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

// Match is what was found for an SBOM.
type Match struct {
	// Findings may be in any order, and more than once.
	Findings []protocol.Finding
	Keys     []protocol.PackageKeys
	Database protocol.DatabaseName
	Warnings []string
}

// Write makes the files of a match, and its result. Producers are those whose SBOMs the adapter understands whole.
func (m Match) Write(call serve.Call, params protocol.MatchParams, producers ...string) (any, error) {
	result := protocol.MatchResult{BySeverity: map[string]int{}, Database: m.Database, Warnings: m.Warnings}
	if maker := params.SBOM.Producer; maker != "" && !slices.Contains(producers, maker) {
		result.Warnings = append(result.Warnings, "the SBOM was made by "+maker+": packages may lack what is needed to match them")
	}
	slices.SortFunc(m.Findings, protocol.Compare)
	findings := slices.CompactFunc(m.Findings, func(a, b protocol.Finding) bool { return protocol.Compare(a, b) == 0 })
	if len(findings) > protocol.MaxFindings {
		return nil, protocol.Errorf(protocol.TooLarge, "there are more than %d findings", protocol.MaxFindings)
	}
	for _, f := range findings {
		result.BySeverity[f.Severity]++
	}
	result.Findings = len(findings)
	var err error
	if result.File, err = call.WriteFile(params.Out, func(w io.Writer) error { return lines(w, findings) }); err != nil {
		return nil, err
	}
	if params.KeysOut != "" {
		file, err := call.WriteFile(params.KeysOut, func(w io.Writer) error { return lines(w, m.Keys) })
		if err != nil {
			return nil, err
		}
		result.Keys, result.KeysFile = len(m.Keys), &file
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
