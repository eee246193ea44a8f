// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	grypelib "github.com/anchore/grype/grype"
	v6 "github.com/anchore/grype/grype/db/v6"
	"github.com/anchore/grype/grype/distro"
	"github.com/anchore/grype/grype/match"
	"github.com/anchore/grype/grype/matcher"
	"github.com/anchore/grype/grype/matcher/dpkg"
	"github.com/anchore/grype/grype/matcher/java"
	"github.com/anchore/grype/grype/matcher/rpm"
	"github.com/anchore/grype/grype/matcher/stock"
	"github.com/anchore/grype/grype/pkg"
	"github.com/anchore/grype/grype/version"
	"github.com/anchore/syft/syft/artifact"
	"github.com/anchore/syft/syft/file"
	syftsbom "github.com/anchore/syft/syft/sbom"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/report"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

// matchers are set up as the command "grype" sets them up, which asks nobody over the network.
func matchers() []match.Matcher {
	return matcher.NewDefaultMatchers(matcher.Config{
		Java: java.MatcherConfig{}, Stock: stock.MatcherConfig{UseCPEs: true},
		Dpkg: dpkg.MatcherConfig{MissingEpochStrategy: version.MissingEpochStrategyZero},
		Rpm:  rpm.MatcherConfig{MissingEpochStrategy: version.MissingEpochStrategyAuto},
	})
}

func (e *engine) match(ctx context.Context, call serve.Call) (_ any, err error) {
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
	defer func() { err = errors.Join(err, release()) }()
	b, err := decode(params)
	if err != nil {
		return nil, err
	}
	vulnerable := grypelib.VulnerabilityMatcher{VulnerabilityProvider: database.provider, Matchers: matchers()}
	matches, _, err := vulnerable.FindMatchesContext(ctx, b.packages, b.context)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("match packages: %w", err)
	}
	found := report.Match{Database: protocol.DatabaseName{Version: database.Version, BuiltAt: database.BuiltAt}}
	if b.context.DistroDetectionFailed {
		found.Warnings = append(found.Warnings, "the distribution of the SBOM is not known to the matchers")
	}
	ended, err := database.ended(b.context.Distro)
	if err != nil {
		return nil, err
	}
	found.Findings = b.findings(matches.Sorted(), params.Image.Layers, ended)
	if found.Keys, err = database.keys(b.packages); err != nil {
		return nil, err
	}
	return found.Write(call, params, Name, cataloger)
}

// bill is an SBOM as it was read.
type bill struct {
	packages []pkg.Package
	context  pkg.Context
	// places are where packages were found, where the package itself does not tell.
	places map[pkg.ID]file.Coordinates
}

// decode takes an SBOM from its file.
func decode(params protocol.MatchParams) (bill, error) {
	text, err := report.Load(params.SBOM.Path)
	if err != nil {
		return bill{}, err
	}
	packages, about, document, err := pkg.ProvideFromReader(bytes.NewReader(text), pkg.ProviderConfig{
		SynthesisConfig: pkg.SynthesisConfig{Distro: pkg.DistroConfig{FixChannels: distro.DefaultFixChannels()}},
	})
	if err != nil {
		return bill{}, protocol.Errorf(protocol.InvalidInput, "read SBOM: %v", err)
	}
	if len(packages) > protocol.MaxPackages {
		return bill{}, protocol.Errorf(protocol.TooLarge, "the SBOM has more than %d packages", protocol.MaxPackages)
	}
	return bill{packages: packages, context: about, places: placesOf(document)}, nil
}

// placesOf reads the files by which packages were found.
func placesOf(document *syftsbom.SBOM) map[pkg.ID]file.Coordinates {
	places := map[pkg.ID]file.Coordinates{}
	for _, r := range document.Relationships {
		at, found := r.To.(file.Location)
		if !found || r.Type != artifact.EvidentByRelationship {
			continue
		}
		id := pkg.ID(r.From.ID())
		if before, known := places[id]; !known || at.RealPath < before.RealPath {
			places[id] = at.Coordinates
		}
	}
	return places
}

// ended tells whether a distribution gave no more fixes when the database was built. A release that the database knows by its first
// number alone, as those of Debian, is found by that; Grype's own question finds it not.
func (o *opened) ended(d *distro.Distro) (bool, error) {
	if d == nil {
		return false, nil
	}
	exact := v6.OSSpecifier{
		Name: d.Name(), MajorVersion: d.MajorVersion(), MinorVersion: d.MinorVersion(), RemainingVersion: d.RemainingVersion(),
		LabelVersion: d.LabelVersion(), DisableAliasing: true, DisableFallback: true,
	}
	wide := exact
	wide.MinorVersion, wide.RemainingVersion = "", ""
	for _, asked := range []v6.OSSpecifier{exact, wide} {
		systems, err := o.reader.GetOperatingSystems(asked)
		if err != nil && !errors.Is(err, v6.ErrMissingOSIdentification) && !errors.Is(err, v6.ErrOSNotPresent) {
			return false, fmt.Errorf("ask for the end of a distribution: %w", err)
		}
		for _, system := range systems {
			if system.EOLDate != nil && (asked == exact || system.MinorVersion == "") {
				return system.EOLDate.Before(o.BuiltAt), nil
			}
		}
	}
	return false, nil
}
