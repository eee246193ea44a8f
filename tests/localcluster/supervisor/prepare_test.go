// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/ports"
	"github.com/scanyard/scanyard/tests/localcluster/process"
)

func TestPrepareKeepsWhatAnEarlierClusterHad(t *testing.T) {
	l := localcluster.Layout(filepath.Join(t.TempDir(), "c"))
	first, err := Prepare(l, Request{}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	// This process is the supervisor that the state names.
	if _, err := Prepare(l, Request{}, time.Now()); err == nil || !strings.Contains(err.Error(), "already runs") {
		t.Errorf("while it runs: got %v", err)
	}
	down := *first
	down.Supervisor = process.Identity{}
	if err := localcluster.SaveState(l, &down); err != nil {
		t.Fatal(err)
	}
	second, err := Prepare(l, Request{JobSyncs: 3}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.Ports, second.Ports); diff != "" {
		t.Errorf("ports: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff(first.ObjectStore, second.ObjectStore); diff != "" {
		t.Errorf("object store: -want +got:\n%s", diff)
	}
	if second.JobSyncs != 3 || second.Ready {
		t.Errorf("got %d Job syncs and ready %t", second.JobSyncs, second.Ready)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil || len(cfg.CAData) == 0 || len(cfg.CertData) == 0 {
		t.Errorf("the kubeconfig does not stand alone (%v)", err)
	}
}

func TestPrepareRefuses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	occupied := t.TempDir()
	if err := os.WriteFile(filepath.Join(occupied, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dir  string
		r    Request
		says string
	}{
		"TakenPort":    {t.TempDir(), Request{APIPort: ln.Addr().(*net.TCPAddr).Port}, "--api-port: port"},
		"ForeignFiles": {occupied, Request{}, "choose an empty or new --data-dir"},
		"NoImagesMap":  {t.TempDir(), Request{Node: localcluster.NodeOptions{ImagesMap: "/no/such/file"}}, "read images map"},
		"NoImages":     {t.TempDir(), Request{Node: localcluster.NodeOptions{Images: "/no/such/folder"}}, "read images folder"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Prepare(localcluster.Layout(c.dir), c.r, time.Now())
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want an error with %q", err, c.says)
			}
			var taken *ports.TakenError
			if name == "TakenPort" && !errors.As(err, &taken) {
				t.Errorf("got %T, want a TakenError", err)
			}
		})
	}
}
