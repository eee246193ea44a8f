// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
)

func kinds() []sdk.Kind {
	const asReported = sdk.Text | sdk.AsReported
	severities := []string{finding.Informational, finding.Low, finding.Medium, finding.High}
	attributes := []sdk.Attribute{
		{Name: "packageName", Type: asReported},
		{Name: "installedVersion", Type: asReported},
		{Name: "fixedVersion", Type: asReported, Doc: "missing if there is no fix"},
		{Name: "references", Type: sdk.List | sdk.Null | sdk.AsReported, Doc: "links as reported"},
		{Name: "foundIn", Type: sdk.Text, Doc: "the target within the artifact; in clusters with its class and type"},
	}
	var list []sdk.Kind
	for _, c := range []struct{ category, target string }{
		{"Image Vulnerability", "what is none of the others, as packages of the operating system"},
		{"NPM Package Vulnerability", "package-lock.json or Node.js"},
		{"Ruby Package Vulnerability", "Gemfile.lock"},
		{"Python Package Vulnerability", "Pipfile.lock"},
		{"Rust Package Vulnerability", "Cargo.lock"},
		{"PHP Package Vulnerability", "Composer.lock"},
		{"Go Package Vulnerability", "go.sum"},
	} {
		list = append(list, sdk.Kind{
			Category: c.category, When: "a vulnerability of an image, file system or repository, found in " + c.target,
			Severities: severities,
			Attributes: append([]sdk.Attribute{{Name: "vulnerabilityId", Type: sdk.Text}}, attributes...),
			Identity:   []string{"location", "attributes.vulnerabilityId", "attributes.packageName", "attributes.foundIn"},
		})
	}
	attributes = append([]sdk.Attribute{{Name: "id", Type: asReported}}, attributes...)
	return append(list, sdk.Kind{
		Category: "Vulnerability", When: "a vulnerability of a resource of a cluster", Severities: severities, Attributes: attributes,
		Identity: []string{"location", "attributes.id", "attributes.packageName", "attributes.foundIn"},
	}, sdk.Kind{
		Category: "Misconfiguration", When: "a misconfiguration of a resource of a cluster", Severities: severities, Attributes: attributes,
		Identity: []string{"location", "attributes.id", "name", "attributes.foundIn"},
	})
}
