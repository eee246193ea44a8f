// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/localcluster/supervisor"
)

type upOptions struct {
	supervisor.Request
	detach    bool
	lifeline  bool
	simDelay  time.Duration
	podStart  time.Duration
	backoff   time.Duration
	imagesMap string
	images    string
}

func upCommand(dataDir *string) *cobra.Command {
	var o upOptions
	c := &cobra.Command{
		Use:   "up",
		Short: "Start the cluster, and run it until Ctrl-C (or in the background with --detach)",
		Long: `Starts the cluster and prints its progress. A data directory that an earlier
cluster left is used again, with its objects, ports and credentials.

Free ports are chosen unless fixed ones are given; a fixed port that is taken
is reported with the process that holds it, before anything is started.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := layout(*dataDir)
			if err != nil {
				return err
			}
			if err := o.complete(); err != nil {
				return err
			}
			if o.detach {
				return upDetached(cmd.Context(), l)
			}
			return up(cmd.Context(), l, o)
		},
	}
	f := c.Flags()
	f.BoolVar(&o.detach, "detach", false, "return when the cluster is ready, and leave it running")
	f.IntVar(&o.APIPort, "api-port", 0, "port of the API server on 127.0.0.1; 0 picks a free one")
	f.IntVar(&o.S3Port, "s3-port", 0, "port of the S3 server on 127.0.0.1; 0 picks a free one")
	f.StringVar(&o.imagesMap, "images-map", "", "YAML file that lets image names stand for programs on this machine")
	f.StringVar(&o.images, "images", "", "folder with images as OCI layouts or docker archives (*.tar)")
	f.IntVar(&o.Node.SimNodes, "sim-nodes", 0, "number of simulated nodes, whose pods succeed without running anything; pods go there by preference")
	f.DurationVar(&o.simDelay, "sim-delay", time.Second, "how long a simulated pod runs")
	f.DurationVar(&o.podStart, "pod-start-delay", 0, "how long each pod waits on its node before its first container runs, as for images on other clusters")
	f.DurationVar(&o.backoff, "backoff", 10*time.Second, "first pause before another restart or image pull, which doubles up to 5m")
	f.IntVar(&o.JobSyncs, "job-syncs", 10, "how many Jobs the Job controller handles at a time")
	f.BoolVar(&o.Audit, "audit", false, "write each request to the API server to logs/audit.log of the data directory")
	f.StringVar(&o.AuditWebhook, "audit-webhook", "", "kubeconfig of a webhook that the API server posts each request to")
	f.StringVar(
		&o.Authentication, "authentication-config", "",
		"file with an AuthenticationConfiguration of the API server, such as OIDC providers whose tokens it takes; it is read again when it changes",
	)
	f.BoolVar(&o.lifeline, "while-stdin-open", false, "stop the cluster when standard input ends")
	if err := f.MarkHidden("while-stdin-open"); err != nil {
		panic(err) // the flag is defined on the line above
	}
	return c
}

func (o *upOptions) complete() error {
	for _, p := range []*string{&o.imagesMap, &o.images, &o.AuditWebhook, &o.Authentication} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	o.Node.ImagesMap, o.Node.Images = o.imagesMap, o.images
	o.Node.SimDelay, o.Node.Backoff = localcluster.Duration(o.simDelay), localcluster.Duration(o.backoff)
	o.Node.PodStartDelay = localcluster.Duration(o.podStart)
	switch {
	case o.Node.SimNodes < 0:
		return fmt.Errorf("--sim-nodes is %d: it cannot be negative", o.Node.SimNodes)
	case o.simDelay < 0:
		return fmt.Errorf("--sim-delay is %s: it cannot be negative", o.simDelay)
	case o.podStart < 0:
		return fmt.Errorf("--pod-start-delay is %s: it cannot be negative", o.podStart)
	case o.backoff <= 0:
		return fmt.Errorf("--backoff is %s: it must be positive", o.backoff)
	case o.JobSyncs <= 0:
		return fmt.Errorf("--job-syncs is %d: it must be positive", o.JobSyncs)
	}
	return nil
}

func layout(dataDir string) (localcluster.Layout, error) {
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("find data directory: %w", err)
	}
	return localcluster.Layout(abs), nil
}

// up runs the cluster in this process.
func up(ctx context.Context, l localcluster.Layout, o upOptions) error {
	s, err := supervisor.Prepare(l, o.Request, time.Now())
	if err != nil {
		return err
	}
	bin, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if o.lifeline {
		ctx = supervisor.WatchLifeline(ctx, os.Stdin)
	}
	v, err := supervisor.New(l, s, bin, os.Stdout, time.Now)
	if err != nil {
		return err
	}
	v.WhenReady(func() { printAccess(s, l) })
	return v.Run(ctx)
}

func printAccess(s *localcluster.State, l localcluster.Layout) {
	fmt.Printf(`
  export KUBECONFIG=%s
  S3 %s bucket %s (credentials: localcluster status --data-dir %s)
`, l.Kubeconfig(), s.ObjectStore.URL(), s.ObjectStore.Bucket, l)
}

// upDetached runs the same command in a session of its own, and shows its
// progress until the cluster is ready.
func upDetached(ctx context.Context, l localcluster.Layout) error {
	bin, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(string(l)), 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	// Beside the data directory, which must be empty or a cluster's.
	out, err := os.CreateTemp("", "localcluster-up-*.log")
	if err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	defer os.Remove(out.Name())
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return a == "--detach" || a == "--detach=true" })
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start in the background: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	shown := int64(0)
	show := func() error {
		b, err := os.ReadFile(out.Name())
		if err != nil {
			return err
		}
		_, err = os.Stdout.Write(b[min(shown, int64(len(b))):])
		shown = int64(len(b))
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := show(); err != nil {
			return fmt.Errorf("show progress: %w", err)
		}
		s, err := localcluster.LoadState(l)
		if err == nil && s.Ready && s.Supervisor.PID == cmd.Process.Pid {
			return show()
		}
		select {
		case <-ended:
			return errors.Join(show(), errors.New("the cluster did not start; the reason stands above"))
		case <-ctx.Done():
			return errors.Join(cmd.Process.Signal(syscall.SIGTERM), ctx.Err())
		case <-tick.C:
		}
	}
}
