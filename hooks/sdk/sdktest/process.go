// SPDX-License-Identifier: Apache-2.0

package sdktest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// MaxMemoryMiB is what a hook may take for any number of findings. Half of it is the Go runtime and the program itself.
const MaxMemoryMiB = 64

// asHook makes a test's binary be a hook, in a process of its own whose memory can be measured.
const asHook = "SCANYARD_TEST_AS_HOOK"

// Main is for a TestMain: it runs the tests, or in the process that [Measure] has started, the hook. It returns the exit
// code.
func Main(m *testing.M, hook sdk.Hook) int {
	return MainFunc(m, func(api string) int {
		return sdk.Run(context.Background(), hook, sdk.Process{
			Args: os.Args[1:], Env: os.LookupEnv, Stderr: os.Stderr,
			Kubernetes: func() (*rest.Config, error) { return &rest.Config{Host: api}, nil },
		})
	})
}

// MainFunc is Main for what is more than a hook. It is given the API server's address.
func MainFunc(m *testing.M, run func(api string) int) int {
	api := os.Getenv(asHook)
	if api == "" {
		return m.Run()
	}
	code := run(api)
	if err := usage.Tell(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// HowMany is how many findings a test of memory makes: as many as SCANYARD_TEST_FINDINGS says, else its own number.
func HowMany(t *testing.T, own int) int {
	t.Helper()
	text := os.Getenv("SCANYARD_TEST_FINDINGS")
	if text == "" {
		return own
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SCANYARD_TEST_FINDINGS: %v", err)
	}
	return n
}

// Measure runs the hook in a process of its own, for Scan s of namespace ns, and fails if the hook fails or takes more than
// MaxMemoryMiB.
func Measure(t *testing.T, api string, env []string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), asHook+"="+api, "SCAN_NAME=s", "NAMESPACE=ns"), env...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	peak := usage.Told(t, string(output)) >> 20
	t.Logf("peak RSS %d MiB, CPU %s", peak, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if peak > MaxMemoryMiB {
		t.Errorf("peak RSS %d MiB, want at most %d", peak, MaxMemoryMiB)
	}
}
