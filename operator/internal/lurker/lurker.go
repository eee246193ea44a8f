// SPDX-License-Identifier: Apache-2.0

package lurker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

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
	// URL is where it goes.
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
	v, err := w.wait(ctx)
	if err != nil {
		return err
	}
	// The result goes first. The log of a scanner that has failed for good is on its way already.
	if v.err != nil {
		return v.err
	}
	defer k.keep(ctx, "", false)
	result, err := openResult(l.File, v)
	if err != nil {
		return err
	}
	defer result.close()
	l.Log.Info("the scanner has ended, uploading its result", "file", l.File, "bytes", result.size)
	if err := l.upload(ctx, result); err != nil {
		return err
	}
	l.Log.Info("uploaded")
	return nil
}

// upload sends the result, with a fresh URL each time one has expired.
func (l *Lurker) upload(ctx context.Context, r *result) error {
	to := l.URL
	for {
		err := l.Upload(ctx, to, r.size, r.open)
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

// result is the file of a scanner.
type result struct {
	root *os.Root
	name string
	size int64
}

// openResult checks that the file is what the last attempt wrote. The folder is shared
// with a scanner that may be hostile: links that lead out of it are not followed (they
// could lead to our token), and only a regular file is opened.
func openResult(file string, v containerState) (*result, error) {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("open the folder of the result: %w", err)
	}
	r := &result{root: root, name: filepath.Base(file)}
	info, err := root.Stat(r.name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("the scanner ended with exit code 0 but wrote no %s; does the ScanType's extractResults.location match its command?", file)
	case err != nil:
		err = fmt.Errorf("look at %s: %w", file, err)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", file)
	case info.Size() > maxUpload:
		err = fmt.Errorf("%s has %d bytes; S3 takes at most %d in one upload", file, info.Size(), int64(maxUpload))
	case v.restarted && info.ModTime().Before(v.startedAt.Truncate(time.Second)):
		err = fmt.Errorf("%s was written by an earlier attempt that failed; the attempt that ended with exit code 0 wrote nothing", file)
	}
	if err != nil {
		_ = root.Close() // the error counts
		return nil, err
	}
	r.size = info.Size()
	return r, nil
}

// open returns the content; each call starts from the beginning.
func (r *result) open() (io.ReadCloser, error) { return r.root.Open(r.name) }

func (r *result) close() { _ = r.root.Close() } // it was only read
