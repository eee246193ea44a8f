// SPDX-License-Identifier: Apache-2.0

package exporter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/forwarding/internal/intake"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/internal/sinkurl"
	"github.com/scanyard/scanyard/forwarding/internal/size"
)

// Exit codes.
const (
	exitFailed  = 1
	exitUsage   = 2
	exitInUse   = 3
	exitFormat  = 4
	exitDamaged = 5
)

// Options are what the program is given by its surroundings.
type Options struct {
	Out, Err io.Writer
	Version  string
	Now      func() time.Time
	// Hangup is sent to when the configuration is to be read again; nil: never.
	Hangup <-chan os.Signal
}

// usageError is a bad flag or configuration.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usage(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// ExitCode gives the code that a program ends with after err.
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.As(err, new(*usageError)), errors.As(err, new(*intake.UnsafeError)), errors.As(err, new(*queue.KeyError)):
		return exitUsage
	case errors.As(err, new(*queue.InUseError)):
		return exitInUse
	case errors.As(err, new(*queue.FormatError)):
		return exitFormat
	case errors.As(err, new(*queue.DamagedError)):
		return exitDamaged
	}
	return exitFailed
}

// New makes the command line.
func New(o Options) *cobra.Command {
	root := &cobra.Command{
		Use: "exporter", Short: "Takes records of decisions, keeps them on disk and delivers them at least once",
		Version: o.Version, SilenceUsage: true, SilenceErrors: true,
	}
	root.SetOut(o.Out)
	root.SetErr(o.Err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &usageError{err} })
	root.AddCommand(newRun(o), newQueue(o))
	needsCommand(root, "run or queue")
	return root
}

// needsCommand makes the command fail where none of its commands is named.
func needsCommand(parent *cobra.Command, known string) {
	parent.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usage("command %q is not known: use %s", args[0], known)
		}
		return nil
	}
	parent.RunE = func(cmd *cobra.Command, _ []string) error {
		return errors.Join(cmd.Help(), usage("a command is missing: use %s", known))
	}
}

// flags are those of run.
type flags struct {
	dir, clusterID, clusterIDFile, socket, httpListen string
	config                                            string
	sinks, allowUID                                   []string
	keyFiles                                          keyFiles
	allowGID                                          []uint
	tenant, tenantFrom, onFull, sync, onDamage        string
	queueMax, tenantMax, reserve, maxLine             size.Size
	shutdownTimeout, retryInitial, retryMax           time.Duration
	printAddress, volatile                            bool
	grpc, audit                                       endpoint
}

func (f *flags) bind(set *pflag.FlagSet) {
	f.queueMax, f.reserve, f.maxLine = 1<<30, 256<<20, 1<<20
	set.StringVar(&f.dir, "dir", "", "directory of the queue")
	set.StringVar(&f.config, "config", "", "file with settings in YAML; flags that are given go before it")
	set.BoolVar(&f.volatile, "volatile", false, "the volume of --dir ends with the pod: tell so")
	set.StringVar(&f.clusterID, "cluster-id", "", "which cluster the records are from")
	set.StringVar(&f.clusterIDFile, "cluster-id-file", "", "file that holds the cluster id")
	set.StringVar(&f.socket, "socket", "", "path of the unix socket")
	set.StringArrayVar(&f.sinks, "sink", nil, "NAME=URL[,KEY=VALUE…]; may be given several times")
	set.BoolVar(&f.printAddress, "print-address", false, "print one line of JSON when everything listens")
	set.StringVar(&f.httpListen, "http-listen", "", "address of /healthz, /readyz, /metrics and /v1/queue")
	f.keyFiles.bind(set)
	f.grpc.bind(set, "grpc", "ForwardingService, by which programs on other machines hand in records")
	f.audit.bind(set, "audit", "the audit webhook of a kube-apiserver")
	set.StringVar(&f.tenant, "tenant", "default", "whose the records are")
	set.StringVar(&f.tenantFrom, "tenant-from", "fixed", "fixed, or resourceNamespace of each record")
	set.Var(&f.queueMax, "queue-max-bytes", "bound of the queue, at least 4MiB")
	set.Var(&f.tenantMax, "tenant-max-bytes", "bound of one tenant; 0: half of the queue's")
	set.Var(&f.reserve, "disk-reserve", "bytes of the volume that are never used")
	set.Var(&f.maxLine, "max-line-bytes", "bound of a record, 1KiB to 16MiB")
	set.StringVar(&f.onFull, "on-full", "block", "block, reject or drop-oldest")
	set.StringVar(&f.sync, "sync", "always", "always, or interval:100ms, which is not durable")
	set.StringVar(&f.onDamage, "on-damage", "quarantine", "quarantine or fail")
	set.DurationVar(&f.shutdownTimeout, "shutdown-timeout", 10*time.Second, "how long to deliver after SIGTERM")
	set.DurationVar(&f.retryInitial, "retry-initial", 500*time.Millisecond, "first delay of a retry")
	set.DurationVar(&f.retryMax, "retry-max", 5*time.Minute, "longest delay of a retry")
	set.StringArrayVar(&f.allowUID, "socket-allow-uid", nil, "uid that may connect, or *: whom the mode of the socket admits")
	set.UintSliceVar(&f.allowGID, "socket-allow-gid", nil, "gid that may connect")
}

// settings are the flags after they were checked.
type settings struct {
	flags

	access   intake.Access
	interval time.Duration
	targets  []sinkurl.Sink
	keys     [][]byte
}

func oneOf(name, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return usage("--%s: %q is not known: use one of %s", name, value, strings.Join(known, ", "))
}

// check looks at the flags; targets are the sinks of a file.
func (f *flags) check(targets []sinkurl.Sink) (*settings, error) {
	s := &settings{flags: *f, targets: targets}
	if err := s.checkRequired(); err != nil {
		return nil, err
	}
	for _, err := range []error{
		oneOf("tenant-from", f.tenantFrom, "fixed", "resourceNamespace"), oneOf("on-full", f.onFull, "block", "reject", "drop-oldest"),
		oneOf("on-damage", f.onDamage, "quarantine", "fail"), s.checkSizes(), s.checkAccess(), s.grpc.check(), s.audit.check(),
	} {
		if err != nil {
			return nil, err
		}
	}
	if f.sync != "always" {
		text, ok := strings.CutPrefix(f.sync, "interval:")
		interval, err := time.ParseDuration(text)
		if !ok || err != nil || interval <= 0 {
			return nil, usage("--sync: %q is not known: use always, or interval:100ms", f.sync)
		}
		s.interval = interval
	}
	var err error
	if s.keys, err = f.keyFiles.read(); err != nil {
		return nil, err
	}
	return s, s.checkSinks()
}

func (s *settings) checkSinks() error {
	for _, text := range s.sinks {
		target, err := sinkurl.Parse(text)
		if err != nil {
			return usage("--sink: %w", err)
		}
		s.targets = append(s.targets, target)
	}
	if len(s.targets) == 0 {
		return usage("--sink is required: name where records go, such as --sink hub=grpcs://hub.example.com:9443")
	}
	names := map[string]bool{}
	for _, target := range s.targets {
		if names[target.Config.Name] {
			return usage("--sink: two sinks are called %s", target.Config.Name)
		}
		names[target.Config.Name] = true
	}
	return nil
}

func (s *settings) checkRequired() error {
	if s.clusterIDFile != "" && s.clusterID == "" {
		content, err := os.ReadFile(s.clusterIDFile)
		if err != nil {
			return usage("--cluster-id-file: %w", err)
		}
		s.clusterID = strings.TrimSpace(string(content))
	}
	for _, r := range []struct{ flag, value string }{{"dir", s.dir}, {"cluster-id", s.clusterID}, {"tenant", s.tenant}} {
		if r.value == "" {
			return usage("--%s is required", r.flag)
		}
	}
	if s.socket == "" && s.grpc.listen == "" && s.audit.listen == "" {
		return usage("--socket is required, or --grpc-listen, or --audit-listen")
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"shutdown-timeout", s.shutdownTimeout}, {"retry-initial", s.retryInitial}, {"retry-max", s.retryMax}} {
		if d.value < 0 || d.value == 0 && d.flag != "shutdown-timeout" {
			return usage("--%s must be above 0", d.flag)
		}
	}
	return nil
}

func (s *settings) checkSizes() error {
	if s.queueMax < 4<<20 {
		return usage("--queue-max-bytes must be at least 4MiB")
	}
	if s.tenantMax == 0 {
		s.tenantMax = s.queueMax / 2
	}
	if s.maxLine < 1<<10 || s.maxLine > 16<<20 {
		return usage("--max-line-bytes must be from 1KiB to 16MiB")
	}
	if s.tenantMax < s.maxLine {
		return usage("--tenant-max-bytes must hold one record of --max-line-bytes")
	}
	return nil
}

func (s *settings) checkAccess() error {
	for _, text := range s.allowUID {
		if text == "*" {
			s.access.Anybody = true
			continue
		}
		uid, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return usage("--socket-allow-uid: %q is neither a uid nor *", text)
		}
		s.access.UIDs = append(s.access.UIDs, uint32(uid))
	}
	for _, gid := range s.allowGID {
		s.access.GIDs = append(s.access.GIDs, uint32(gid))
	}
	return nil
}

func newRun(o Options) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "run", Short: "Run the exporter until SIGTERM", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := func(flag string) bool { return cmd.Flags().Changed(flag) }
			s, content, err := f.load(given)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewJSONHandler(o.Err, nil))
			return run(cmd.Context(), o, s, &watcher{flags: &f, given: given, hangup: o.Hangup, log: log, last: content}, log)
		},
	}
	f.bind(cmd.Flags())
	return cmd
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%q is not a flag", args[0])
	}
	return nil
}

// run serves until ctx ends. A queue that turns out damaged is opened anew, which puts it aside.
func run(ctx context.Context, o Options, s *settings, w *watcher, log *slog.Logger) error {
	quarantined := 0
	for {
		again, err := newProgram(o, s, w, log, quarantined).run(ctx)
		if !again || err != nil {
			return err
		}
		quarantined++
		s.printAddress = false
	}
}
