// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"encoding/json"
	"fmt"

	"github.com/aquasecurity/trivy/pkg/fanal/analyzer"
	// The analysers of "trivy image" register themselves: those of packages. Not linked are those of configuration, secrets and licence
	// files, which are not part of an SBOM here, and that of jars, which wants the Java database.
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/buildinfo"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/conda/meta"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/dotnet/deps"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/dotnet/nuget"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/dotnet/packagesprops"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/golang/binary"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/julia/pkg"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/nodejs/pkg"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/php/composer"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/python/packaging"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/ruby/gemspec"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/rust/binary"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/language/rust/cargo"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/os/alpine"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/os/amazonlinux"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/os/debian"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/os/redhatbase"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/os/release"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/os/ubuntu"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/pkg/apk"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/pkg/bottlerocket_inventory"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/pkg/dpkg"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/pkg/rpm"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/repo/apk"
	_ "github.com/aquasecurity/trivy/pkg/fanal/analyzer/sbom"
	"github.com/aquasecurity/trivy/pkg/fanal/artifact"
	"github.com/aquasecurity/trivy/pkg/fanal/handler"
	// What a package manager has installed is told once, by its own database.
	_ "github.com/aquasecurity/trivy/pkg/fanal/handler/sysfile"
)

// atOnce is how many analysers of a layer run at once.
const atOnce = 2

// analysers are Trivy's, ready for layers.
type analysers struct {
	group    analyzer.AnalyzerGroup
	handlers handler.Manager
	// versions tell one set of analysers from another.
	versions string
}

func newAnalysers() (*analysers, error) {
	group, err := analyzer.NewAnalyzerGroup(analyzer.AnalyzerOptions{Parallel: atOnce, DisabledAnalyzers: analyzer.TypeLockfiles})
	if err != nil {
		return nil, fmt.Errorf("start analysers: %w", err)
	}
	handlers, err := handler.NewManager(artifact.Option{})
	if err != nil {
		return nil, fmt.Errorf("start analysers: %w", err)
	}
	versions, err := json.Marshal([]any{group.AnalyzerVersions(), handlers.Versions()})
	if err != nil {
		return nil, fmt.Errorf("start analysers: %w", err)
	}
	return &analysers{group: group, handlers: handlers, versions: string(versions)}, nil
}
