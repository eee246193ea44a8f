// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
)

// Scale says how many Scans there are at the same time.
type Scale struct {
	// Ended have run to their end and are kept, InFlight have a scanner that does not end, Probe run beside both.
	Ended, InFlight, Probe int
	// Copied are copies of one that has ended, with its Jobs.
	Copied int
}

// PrintScale lets Scans run to their end, begins others that do not end, and prints what the operator then needs, how fast it is, and how long
// it takes to work again after a restart.
func PrintScale(ctx context.Context, o Options, s Scale) error {
	cluster, err := localcluster.Start(ctx, localcluster.Options{
		Binary: filepath.Join(o.Bin, "localcluster"), JobSyncs: o.JobSyncs,
		Node: localcluster.NodeOptions{SimNodes: o.SimNodes, SimDelay: localcluster.Duration(time.Millisecond)},
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
	fmt.Fprintf(o.Out, "%d cores, %s; %d workers; %d ended Scans and %d copies, %d in flight, %d hooks\n",
		runtime.NumCPU(), runtime.Version(), o.Workers, s.Ended, s.Copied, s.InFlight, o.Hooks)
	f, err := b.add(ctx, 0, s.Ended)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%-48s %10d MiB, at %.1f Scans/s\n", "RSS with the ended ones", f.rss>>20, f.rate)
	if err := b.addCopies(ctx, s.Copied); err != nil {
		return err
	}
	if err := b.hold(ctx, s.InFlight); err != nil {
		return err
	}
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
	if err := b.printPages(ctx); err != nil {
		return err
	}
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

// addCopies writes copies of the first Scan while the operator does not work, and starts it again.
func (b *run) addCopies(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	b.operator.stop()
	if err := b.copyEnded(ctx, scanName(0), n); err != nil {
		return err
	}
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
	for i := range n {
		s := scans.New(namespace(i), fmt.Sprintf("held-%06d", i), "nmap", "example.com")
		s.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "none"}
		if err := b.client.Create(ctx, s); err != nil {
			return fmt.Errorf("create Scan %s: %w", s.Name, err)
		}
	}
	return wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		var all executionv1.ScanList
		if err := b.client.List(ctx, &all); err != nil {
			return false, err
		}
		begun := 0
		for i := range all.Items {
			if all.Items[i].Status.State == executionv1.ScanStateScanning {
				begun++
			}
		}
		return begun >= n, nil
	})
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
	if err := b.operator.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	b.operator.stopped()
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
