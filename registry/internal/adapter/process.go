// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/adapter/sandbox"
)

const (
	// patience is how long a process may take to answer that a request is cancelled, to end after SIGTERM, and to read a line.
	patience = 5 * time.Second
	// farewell is how long a process may take to end after the end of its input.
	farewell = 10 * time.Second
	// watch is how often memory is looked at.
	watch = 100 * time.Millisecond
	// closing is how long a process that has closed its output may take to end.
	closing = time.Second

	// DefaultMemory is the limit of a process.
	DefaultMemory = 1 << 30
	// softMemory is the part of the limit that Go's collector keeps to, in percent.
	softMemory = 80
	openFiles  = 4096
	// searched is where an adapter finds other programs.
	searched = "/usr/local/bin:/usr/bin:/bin"
)

// readable are what any adapter may read and start: programs and libraries of the image, certificates, and what runtimes ask for.
var (
	executable = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"}
	readable   = []string{
		"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/zero",
		"/sys/kernel/mm/transparent_hugepage", "/proc/self", "/proc/meminfo", "/proc/cpuinfo", "/proc/sys/vm/overcommit_memory",
	}
	writable = []string{"/dev/null"}
)

// Command is the program of an adapter.
type Command struct {
	Path string
	Args []string
}

// Options are what a process is started with.
type Options struct {
	Command Command
	// Launcher is a program that calls sandbox.Main for the arguments behind sandbox.Subcommand: the worker's.
	Launcher string
	Sandbox  sandbox.Mode
	// Dir is the process's own: working directory, home, and that of temporary files. Requests' workdirs lie below it.
	Dir string
	// Read and Write are directories beyond Dir that the process may use, Ports those of TCP that it may connect to.
	Read, Write []string
	Ports       []uint16
	// CAFile names the certificates that the process trusts; it may be missing.
	CAFile string
	// Memory is the limit of the process and its children in bytes; 0: DefaultMemory.
	Memory int64
	// FileBytes is the most that a file may have that the process writes; 0: no bound.
	FileBytes uint64
	// Grown hears by how many bytes the memory of the process has grown since the last time; less than 0: it has shrunk. May be nil.
	Grown func(bytes int64)
}

// Process is an adapter that runs. Several goroutines may use it at once.
type Process struct {
	command *exec.Cmd
	in      *os.File
	log     *tail
	memory  int64
	grown   func(bytes int64)

	writing sync.Mutex
	mutex   sync.Mutex
	next    int
	waiting map[string]chan protocol.Answer
	// fault is why the process is being ended, before it has.
	fault error
	peak  int64
	// output is closed when the standard output has ended, dead when the process has, and crash is set then.
	output chan struct{}
	dead   chan struct{}
	crash  error
}

// starters starts processes from one thread that never ends: the kernel ends a child with the thread that started it.
var starters = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go runThread(work)
	return work
})

// Start runs an adapter. It does not wait until the adapter answers.
func Start(o Options) (*Process, error) {
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	command, err := o.prepare()
	if err != nil {
		return nil, err
	}
	p := &Process{
		command: command, log: &tail{}, memory: o.Memory, grown: o.Grown, waiting: map[string]chan protocol.Answer{}, output: make(chan struct{}),
		dead: make(chan struct{}),
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, err
	}
	command.Stdin, command.Stdout, command.Stderr = pipes[0].read, pipes[1].write, pipes[2].write
	started := make(chan error)
	starters() <- func() { started <- command.Start() }
	err = errors.Join(<-started, pipes[0].read.Close(), pipes[1].write.Close(), pipes[2].write.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start adapter: %w", err), pipes[0].write.Close(), pipes[1].read.Close(), pipes[2].read.Close())
	}
	p.in = pipes[0].write
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		p.log.readFrom(pipes[2].read)
	}()
	go p.read(pipes[1].read)
	go p.watch()
	go p.reap(pipes[1].read, pipes[2].read, logged)
	return p, nil
}

type pipe struct{ read, write *os.File }

func openPipes() (pipes [3]pipe, err error) {
	for i := range pipes {
		if pipes[i].read, pipes[i].write, err = os.Pipe(); err != nil {
			return pipes, fmt.Errorf("make pipe: %w", err)
		}
	}
	return pipes, nil
}

// prepare makes the command that confines itself and becomes the adapter.
func (o Options) prepare() (*exec.Cmd, error) {
	confine, err := o.Sandbox.Confines()
	if err != nil {
		return nil, err
	}
	policy := sandbox.Policy{
		Confine: confine, Read: append(append([]string{}, readable...), o.Read...), Execute: append(append([]string{}, executable...), o.Command.Path),
		Write: append(append([]string{o.Dir}, writable...), o.Write...), Connect: o.Ports, OpenFiles: openFiles, FileBytes: o.FileBytes,
	}
	if o.CAFile != "" {
		policy.Read = append(policy.Read, o.CAFile)
	}
	arguments, err := policy.Arguments(o.Command.Path, o.Command.Args...)
	if err != nil {
		return nil, err
	}
	command := exec.Command(o.Launcher, arguments...) //nolint:noctx // a process outlives the request that it was started for
	command.Dir = o.Dir
	command.Env = []string{
		"PATH=" + searched, "HOME=" + o.Dir, "TMPDIR=" + o.Dir, "GOMEMLIMIT=" + strconv.FormatInt(o.Memory/100*softMemory, 10), "LANG=C.UTF-8",
	}
	if o.CAFile != "" {
		command.Env = append(command.Env, "SSL_CERT_FILE="+o.CAFile)
	}
	command.SysProcAttr = alone()
	return command, nil
}

// Do asks the adapter and reads its result. The error is a *protocol.Error where the adapter says so or the context ends, and a *CrashError
// where the process has ended. Progress may be missing.
func (p *Process) Do(ctx context.Context, op protocol.Op, workdir string, params, result any, progress func(protocol.Answer)) error {
	text, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode params: %w", err)
	}
	id, answers := p.register()
	defer p.forget(id)
	request := protocol.Request{V: protocol.Version, ID: id, Op: op, Workdir: workdir, Params: text}
	if deadline, has := ctx.Deadline(); has {
		deadline = deadline.UTC()
		request.Deadline = &deadline
	}
	if err := p.send(request); err != nil {
		return err
	}
	a, err := p.wait(ctx, id, answers, progress)
	if err != nil {
		return err
	}
	if a.Error != nil {
		if ctx.Err() != nil && (a.Error.Code == protocol.Cancelled || a.Error.Code == protocol.Timeout) {
			return endedEarly(ctx)
		}
		return a.Error
	}
	if err := protocol.Decode(a.Result, result); err != nil {
		p.kill(&CrashError{Reason: ProtocolError, Message: "a result of " + string(op) + " cannot be read: " + err.Error()})
		return p.end()
	}
	return nil
}

// register opens a place for the answers of a request.
func (p *Process) register() (string, chan protocol.Answer) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.next++
	id := strconv.Itoa(p.next)
	answers := make(chan protocol.Answer, 1)
	p.waiting[id] = answers
	return id, answers
}

func (p *Process) forget(id string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.waiting, id)
}

func (p *Process) send(r protocol.Request) error {
	line, err := protocol.Line(r)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	timer := time.AfterFunc(patience, func() {
		p.kill(&CrashError{Reason: ProtocolError, Message: "the adapter does not read its standard input"})
	})
	_, err = p.in.Write(line)
	timer.Stop()
	if err != nil {
		p.kill(&CrashError{Reason: ProtocolError, Message: "the adapter has closed its standard input"})
		return p.end()
	}
	return nil
}

// wait gives the last answer of a request.
func (p *Process) wait(ctx context.Context, id string, answers <-chan protocol.Answer, progress func(protocol.Answer)) (protocol.Answer, error) {
	ended := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case a := <-answers:
			if a.Type != protocol.TypeProgress {
				return a, nil
			}
			if progress != nil {
				progress(a)
			}
		case <-ended:
			ended = nil
			timer := time.NewTimer(patience)
			defer timer.Stop()
			late = timer.C
			if err := p.cancel(id); err != nil {
				return protocol.Answer{}, endedEarly(ctx)
			}
		case <-late:
			p.terminate(endedEarly(ctx))
			return protocol.Answer{}, endedEarly(ctx)
		case <-p.dead:
			return p.last(ctx, answers)
		}
	}
}

// last gives the answer that came before the process ended, or the reason of the end.
func (p *Process) last(ctx context.Context, answers <-chan protocol.Answer) (protocol.Answer, error) {
	select {
	case a := <-answers:
		if a.Type != protocol.TypeProgress {
			return a, nil
		}
	default:
	}
	if ctx.Err() != nil {
		return protocol.Answer{}, endedEarly(ctx)
	}
	return protocol.Answer{}, p.crash
}

// endedEarly is the error of a request whose context has ended.
func endedEarly(ctx context.Context) *protocol.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return protocol.Errorf(protocol.Timeout, "the deadline has passed")
	}
	return protocol.Errorf(protocol.Cancelled, "the request was cancelled")
}

// cancel asks for the end of a request. Its own answer is not waited for.
func (p *Process) cancel(id string) error {
	own, _ := p.register()
	p.forget(own)
	text, err := json.Marshal(protocol.CancelParams{Request: id})
	if err != nil {
		return fmt.Errorf("encode params: %w", err)
	}
	return p.send(protocol.Request{V: protocol.Version, ID: own, Op: protocol.Cancel, Params: text})
}

// read takes the adapter's lines until one is wrong, or there are no more.
func (p *Process) read(out io.Reader) {
	defer close(p.output)
	lines := protocol.NewReader(out)
	for {
		line, err := lines.Line()
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			return
		}
		var a protocol.Answer
		if err == nil {
			a, err = protocol.ReadAnswer(line)
		}
		if err == nil {
			err = p.deliver(a)
		}
		if err != nil {
			p.kill(&CrashError{Reason: ProtocolError, Message: err.Error()})
			return
		}
	}
}

// deliver hands an answer to who waits for it. A progress nobody has taken yet makes room for what comes after.
func (p *Process) deliver(a protocol.Answer) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	answers, known := p.waiting[a.ID]
	if !known {
		if n, err := strconv.Atoi(a.ID); err == nil && n > 0 && n <= p.next {
			return nil // the request has ended early
		}
		return fmt.Errorf("an answer has the id %.40q, which no request has", a.ID)
	}
	if a.Type != protocol.TypeProgress {
		select {
		case last := <-answers:
			if last.Type != protocol.TypeProgress {
				return errors.New("a request was answered twice")
			}
		default:
		}
	}
	select {
	case answers <- a:
	default:
	}
	return nil
}

// Peak is the most memory that the process was seen to have, in bytes.
func (p *Process) Peak() int64 {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.peak
}

// Dead is closed when the process has ended.
func (p *Process) Dead() <-chan struct{} { return p.dead }

// watch looks at the memory until the process ends.
func (p *Process) watch() {
	ticker := time.NewTicker(watch)
	defer ticker.Stop()
	told := int64(0)
	tell := func(used int64) {
		if p.grown != nil && used != told {
			p.grown(used - told)
			told = used
		}
	}
	for {
		select {
		case <-p.dead:
			tell(0)
			return
		case <-ticker.C:
		}
		used := resident(p.command.Process.Pid)
		tell(used)
		p.mutex.Lock()
		p.peak = max(p.peak, used)
		p.mutex.Unlock()
		if used > p.memory {
			p.kill(&CrashError{Reason: MemoryExceeded, Message: fmt.Sprintf("the adapter had %d MiB of %d MiB", used>>20, p.memory>>20)})
		}
	}
}

// kill ends the process group at once. The first reason stands.
func (p *Process) kill(why error) {
	p.mutex.Lock()
	if p.fault == nil {
		p.fault = why
	}
	p.mutex.Unlock()
	signalGroup(p.command.Process.Pid, killed)
}

// terminate asks the process group to end, and ends it where it does not.
func (p *Process) terminate(why error) {
	p.mutex.Lock()
	if p.fault == nil {
		p.fault = why
	}
	p.mutex.Unlock()
	signalGroup(p.command.Process.Pid, terminated)
	timer := time.AfterFunc(patience, func() { signalGroup(p.command.Process.Pid, killed) })
	go func() {
		<-p.dead
		timer.Stop()
	}()
}

// end waits for the end of a process that is being ended, and tells why.
func (p *Process) end() error {
	<-p.dead
	return p.crash
}

// reap waits for the end of the process, and of all that it has started.
func (p *Process) reap(out, log *os.File, logged <-chan struct{}) {
	exited := make(chan error, 1)
	go func() { exited <- p.command.Wait() }()
	var err error
	select {
	case err = <-exited:
	case <-p.output:
		timer := time.AfterFunc(closing, func() {
			p.kill(&CrashError{Reason: ProtocolError, Message: "the adapter has closed its standard output"})
		})
		err = <-exited
		timer.Stop()
	}
	// What the adapter has started goes with it; then nobody holds the pipes.
	signalGroup(p.command.Process.Pid, killed)
	<-p.output
	<-logged
	_, waited := errors.AsType[*exec.ExitError](err)
	p.mutex.Lock()
	p.crash = p.fault
	if p.crash == nil {
		p.crash = exitOf(p.command.ProcessState)
	}
	if crash, ok := errors.AsType[*CrashError](p.crash); ok {
		crash.PeakBytes, crash.Log = max(p.peak, peakOf(p.command.ProcessState)), p.log.String()
	}
	if err != nil && !waited {
		p.crash = errors.Join(p.crash, fmt.Errorf("wait for adapter: %w", err))
	}
	p.mutex.Unlock()
	for _, end := range []*os.File{p.in, out, log} {
		if err := end.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			p.crash = errors.Join(p.crash, fmt.Errorf("close pipe of adapter: %w", err))
		}
	}
	close(p.dead)
}

// Close ends the input and waits until the process has ended what runs, 10 seconds at most.
func (p *Process) Close() error {
	p.writing.Lock()
	err := p.in.Close()
	p.writing.Unlock()
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("end adapter: %w", err)
	}
	timer := time.AfterFunc(farewell, func() { p.terminate(&CrashError{Reason: Exited, Message: "the adapter did not end with its input"}) })
	defer timer.Stop()
	<-p.dead
	return nil
}

// Log gives the last of what the adapter has written to its standard error.
func (p *Process) Log() string { return p.log.String() }
