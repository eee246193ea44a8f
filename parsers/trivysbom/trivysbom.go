// SPDX-License-Identifier: Apache-2.0

package trivysbom

import (
	"context"
	"errors"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "sbom-cyclonedx",
		Summary:    "an SBOM of an image, made by trivy (CycloneDX JSON)",
		Kinds: []sdk.Kind{{
			Category:   "SBOM",
			When:       "always",
			Severities: []string{finding.Informational},
			Attributes: []sdk.Attribute{{Name: "downloadLink", Type: sdk.Text | sdk.Optional, Doc: "of the SBOM; it expires"}},
			Identity:   []string{"name"},
		}},
		Reach: "nothing: the SBOM is not looked at",
		Parse: parse,
	}
}

func parse(_ context.Context, in *sdk.Input, emit sdk.Emit) error {
	in.ReachUnknown("the SBOM is not looked at")
	parameters := in.Scan.Spec.Parameters
	if parameters == nil {
		return errors.New("the Scan has no parameters, so it is not known what the SBOM is of")
	}
	image := "undefined"
	if len(parameters) > 0 {
		image = parameters[0]
	}
	f := finding.Finding{
		Name:        finding.String("SBOM for " + image),
		Description: finding.String("Generated an SBOM for: '" + image + "'"),
		Category:    finding.String("SBOM"),
		OSILayer:    finding.String("APPLICATION"),
		Severity:    finding.String(finding.Informational),
		Attributes:  finding.Object{},
	}
	if link := in.Scan.Status.RawResultDownloadLink; link != "" {
		f.Attributes.Set("downloadLink", link)
	}
	return emit(&f)
}
