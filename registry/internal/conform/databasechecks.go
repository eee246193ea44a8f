// SPDX-License-Identifier: Apache-2.0

package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
)

func hasDatabase(b *bench) string {
	switch {
	case len(b.said.Match.Formats) == 0:
		return "the adapter matches no SBOMs"
	case b.options.Database == "":
		return "there is no --database FILE"
	}
	return ""
}

func tellsKeys(b *bench) string {
	if reason := hasDatabase(b); reason != "" || b.said.Match.Keys {
		return reason
	}
	return "the adapter tells no keys"
}

func compares(b *bench) string {
	if reason := hasDatabase(b); reason != "" || b.said.Match.Diff {
		return reason
	}
	return "the adapter compares no databases"
}

// installed runs a check on a database that was taken from the file.
func installed(run func(ctx context.Context, b *bench, s *session, d protocol.UpdateResult) error) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		s, err := b.open()
		if err != nil {
			return err
		}
		d, err := b.update(s)
		if err != nil {
			return err
		}
		return errors.Join(run(ctx, b, s, d), s.fault())
	}
}

func (b *bench) update(s *session) (d protocol.UpdateResult, err error) {
	err = s.ask(protocol.DatabaseUpdate, protocol.UpdateParams{Dir: b.cache, Source: protocol.Source{File: b.options.Database}}, &d)
	if err == nil && (!strings.HasPrefix(d.Dir, b.cache+"/") || d.Version == "" || d.BuiltAt.IsZero()) {
		err = fmt.Errorf("version, builtAt, and a directory below that of the databases must be there: %+v", d)
	}
	return d, err
}

// match makes the SBOM of the known image, and matches it.
func (b *bench) match(ctx context.Context, s *session, dir string) (findings []protocol.Finding, keys []protocol.PackageKeys, files []byte, err error) {
	image, err := imagetest.Known()
	if err != nil {
		return nil, nil, nil, err
	}
	sbom, _, err := b.look(ctx, s, request{image: image})
	if err != nil {
		return nil, nil, nil, err
	}
	params := protocol.MatchParams{
		SBOM:        protocol.Document{Path: filepath.Join(b.work, sbom.Files[protocol.SPDX].Path), Format: protocol.SPDX, Producer: b.said.Engine.Name},
		DatabaseDir: dir, Image: protocol.MatchedImage{Digest: image.Digest, Platform: "linux/amd64", OS: sbom.OS}, Out: "findings.jsonl",
	}
	if b.said.Match.Keys {
		params.KeysOut = "keys.jsonl"
	}
	var result protocol.MatchResult
	if err := s.ask(protocol.Match, params, &result); err != nil {
		return nil, nil, nil, err
	}
	if files, err = b.read(result.File); err != nil {
		return nil, nil, nil, err
	}
	if findings, err = lines[protocol.Finding](files); err != nil {
		return nil, nil, nil, err
	}
	if len(findings) != result.Findings {
		return nil, nil, nil, fmt.Errorf("the file has %d findings, and the result says %d", len(findings), result.Findings)
	}
	if result.KeysFile != nil {
		content, err := b.read(*result.KeysFile)
		if err != nil {
			return nil, nil, nil, err
		}
		if keys, err = lines[protocol.PackageKeys](content); err != nil {
			return nil, nil, nil, err
		}
	}
	return findings, keys, files, nil
}

func lines[T any](content []byte) (list []T, err error) {
	for line := range bytes.Lines(content) {
		var entry T
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, fmt.Errorf("a line cannot be read: %w", err)
		}
		list = append(list, entry)
	}
	return list, nil
}

// known are vulnerabilities of the known image: a database for conformance has one of them at least.
var known = []string{"CVE-2021-23337", "CVE-2021-44906", "CVE-2023-45853", "CVE-2024-2961", "CVE-2005-2541"}

var databaseChecks = []check{
	{name: "a database is taken from a file", needs: hasDatabase, run: installed(func(_ context.Context, _ *bench, s *session, d protocol.UpdateResult) error {
		var status protocol.Status
		if err := s.ask(protocol.DatabaseStatus, protocol.DatabaseParams{Dir: d.Dir}, &status); err != nil {
			return err
		}
		if !status.Present || status.Version != d.Version || status.BuiltAt == nil || status.Schema == "" {
			return fmt.Errorf("db-status says %+v", status)
		}
		return nil
	})},
	{
		name: "a database that is there is not changed", needs: hasDatabase,
		run: installed(func(_ context.Context, b *bench, s *session, d protocol.UpdateResult) error {
			again, err := b.update(s)
			if err == nil && (again.Changed || again.Version != d.Version) {
				return fmt.Errorf("first %+v, then %+v", d, again)
			}
			return err
		}),
	},
	{name: "a database that is not there is told", needs: hasDatabase, run: func(_ context.Context, b *bench) error {
		s, err := b.open()
		if err != nil {
			return err
		}
		var status protocol.Status
		if err := s.ask(protocol.DatabaseStatus, protocol.DatabaseParams{Dir: filepath.Join(b.cache, "none")}, &status); err != nil {
			return err
		}
		if status.Present {
			return errors.New("db-status says that it is present")
		}
		return nil
	}},
	{name: "a broken database is refused and leaves nothing", needs: hasDatabase, run: func(_ context.Context, b *bench) error {
		file := filepath.Join(b.work, "broken")
		const permissions = 0o600
		if err := os.WriteFile(file, []byte("this is not a database"), permissions); err != nil {
			return fmt.Errorf("make file: %w", err)
		}
		s, err := b.open()
		if err != nil {
			return err
		}
		err = s.ask(protocol.DatabaseUpdate, protocol.UpdateParams{Dir: b.cache, Source: protocol.Source{File: file}}, &protocol.UpdateResult{})
		if err := wantError(err, protocol.DatabaseCorrupt, protocol.DatabaseSchema, protocol.InvalidInput); err != nil {
			return err
		}
		left, err := os.ReadDir(b.cache)
		if err == nil && len(left) > 0 {
			return fmt.Errorf("%s is left", left[0].Name())
		}
		return err
	}},
	{
		name: "a match gives the known findings", needs: hasDatabase,
		run: installed(func(ctx context.Context, b *bench, s *session, d protocol.UpdateResult) error {
			findings, _, _, err := b.match(ctx, s, d.Dir)
			if err != nil {
				return err
			}
			for _, f := range findings {
				if slices.Contains(known, f.VulnerabilityID) && f.Package.Name != "" && f.Package.Version != "" && f.Severity != "" && f.Class != "" {
					return nil
				}
			}
			return fmt.Errorf("of %d findings none is one of %s with package, class and severity", len(findings), strings.Join(known, ", "))
		}),
	},
	{name: "findings are in order", needs: hasDatabase, run: installed(func(ctx context.Context, b *bench, s *session, d protocol.UpdateResult) error {
		findings, _, _, err := b.match(ctx, s, d.Dir)
		if err == nil && !slices.IsSortedFunc(findings, protocol.Compare) {
			return errors.New("the order is severity, score (descending), vulnerability, package, target")
		}
		return err
	})},
	{
		name: "equal SBOMs have equal findings", needs: hasDatabase,
		run: installed(func(ctx context.Context, b *bench, s *session, d protocol.UpdateResult) error {
			_, _, one, err := b.match(ctx, s, d.Dir)
			if err != nil {
				return err
			}
			_, _, two, err := b.match(ctx, s, d.Dir)
			if err == nil && !bytes.Equal(one, two) {
				return errors.New("the bytes differ")
			}
			return err
		}),
	},
	{name: "every finding's package has keys", needs: tellsKeys, run: installed(func(ctx context.Context, b *bench, s *session, d protocol.UpdateResult) error {
		findings, keys, _, err := b.match(ctx, s, d.Dir)
		if err != nil {
			return err
		}
		has := map[string]bool{}
		for _, k := range keys {
			has[k.PURL] = len(k.Keys) > 0
			for _, key := range k.Keys {
				if !strings.Contains(key, "|") || key != strings.ToLower(key) {
					return fmt.Errorf("key %q is not kind|name in lower case", key)
				}
			}
		}
		for _, f := range findings {
			if !has[f.Package.PURL] {
				return fmt.Errorf("package %s has a finding and no keys", f.Package.PURL)
			}
		}
		return nil
	})},
	{
		name: "an SBOM that is broken is InvalidInput", needs: hasDatabase,
		run: installed(func(_ context.Context, b *bench, s *session, d protocol.UpdateResult) error {
			file := filepath.Join(b.work, "broken.json")
			const permissions = 0o600
			if err := os.WriteFile(file, []byte(`{"spdxVersion":`), permissions); err != nil {
				return fmt.Errorf("make file: %w", err)
			}
			p := protocol.MatchParams{SBOM: protocol.Document{Path: file, Format: protocol.SPDX}, DatabaseDir: d.Dir, Out: "findings.jsonl"}
			return errors.Join(wantError(s.ask(protocol.Match, p, &protocol.MatchResult{}), protocol.InvalidInput), alive(s))
		}),
	},
	{name: "a match without a database is DatabaseMissing", needs: hasDatabase, run: func(ctx context.Context, b *bench) error {
		s, err := b.open()
		if err != nil {
			return err
		}
		_, _, _, err = b.match(ctx, s, filepath.Join(b.cache, "none"))
		return wantError(err, protocol.DatabaseMissing)
	}},
	{name: "equal databases differ in nothing", needs: compares, run: installed(func(_ context.Context, b *bench, s *session, d protocol.UpdateResult) error {
		var first, second protocol.DiffResult
		p := protocol.DiffParams{ToDir: d.Dir, Out: "changed", IndexOut: "index"}
		if err := s.ask(protocol.DatabaseDiff, p, &first); err != nil {
			return err
		}
		p.FromIndex, p.IndexOut = filepath.Join(b.work, "index"), "index2"
		if err := s.ask(protocol.DatabaseDiff, p, &second); err != nil {
			return err
		}
		if !second.Comparable || second.Changed != 0 || second.Total == 0 {
			return fmt.Errorf("with itself: %+v", second)
		}
		index, err := os.ReadFile(filepath.Join(b.work, "index"))
		if err != nil {
			return fmt.Errorf("read index: %w", err)
		}
		if _, err := protocol.ReadIndex(bytes.NewReader(index)); err != nil || int64(len(index)) != second.Total*16 {
			return fmt.Errorf("the index must have 16 bytes for each of %d keys, in order: %d bytes, %w", second.Total, len(index), err)
		}
		return nil
	})},
	{name: "db-drop removes a database", needs: hasDatabase, run: installed(func(_ context.Context, _ *bench, s *session, d protocol.UpdateResult) error {
		if err := s.ask(protocol.DatabaseDrop, protocol.DatabaseParams{Dir: d.Dir}, &struct{}{}); err != nil {
			return err
		}
		if _, err := os.Stat(d.Dir); !errors.Is(err, os.ErrNotExist) {
			return errors.New("the directory is there")
		}
		return nil
	})},
}
