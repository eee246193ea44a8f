// SPDX-License-Identifier: Apache-2.0

// Command lurker runs beside a scanner and uploads its result when it has ended.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/lurker"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/transfer"
)

const (
	// patience is how long requests to storage are retried: hours of scanning depend on this one upload.
	patience = time.Hour

	usage = `lurker uploads the result of the scanner that runs beside it in a pod.

It waits until the scanner's container has ended with exit code 0, then PUTs the
file to the URL. A scanner that fails is waited for while Kubernetes restarts it;
when it has failed for good, nothing is uploaded and the exit code is 1.

Flags:
`
	usageEnd = `
Environment:
  NAMESPACE                namespace of the pod
  POD_NAME                 name of the pod; HOSTNAME is used where it is not set
  UPLOAD_URL_ENDPOINT      optional: where to get a fresh URL when the first has expired
  UPLOAD_URL_ENDPOINT_CA   certificate to trust there, PEM
  SCANNER_LOG_UPLOAD_URL   optional: presigned URL to PUT the end of the scanner's log to
`
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := process.Context(context.Background())
	err := run(ctx, os.Args[1:], os.Getenv, log)
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	// Of codes that say not to try again the Job of a scanner knows nothing.
	process.TerminationLog.Fail(os.Stderr, "lurker", err)
	os.Exit(1)
}

func run(ctx context.Context, args []string, getenv func(string) string, log *slog.Logger) error {
	fs := flag.NewFlagSet("lurker", flag.ContinueOnError)
	fs.Usage = func() {
		fmt.Fprint(fs.Output(), usage)
		fs.PrintDefaults()
		fmt.Fprint(fs.Output(), usageEnd)
	}
	container := fs.String("container", "primary", "`name` of the scanner's container in this pod")
	file := fs.String("file", "", "absolute `path` of the file that the scanner writes")
	folder := fs.String("handoff", "", "optional: `folder` shared with a parser in this pod, which is told there that the scanner has ended")
	to := fs.String("url", "", "presigned `URL` to PUT the file to")
	if err := fs.Parse(args); err != nil {
		return err
	}
	pod := getenv(jobs.EnvPodName)
	if pod == "" {
		pod = getenv("HOSTNAME")
	}
	switch {
	case *container == "":
		return errors.New("--container is empty: name the scanner's container")
	case *file == "" || !filepath.IsAbs(*file):
		return fmt.Errorf("--file %q is not an absolute path", *file)
	case *to == "":
		return errors.New("--url is empty: give the presigned URL to upload to")
	case pod == "":
		return errors.New("neither POD_NAME nor HOSTNAME is set: the lurker does not know its pod")
	case getenv(process.EnvNamespace) == "":
		return errors.New("NAMESPACE is not set")
	}
	l, err := newLurker(pod, getenv, log)
	if err != nil {
		return err
	}
	l.Handoff = *folder
	l.Container, l.File, l.URL, l.LogURL = *container, *file, transfer.URL(*to), transfer.URL(getenv(jobs.EnvLogUpload))
	return l.Run(ctx)
}

func newLurker(pod string, getenv func(string) string, log *slog.Logger) (*lurker.Lurker, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	client, err := transfer.New(transfer.WithPatience(patience), transfer.WithRetryNotice(func(err error, wait time.Duration) {
		log.Warn("upload failed, trying again", "error", err, "in", wait.Round(time.Millisecond))
	}))
	if err != nil {
		return nil, err
	}
	l := &lurker.Lurker{
		Pods: core.Pods(getenv(process.EnvNamespace)), Pod: pod, Log: log,
		Upload: func(ctx context.Context, to transfer.URL, size int64, open func() (io.ReadCloser, error)) error {
			return client.Upload(ctx, to, size, open, http.Header{})
		},
	}
	if endpoint := getenv(jobs.EnvUploadEndpoint); endpoint != "" {
		l.Fresh = lurker.Endpoint{
			URL: endpoint, CA: getenv(jobs.EnvUploadCA), TokenFile: filepath.Join(jobs.UploadTokenDir, jobs.UploadTokenFile),
			Log: log,
		}.Fresh
	}
	return l, nil
}
