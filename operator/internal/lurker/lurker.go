// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/scanyard/scanyard/podkit/handoff"
	"github.com/scanyard/scanyard/podkit/resultfile"
	"github.com/scanyard/scanyard/podkit/retry"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// maxUpload is the most that S3 takes in one PUT.
const maxUpload = 5 << 30

// Lurker waits for a scanner and uploads its result.
type Lurker struct {
	// Pods are the pods of the namespace.
	Pods corev1client.PodInterface
	// Pod is the name of the pod that this runs in.
	Pod string
	// Container is the scanner in it.
	Container string
	// File is what the scanner writes.
	File string
	// Handoff is the folder that is shared with a parser in this pod; "" where there is none.
	Handoff string
	// URL is where the result goes.
	URL transfer.URL
	// LogURL is where the end of the scanner's log goes; "" keeps none.
	LogURL transfer.URL
	// Fresh returns another URL when one has expired; nil if there is no such endpoint.
	Fresh func(ctx context.Context) (transfer.URL, error)
	// Upload sends the file. Errors for which transfer.IsExpired holds mean that a
	// fresh URL helps.
	Upload func(ctx context.Context, to transfer.URL, size int64, open func() (io.ReadCloser, error)) error
	Clock  retry.Clock
	Log    *slog.Logger
}

// Run waits and uploads. Its error is one sentence for the user.
func (l *Lurker) Run(ctx context.Context) error {
	l.Log.Info("waiting for the scanner", "pod", l.Pod, "container", l.Container)
	k := &keeper{Lurker: l}
	defer k.wait.Wait()
	w := &waiter{pods: l.Pods, pod: l.Pod, container: l.Container, clock: l.Clock.WithDefaults(), log: l.Log, seen: k.look}
	tell, err := l.beginHandoff()
	if err != nil {
		return err
	}
	v, err := w.wait(ctx)
	if err != nil {
		return err
	}
	// The result goes first. The log of a scanner that has failed for good is on its way already.
	if v.err != nil {
		return errors.Join(v.err, tell(false))
	}
	defer k.keep(ctx, "", false)
	result, err := findResult(l.File, v)
	if err != nil {
		return errors.Join(err, tell(false))
	}
	defer result.Close()
	if err := tell(true); err != nil {
		return err
	}
	l.Log.Info("the scanner has ended, uploading its result", "file", l.File, "bytes", result.Size)
	if err := l.upload(ctx, result); err != nil {
		return err
	}
	l.Log.Info("uploaded")
	return nil
}

// beginHandoff lets the parser beside the lurker wait, if there is one. The function that it returns tells the parser whether
// there is a result.
func (l *Lurker) beginHandoff() (tell func(scanned bool) error, err error) {
	if l.Handoff == "" {
		return func(bool) error { return nil }, nil
	}
	h, err := handoff.Hold(l.Handoff)
	if err != nil {
		return nil, err
	}
	return h.Tell, nil
}

// upload sends the result, with a fresh URL each time one has expired.
func (l *Lurker) upload(ctx context.Context, r *resultfile.File) error {
	to := l.URL
	for {
		err := l.Upload(ctx, to, r.Size, r.Open)
		if err == nil || !transfer.IsExpired(err) {
			return err
		}
		if l.Fresh == nil {
			return fmt.Errorf("the upload URL expired during the scan, and no endpoint gives a fresh one (raise URL_EXPIRATION_SCAN of the operator): %w", err)
		}
		l.Log.Info("the upload URL has expired, asking the operator for a fresh one")
		if to, err = l.Fresh(ctx); err != nil {
			return fmt.Errorf("get a fresh upload URL: %w", err)
		}
	}
}

// findResult checks that the file is what the last attempt wrote.
func findResult(file string, v containerState) (*resultfile.File, error) {
	f, err := resultfile.Find(file)
	switch {
	case errors.Is(err, resultfile.ErrMissing):
		return nil, fmt.Errorf("the scanner ended with exit code 0 but wrote no %s; does the ScanType's extractResults.location match its command?", file)
	case err != nil:
		return nil, err
	case f.Size > maxUpload:
		err = fmt.Errorf("%s has %d bytes; S3 takes at most %d in one upload", file, f.Size, int64(maxUpload))
	case v.restarted && f.Modified.Before(v.startedAt.Truncate(time.Second)):
		err = fmt.Errorf("%s was written by an earlier attempt that failed; the attempt that ended with exit code 0 wrote nothing", file)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
