// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// exactly says which findings, or the Scan, are not there exactly once.
func (c *cluster) exactly(count int) error {
	documents, err := c.all()
	if err != nil {
		return err
	}
	tally, scans := sdktest.Tally{}, 0
	for id, document := range documents {
		if id == uid {
			scans++
			continue
		}
		if document["scan_id"] != uid || id != fmt.Sprint(uid, "_", document["id"]) {
			return fmt.Errorf("document %s is %v", id, document)
		}
		tally[fmt.Sprint(document["id"])]++
	}
	if scans != 1 {
		return fmt.Errorf("%d documents are of Scans", scans)
	}
	return tally.Exactly(count)
}

// rejects has some items wait when they come for the first time.
func rejects(c *cluster) {
	seen := map[string]bool{}
	c.busy = func(id string) bool {
		known := seen[id]
		seen[id] = true
		return strings.HasSuffix(id, "7") && !known
	}
}

// TestKilledEverywhere kills the hook at each request of a delivery, with requests as they are by default and large.
func TestKilledEverywhere(t *testing.T) {
	for _, c := range []struct {
		name, batch string
		count       int
	}{{"AsItComes", "", 200}, {"TenThousand", "2000", 10_000}} {
		t.Run(c.name, func(t *testing.T) {
			sdktest.Delivery{
				Hook: Hook(),
				Env: func(url string) map[string]string {
					return map[string]string{"ELASTICSEARCH_ADDRESS": url, "ELASTICSEARCH_BATCH_SIZE": c.batch}
				},
				Prepare: func(w *sdktest.World) { w.Scan, w.Objects["/findings.json"] = stored, sdktest.Findings(c.count) },
				Remote: func() (func(sdktest.Request) sdktest.Reply, func() error) {
					far := newCluster()
					rejects(far)
					return far.take, func() error { return far.exactly(c.count) }
				},
			}.KillEverywhere(t)
		})
	}
}

// TestFaults delivers 10,000 findings to a cluster that has each fault now and then, and rejects items besides.
func TestFaults(t *testing.T) {
	const count = 10_000
	w := sdktest.New(t)
	w.Scan, w.Objects["/findings.json"] = stored, sdktest.Findings(count)
	c := newCluster()
	rejects(c)
	far := w.NewRemote(t, func(n int, r sdktest.Request) sdktest.Reply {
		switch n % 8 {
		case 0:
			return sdktest.Reply{Status: 429, Header: map[string]string{"Retry-After": "3"}}
		case 1:
			return sdktest.Reply{Status: 500}
		case 2:
			c.take(r) // and the response is lost
			return sdktest.Reply{Status: 503}
		case 3:
			reply := c.take(r)
			reply.Half = true
			return reply
		case 4:
			c.take(r)
			return sdktest.Reply{Hang: time.Minute}
		}
		return c.take(r)
	})
	got := w.Run(t, Hook(), map[string]string{"ELASTICSEARCH_ADDRESS": far.URL, "DELIVERY_BUDGET": "24h", "DELIVERY_ATTEMPTS": "20", "ELASTICSEARCH_BATCH_SIZE": "500"})
	if got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	if err := c.exactly(count); err != nil {
		t.Error(err)
	}
}

// TestRefusedItemsAreReported ends with what is said about the items.
func TestRefusedItemsAreReported(t *testing.T) {
	w := sdktest.New(t)
	w.Scan, w.Objects["/findings.json"] = stored, sdktest.Findings(120)
	c := newCluster()
	c.busy = func(id string) bool { return strings.HasSuffix(id, "-7") }
	got := runHook(t, w, c, nil)
	const want = "does not take 1 of 1 findings: status 429 es_rejected_execution_exception: rejected execution of coordinating operation"
	if got.ExitCode != 1 || !strings.Contains(got.Stderr, "given up after 6 attempts") || !strings.Contains(got.Stderr, want) {
		t.Errorf("exit code %d, stderr %q", got.ExitCode, got.Stderr)
	}
}
