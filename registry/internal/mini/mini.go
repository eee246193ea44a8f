// SPDX-License-Identifier: Apache-2.0

package mini

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
	Name = "mini"
	// version is that of the analyses: another one makes new SBOMs.
	version = "1.0.0"
	// parallel is how many SBOMs are matched at once.
	parallel = 4
	// MediaType is that of the database's layer, schema the version of its form.
	MediaType = "mini.db.layer.v1+json"
	schema    = "1"
)

// Streams are the ends of the adapter.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Now      func() time.Time
}

// engine is the adapter while it runs.
type engine struct {
	database databases
	now      func() time.Time
}

// Run is the adapter, until the end of its input. The arguments are --database DIR, for matches that name no database.
func Run(ctx context.Context, arguments []string, s Streams) error {
	flags := flag.NewFlagSet(Name, flag.ContinueOnError)
	flags.SetOutput(s.Err)
	e := &engine{now: s.Now}
	flags.StringVar(&e.database.usual.Told, "database", "", "directory of one version of the database")
	if err := flags.Parse(arguments); err != nil {
		return fmt.Errorf("read arguments: %w", err)
	}
	return serve.Run(ctx, serve.Options{
		In: s.In, Out: s.Out, Log: slog.New(slog.NewTextHandler(s.Err, nil)),
		Handlers: map[protocol.Op]serve.Handler{
			protocol.Describe: describe, protocol.SBOM: sbom, protocol.Match: e.match, protocol.DatabaseStatus: e.status,
			protocol.DatabaseUpdate: e.update, protocol.DatabaseDiff: database.Indexer(indexOf).Diff, protocol.DatabaseDrop: drop,
		},
		Parallel: map[protocol.Op]int{protocol.Match: parallel, protocol.SBOM: parallel, protocol.Describe: parallel},
	})
}

func describe(context.Context, serve.Call) (any, error) {
	return protocol.Description{
		Name: Name, Version: version, Protocols: []int{protocol.Version}, Engine: protocol.Engine{Name: Name, Version: version},
		SBOM:     protocol.SBOMAbilities{Formats: []string{protocol.SPDX, protocol.CycloneDX}, LayerCache: true, Parallel: parallel},
		Match:    protocol.MatchAbilities{Formats: []string{protocol.SPDX}, Producers: []string{Name}, Parallel: parallel, Keys: true, Diff: true},
		Database: protocol.DatabaseAbilities{Schema: schema, MediaTypes: []string{MediaType}}, Licences: []string{"Apache-2.0"},
	}, nil
}
