// SPDX-License-Identifier: Apache-2.0

// Command parsebench measures the parser program as a whole: it makes large raw
// results, has them parsed as in a pod, with ids, fingerprints and validation, and
// prints CPU time and peak memory as the operating system accounts for them.
//
// Usage: parsebench [-n FINDINGS] [-parser PROGRAM] [INPUT…]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
)

// input is a raw result to be measured.
type input struct {
	name, resultType string
	open             func(findings int) io.Reader
	// goal is how many CPU seconds 100,000 findings may take; 0 means no goal.
	goal float64
}

var inputs = []input{
	{"nmap", "nmap-xml", func(n int) io.Reader { return rawgen.Nmap(max(1, n/101), 100, false) }, 0.8},
	{"nmap-1-port", "nmap-xml", func(n int) io.Reader { return rawgen.Nmap(max(1, n/2), 1, false) }, 0},
	{"nuclei", "nuclei-json", rawgen.Nuclei, 1},
	{"trivy", "trivy-json", rawgen.TrivyImage, 1.1},
	{"zap", "zap-xml", rawgen.Zap, 2},
	{"gitleaks", "gitleaks-json", rawgen.Gitleaks, 0},
}

// goalMiB is how much memory a parser may take, whatever the input.
const goalMiB = 64

// scan is the Scan that the results are of.
const scan = `{"metadata":{"name":"bench","namespace":"default","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"scanType":"bench"}}`

func main() {
	n := flag.Int("n", 1_000_000, "about how many `findings`")
	parser := flag.String("parser", "bin/parser", "the `program` to measure")
	flag.Parse()
	if err := run(*parser, *n, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "parsebench:", err)
		os.Exit(1)
	}
}

func run(parser string, n int, only []string) error {
	for _, name := range only {
		if !slices.ContainsFunc(inputs, func(in input) bool { return in.name == name }) {
			return fmt.Errorf("there is no input %q", name)
		}
	}
	dir, err := os.MkdirTemp("", "parsebench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the figures are printed
	scanFile := filepath.Join(dir, "scan.json")
	if err := os.WriteFile(scanFile, []byte(scan), 0o600); err != nil {
		return err
	}
	fmt.Printf("%-12s %7s %9s %7s %11s %15s %7s %9s %7s\n",
		"input", "MiB in", "findings", "CPU s", "findings/s", "CPU s/100,000", "of goal", "MiB peak", "of goal")
	for _, in := range inputs {
		if len(only) > 0 && !slices.Contains(only, in.name) {
			continue
		}
		file := filepath.Join(dir, "raw")
		size, err := write(file, in.open(n))
		if err != nil {
			return err
		}
		used, err := measure(parser, in.resultType, scanFile, file)
		if err != nil {
			return fmt.Errorf("%s: %w", in.name, err)
		}
		used.print(in, size)
	}
	return nil
}

func write(file string, r io.Reader) (int64, error) {
	f, err := os.Create(file)
	if err != nil {
		return 0, err
	}
	size, err := io.Copy(f, r)
	return size, errors.Join(err, f.Close())
}

// usage is what one run has taken.
type usage struct {
	findings int
	cpu      float64 // seconds, of user and system
	peakMiB  float64
}

func (u usage) print(in input, size int64) {
	per := u.cpu / float64(u.findings) * 100_000
	goal := "-"
	if in.goal > 0 {
		goal = fmt.Sprintf("%.0f %%", per/in.goal*100)
	}
	fmt.Printf("%-12s %7d %9d %7.2f %11.0f %15.2f %7s %9.1f %5.0f %%\n",
		in.name, size>>20, u.findings, u.cpu, float64(u.findings)/u.cpu, per, goal, u.peakMiB, u.peakMiB/goalMiB*100)
}

// measure runs the parser once. ru_maxrss is in KiB on Linux (getrusage(2)).
func measure(parser, resultType, scanFile, file string) (usage, error) {
	cmd := exec.Command(parser, "parse", "--type", resultType, "--scan", scanFile, "--strict", file) //nolint:noctx // it ends by itself
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return usage{}, err
	}
	if err := cmd.Start(); err != nil {
		return usage{}, fmt.Errorf("%w; build it with: make build", err)
	}
	findings, err := count(out)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return usage{}, fmt.Errorf("%w: %s", err, stderr)
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return usage{}, errors.New("the operating system does not say what a process has used")
	}
	return usage{
		findings: findings,
		cpu:      cmd.ProcessState.UserTime().Seconds() + cmd.ProcessState.SystemTime().Seconds(),
		peakMiB:  float64(used.Maxrss) / 1024,
	}, nil
}

// count reads findings as whatever comes after the parser does.
func count(r io.Reader) (int, error) {
	findings := finding.NewReader(r, finding.Limits{})
	for n := 0; ; n++ {
		_, err := findings.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
