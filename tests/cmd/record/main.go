// SPDX-License-Identifier: Apache-2.0

// Command record runs the demo on a pseudo terminal and keeps what it sees: a recording (asciicast), and a picture of it that moves. Then it
// types commands at the demo's cluster, for pictures of a terminal and of an HTML report. All of it is from the real run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/scanyard/scanyard/tests/recording"
)

const (
	columns, rows = 112, 34
	// tallest is how many lines a picture of commands may have; those at the end that are empty are cut off.
	tallest = 80
	// longest is the longest pause that a viewer waits through, frame the shortest time between two pictures, linger how long the end stays.
	longest, frame, linger = 1500 * time.Millisecond, 150 * time.Millisecond, 6 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	r := recorder{}
	flag.StringVar(&r.bin, "bin", "bin", "the folder with the programs demo, scanyard and localcluster")
	flag.StringVar(&r.out, "out", "docs/pictures", "the folder for the pictures")
	flag.Parse()
	err := r.record(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

type recorder struct{ bin, out string }

// kubeconfig is where the demo says that its cluster is.
var kubeconfig = regexp.MustCompile(`export KUBECONFIG=(\S+)`)

func (r *recorder) record(ctx context.Context) (err error) {
	for _, p := range []*string{&r.bin, &r.out} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	dir, err := os.MkdirTemp("", "demo-")
	if err != nil {
		return err
	}
	demo := filepath.Join(r.bin, "demo")
	defer func() {
		down := exec.CommandContext(context.WithoutCancel(ctx), demo, "down", "--data-dir", dir)
		err = errors.Join(err, down.Run(), os.RemoveAll(dir))
	}()
	fmt.Println("recording the demo, which takes a minute")
	s := &session{cast: recording.Cast{Columns: columns, Rows: rows, Title: "make demo"}, began: time.Now()}
	if err := s.typed(ctx, "make demo", demo, "--keep", "--data-dir", dir); err != nil {
		return err
	}
	at := kubeconfig.FindStringSubmatch(s.all())
	if at == nil {
		return errors.New("the demo does not say where its cluster is")
	}
	// No folder of this machine is a viewer's.
	plain := func(text string) string { return strings.NewReplacer(dir, "/tmp/demo", r.bin, "bin").Replace(text) }
	moving := s.cast.Replace(plain).Hasten(longest, frame)
	if moving, err = moving.Until("The overview of the console"); err != nil {
		return err
	}
	return errors.Join(r.keep("demo", moving), r.visit(ctx, at[1], plain))
}

// keep writes a recording and the picture of it that moves.
func (r *recorder) keep(name string, c recording.Cast) error {
	text, err := c.Write()
	if err != nil {
		return err
	}
	svg, err := c.Moving(linger)
	if err != nil {
		return err
	}
	return errors.Join(r.write(name+".cast", text), r.write(name+".svg", svg))
}

func (r *recorder) write(name string, content []byte) error {
	fmt.Printf("%s: %d KB\n", name, len(content)/1024)
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// session is a terminal that commands are typed at, one after the other.
type session struct {
	cast  recording.Cast
	began time.Time
	// env is what commands find in the environment besides this program's own.
	env []string
}

func (s *session) say(text string) {
	s.cast.Events = append(s.cast.Events, recording.Event{At: time.Since(s.began), Text: text})
}

func (s *session) all() string {
	var all strings.Builder
	for _, e := range s.cast.Events {
		all.WriteString(e.Text)
	}
	return all.String()
}

// typed shows a command, and runs what it stands for. A command that fails is an error.
func (s *session) typed(ctx context.Context, shown, program string, args ...string) error {
	prompt := "\x1b[1;32m$\x1b[0m "
	if len(s.cast.Events) > 0 {
		prompt = "\r\n" + prompt
	}
	s.say(prompt + "\x1b[1m" + shown + "\x1b[0m\r\n")
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(append(os.Environ(), "TERM=xterm-256color"), s.env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(s.cast.Columns), Rows: uint16(s.cast.Rows)})
	if err != nil {
		return fmt.Errorf("start %s: %w", shown, err)
	}
	defer tty.Close()
	for buffer := make([]byte, 64<<10); ; {
		n, err := tty.Read(buffer)
		if n > 0 {
			s.say(string(buffer[:n]))
		}
		if err != nil {
			break // EIO is how a pseudo terminal ends
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", shown, err, s.all())
	}
	return nil
}
