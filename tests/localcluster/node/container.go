// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanyard/scanyard/tests/localcluster/images"
	"github.com/scanyard/scanyard/tests/localcluster/sandbox"
)

// runner runs one container of a pod until it has ended for good.
type runner struct {
	w      *worker
	c      *corev1.Container
	vols   map[string]volume
	policy corev1.RestartPolicy
	// stop ends when the container is to end.
	stop    context.Context
	started chan struct{} // closed when the container runs for the first time

	startOnce sync.Once
}

func (r *runner) waitStarted(ctx context.Context) bool {
	select {
	case <-r.started:
		return true
	case <-ctx.Done():
		return false
	}
}

// run starts the container as often as its policy asks for, and returns its
// last exit code.
func (r *runner) run(ctx context.Context) int {
	pauses := backoff{initial: r.w.a.o.Backoff}
	if t := r.w.status(r.c.Name).State.Terminated; t != nil {
		// An earlier agent ran it.
		if !restarts(r.policy, int(t.ExitCode)) {
			return int(t.ExitCode)
		}
		r.again()
	}
	for {
		spec, log, ok := r.prepare(ctx)
		if !ok {
			return exitCodeStatusUnknown
		}
		began := r.w.a.o.Now()
		code := r.once(ctx, spec, log)
		if r.stop.Err() != nil || ctx.Err() != nil || !restarts(r.policy, code) {
			return code
		}
		pause := pauses.after(r.w.a.o.Now().Sub(began))
		if pause > 0 {
			r.crashLoop(ctx, pause)
		}
		if !r.pause(ctx, pause) {
			return code
		}
		r.again()
	}
}

// again counts a restart; the last end becomes history.
func (r *runner) again() {
	r.w.update(r.c.Name, func(s *corev1.ContainerStatus) {
		if s.State.Terminated != nil {
			s.LastTerminationState = s.State
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonCreating}}
		}
		s.RestartCount++
	})
}

func (r *runner) crashLoop(ctx context.Context, pause time.Duration) {
	p := r.w.pod
	msg := fmt.Sprintf("back-off %s restarting failed container=%s pod=%s_%s(%s)", pause, r.c.Name, p.Name, p.Namespace, p.UID)
	r.w.update(r.c.Name, func(s *corev1.ContainerStatus) {
		s.LastTerminationState = s.State
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonCrashLoop, Message: msg}}
	})
	r.w.a.event(
		ctx, p, corev1.EventTypeWarning, "BackOff",
		"Back-off restarting failed container "+r.c.Name+" in pod "+p.Name+"_"+p.Namespace+"("+string(p.UID)+")",
	)
}

// pause waits and tells whether the container still wants to run.
func (r *runner) pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-r.stop.Done():
		return false
	case <-t.C:
		return true
	}
}

// prepare waits for the image and for everything that the configuration refers
// to; what is missing shows as the reason why the container waits.
func (r *runner) prepare(ctx context.Context) (*sandbox.Spec, *containerLog, bool) {
	pauses := backoff{initial: r.w.a.o.Backoff, next: r.w.a.o.Backoff}
	for r.stop.Err() == nil && ctx.Err() == nil {
		im, err := r.image()
		if err != nil {
			if !r.waitForImage(ctx, err, &pauses) {
				break
			}
			continue
		}
		spec, err := r.spec(ctx, im)
		if err == nil {
			r.w.update(r.c.Name, func(s *corev1.ContainerStatus) { s.ImageID = im.ID })
			log, logErr := r.w.a.openLog(r.w.pod, r.c.Name, int(r.w.status(r.c.Name).RestartCount))
			if logErr == nil {
				return spec, log, true
			}
			err = logErr
		}
		r.wait(ctx, reasonConfigError, err.Error())
		if !r.pause(ctx, retryPause) {
			break
		}
	}
	return nil, nil, false
}

// wait shows why the container does not run, with an event when that changes.
func (r *runner) wait(ctx context.Context, reason, message string) {
	news := false
	r.w.update(r.c.Name, func(s *corev1.ContainerStatus) {
		news = s.State.Waiting == nil || s.State.Waiting.Reason != reason || s.State.Waiting.Message != message
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
	if news {
		r.w.a.event(ctx, r.w.pod, corev1.EventTypeWarning, "Failed", "Error: "+message)
	}
}

var errNeverPull = errors.New("the image is not there and imagePullPolicy is Never")

func (r *runner) image() (*images.Image, error) {
	im, err := r.w.a.o.Images.Get(r.c.Image)
	if errors.Is(err, images.ErrNotFound) && r.c.ImagePullPolicy == corev1.PullNever {
		return nil, errNeverPull
	}
	return im, err
}

// waitForImage reports a failed pull and waits before the next, alternating
// between the two reasons as a kubelet does.
func (r *runner) waitForImage(ctx context.Context, err error, pauses *backoff) bool {
	if _, parseErr := name.ParseReference(r.c.Image, name.WeakValidation); parseErr != nil {
		r.wait(ctx, reasonInvalidImage, fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: %v", r.c.Image, r.c.Image, parseErr))
		return r.pause(ctx, pauses.after(0))
	}
	if errors.Is(err, errNeverPull) {
		r.wait(ctx, reasonNeverPull, fmt.Sprintf("Container image %q is not present with pull policy of Never", r.c.Image))
		return r.pause(ctx, retryPause)
	}
	said := fmt.Sprintf("failed to pull and unpack image %q: %v", r.c.Image, err)
	r.wait(ctx, reasonErrPull, said)
	r.w.a.event(ctx, r.w.pod, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %s", r.c.Image, said))
	pause := pauses.after(0)
	const shown = 300 * time.Millisecond // long enough for a watcher to see both reasons
	if !r.pause(ctx, min(shown, pause)) {
		return false
	}
	r.w.update(r.c.Name, func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: reasonPullBackoff, Message: fmt.Sprintf("Back-off pulling image %q: %s: %s", r.c.Image, reasonErrPull, said),
		}}
	})
	r.w.a.event(ctx, r.w.pod, corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", r.c.Image))
	return r.pause(ctx, pause)
}

// spec builds the sandbox of the container's next start.
func (r *runner) spec(ctx context.Context, im *images.Image) (*sandbox.Spec, error) {
	w, c := r.w, r.c
	own, err := environment(c, envContext{
		pod: w.pod, podIP: w.a.podIP, allocatable: w.a.allocatable(),
		cluster: map[string]string{
			"KUBERNETES_SERVICE_HOST": w.a.o.APIHost, "KUBERNETES_SERVICE_PORT": w.a.o.APIPort,
			"KUBERNETES_SERVICE_PORT_HTTPS": w.a.o.APIPort,
		},
		sources: apiSources{ctx, w.a.o.Client, w.pod.Namespace},
	})
	if err != nil {
		return nil, err
	}
	id, err := identify(w.pod, c, im.User, im.Root)
	if err != nil {
		return nil, err
	}
	caps, err := capabilities(c.SecurityContext)
	if err != nil {
		return nil, err
	}
	args := commandLine(c, im.Entrypoint, im.Cmd, own)
	if len(args) == 0 {
		return nil, errors.New("no command specified")
	}
	resolver, err := w.a.resolver()
	if err != nil {
		return nil, err
	}
	volumes, err := w.mounts(c, r.vols, own)
	if err != nil {
		return nil, err
	}
	mounts := slices.Concat(resolver, volumes)
	for _, target := range slices.Sorted(maps.Keys(im.Binaries)) {
		mounts = append(mounts, sandbox.Mount{Source: im.Binaries[target], Target: target, ReadOnly: true})
	}
	scratch := filepath.Join(w.dir, "containers", c.Name)
	message, err := freshScratch(scratch)
	if err != nil {
		return nil, err
	}
	mounts = append(mounts, sandbox.Mount{Source: message, Target: terminationPath(c)})
	cgroups, err := w.a.cgroups.enter(w.cgroup(c.Name), limitsOf(c))
	if err != nil {
		return nil, fmt.Errorf("set resource limits: %w", err)
	}
	sc := c.SecurityContext
	if sc == nil {
		sc = &corev1.SecurityContext{}
	}
	s := &sandbox.Spec{
		Root: im.Root, Scratch: filepath.Join(scratch, "layer"), Mounts: mounts, Args: args, Env: mergeEnv(im.Env, own, w.pod.Name, id.home),
		WorkingDir: firstWord(c.WorkingDir, im.WorkingDir, "/"), Hostname: firstWord(w.pod.Spec.Hostname, w.pod.Name),
		UID: id.uid, GID: id.gid, Groups: id.groups, Capabilities: caps, AllCapabilities: isTrue(sc.Privileged),
		ReadOnlyRoot:    isTrue(sc.ReadOnlyRootFilesystem),
		NoNewPrivileges: sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
		Cgroups:         cgroups, Rootless: os.Geteuid() != 0,
	}
	const longestHostname = 63
	s.Hostname = s.Hostname[:min(len(s.Hostname), longestHostname)]
	return s, nil
}

func firstWord(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// mergeEnv lays the pod's variables over the image's.
func mergeEnv(image []string, own map[string]string, hostname, home string) []string {
	all := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME": hostname, "HOME": home,
	}
	for _, e := range image {
		k, v, _ := strings.Cut(e, "=")
		all[k] = v
	}
	maps.Copy(all, own)
	out := make([]string, 0, len(all))
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, k+"="+all[k])
	}
	return out
}

// freshScratch empties a container's folder for its next start and returns
// the file for its termination message.
func freshScratch(dir string) (string, error) {
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(dir, "layer"), 0o755); err != nil {
		return "", err
	}
	f := filepath.Join(dir, "termination-log")
	if err := os.WriteFile(f, nil, 0o600); err != nil {
		return "", err
	}
	return f, os.Chmod(f, 0o666) // whoever the container's user is
}

func terminationPath(c *corev1.Container) string {
	return firstWord(c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
}

func (w *worker) cgroup(container string) string { return string(w.pod.UID) + "-" + container }

// once runs the container's program from start to end.
func (r *runner) once(ctx context.Context, spec *sandbox.Spec, log *containerLog) int {
	defer log.close()
	cmd, handOver, err := sandbox.Command(spec)
	if err != nil {
		return r.notStarted(ctx, err)
	}
	copied, err := log.attach(cmd)
	if err != nil {
		return r.notStarted(ctx, err)
	}
	startErr := r.w.a.spawn.Start(cmd)
	copied.started()
	began := metav1.NewTime(r.w.a.o.Now())
	handErr := handOver()
	if startErr != nil {
		copied.wait()
		return r.notStarted(ctx, fmt.Errorf("start sandbox: %w", startErr))
	}
	if handErr != nil {
		waitErr := cmd.Wait() // it ends by itself; the reason is handErr
		copied.wait()
		r.w.a.o.Log.Debug("sandbox ended", "error", waitErr)
		return r.notStarted(ctx, handErr)
	}
	yes := true
	r.w.update(r.c.Name, func(s *corev1.ContainerStatus) {
		s.ContainerID = fmt.Sprintf("process://%s-%s-%d", r.w.pod.UID, r.c.Name, s.RestartCount)
		s.Started, s.Ready = &yes, r.c.ReadinessProbe == nil && r.c.StartupProbe == nil
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}}
		if r.c.StartupProbe != nil {
			no := false
			s.Started = &no
		}
	})
	if r.c.StartupProbe == nil {
		r.startOnce.Do(func() { close(r.started) })
	}
	err = r.await(ctx, cmd, spec)
	copied.wait()
	return r.ended(cmd, err, began, log)
}

// await returns when the process has ended, by itself or because it was to.
func (r *runner) await(ctx context.Context, cmd *exec.Cmd, spec *sandbox.Spec) error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	alive, unhealthy := context.WithCancel(r.stop)
	defer unhealthy()
	probing := make(chan struct{})
	go func() {
		defer close(probing)
		r.probe(ctx, alive, unhealthy, cmd.Process.Pid, spec)
	}()
	defer func() { unhealthy(); <-probing }()
	select {
	case err := <-done:
		return err
	case <-alive.Done():
	}
	grace := gracePeriod(r.w.pod)
	if r.stop.Err() != nil {
		grace = r.w.graceLeft()
	}
	r.signal(cmd, syscall.SIGTERM)
	for began := r.w.a.o.Now(); ; {
		// The grace may be cut short while the container ends.
		if r.stop.Err() != nil {
			grace = min(grace, r.w.graceLeft())
		}
		if r.w.a.o.Now().Sub(began) >= grace {
			r.signal(cmd, syscall.SIGKILL)
			return <-done
		}
		select {
		case err := <-done:
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *runner) signal(cmd *exec.Cmd, sig syscall.Signal) {
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.w.a.o.Log.Warn("signal container", "pod", r.w.pod.Name, "container", r.c.Name, "error", err)
	}
}

// notStarted reports a program that a runtime could not start.
func (r *runner) notStarted(ctx context.Context, err error) int {
	const code = 128
	now := metav1.NewTime(r.w.a.o.Now())
	msg := fmt.Sprintf(
		"failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: %v: unknown",
		err,
	)
	r.terminated(corev1.ContainerStateTerminated{ExitCode: code, Reason: reasonStartError, Message: msg, StartedAt: metav1.Unix(0, 0), FinishedAt: now})
	r.w.a.event(ctx, r.w.pod, corev1.EventTypeWarning, "Failed", "Error: "+msg)
	r.w.a.cgroups.leave(r.w.cgroup(r.c.Name))
	return code
}

func (r *runner) ended(cmd *exec.Cmd, err error, began metav1.Time, log *containerLog) int {
	code := exitCode(cmd.ProcessState)
	if cmd.ProcessState == nil && err != nil {
		r.w.a.o.Log.Warn("wait for container", "error", err)
	}
	cg := r.w.cgroup(r.c.Name)
	oom := r.w.a.cgroups.outOfMemory(cg) && code != 0
	r.w.a.cgroups.leave(cg)
	t := corev1.ContainerStateTerminated{
		ExitCode: int32(code), Reason: exitReason(code, oom), StartedAt: began, FinishedAt: metav1.NewTime(r.w.a.o.Now()),
	}
	t.Message = r.terminationMessage(code, log)
	r.terminated(t)
	return code
}

func (r *runner) terminated(t corev1.ContainerStateTerminated) {
	no := false
	r.w.update(r.c.Name, func(s *corev1.ContainerStatus) {
		t.ContainerID = s.ContainerID
		s.Ready, s.Started = false, &no
		s.State = corev1.ContainerState{Terminated: &t}
	})
}

// terminationMessage is what the container wrote for its status, or the end of
// its log if it failed silently and asked for that.
func (r *runner) terminationMessage(code int, log *containerLog) string {
	const most, mostOfLog = 4096, 2048
	b, err := os.ReadFile(filepath.Join(r.w.dir, "containers", r.c.Name, "termination-log"))
	if err == nil && len(b) > 0 {
		return strings.ToValidUTF8(string(b[:min(len(b), most)]), "\uFFFD")
	}
	if code != 0 && r.c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		return strings.ToValidUTF8(log.end(mostOfLog), "\uFFFD")
	}
	return ""
}

// exitCode is the code that a container runtime reports: 128 and the signal
// for a process that was killed.
func exitCode(s *os.ProcessState) int {
	const unknown = 255
	if s == nil {
		return unknown
	}
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
