// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const (
	volumeMiB   = 64
	reservedMiB = 8
)

// startOnVolume runs the exporter in a mount namespace of its own, with its queue on a small volume. It gives where this process sees the volume.
func (p *place) startOnVolume(t *testing.T) (*program, string) {
	t.Helper()
	volume := t.TempDir()
	p.dir = filepath.Join(volume, "q")
	p.wrap = func(args []string) []string {
		mount := fmt.Sprintf("mount -t tmpfs -o size=%dm tmpfs %s && exec \"$@\"", volumeMiB, volume)
		return append([]string{"/bin/sh", "-c", mount, "sh"}, args...)
	}
	p.attributes = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	try := exec.Command("/bin/true")
	wrapped := p.wrap(try.Args)
	try.Path, try.Args, try.SysProcAttr = wrapped[0], wrapped, p.attributes
	if err := try.Run(); err != nil {
		t.Skipf("this machine allows no volume of one's own (%v): TestFaultDiskFull of internal/intake has one that says to be full", err)
	}
	r := p.start(t, "--disk-reserve", fmt.Sprintf("%dMiB", reservedMiB))
	return r, filepath.Join("/proc", strconv.Itoa(r.cmd.Process.Pid), "root", volume)
}

// fillUp writes a file until the volume has no byte left.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for part := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(part)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFaultDiskFull has a volume without a free byte: the exporter takes nothing, lives, and goes on when there is room again.
func TestFaultDiskFull(t *testing.T) {
	far := newFarEnd(t)
	far.answer(http.StatusServiceUnavailable)
	p := newPlace(t, far.URL)
	r, volume := p.startOnVolume(t)
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: p.socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewScanner(conn)
	say := func(n int) {
		t.Helper()
		if _, err := io.WriteString(conn, fmt.Sprintf(`{"eventType":"a","message":"%d"}`+"\n", n)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(text string) {
		t.Helper()
		if !answers.Scan() || answers.Text() != text {
			t.Fatalf("got %s, want %s; %v, %s", answers.Text(), text, answers.Err(), r.log)
		}
	}
	n := 0
	for full := range 3 {
		say(n)
		n++
		want(fmt.Sprintf(`{"ack":{"through":%d}}`, n))
		fillUp(t, filepath.Join(volume, "filler"))
		r.waitFor(t, "the exporter to see it", func(queueView) bool { return strings.Count(r.log.String(), `"full":true`) == full+1 })
		say(n)
		n++
		want(`{"pause":{"reason":"QuotaReached","tenant":"default"}}`)
		if err := os.Remove(filepath.Join(volume, "filler")); err != nil {
			t.Fatal(err)
		}
		want(`{"resume":{}}`)
		want(fmt.Sprintf(`{"ack":{"through":%d}}`, n))
	}
	far.answer(http.StatusOK)
	r.waitFor(t, "all is delivered", isEmpty)
	if lost := far.lost(n); lost > 0 {
		t.Errorf("%d of %d acknowledged records are lost", lost, n)
	}
}
