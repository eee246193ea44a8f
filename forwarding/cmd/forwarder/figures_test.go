// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// The full figures are those of "make bench-forwarding" and "make fault-forwarding".
var (
	manyFindings = flag.Int("findings", 100_000, "findings of the one large Scan")
	manyScans    = flag.Int("scans", 60, "Scans of ten findings")
	manyKills    = flag.Int("kills", 3, "how often the program is killed")
)

const maxMemory = 96 << 20

// TestMemoryIsBounded: a Scan is sent in memory that does not grow with its findings.
func TestMemoryIsBounded(t *testing.T) {
	release, space := namespace(t), namespace(t)
	o := newOperator(t, release)
	far := receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Keeper: &receiver.Discard{}}})
	setting(t, far.Address)
	scan := finished(t, o, space, "large", *manyFindings)
	cmd, _ := start(t, release, o, "--leader-elect=false")
	began := time.Now()
	var said metav1.Condition
	defer func() {
		if t.Failed() {
			t.Logf("%+v, %+v", said, scan.Status.Forwarding)
		}
	}()
	eventuallyIn(t, 10*time.Minute, "the Scan is forwarded", func() bool {
		said = forwarded(t, scan)
		return said.Status == metav1.ConditionTrue
	})
	took, used := time.Since(began), usage.OfT(t, cmd.Process.Pid)
	for _, e := range scan.Status.Forwarding {
		if e.Records != int64(*manyFindings)+1 || e.Verdict != "Accepted" {
			t.Errorf("%+v", e)
		}
	}
	sent := float64(*manyFindings)
	t.Logf("%d findings in %s: %.0f/s, %.1f µs of CPU each, peak %.1f MiB",
		*manyFindings, took.Round(time.Millisecond), sent/took.Seconds(), float64(used.CPU.Microseconds())/sent, float64(used.Peak)/(1<<20))
	if used.Peak > maxMemory {
		t.Errorf("the forwarder took %d MiB of memory, more than %d", used.Peak>>20, maxMemory>>20)
	}
}

// TestWritesPerScan: a small Scan costs one write of its status, and nothing is written afterwards.
func TestWritesPerScan(t *testing.T) {
	release, space := namespace(t), namespace(t)
	o := newOperator(t, release)
	far := receivertest.Start(t, receivertest.Options{Receiver: receiver.Options{Keeper: &receiver.Discard{}}})
	setting(t, far.Address)
	list := make([]*executionv1.Scan, 0, *manyScans)
	for i := range *manyScans {
		list = append(list, finished(t, o, space, fmt.Sprint("small-", i), 10))
	}
	began := time.Now()
	_, address := start(t, release, o, "--leader-elect=false")
	for _, scan := range list {
		eventuallyIn(t, 10*time.Minute, scan.Name+" is forwarded", func() bool { return forwarded(t, scan).Status == metav1.ConditionTrue })
	}
	took := time.Since(began)
	patches := 0.0
	for line := range strings.Lines(lines(metricsOf(t, address), "rest_client_requests_total{")) {
		if strings.Contains(line, `method="PATCH"`) {
			n, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			must(t, err)
			patches += n
		}
	}
	// The setting and its Events are written, too.
	const others = 5
	t.Logf("%d Scans in %s: %.3f writes for each, those of the setting among them", len(list), took.Round(time.Millisecond), patches/float64(len(list)))
	if patches > 1.05*float64(len(list))+others {
		t.Errorf("%.0f writes for %d Scans", patches, len(list))
	}
}

// TestKilledWhileItSends: kill -9 loses nothing, and what is sent twice is suppressed.
func TestKilledWhileItSends(t *testing.T) {
	const findings = 40
	release, space := namespace(t), namespace(t)
	o := newOperator(t, release)
	far := receivertest.Start(t, receivertest.Options{})
	setting(t, far.Address, `, "maxRecordsPerSecond": 1000, "batch": {"maxRecords": 10}`)
	scans := *manyKills * 4
	list := make([]*executionv1.Scan, 0, scans)
	for i := range scans {
		list = append(list, finished(t, o, space, fmt.Sprint("killed-", i), findings))
	}
	all := uint64(scans * (findings + 2))
	for i := range *manyKills {
		cmd, _ := start(t, release, o, "--leader-elect=false")
		goal := all * uint64(i+1) / uint64(*manyKills+1)
		eventually(t, "records arrive", func() bool { return far.Store.Counters().Stored >= goal })
		must(t, cmd.Process.Kill())
		if err := cmd.Wait(); err == nil {
			t.Error("it ended by itself")
		}
	}
	start(t, release, o, "--leader-elect=false")
	for _, scan := range list {
		eventually(t, scan.Name+" is forwarded", func() bool { return forwarded(t, scan).Status == metav1.ConditionTrue })
		if e := scan.Status.Forwarding; len(e) != 1 || e[0].Verdict != "Complete" || e[0].Records != findings+1 {
			t.Errorf("%s: %+v", scan.Name, e)
		}
	}
	c := far.Store.Counters()
	t.Logf("%d Scans, %d kills: %+v", scans, *manyKills, c)
	if c.Stored != all || c.Conflicts+c.Rejected > 0 || c.Received != c.Stored+c.Duplicates {
		t.Errorf("the far end has %+v, wants %d records", c, all)
	}
}
