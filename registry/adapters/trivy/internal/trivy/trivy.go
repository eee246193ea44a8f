// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/aquasecurity/trivy/pkg/log"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/serve"
)

const (
	// Name is that of the adapter and of its engine.
	Name = "trivy"
	// Version is that of the adapter.
	Version = "1.0.0"
	// EngineVersion is that of Trivy's libraries.
	EngineVersion = "0.73.0"
	// MediaType is that of the database's layer.
	MediaType = "application/vnd.aquasec.trivy.db.layer.v1.tar+gzip"
	// parallelMatch is how many SBOMs are matched at once. Images are looked at one by one: a process is for one image.
	parallelMatch = 8
	parallelTalk  = 4
)

// formats are those of SBOMs, made and read.
var formats = []string{protocol.SPDX, protocol.CycloneDX}

// Streams are the ends of the adapter.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Now      func() time.Time
}

// engine is the adapter while it runs.
type engine struct {
	now       func() time.Time
	databases databases
	// analysers are made for the first image: a process that matches needs none.
	analysers func() (*analysers, error)
}

// quiet turns Trivy's own log off, which is a global: what matters is told in answers.
var quiet = sync.OnceFunc(func() { log.InitLogger(false, true) })

// Run is the adapter, until the end of its input. The arguments are --database DIR, for matches that name no database.
func Run(ctx context.Context, arguments []string, s Streams) error {
	quiet()
	flags := flag.NewFlagSet("adapter-"+Name, flag.ContinueOnError)
	flags.SetOutput(s.Err)
	e := &engine{now: s.Now, analysers: sync.OnceValues(newAnalysers)}
	flags.StringVar(&e.databases.usual.Told, "database", "", "directory of one version of the database")
	if err := flags.Parse(arguments); err != nil {
		return fmt.Errorf("read arguments: %w", err)
	}
	return serve.Run(ctx, serve.Options{
		In: s.In, Out: s.Out, Log: slog.New(slog.NewTextHandler(s.Err, nil)),
		Handlers: map[protocol.Op]serve.Handler{
			protocol.Describe: describe, protocol.SBOM: e.sbom, protocol.Match: e.match, protocol.DatabaseStatus: status,
			protocol.DatabaseUpdate: e.update, protocol.DatabaseDiff: diff, protocol.DatabaseDrop: e.drop,
		},
		Parallel: map[protocol.Op]int{protocol.Match: parallelMatch, protocol.Describe: parallelTalk, protocol.DatabaseStatus: parallelTalk},
	})
}

func describe(context.Context, serve.Call) (any, error) {
	return protocol.Description{
		Name: Name, Version: Version, Protocols: []int{protocol.Version}, Engine: protocol.Engine{Name: Name, Version: EngineVersion},
		SBOM:     protocol.SBOMAbilities{Formats: formats, LayerCache: true, Parallel: 1},
		Match:    protocol.MatchAbilities{Formats: formats, Producers: []string{Name}, Parallel: parallelMatch, Keys: true, Diff: true},
		Database: protocol.DatabaseAbilities{Schema: schema, MediaTypes: []string{MediaType}},
		Licences: []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Public-domain"},
	}, nil
}
