// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckNamesTheHolder(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	err = Check(port)
	var taken *TakenError
	if !errors.As(err, &taken) || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Errorf("got %v, want this process named", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Check(port); err != nil {
		t.Errorf("after close: %v", err)
	}
	if who, err := Holder(port); who != "" || err != nil {
		t.Errorf("after close: holder %q, %v", who, err)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	got, err := Free(20)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, p := range got {
		seen[p] = true
		if p < lowest || p >= highest {
			t.Errorf("port %d is out of range", p)
		}
	}
	if len(seen) != 20 {
		t.Errorf("got %d different ports, want 20", len(seen))
	}
}

// TestFreePortsAreReserved: what was handed out is not handed out again, though nobody listens yet.
func TestFreePortsAreReserved(t *testing.T) {
	got, err := Free(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range got {
		if err := Check(p); err != nil {
			t.Errorf("the port cannot be used: %v", err)
		}
		if reserve(p) {
			t.Errorf("port %d is reserved a second time", p)
		}
	}
}

func TestListeners(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1
   1: 0100007F:1F90 0100007F:A000 01 00000000:00000000 00:00000000 00000000     0        0 222 1
   2: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1
`
	got := map[string]bool{}
	if err := listeners(strings.NewReader(table), 8080, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"111": true}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
