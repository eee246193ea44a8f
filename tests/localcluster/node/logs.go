// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Logs are kept per pod UID and container, one file per start, in the line
// format of container runtimes: "<time> <stream> <F or P> <text>", where P
// marks a part of a line that was too long.
const logChunk = 16 << 10

// doneSuffix marks a log that gets no more lines.
const doneSuffix = ".done"

func (a *Agent) logDir(p *corev1.Pod) string {
	return filepath.Join(a.o.Dir, "logs", p.Namespace+"_"+p.Name+"_"+string(p.UID))
}

// containerLog is the log of one start of a container.
type containerLog struct {
	path string
	now  func() time.Time
	mu   sync.Mutex
	f    *os.File
	err  error
}

func (a *Agent) openLog(p *corev1.Pod, container string, attempt int) (*containerLog, error) {
	dir := a.logDir(p)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open container log: %w", err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%s.%d.log", container, attempt))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open container log: %w", err)
	}
	if err := os.Remove(path + doneSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("open container log: %w", err), f.Close())
	}
	return &containerLog{path: path, f: f, now: a.o.Now}, nil
}

func (l *containerLog) line(stream string, full bool, text []byte) {
	tag := "P"
	if full {
		tag = "F"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintf(l.f, "%s %s %s %s\n", l.now().UTC().Format(time.RFC3339Nano), stream, tag, text)
	l.err = errors.Join(l.err, err)
}

// close ends the log; a reader that follows it ends too.
func (l *containerLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// A full disk loses log lines, which must not stop the container's status.
	_ = errors.Join(l.f.Close(), os.WriteFile(l.path+doneSuffix, nil, 0o600))
}

// lastLines is how many lines kubelet takes for last words.
const lastLines = 80

// end returns the last n bytes of what the container said.
func (l *containerLog) end(n int) string {
	f, err := os.Open(l.path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var b bytes.Buffer
	if err := copyLog(context.Background(), &b, f, logOptions{tail: lastLines}, func() bool { return true }); err != nil {
		return ""
	}
	text := b.String()
	return text[max(0, len(text)-n):]
}

// copying waits for a process's output to be read to its end.
type copying struct {
	writers []*os.File
	wg      sync.WaitGroup
}

// started closes our copies of the pipes' writing ends, so that readers see
// the end when the last process that has them ends.
func (c *copying) started() {
	for _, w := range c.writers {
		_ = w.Close() // a pipe end: nothing is buffered
	}
}

func (c *copying) wait() { c.wg.Wait() }

// attach connects a command's output to the log.
func (l *containerLog) attach(cmd *exec.Cmd) (*copying, error) {
	c := &copying{}
	for _, s := range []struct {
		name string
		to   *io.Writer
	}{{"stdout", &cmd.Stdout}, {"stderr", &cmd.Stderr}} {
		r, w, err := os.Pipe()
		if err != nil {
			c.started()
			return nil, fmt.Errorf("connect container output: %w", err)
		}
		*s.to = w
		c.writers = append(c.writers, w)
		c.wg.Go(func() {
			l.copyLines(s.name, r)
			_ = r.Close() // read to its end
		})
	}
	return c, nil
}

func (l *containerLog) copyLines(stream string, r io.Reader) {
	br := bufio.NewReaderSize(r, logChunk)
	for {
		b, err := br.ReadSlice('\n')
		text, full := bytes.CutSuffix(b, []byte("\n"))
		// A last line without an end counts as one.
		if len(b) > 0 {
			l.line(stream, full || errors.Is(err, io.EOF), text)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// logOptions are what kubectl logs can ask for.
type logOptions struct {
	follow     bool
	timestamps bool
	previous   bool
	tail       int // lines; -1 for all
	since      time.Time
	limit      int64 // bytes; 0 for all
}

// parseLogOptions reads a kubelet log request.
func parseLogOptions(q url.Values, now time.Time) (logOptions, error) {
	o := logOptions{tail: -1}
	for key, to := range map[string]*bool{"follow": &o.follow, "timestamps": &o.timestamps, "previous": &o.previous} {
		if v := q.Get(key); v != "" {
			b, err := strconv.ParseBool(v)
			if err != nil {
				return o, fmt.Errorf("%s: %w", key, err)
			}
			*to = b
		}
	}
	var err error
	if v := q.Get("tailLines"); v != "" {
		if o.tail, err = strconv.Atoi(v); err != nil {
			return o, fmt.Errorf("tailLines: %w", err)
		}
	}
	if v := q.Get("limitBytes"); v != "" {
		if o.limit, err = strconv.ParseInt(v, 10, 64); err != nil {
			return o, fmt.Errorf("limitBytes: %w", err)
		}
	}
	if v := q.Get("sinceSeconds"); v != "" {
		s, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return o, fmt.Errorf("sinceSeconds: %w", err)
		}
		o.since = now.Add(-time.Duration(s) * time.Second)
	}
	if v := q.Get("sinceTime"); v != "" {
		if o.since, err = time.Parse(time.RFC3339, v); err != nil {
			return o, fmt.Errorf("sinceTime: %w", err)
		}
	}
	return o, nil
}

// copyLog writes the wanted lines of a log and follows it until ended says
// that no more come.
func copyLog(ctx context.Context, w io.Writer, r io.ReadSeeker, o logOptions, ended func() bool) error {
	skip, err := linesToSkip(r, o.tail)
	if err != nil {
		return err
	}
	if o.limit > 0 {
		w = &limitedWriter{w, o.limit}
	}
	br := bufio.NewReaderSize(r, 2*logChunk)
	var line strings.Builder
	for lastRound := false; ; {
		s, err := br.ReadString('\n')
		line.WriteString(s)
		switch {
		case err == nil:
			if skip > 0 {
				skip--
			} else if err := writeLogLine(w, strings.TrimSuffix(line.String(), "\n"), o); err != nil {
				return err
			}
			line.Reset()
			continue
		case !errors.Is(err, io.EOF):
			return err
		case lastRound || !o.follow || ctx.Err() != nil:
			return nil //nolint:nilerr // the end of the log, and nobody follows it
		}
		// One more look after the end: lines may have come in between.
		lastRound = ended()
		if f, ok := w.(interface{ Flush() }); ok {
			f.Flush()
		}
		if !lastRound {
			sleep(ctx, 50*time.Millisecond)
		}
	}
}

// linesToSkip counts what comes before the last tail lines, and goes back to
// the start.
func linesToSkip(r io.ReadSeeker, tail int) (int, error) {
	if tail <= 0 {
		_, err := r.Seek(0, io.SeekStart)
		if tail == 0 {
			_, err = r.Seek(0, io.SeekEnd)
		}
		return 0, err
	}
	lines, buf := 0, make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		lines += bytes.Count(buf[:n], []byte("\n"))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	_, err := r.Seek(0, io.SeekStart)
	return max(0, lines-tail), err
}

func writeLogLine(w io.Writer, line string, o logOptions) error {
	stamp, rest, _ := strings.Cut(line, " ")
	_, rest, _ = strings.Cut(rest, " ")
	tag, text, _ := strings.Cut(rest, " ")
	if !o.since.IsZero() {
		if t, err := time.Parse(time.RFC3339Nano, stamp); err == nil && t.Before(o.since) {
			return nil
		}
	}
	if o.timestamps {
		text = stamp + " " + text
	}
	if tag == "F" {
		text += "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

var errLimit = errors.New("log limit reached")

// limitedWriter stops after n bytes.
type limitedWriter struct {
	w io.Writer
	n int64
}

func (l *limitedWriter) Write(b []byte) (int, error) {
	if int64(len(b)) > l.n {
		n, err := l.w.Write(b[:l.n])
		l.n -= int64(n)
		return n, errors.Join(errLimit, err)
	}
	n, err := l.w.Write(b)
	l.n -= int64(n)
	return n, err
}

// findLog finds the newest log of a container, or the one before that.
func (a *Agent) findLog(namespace, pod, container string, previous bool) (string, error) {
	// A pod's name may be used again: the newest folder wins.
	dirs, err := filepath.Glob(filepath.Join(a.o.Dir, "logs", namespace+"_"+pod+"_*"))
	if err != nil {
		return "", err
	}
	var dir string
	var newest time.Time
	for _, d := range dirs {
		if st, err := os.Stat(d); err == nil && !st.ModTime().Before(newest) {
			dir, newest = d, st.ModTime()
		}
	}
	attempt := -1
	files, err := filepath.Glob(filepath.Join(dir, container+".*.log"))
	if err != nil || dir == "" {
		return "", errors.Join(err, fs.ErrNotExist)
	}
	for _, f := range files {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), container+"."), ".log"))
		if err == nil {
			attempt = max(attempt, n)
		}
	}
	if previous {
		attempt--
	}
	path := filepath.Join(dir, fmt.Sprintf("%s.%d.log", container, attempt))
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	return path, nil
}

// removeOldLogs forgets the logs of pods that no longer exist.
func (a *Agent) removeOldLogs(ctx context.Context) {
	for sleep(ctx, time.Minute) {
		dirs, err := os.ReadDir(filepath.Join(a.o.Dir, "logs"))
		if err != nil || len(dirs) == 0 {
			continue
		}
		list, err := a.o.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + a.o.Name})
		if err != nil {
			continue // next minute
		}
		known := map[string]bool{}
		for i := range list.Items {
			known[filepath.Base(a.logDir(&list.Items[i]))] = true
		}
		for _, d := range dirs {
			if known[d.Name()] {
				continue
			}
			if st, err := d.Info(); err != nil || a.o.Now().Sub(st.ModTime()) < time.Minute {
				continue // perhaps newer than the list
			}
			if err := os.RemoveAll(filepath.Join(a.o.Dir, "logs", d.Name())); err != nil {
				a.o.Log.Warn("remove old log", "error", err)
			}
		}
	}
}
