// SPDX-License-Identifier: Apache-2.0

package grype

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/database"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

const (
	// Name is that of the adapter and of its engine.
	Name = "grype"
	// Version is that of the adapter.
	Version = "1.0.0"
	// EngineVersion is that of Grype's libraries, SyftVersion that of Syft's.
	EngineVersion = "0.119.0"
	SyftVersion   = "1.52.0"
	// cataloger makes the SBOMs. Those that it has made elsewhere are understood as well.
	cataloger = "syft"
	// parallelMatch is how many SBOMs are matched at once. Images are looked at one by one: a process is for one image.
	parallelMatch = 4
	parallelTalk  = 4
)

// MediaTypes are those of the database's layer: an archive that Grype's project publishes as a file, and that somebody has pushed to a
// registry under a type that is standardized.
var MediaTypes = []string{
	"application/vnd.oci.image.layer.v1.tar+zstd", "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar",
	"application/zstd",
}

// formats are those of SBOMs, made and read.
var formats = []string{protocol.SPDX, protocol.CycloneDX}

var engineName = protocol.Engine{Name: Name, Version: EngineVersion}

// Streams are the ends of the adapter.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Now      func() time.Time
}

// engine is the adapter while it runs.
type engine struct{ databases databases }

// Run is the adapter, until the end of its input. The arguments are --database DIR, for matches that name no database.
func Run(ctx context.Context, arguments []string, s Streams) error {
	flags := flag.NewFlagSet("adapter-"+Name, flag.ContinueOnError)
	flags.SetOutput(s.Err)
	e := &engine{databases: databases{open: map[string]*opened{}}}
	flags.StringVar(&e.databases.usual.Told, "database", "", "directory of one version of the database")
	if err := flags.Parse(arguments); err != nil {
		return fmt.Errorf("read arguments: %w", err)
	}
	kind := database.Kind{
		Files: []string{databaseFile}, Schema: schema, MediaTypes: MediaTypes, Check: check, Index: indexOf, Usual: &e.databases.usual, Now: s.Now,
	}
	return serve.Run(ctx, serve.Options{
		In: s.In, Out: s.Out, Log: slog.New(slog.NewTextHandler(s.Err, nil)),
		Handlers: map[protocol.Op]serve.Handler{
			protocol.Describe: describe, protocol.SBOM: sbom, protocol.Match: e.match, protocol.DatabaseStatus: kind.Status,
			protocol.DatabaseUpdate: kind.Update, protocol.DatabaseDiff: kind.Index.Diff, protocol.DatabaseDrop: e.drop,
		},
		Parallel: map[protocol.Op]int{protocol.Match: parallelMatch, protocol.Describe: parallelTalk, protocol.DatabaseStatus: parallelTalk},
	})
}

func describe(context.Context, serve.Call) (any, error) {
	return protocol.Description{
		Name: Name, Version: Version, Protocols: []int{protocol.Version}, Engine: engineName,
		SBOM:     protocol.SBOMAbilities{Formats: formats, Parallel: 1},
		Match:    protocol.MatchAbilities{Formats: formats, Producers: []string{Name, cataloger}, Parallel: parallelMatch, Keys: true, Diff: true},
		Database: protocol.DatabaseAbilities{Schema: schema, MediaTypes: MediaTypes},
		Licences: []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"},
	}, nil
}
