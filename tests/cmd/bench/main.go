// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator with Scans whose pods end at once.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/scanyard/scanyard/tests/bench"
)

const usage = `bench lets Scans run whose pods end at once, and prints what the operator did and used.

Columns: finished Scans after the step, Scans added by it, Scans finished per second,
writes of the operator to the API server per Scan, its CPU time per Scan, its memory
now and at its peak, and how long it took from the end of a scanner Job, as a watch
shows it, until the parser Job was there.

Flags:
`

func main() {
	var o bench.Options
	root := flag.String("root", ".", "`folder` of the repository")
	sizes := flag.String("n", "1000,10000", "`numbers` of finished Scans after each step")
	flag.IntVar(&o.InFlight, "in-flight", 1000, "how many Scans are on their way at the most")
	flag.IntVar(&o.Workers, "workers", 16, "workers of the operator")
	flag.IntVar(&o.QPS, "qps", 2000, "requests per second that the operator may make")
	flag.IntVar(&o.JobSyncs, "job-syncs", 10, "Jobs that the Job controller handles at a time; 10 is Kubernetes' default")
	flag.IntVar(&o.SimNodes, "sim-nodes", 10, "nodes that simulate pods")
	flag.StringVar(&o.Profile, "profile", "", "`file` for the operator's heap profile after the last step (go tool pprof)")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage); flag.PrintDefaults() }
	flag.Parse()
	for text := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || len(o.Sizes) > 0 && n <= o.Sizes[len(o.Sizes)-1] {
			fmt.Fprintf(os.Stderr, "bench: -n %q must be growing numbers, such as 1000,10000\n", *sizes)
			os.Exit(2)
		}
		o.Sizes = append(o.Sizes, n)
	}
	o.Bin, o.CRDs, o.Out = filepath.Join(*root, "bin"), filepath.Join(*root, "charts", "scanyard", "crds"), os.Stdout
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := bench.Run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
