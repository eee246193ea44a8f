// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/manifest"
)

// MatchRequest is an SBOM to be matched with the database in use.
type MatchRequest struct {
	Adapter string
	// SBOM is the path of a file.
	SBOM             string
	Format, Producer string
	Digest, Platform string
	OS               protocol.OS
	Layers           []manifest.Layer
	Deadline         time.Time
}

// MatchResult are the findings of an SBOM, and the keys of its packages, one a line. Release removes the files.
type MatchResult struct {
	Findings   int
	BySeverity map[string]int
	File, Keys Document
	Database   Database
	Engine     protocol.Engine
	Warnings   []string
	Release    func() error
}

const (
	findingsFile = "findings.jsonl"
	keysFile     = "keys.jsonl"
)

// Match has an adapter match an SBOM. The SBOM is linked into the process's directory, which is all that the process reads.
func (e *Engine) Match(ctx context.Context, r MatchRequest) (result *MatchResult, err error) {
	run, err := e.find(r.Adapter)
	if err != nil {
		return nil, err
	}
	if !r.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.Deadline)
		defer cancel()
	}
	lease, database, err := run.lease()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lease.End())
		}
	}()
	dir := filepath.Join(lease.Dir, lease.Workdir)
	sbom := filepath.Join(dir, "sbom.json")
	if err := place(r.SBOM, sbom); err != nil {
		return nil, err
	}
	params := protocol.MatchParams{
		SBOM: protocol.Document{Path: sbom, Format: r.Format, Producer: r.Producer}, DatabaseDir: database.Dir, Out: findingsFile,
		Image: protocol.MatchedImage{Digest: r.Digest, Platform: r.Platform, OS: r.OS},
	}
	for _, l := range r.Layers {
		params.Image.Layers = append(params.Image.Layers, protocol.Layer{Digest: l.Digest, DiffID: l.DiffID})
	}
	if run.description.Match.Keys {
		params.KeysOut = keysFile
	}
	var said protocol.MatchResult
	if err := lease.Do(ctx, protocol.Match, lease.Workdir, params, &said, nil); err != nil {
		return nil, err
	}
	result = &MatchResult{
		Findings: said.Findings, BySeverity: said.BySeverity, Database: database, Engine: run.description.Engine, Warnings: kept(said.Warnings), Release: lease.End,
	}
	if result.File, err = verify(dir, said.File); err != nil {
		return nil, err
	}
	if said.KeysFile != nil {
		if result.Keys, err = verify(dir, *said.KeysFile); err != nil {
			return nil, err
		}
	}
	if said.Database.Version != database.Version {
		return nil, &adapter.CrashError{Reason: adapter.ProtocolError, Message: "findings are of another database than the one that was asked for"}
	}
	return result, nil
}
