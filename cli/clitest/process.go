// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/scanyard/scanyard/cli"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// asCommand makes a test binary the command line.
const asCommand = "SCANYARD_TEST_COMMAND"

// IsCommand reports that a test binary was started as the command line; its TestMain then ends with the code of Command.
func IsCommand() bool { return os.Getenv(asCommand) != "" }

// Command runs the command line on the arguments of the process, and reports at the end its peak memory.
func Command() int {
	s, err := session.New(session.Options{
		Streams: genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
		Program: "scanyard", Version: "test", Getenv: os.Getenv, Now: time.Now,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := cli.End(s, cli.NewCommand(s).ExecuteContext(context.Background()))
	if err := usage.Tell(os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Process runs a command line in a process of its own and returns how much memory it had at most, in MiB, and
// how much CPU time it took.
func (w *World) Process(t testing.TB, out *os.File, args ...string) (mib float64, took time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"--kubeconfig", w.Kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	cmd.Stdout = out
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, stderr.String())
	}
	return float64(usage.Told(t, stderr.String())) / (1 << 20), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
