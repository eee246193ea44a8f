// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/tests/localcluster/process"
)

func TestStateRoundTrip(t *testing.T) {
	l := Layout(t.TempDir())
	want := &State{
		Ready: true, Ports: Ports{APIServer: 1, S3: 2}, JobSyncs: 7,
		Node: NodeOptions{SimNodes: 3, SimDelay: Duration(1500 * time.Millisecond), PodStartDelay: Duration(3 * time.Second)},
	}
	if err := SaveState(l, want); err != nil {
		t.Fatal(err)
	}
	got, err := LoadState(l)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	st, err := os.Stat(l.StateFile())
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the state holds credentials and has mode %v (%v)", st.Mode(), err)
	}
}

func TestLoadStateRefuses(t *testing.T) {
	for name, c := range map[string]struct{ content, says string }{
		"OtherVersion": {`{"version": 99}`, "version 99"},
		"Broken":       {`{`, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			l := Layout(t.TempDir())
			if err := os.WriteFile(l.StateFile(), []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := LoadState(l); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error with %q", err, c.says)
			}
		})
	}
	if _, err := LoadState(Layout(t.TempDir())); !errors.Is(err, ErrNoCluster) {
		t.Errorf("got %v, want ErrNoCluster", err)
	}
}

func TestRemove(t *testing.T) {
	l := Layout(filepath.Join(t.TempDir(), "c"))
	for _, d := range []string{l.PKI(), l.EtcdData(), filepath.Join(string(l), "theirs")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove(l); !errors.Is(err, ErrNoCluster) {
		t.Fatalf("a folder without a state: got %v", err)
	}
	self, err := process.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := SaveState(l, &State{Supervisor: self}); err != nil {
		t.Fatal(err)
	}
	if err := Remove(l); err == nil || !strings.Contains(err.Error(), "still runs") {
		t.Fatalf("a running cluster: got %v", err)
	}
	self.Start++ // another process of the same pid
	if err := SaveState(l, &State{Supervisor: self}); err != nil {
		t.Fatal(err)
	}
	if err := Remove(l); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(string(l))
	if err != nil || len(left) != 1 || left[0].Name() != "theirs" {
		t.Errorf("left: %v (%v), want only what is not ours", left, err)
	}
}

func TestStartWithoutBinaryNamesTheCommand(t *testing.T) {
	_, err := Start(t.Context(), Options{Binary: filepath.Join(t.TempDir(), "none")})
	if err == nil || !strings.Contains(err.Error(), BuildCommand) {
		t.Errorf("got %v, want the command to build it", err)
	}
}

func TestControlSocketInADeepFolder(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("deep/", 40))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := ListenControl(Layout(deep))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte(`[{"name":"etcd","running":true}]`)); err != nil {
			t.Error(err)
		}
	})}
	go srv.Serve(ln)
	defer srv.Close()
	list, err := NewControl(Layout(deep)).Status(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != Etcd {
		t.Errorf("got %v, %v", list, err)
	}
}
