// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/scans"
)

// Options say what to measure.
type Options struct {
	// Bin is the folder of the project's binaries, CRDs that of the CRDs.
	Bin, CRDs string
	// ReportCRDs is the folder of the CRDs of PolicyReports.
	ReportCRDs string
	// Sizes are how many finished Scans there are after each step.
	Sizes []int
	// InFlight is how many Scans are on their way at the most.
	InFlight int
	// Workers and QPS are settings of the operator.
	Workers, QPS int
	// JobSyncs is a setting of the Job controller.
	JobSyncs int
	// SimNodes is how many nodes simulate pods.
	SimNodes int
	// Limit is how many Scans the cluster runs at a time; 0 for no limit.
	Limit int
	// Profile is a file for the operator's heap profile after the last step; empty for none.
	Profile string
	// CPUProfile is a file for the operator's CPU profile while Scans run; empty for none.
	CPUProfile string
	// APICPUProfile is a file for kube-apiserver's CPU profile while Scans run; empty for none.
	APICPUProfile string
	// Hooks is how many hooks run for each Scan, one after another.
	Hooks int
	// ScanAccess is how parsers and hooks reach their Scan. By the API each Scan gets an account.
	ScanAccess executionv1.ScanAccess
	// Phases is whether parsers run in the scanner's pod; they can only with ScanAccess Handover.
	Phases executionv1.Phases
	// PodStartDelay is how long pods wait before they start. With it the time from the end of scanners to findings is printed.
	PodStartDelay time.Duration
	// Peer is an operator's program that is measured instead of ours: secureCodeBox's. It has its own settings of workers and rates.
	Peer string
	// Summary is a file for the figures of the last step, for programs; empty for none.
	Summary string
	// Requests counts the requests to the API server by who made them.
	Requests bool
	// Out gets the report.
	Out io.Writer
}

// namespaces is over how many namespaces the Scans are spread.
const namespaces = 10

// Run measures and prints.
func Run(ctx context.Context, o Options) error {
	cluster, err := localcluster.Start(ctx, localcluster.Options{
		Binary: filepath.Join(o.Bin, "localcluster"), JobSyncs: o.JobSyncs, Audit: o.Requests,
		Node: localcluster.NodeOptions{
			SimNodes: o.SimNodes, SimDelay: localcluster.Duration(time.Millisecond), PodStartDelay: localcluster.Duration(o.PodStartDelay),
		},
	})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	b, err := newRun(ctx, o, cluster)
	if err != nil {
		return err
	}
	defer b.operator.stop()
	if o.Peer != "" {
		fmt.Fprintf(o.Out, "measured is %s, which has its own workers and request rates\n", o.Peer)
	}
	fmt.Fprintf(o.Out, "%d cores, %s; %d workers, %d requests/s to the API server, %d Job syncs, "+
		"%d simulated nodes, at most %d Scans in flight, %d hooks, %s, %s\n",
		runtime.NumCPU(), runtime.Version(), o.Workers, o.QPS, o.JobSyncs, o.SimNodes, o.InFlight, o.Hooks, o.ScanAccess, o.Phases)
	fmt.Fprintf(
		o.Out, "%8s %8s %8s %10s %12s %10s %12s %16s %10s %10s %22s\n", "finished", "added", "scans/s", "pods/scan", "writes/scan", "GETs/scan",
		"CPU ms/scan", "API CPU ms/scan", "RSS MiB", "peak MiB", "Job end → next Job ms",
	)
	// The first Scan of a namespace brings what is made once for all of them, which is not what a Scan costs.
	if _, err := b.add(ctx, 0, namespaces); err != nil {
		return err
	}
	done := 0
	audit := &auditLog{file: localcluster.Layout(cluster.DataDir).AuditLog()}
	profile, apiProfile := b.operator.profileCPU(ctx, o.CPUProfile), b.profileAPIServer(ctx, o.APICPUProfile)
	for _, size := range o.Sizes {
		if o.Requests {
			if err := audit.skip(); err != nil {
				return err
			}
		}
		f, err := b.add(ctx, namespaces+done, namespaces+size)
		if err != nil {
			return err
		}
		fmt.Fprintf(o.Out, "%8d %8d %8.1f %10.2f %12.2f %10.2f %12.1f %16.1f %10d %10d %22s\n", size, size-done, f.rate, f.pods, f.writes, f.reads,
			f.cpu, f.apiCPU, f.rss>>20, f.peak>>20, fmt.Sprintf("p50 %d  p99 %d", f.p50.Milliseconds(), f.p99.Milliseconds()))
		if o.PodStartDelay > 0 {
			p50, p99 := b.found.latencies()
			fmt.Fprintf(o.Out, "  pods take %s to start; scanner's end → findings ms: p50 %d  p99 %d\n", o.PodStartDelay, p50.Milliseconds(), p99.Milliseconds())
		}
		if o.Requests {
			all, err := audit.read()
			if err != nil {
				return err
			}
			printRequests(o.Out, all, size-done)
		}
		if o.Summary != "" {
			if err := f.write(o.Summary); err != nil {
				return err
			}
		}
		done = size
	}
	if err := errors.Join(profile(), apiProfile()); err != nil {
		return err
	}
	if o.Profile != "" {
		return b.operator.writeProfile(ctx, o.Profile)
	}
	return nil
}

// run is a cluster with an operator.
type run struct {
	o        Options
	cluster  *localcluster.Cluster
	client   client.WithWatch
	api      rest.Interface
	operator *operator
	seen     *observer
	// found is nil unless pods take their time.
	found *findingsObserver
}

func newRun(ctx context.Context, o Options, cluster *localcluster.Cluster) (*run, error) {
	cfg, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = -1, -1
	c, err := scans.Connect(cfg)
	if err != nil {
		return nil, err
	}
	api, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	if err := installCRDs(ctx, c, o.CRDs); err != nil {
		return nil, err
	}
	for i := range namespaces {
		if err := prepare(ctx, c, namespace(i), o); err != nil {
			return nil, err
		}
	}
	if o.Limit > 0 {
		if err := c.Create(ctx, clusterLimit(o.Limit)); err != nil {
			return nil, fmt.Errorf("limit the cluster: %w", err)
		}
	}
	op, err := startOperator(ctx, o, cluster)
	if err != nil {
		return nil, err
	}
	b := &run{o: o, cluster: cluster, client: c, api: api.RESTClient(), operator: op, seen: observe(ctx, c)}
	if o.PodStartDelay > 0 {
		b.found = observeFindings(ctx, c)
	}
	return b, nil
}

func scanName(i int) string { return fmt.Sprintf("scan-%06d", i) }

func namespace(i int) string { return fmt.Sprintf("bench-%d", i%namespaces) }

// installCRDs applies the CRDs and waits until the API server serves Scans.
func installCRDs(ctx context.Context, c client.Client, folder string) error {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs in %s", folder)
	}
	for _, f := range files {
		crd, err := readObject(f)
		if err != nil {
			return err
		}
		if err := c.Create(ctx, crd); err != nil {
			return fmt.Errorf("create %s: %w", f, err)
		}
	}
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("ParseDefinitionList"))
		all := c.List(ctx, &executionv1.ScanList{}) == nil && c.List(ctx, &executionv1.ScanTypeList{}) == nil && c.List(ctx, list) == nil
		return all, nil
	})
}

// prepare makes a namespace with a ScanType, a ParseDefinition and hooks.
func prepare(ctx context.Context, c client.Client, name string, o Options) error {
	access := cmp.Or(o.ScanAccess, executionv1.ScanAccessHandover)
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		&executionv1.ScanType{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "nmap"},
			Spec: executionv1.ScanTypeSpec{
				ExtractResults: executionv1.ExtractResults{Type: "nmap-xml", Location: executionv1.ResultsDir + "nmap-results.xml"},
				JobTemplate: batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyOnFailure,
					Containers:    []corev1.Container{{Name: "nmap", Image: "nmap", Command: []string{"nmap", "-oX", executionv1.ResultsDir + "nmap-results.xml"}}},
				}}}},
			},
		},
		&executionv1.ParseDefinition{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "nmap-xml"},
			Spec:       executionv1.ParseDefinitionSpec{Image: "parser", ScanAccess: access, Phases: o.Phases},
		},
	}
	for i := range o.Hooks {
		objects = append(objects, &executionv1.ScanCompletionHook{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: fmt.Sprintf("hook-%d", i)},
			// Hooks of different priorities run one after another.
			Spec: executionv1.ScanCompletionHookSpec{Type: executionv1.ReadOnly, Priority: i, Image: "hook", ScanAccess: access},
		})
	}
	for _, object := range objects {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("prepare namespace %s: %w", name, err)
		}
	}
	return nil
}

// figures are what one step has measured.
type figures struct {
	rate, pods, writes, reads, cpu, apiCPU float64
	rss, peak                              int64
	p50, p99                               time.Duration
}

// add lets Scans run until there are to of them, from from on.
func (b *run) add(ctx context.Context, from, to int) (figures, error) {
	before, err := b.read(ctx)
	if err != nil {
		return figures{}, err
	}
	b.seen.reset()
	if b.found != nil {
		b.found.reset()
	}
	began := time.Now()
	if err := b.create(ctx, from, to); err != nil {
		return figures{}, err
	}
	if err := b.seen.await(ctx, to-from); err != nil {
		return figures{}, err
	}
	took := time.Since(began)
	after, err := b.read(ctx)
	if err != nil {
		return figures{}, err
	}
	n := float64(to - from)
	f := figures{
		rate:   n / took.Seconds(),
		pods:   (after.pods - before.pods) / n,
		writes: (after.writes - before.writes) / n,
		reads:  (after.reads - before.reads) / n,
		cpu:    (after.cpu - before.cpu).Seconds() * 1000 / n,
		apiCPU: (after.apiCPU - before.apiCPU).Seconds() * 1000 / n,
		rss:    after.rss, peak: after.peak,
	}
	f.p50, f.p99 = b.seen.latencies()
	return f, nil
}

// creators is how many Scans are created at the same time.
const creators = 16

// create creates Scans, as fast as the window of those in flight lets it.
func (b *run) create(ctx context.Context, from, to int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range creators {
		workers.Go(func() {
			for i := range numbers {
				s := scans.New(namespace(i), scanName(i), "nmap", "example.com")
				if b.found != nil {
					s.Labels = map[string]string{labelScan: s.Name}
				}
				if err := b.client.Create(ctx, s); err != nil {
					cancel(fmt.Errorf("create Scan %s: %w", s.Name, err))
					return
				}
			}
		})
	}
	for i := from; i < to; i++ {
		if err := b.seen.room(ctx, i-from, b.o.InFlight); err != nil {
			break
		}
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	workers.Wait()
	return context.Cause(ctx)
}
