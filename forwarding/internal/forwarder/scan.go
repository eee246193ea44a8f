// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/forwarding/internal/mapping"
)

// Bounds of the further metadata, as settings have them.
const (
	maxScanBytes  = 16 << 20
	maxExtra      = 32
	maxExtraValue = 1024
)

var (
	clusterSyntax = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)
	extraSyntax   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)
)

// sourceFlags say which Scan it is.
type sourceFlags struct {
	cluster, scan, findings string
	extra                   []string
}

func (f *sourceFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&f.cluster, "cluster-id", "", "name of the cluster at the far ends")
	flags.StringVar(&f.scan, "scan", "", "file with one Scan, as \"kubectl get scan -o json\" prints it")
	flags.StringVar(&f.findings, "findings", "", "file with its findings.json; only a Scan that is Errored may have none")
	flags.StringArrayVar(&f.extra, "extra", nil, "further metadata as KEY=VALUE; clusterName becomes the subject of results")
}

// source reads what the flags name.
func (f *sourceFlags) source() (mapping.Source, error) {
	if !clusterSyntax.MatchString(f.cluster) {
		return mapping.Source{}, wrongFlag("cluster-id", errors.New("must be given, with at most 128 letters, digits, dots, colons, dashes and underscores"))
	}
	extra, err := parseExtra(f.extra)
	if err != nil {
		return mapping.Source{}, wrongFlag("extra", err)
	}
	scan, err := readScan(f.scan)
	if err != nil {
		return mapping.Source{}, wrongFlag("scan", err)
	}
	if f.findings == "" && scan.Status.State != executionv1.ScanStateErrored {
		return mapping.Source{}, wrongFlag("findings", errors.New("must name a file: only a Scan that is Errored may have no findings"))
	}
	return mapping.Source{ClusterID: f.cluster, Scan: scan, Extra: extra}, nil
}

func parseExtra(pairs []string) (map[string]string, error) {
	if len(pairs) > maxExtra {
		return nil, fmt.Errorf("%d are given, at most %d may be", len(pairs), maxExtra)
	}
	extra := map[string]string{}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		switch {
		case !found || !extraSyntax.MatchString(key):
			return nil, fmt.Errorf("%q must be KEY=VALUE with a key of at most 63 letters, digits, dots, dashes and underscores that begins with a letter", pair)
		case strings.HasPrefix(key, "scanyard"):
			return nil, fmt.Errorf("%s: keys that begin with scanyard are ours: choose another", key)
		case len(value) > maxExtraValue || !utf8.ValidString(value):
			return nil, fmt.Errorf("%s: the value must be UTF-8 of at most %d bytes", key, maxExtraValue)
		}
		extra[key] = value
	}
	return extra, nil
}

// readScan reads one Scan.
func readScan(name string) (*executionv1.Scan, error) {
	if name == "" {
		return nil, errors.New("must name a file with one Scan")
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxScanBytes+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxScanBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxScanBytes)
	}
	scan := &executionv1.Scan{}
	if err := json.Unmarshal(data, scan); err != nil {
		return nil, fmt.Errorf("%s is no Scan in JSON: %w", name, err)
	}
	switch {
	case scan.Kind != "" && scan.Kind != "Scan":
		return nil, fmt.Errorf("%s holds a %s: it must hold one Scan, as \"kubectl get scan NAME -o json\" prints it", name, scan.Kind)
	case scan.UID == "":
		return nil, fmt.Errorf("%s: metadata.uid is missing: records are known by it", name)
	case scan.Name == "":
		return nil, fmt.Errorf("%s: metadata.name is missing", name)
	}
	return scan, nil
}

// nothing is closed where a Scan has no findings.
type nothing struct{}

// Close does nothing.
func (nothing) Close() error { return nil }

// open opens the records of the Scan from the start.
func (f *sourceFlags) open(source mapping.Source) (*mapping.Reader, io.Closer, error) {
	if f.findings == "" {
		return mapping.NewReader(source, nil), nothing{}, nil
	}
	file, err := os.Open(f.findings)
	if err != nil {
		return nil, nil, wrongFlag("findings", err)
	}
	return mapping.NewReader(source, file), file, nil
}
