// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// node is one of three servers of an external queue. It keeps its streams in files, and its ports.
type node struct {
	options *server.Options
	server  *server.Server
}

// startNodes starts three nodes, as somebody else runs them.
func startNodes(t *testing.T) []*node {
	t.Helper()
	const count = 3
	var clients, routes []int
	for range count {
		clients, routes = append(clients, freePort(t)), append(routes, freePort(t))
	}
	var known []string
	for _, port := range routes {
		known = append(known, "nats://127.0.0.1:"+strconv.Itoa(port))
	}
	dir, nodes := t.TempDir(), make([]*node, count)
	for i := range nodes {
		nodes[i] = &node{options: &server.Options{
			ServerName: fmt.Sprintf("node-%d", i), Host: "127.0.0.1", Port: clients[i], JetStream: true, StoreDir: filepath.Join(dir, strconv.Itoa(i)),
			Cluster: server.ClusterOpts{Name: "external", Host: "127.0.0.1", Port: routes[i]}, Routes: server.RoutesFromStr(strings.Join(known, ",")),
			NoLog: true, NoSigs: true, DisableJetStreamBanner: true,
		}}
		nodes[i].start(t)
		t.Cleanup(nodes[i].stop)
	}
	return nodes
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, is := l.Addr().(*net.TCPAddr)
	if err := l.Close(); err != nil || !is {
		t.Fatalf("%T, %v", l.Addr(), err)
	}
	return address.Port
}

func (n *node) start(t *testing.T) {
	t.Helper()
	var err error
	if n.server, err = server.NewServer(n.options.Clone()); err != nil {
		t.Fatal(err)
	}
	n.server.Start()
	if !n.server.ReadyForConnections(time.Minute) {
		t.Fatalf("%s does not listen", n.options.ServerName)
	}
}

func (n *node) stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// again tries until it succeeds: the nodes elect a leader meanwhile.
func again(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	within, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		once, end := context.WithTimeout(within, 3*time.Second)
		err := try(once)
		end()
		if err == nil {
			return
		}
		select {
		case <-within.Done():
			t.Fatalf("%s: %v", what, err)
		case <-ticker.C:
		}
	}
}

// F5: one node of an external queue that goes away changes nothing. While all are away nothing is let in; afterwards what was in the
// queue is there still, and work goes on.
func TestFaultNodesOfAnExternalQueue(t *testing.T) {
	nodes := startNodes(t)
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.server.ClientURL())
	}
	changed := make(chan bool, 100)
	q, err := Connect(Options{
		URLs: urls, Name: "controller", External: true, Replicas: len(nodes), Changed: func(connected bool, _ error) { changed <- connected },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	again(t, "make the streams", q.Ensure)
	again(t, "make the consumer", func(ctx context.Context) error { return q.Window(ctx, SBOM, "trivy", 10) })
	carry := func(names ...string) {
		t.Helper()
		for _, name := range names {
			var d *Delivery
			again(t, "take "+name, func(ctx context.Context) (err error) {
				d, err = q.Take(ctx, SBOM, "trivy")
				return err
			})
			if d.Items[0].Name != name {
				t.Fatalf("%s came, want %s", d.Items[0].Name, name)
			}
			again(t, "end "+name, d.Done)
		}
	}
	push := func(name string) {
		t.Helper()
		again(t, "put "+name, func(ctx context.Context) error { return q.Put(ctx, image(name)) })
	}
	push("with three")
	carry("with three")

	nodes[0].stop()
	push("with two")
	carry("with two")

	push("kept")
	for _, n := range nodes[1:] {
		n.stop()
	}
	for connected := range changed {
		if !connected && !q.Connected() {
			break
		}
	}
	away, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := q.Put(away, image("lost")); err == nil {
		t.Error("work is let in while all nodes are away")
	}

	for _, n := range nodes {
		n.start(t)
	}
	again(t, "find the streams", q.Ensure)
	push("afterwards")
	carry("kept", "afterwards")
}
