// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

// Scale says how many Scans there are at the same time.
type Scale struct {
	// Ended have run to their end and are kept, InFlight have a scanner that does not end, Probe run beside both.
	Ended, InFlight, Probe int
	// Copied are copies of one that has ended, with its Jobs.
	Copied int
}

// clusterMemory has the parts of the cluster collect garbage as Kubernetes' own programs do: they hold gigabytes here, and the little that the
// local cluster lets them have else is all garbage collection then.
var clusterMemory = []string{"GOGC=100", "GOMEMLIMIT=off"}

// PrintScale lets Scans run to their end, begins others that do not end, and prints what the operator then needs, how fast it is, and how long
// it takes to work again after a restart.
func PrintScale(ctx context.Context, o Options, s Scale) error {
	cluster, err := localcluster.Start(ctx, localcluster.Options{
		Binary: filepath.Join(o.Bin, "localcluster"), JobSyncs: o.JobSyncs,
		Node: localcluster.NodeOptions{SimNodes: o.SimNodes, SimDelay: localcluster.Duration(time.Millisecond)},
		Env:  clusterMemory,
	})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	b, err := newRun(ctx, o, cluster)
	if err != nil {
		return err
	}
	defer func() { b.operator.stop() }()
	began := time.Now()
	// What takes the time of a run, and what the cluster needs beside the operator, is told as well.
	step := func(name string) {
		fmt.Fprintf(o.Out, "  %-46s %10.1f s after the begin, load %s; %s\n", name, time.Since(began).Seconds(), load(), b.memoryOfCluster(ctx))
	}
	fmt.Fprintf(o.Out, "%d cores, %s; %d workers; %d ended Scans and %d copies, %d in flight, %d hooks\n",
		runtime.NumCPU(), runtime.Version(), o.Workers, s.Ended, s.Copied, s.InFlight, o.Hooks)
	f, err := b.add(ctx, 0, s.Ended)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%-48s %10d MiB, at %.1f Scans/s\n", "RSS with the ended ones", f.rss>>20, f.rate)
	step("ended Scans")
	if err := b.addCopies(ctx, s.Copied); err != nil {
		return err
	}
	step("copies")
	if err := b.hold(ctx, s.InFlight); err != nil {
		return err
	}
	step("Scans in flight")
	if f, err = b.add(ctx, s.Ended, s.Ended+s.Probe); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%-48s %10d MiB, peak %d (goal 256)\n", "RSS with both", f.rss>>20, f.peak>>20)
	const next = "scanner Job's end to the next Job, p99"
	if f.p99 == 0 {
		fmt.Fprintf(o.Out, "%-48s %10s: no Job follows without hooks, where parsers run in the scanner's pod\n", next, "-")
	} else {
		fmt.Fprintf(o.Out, "%-48s %10d ms, p50 %d (goal 2000)\n", next, f.p99.Milliseconds(), f.p50.Milliseconds())
	}
	step("probe")
	if err := b.printPages(ctx); err != nil {
		return err
	}
	step("pages")
	took, err := b.restart(ctx, s.Ended+s.Probe)
	if err != nil {
		return err
	}
	after, err := b.operator.read(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%-48s %10.1f s (goal 30)\n", "restart until a new Scan is Done", took.Seconds())
	fmt.Fprintf(o.Out, "%-48s %10d MiB, peak %d (goal 256)\n", "RSS after the restart", after.rss>>20, after.peak>>20)
	if o.Profile != "" {
		return b.operator.writeProfile(ctx, o.Profile)
	}
	return nil
}

// load is that of the machine over the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// memoryOfCluster is what each part of the cluster has resident, in MiB.
func (b *run) memoryOfCluster(ctx context.Context) string {
	parts, err := b.cluster.Status(ctx)
	if err != nil {
		return err.Error()
	}
	var all []string
	for i := range parts {
		if u, err := usage.Of(parts[i].PID); err == nil {
			all = append(all, fmt.Sprintf("%s %d", parts[i].Name, u.Resident>>20))
		}
	}
	return strings.Join(all, ", ") + " MiB"
}

// addCopies writes copies of the first Scan while the operator does not work, and starts it again.
func (b *run) addCopies(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	if err := b.operator.end(); err != nil {
		return err
	}
	began := time.Now()
	if err := b.copyEnded(ctx, scanName(0), n); err != nil {
		return err
	}
	fmt.Fprintf(b.o.Out, "  %-46s %10.1f s\n", "copies written in", time.Since(began).Seconds())
	op, err := startOperator(ctx, b.o, b.cluster)
	if err != nil {
		return err
	}
	b.operator = op
	after, err := op.read(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.o.Out, "%-48s %10d MiB, peak %d\n", "RSS with the copies", after.rss>>20, after.peak>>20)
	return nil
}

// hold creates Scans whose scanner no node takes, and waits until all of them have begun.
func (b *run) hold(ctx context.Context, n int) error {
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(creators)
	for i := range n {
		g.Go(func() error {
			s := scans.New(namespace(i), fmt.Sprintf("held-%06d", i), "nmap", "example.com")
			s.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "none"}
			if err := b.client.Create(inner, s); err != nil {
				return fmt.Errorf("create Scan %s: %w", s.Name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return b.seen.scanning(ctx, n)
}

// listPage is kubectl's.
const listPage = 500

// printPages lists all Scans as "kubectl get scans -A" does, in pages of tables.
func (b *run) printPages(ctx context.Context) error {
	var slowest time.Duration
	began, pages, rows := time.Now(), 0, 0
	for next := ""; pages == 0 || next != ""; pages++ {
		at := time.Now()
		body, err := b.api.Get().AbsPath("/apis", executionv1.SchemeGroupVersion.Group, executionv1.SchemeGroupVersion.Version, "scans").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
			Param("limit", strconv.Itoa(listPage)).Param("continue", next).DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("list Scans: %w", err)
		}
		slowest = max(slowest, time.Since(at))
		var page metav1.Table
		if err := json.Unmarshal(body, &page); err != nil {
			return fmt.Errorf("list Scans: %w", err)
		}
		rows, next = rows+len(page.Rows), page.Continue
	}
	fmt.Fprintf(b.o.Out, "%-48s %10d ms: %d Scans in %d pages, the slowest %d ms\n",
		"kubectl get scans -A", time.Since(began).Milliseconds(), rows, pages, slowest.Milliseconds())
	return nil
}

// restart ends the operator as a rollout does, and starts it again with a new Scan, the i-th, that waits for it.
func (b *run) restart(ctx context.Context, i int) (time.Duration, error) {
	if err := b.operator.end(); err != nil {
		return 0, err
	}
	b.seen.reset()
	if err := b.create(ctx, i, i+1); err != nil {
		return 0, err
	}
	began := time.Now()
	op, err := startOperator(ctx, b.o, b.cluster)
	if err != nil {
		return 0, err
	}
	b.operator = op
	err = b.seen.await(ctx, 1)
	return time.Since(began), err
}
