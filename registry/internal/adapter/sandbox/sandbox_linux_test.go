// SPDX-License-Identifier: Apache-2.0

package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
)

// TestMain is the worker's program, and the confined one, where a test starts this file's program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case sandbox.Subcommand:
			fmt.Fprintln(os.Stderr, sandbox.Main(os.Args[2:], os.Environ()))
			os.Exit(1)
		case "try":
			try(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// try tells how each of some actions ends.
func try(actions []string) {
	for _, action := range actions {
		verb, what, _ := strings.Cut(action, "=")
		var err error
		switch verb {
		case "read":
			_, err = os.ReadFile(what)
		case "list":
			_, err = os.ReadDir(what)
		case "write":
			err = os.WriteFile(what, []byte("0123456789"), 0o600)
		case "run":
			err = exec.Command(what).Run()
		case "dial":
			_, err = net.Dial("tcp", what)
		case "listen":
			_, err = net.Listen("tcp", what)
		case "socket":
			err = socket(what)
		case "limits":
			var core, files syscall.Rlimit
			err = errors.Join(syscall.Getrlimit(syscall.RLIMIT_CORE, &core), syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
			fmt.Printf("core=%d files=%d\n", core.Max, files.Max)
		case "privileges":
			status, _ := os.ReadFile("/proc/self/status")
			for line := range strings.Lines(string(status)) {
				if strings.HasPrefix(line, "NoNewPrivs:") {
					fmt.Print(line)
				}
			}
		}
		switch {
		case err == nil:
			fmt.Println(verb, "ok")
		case errors.Is(err, os.ErrPermission):
			fmt.Println(verb, "refused")
		default:
			fmt.Println(verb, err)
		}
	}
}

// socket opens a socket of a kind that is not plain TCP.
func socket(kind string) error {
	domain, of, protocol := syscall.AF_INET, syscall.SOCK_STREAM, 0
	switch kind {
	case "mptcp":
		protocol = 262
	case "udp":
		of = syscall.SOCK_DGRAM
	case "unix":
		domain = syscall.AF_UNIX
	case "netlink":
		domain, of = syscall.AF_NETLINK, syscall.SOCK_RAW
	}
	fd, err := syscall.Socket(domain, of, protocol)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// confined runs actions under a policy.
func confined(t *testing.T, p sandbox.Policy, actions ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p.Execute = append(p.Execute, self)
	arguments, err := p.Arguments(self, append([]string{"try"}, actions...)...)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), self, arguments...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// needsLandlock skips a test where the kernel cannot confine; Prefer is tried there all the same.
func needsLandlock(t *testing.T) {
	t.Helper()
	if confines, err := sandbox.Prefer.Confines(); err != nil || !confines {
		t.Skip("this kernel has no Landlock that knows TCP")
	}
}

func listener(t *testing.T) (address string, port uint16) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String(), uint16(l.Addr().(*net.TCPAddr).Port)
}

func TestSandboxConfinesProgram(t *testing.T) {
	needsLandlock(t)
	own, other, token := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other, "database"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	proxy, port := listener(t)
	stranger, _ := listener(t)
	policy := sandbox.Policy{Confine: true, Read: []string{other, "/not/there"}, Write: []string{own}, Connect: []uint16{port}}
	want := []string{
		"write ok", "read ok", "write refused", "read refused", "list refused", "run refused", "dial ok", "dial refused", "listen refused",
		"socket ok", "socket refused", "socket refused", "socket refused", "socket refused",
	}
	got := confined(t, policy, "write="+own+"/a", "read="+other+"/database", "write="+other+"/a", "read="+token, "list=/", "run=/bin/true",
		"dial="+proxy, "dial="+stranger, "listen=127.0.0.1:0", "socket=tcp", "socket=mptcp", "socket=udp", "socket=unix", "socket=netlink")
	if got != strings.Join(want, "\n") {
		t.Errorf("want\n%s\ngot\n%s", strings.Join(want, "\n"), got)
	}
}

func TestLimitsHoldWithoutLandlock(t *testing.T) {
	dir := t.TempDir()
	got := confined(t, sandbox.Policy{OpenFiles: 100}, "limits", "privileges", "write="+dir+"/a", "read="+dir+"/a")
	if want := "core=0 files=100\nlimits ok\nNoNewPrivs:\t1\nprivileges ok\nwrite ok\nread ok"; got != want {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

func TestSandboxFileSizeLimit(t *testing.T) {
	dir := t.TempDir()
	got := confined(t, sandbox.Policy{FileBytes: 5}, "write="+dir+"/a")
	if !strings.Contains(got, "file too large") {
		t.Error(got)
	}
}

func TestModes(t *testing.T) {
	if confines, err := sandbox.Off.Confines(); confines || err != nil {
		t.Error("Off confines nothing", err)
	}
	prefer, err := sandbox.Prefer.Confines()
	if err != nil {
		t.Error(err)
	}
	if require, err := sandbox.Require.Confines(); require != prefer || (err == nil) != prefer {
		t.Errorf("Require must refuse exactly where Prefer cannot confine: %v, %v", require, err)
	}
	if _, err := sandbox.Mode("Perhaps").Confines(); err == nil {
		t.Error("a mode that there is not must be refused")
	}
}

func TestUnreadablePolicyStartsNothing(t *testing.T) {
	for _, arguments := range [][]string{nil, {"{}"}, {"garbage", "/bin/true"}, {"{}", "/not/there"}} {
		if arguments == nil || len(arguments) == 1 || arguments[0] == "garbage" {
			if err := sandbox.Main(arguments, nil); err == nil {
				t.Errorf("%v started", arguments)
			}
			continue
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), self, append([]string{sandbox.Subcommand}, arguments...)...).CombinedOutput(); err == nil {
			t.Errorf("%v started: %s", arguments, out)
		}
	}
}
