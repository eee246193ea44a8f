// SPDX-License-Identifier: Apache-2.0

// Command parsebench measures the parser program as a whole: it makes large raw
// results, has them parsed, and prints CPU time and peak memory as the operating
// system accounts for them.
//
// Usage: parsebench [-n FINDINGS] [-parser PROGRAM]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/internal/rawgen"
)

func main() {
	n := flag.Int("n", 1_000_000, "about how many `findings`")
	parser := flag.String("parser", "bin/parser", "the `program` to measure")
	flag.Parse()
	if err := run(*parser, *n); err != nil {
		fmt.Fprintln(os.Stderr, "parsebench:", err)
		os.Exit(1)
	}
}

func run(parser string, n int) error {
	dir, err := os.MkdirTemp("", "parsebench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the figures are printed
	fmt.Printf("%-28s %8s %10s %8s %10s %14s %9s\n", "input", "MiB in", "findings", "CPU s", "MiB peak", "findings/CPU s", "MiB in/s")
	for _, in := range []struct {
		name, kind string
		raw        io.Reader
	}{
		{"nmap, 100 ports a host", "nmap-xml", rawgen.Nmap(max(1, n/101), 100, false)},
		{"nmap, 1 port a host", "nmap-xml", rawgen.Nmap(max(1, n/2), 1, false)},
		{"gitleaks", "gitleaks-json", rawgen.Gitleaks(n)},
	} {
		file := filepath.Join(dir, "raw")
		size, err := write(file, in.raw)
		if err != nil {
			return err
		}
		if err := measure(parser, in.name, in.kind, file, size); err != nil {
			return err
		}
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

// measure runs the parser once and prints what it took. ru_maxrss is in KiB on Linux
// (getrusage(2)).
func measure(parser, name, kind, file string, size int64) error {
	cmd := exec.Command(parser, "parse", "--type", kind, "--bare", file) //nolint:noctx // it ends by itself
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w; build it with: make build", err)
	}
	findings, err := count(out)
	if err = errors.Join(err, cmd.Wait()); err != nil {
		return err
	}
	used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("the operating system does not tell what a process has used")
	}
	cpu := cmd.ProcessState.UserTime().Seconds() + cmd.ProcessState.SystemTime().Seconds()
	fmt.Printf("%-28s %8d %10d %8.2f %10.1f %14.0f %9.0f\n", name, size>>20, findings, cpu, float64(used.Maxrss)/1024,
		float64(findings)/cpu, float64(size>>20)/cpu)
	return nil
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
