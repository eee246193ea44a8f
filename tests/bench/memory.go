// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
)

// Memory says how large the suspended Scans are that a tenant creates.
type Memory struct {
	// KiB are in the spec of each.
	KiB int
}

// largestParameters is what parameters may have together; the rest goes into an init container.
const largestParameters = 128 << 10

// PrintMemory creates suspended Scans, which nothing ever ends, and prints what the operator needs
// to know them, and what it needs to get to know them when it starts.
func PrintMemory(ctx context.Context, o Options, m Memory) error {
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
	fmt.Fprintf(o.Out, "%d cores, %s; suspended Scans of %d KiB; %d workers\n", runtime.NumCPU(), runtime.Version(), m.KiB, o.Workers)
	fmt.Fprintf(o.Out, "%8s %10s %10s %22s %22s %16s\n", "scans", "RSS MiB", "peak MiB", "RSS after restart MiB", "peak after restart MiB", "start to known s")
	done := 0
	for _, size := range o.Sizes {
		if err := b.suspended(ctx, done, size, m.KiB<<10); err != nil {
			return err
		}
		if err := b.finalized(ctx, size); err != nil {
			return err
		}
		before, err := b.operator.read(ctx)
		if err != nil {
			return err
		}
		b.operator.stop()
		began := time.Now()
		if b.operator, err = startOperator(ctx, o, cluster); err != nil {
			return err
		}
		if err := b.operator.known(ctx, size); err != nil {
			return err
		}
		took := time.Since(began)
		after, err := b.operator.read(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "%8d %10d %10d %22d %22d %16.1f\n", size, before.rss>>20, before.peak>>20, after.rss>>20, after.peak>>20, took.Seconds())
		done = size
	}
	if o.Profile != "" {
		return b.operator.writeProfile(ctx, o.Profile)
	}
	return nil
}

// suspendedScan is one of about the given size.
func suspendedScan(i, size int) *executionv1.Scan {
	const most = 32 << 10
	text := func(n int) (parts []string) {
		for n > 0 {
			part := min(n, most)
			parts = append(parts, strings.Repeat("x", part-1))
			n -= part
		}
		return parts
	}
	s := scans.New(namespace(i), fmt.Sprintf("large-%06d", i), "nmap", text(min(size, largestParameters))...)
	yes := true
	s.Spec.Suspend = &yes
	if rest := size - largestParameters; rest > 0 {
		s.Spec.InitContainers = []corev1.Container{{Name: "large", Image: "large", Args: text(rest)}}
	}
	return s
}

// suspended creates Scans.
func (b *run) suspended(ctx context.Context, from, to, size int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range creators {
		workers.Go(func() {
			for i := range numbers {
				err := b.client.Create(ctx, suspendedScan(i, size))
				for apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) {
					err = b.client.Create(ctx, suspendedScan(i, size)) // a machine that is busy with so much data
				}
				if err != nil && !apierrors.IsAlreadyExists(err) {
					cancel(fmt.Errorf("create Scan %d: %w", i, err))
					return
				}
			}
		})
	}
	for i := from; i < to && ctx.Err() == nil; i++ {
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	workers.Wait()
	return context.Cause(ctx)
}

// finalized waits until the operator has taken all Scans up.
func (b *run) finalized(ctx context.Context, want int) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("ScanList"))
	return wait.PollUntilContextTimeout(ctx, time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := b.client.List(ctx, list); err != nil {
			return false, err
		}
		taken := 0
		for i := range list.Items {
			if slices.Contains(list.Items[i].Finalizers, executionv1.FinalizerStorage) {
				taken++
			}
		}
		return taken == want, nil
	})
}

// errFew says that not all Scans have been looked at.
var errFew = errors.New("not all Scans were looked at")

// known waits until the operator has looked at all Scans since it was started.
func (op *operator) known(ctx context.Context, want int) error {
	seen := 0
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		seen = 0
		err := get(ctx, op.metrics, func(s *bufio.Scanner) {
			for s.Scan() {
				if strings.HasPrefix(s.Text(), `controller_runtime_reconcile_total{controller="scan"`) {
					fields := strings.Fields(s.Text())
					n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
					if err == nil {
						seen += int(n)
					}
				}
			}
		})
		return seen >= want, err
	})
	if err != nil {
		return fmt.Errorf("%w: %d of %d: %w", errFew, seen, want, err)
	}
	return nil
}
