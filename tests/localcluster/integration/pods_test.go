// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestJobWithTwoContainersSharingEmptyDir(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	mount := []corev1.VolumeMount{{Name: "shared", MountPath: "/home/securecodebox"}}
	scanner, lurker := sh("scanner", "sleep 0.2; echo result > /home/securecodebox/out"), sh("lurker", "until cat /home/securecodebox/out; do sleep 0.05; done")
	scanner.VolumeMounts, lurker.VolumeMounts = mount, mount
	job := newJob(ns, "two", corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{scanner, lurker},
		Volumes: []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	})
	if _, err := k.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Job to complete", func(ctx context.Context) (bool, error) {
		j, err := k.BatchV1().Jobs(ns).Get(ctx, "two", metav1.GetOptions{})
		return err == nil && jobComplete(j), err
	})
	pods, err := k.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=two"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("got %d pods, error %v", len(pods.Items), err)
	}
	contains(t, logs(t, k, ns, pods.Items[0].Name, &corev1.PodLogOptions{Container: "lurker"}), "result\n")
}

// A burst makes the agent's watch lag behind what it has written itself.
func TestBurstOfPodsRunsEachOnce(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	const pods = int32(60)
	job := newJob(ns, "burst", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{sh("c", "true")}})
	job.Spec.Completions, job.Spec.Parallelism = ptr(pods), ptr(pods)
	if _, err := k.BatchV1().Jobs(ns).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all pods to succeed", func(ctx context.Context) (bool, error) {
		j, err := k.BatchV1().Jobs(ns).Get(ctx, "burst", metav1.GetOptions{})
		return err == nil && jobComplete(j), err
	})
	list, err := k.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != int(pods) {
		t.Errorf("got %d pods (%v), want %d", len(list.Items), err, pods)
	}
}

func TestRestartOnFailure(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	c := sh("c", "n=$(cat /data/n 2>/dev/null || echo 0); echo run $n; echo $((n+1)) > /data/n; test $n -ge 2")
	c.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	p := newPod(ns, "flaky", c)
	p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	create(t, k, p)
	podWhen(t, k, ns, "flaky", "in CrashLoopBackOff", func(p *corev1.Pod) bool { return waitingFor(p) == "CrashLoopBackOff" })
	done := podWhen(t, k, ns, "flaky", "finished", finished)
	s := done.Status.ContainerStatuses[0]
	if done.Status.Phase != corev1.PodSucceeded || s.RestartCount != 2 {
		t.Errorf("got phase %s after %d restarts, want Succeeded after 2", done.Status.Phase, s.RestartCount)
	}
	if last := s.LastTerminationState.Terminated; last == nil || last.ExitCode != 1 || last.Reason != "Error" {
		t.Errorf("got last state %+v, want Error with exit code 1", last)
	}
	contains(t, logs(t, k, ns, "flaky", &corev1.PodLogOptions{}), "run 2\n")
	contains(t, logs(t, k, ns, "flaky", &corev1.PodLogOptions{Previous: true}), "run 1\n")
}

func waitingFor(p *corev1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			return s.State.Waiting.Reason
		}
	}
	return ""
}

func TestWaitingReasons(t *testing.T) {
	k := client(t, shared)
	missingSecret := sh("c", "true")
	missingSecret.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "nope"}, Key: "k",
	}}}}
	root := sh("c", "true")
	root.Image = "rooted"
	root.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true)}
	for name, c := range map[string]struct {
		container corev1.Container
		want      string
	}{
		"UnknownImage":   {corev1.Container{Name: "c", Image: "example.com/no/such:1"}, "ImagePullBackOff"},
		"NeverPull":      {corev1.Container{Name: "c", Image: "example.com/no/such:1", ImagePullPolicy: corev1.PullNever}, "ErrImageNeverPull"},
		"InvalidName":    {corev1.Container{Name: "c", Image: "NOT A NAME"}, "InvalidImageName"},
		"MissingSecret":  {missingSecret, "CreateContainerConfigError"},
		"RootNotAllowed": {root, "CreateContainerConfigError"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, k)
			create(t, k, newPod(ns, "p", c.container))
			p := podWhen(t, k, ns, "p", c.want, func(p *corev1.Pod) bool { return waitingFor(p) == c.want })
			if p.Status.Phase != corev1.PodPending {
				t.Errorf("got phase %s, want Pending", p.Status.Phase)
			}
		})
	}
}

func TestConfigErrorHealsWhenTheSecretAppears(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	c := sh("c", "echo $A")
	c.Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "late"}, Key: "k",
	}}}}
	create(t, k, newPod(ns, "p", c))
	podWhen(t, k, ns, "p", "waiting", func(p *corev1.Pod) bool { return waitingFor(p) == "CreateContainerConfigError" })
	if _, err := k.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late"}, StringData: map[string]string{"k": "v"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	podWhen(t, k, ns, "p", "finished", finished)
	contains(t, logs(t, k, ns, "p", &corev1.PodLogOptions{}), "v\n")
}

func TestUnschedulable(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	p := newPod(ns, "p", sh("c", "true"))
	p.Spec.NodeSelector = map[string]string{"disk": "golden"}
	create(t, k, p)
	podWhen(t, k, ns, "p", "unschedulable", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				return strings.Contains(c.Message, "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector")
			}
		}
		return false
	})
}

func TestServiceAccountTokenIsBoundToThePod(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	p := create(t, k, newPod(ns, "p", sh("c", "cat /var/run/secrets/kubernetes.io/serviceaccount/token; echo; sleep 60")))
	var token string
	eventually(t, "token in the log", func(context.Context) (bool, error) {
		b, err := k.CoreV1().Pods(ns).GetLogs("p", &corev1.PodLogOptions{}).DoRaw(t.Context())
		token = strings.TrimSpace(string(b))
		return err == nil && strings.Count(token, ".") == 2, nil
	})
	review := func() authenticationv1.TokenReviewStatus {
		r, err := k.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status
	}
	got := review()
	if !got.Authenticated || got.User.Username != "system:serviceaccount:"+ns+":default" {
		t.Fatalf("token not accepted: %+v", got)
	}
	if name, uid := got.User.Extra["authentication.kubernetes.io/pod-name"], got.User.Extra["authentication.kubernetes.io/pod-uid"]; len(name) != 1 || name[0] != "p" || len(uid) != 1 || uid[0] != string(p.UID) {
		t.Errorf("token names pod %v %v, want p %s", name, uid, p.UID)
	}
	if err := k.CoreV1().Pods(ns).Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "token of a deleted pod to be refused", func(context.Context) (bool, error) { return !review().Authenticated, nil })
}

func TestConfigMapSecretAndDownwardVolumes(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	if _, err := k.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"a": "A", "b": "B"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.CoreV1().Secrets(ns).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "se"}, StringData: map[string]string{"s": "S"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := sh("c", `cat /cm/a /cm/sub/bee /se/s /one; cat /down/labels; echo; ls -l /se/s | cut -c1-10; touch /cm/x 2>&1; echo "$X-$(echo $Y)"`)
	c.Env = []corev1.EnvVar{{Name: "X", Value: "$(a)$(NOT)"}, {Name: "Y", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
	c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "cm", MountPath: "/cm"}, {Name: "se", MountPath: "/se"}, {Name: "cm", MountPath: "/one", SubPath: "a"}, {Name: "down", MountPath: "/down"}}
	p := newPod(ns, "p", c)
	p.Labels = map[string]string{"app": "x"}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}, Items: []corev1.KeyToPath{{Key: "a", Path: "a"}, {Key: "b", Path: "sub/bee"}},
		}}},
		{Name: "se", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "se", DefaultMode: new(int32(0o444))}}},
		{Name: "down", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		}}}},
	}
	out, _ := output(t, k, p)
	contains(t, out, "ABSA", `app="x"`, "-r--r--r--", "Read-only file system", "A$(NOT)-p")
}

func TestSecurityContext(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	c := sh("c", "id; touch /etc/x; touch /tmp/x; echo ok > /out/x && ls -ln /out; grep -E 'CapBnd|NoNewPrivs' /proc/self/status")
	c.VolumeMounts = []corev1.VolumeMount{{Name: "out", MountPath: "/out"}}
	c.SecurityContext = &corev1.SecurityContext{
		ReadOnlyRootFilesystem: new(true), AllowPrivilegeEscalation: new(false), RunAsUser: new(int64(4711)), RunAsGroup: new(int64(4712)),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_RAW"}},
	}
	p := newPod(ns, "p", c)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), FSGroup: new(int64(4713))}
	p.Spec.Volumes = []corev1.Volume{{Name: "out", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	out, done := output(t, k, p)
	if done.Status.Phase != corev1.PodSucceeded {
		t.Errorf("got phase %s", done.Status.Phase)
	}
	contains(t, out, "uid=4711 gid=4712 groups=4712,4713", "cannot touch '/etc/x': Read-only file system", "cannot touch '/tmp/x': Read-only file system",
		"4711 4713", "CapBnd:\t0000000000002000", "NoNewPrivs:\t1")
}

func TestExitCodesAndMessages(t *testing.T) {
	k := client(t, shared)
	noProgram := corev1.Container{Name: "c", Image: "host", Command: []string{"/no/such/program"}}
	hungry := sh("c", "x=$(head -c 200M /dev/zero | tr '\\0' x); echo ${#x}")
	hungry.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}
	for name, c := range map[string]struct {
		container    corev1.Container
		code         int32
		reason, says string
	}{
		"Success":     {sh("c", "echo fine > /dev/termination-log"), 0, "Completed", "fine"},
		"Failure":     {sh("c", "exit 3"), 3, "Error", ""},
		"Killed":      {sh("c", "sh -c 'kill -9 $$$$'; exit $?"), 137, "Error", ""},
		"NoProgram":   {noProgram, 128, "StartError", "no such file or directory"},
		"OutOfMemory": {hungry, 137, "OOMKilled", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(t, k)
			create(t, k, newPod(ns, "p", c.container))
			p := podWhen(t, k, ns, "p", "finished", finished)
			got := p.Status.ContainerStatuses[0].State.Terminated
			if got.Reason != c.reason || (got.ExitCode != c.code && name != "OutOfMemory") || got.ExitCode == 0 && c.code != 0 {
				t.Errorf("got %s with code %d, want %s with %d", got.Reason, got.ExitCode, c.reason, c.code)
			}
			contains(t, got.Message, c.says)
		})
	}
}

func TestDeadlineAndDeletion(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	p := newPod(ns, "late", sh("c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"))
	p.Spec.ActiveDeadlineSeconds = new(int64(1))
	create(t, k, p)
	got := podWhen(t, k, ns, "late", "finished", finished)
	if got.Status.Phase != corev1.PodFailed || got.Status.Reason != "DeadlineExceeded" {
		t.Errorf("got %s/%s, want Failed/DeadlineExceeded", got.Status.Phase, got.Status.Reason)
	}
	create(t, k, newPod(ns, "gone", sh("c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")))
	podWhen(t, k, ns, "gone", "running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	if err := k.CoreV1().Pods(ns).Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod to be gone", func(ctx context.Context) (bool, error) {
		_, err := k.CoreV1().Pods(ns).Get(ctx, "gone", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

func TestInitContainersAndSidecar(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	mount := []corev1.VolumeMount{{Name: "d", MountPath: "/d"}}
	first, second, side, main := sh("first", "echo 1 >> /d/x"), sh("second", "cat /d/side && echo 2 >> /d/x"),
		sh("side", "trap 'exit 0' TERM; echo up > /d/side; while :; do sleep 0.1; done"), sh("main", "cat /d/x")
	side.RestartPolicy = ptr(corev1.ContainerRestartPolicyAlways)
	side.StartupProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 30, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"cat", "/d/side"}}}}
	for _, c := range []*corev1.Container{&first, &second, &side, &main} {
		c.VolumeMounts = mount
	}
	p := newPod(ns, "p", main)
	p.Spec.InitContainers = []corev1.Container{first, side, second}
	p.Spec.Volumes = []corev1.Volume{{Name: "d", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	out, done := output(t, k, p)
	if out != "1\n2\n" || done.Status.Phase != corev1.PodSucceeded {
		t.Errorf("got phase %s and %q", done.Status.Phase, out)
	}
}

func TestLogOptions(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	create(t, k, newPod(ns, "p", sh("c", "echo one; echo two; sleep 0.5; echo three; printf four")))
	podWhen(t, k, ns, "p", "started", func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodPending })
	followed := logs(t, k, ns, "p", &corev1.PodLogOptions{Follow: true})
	if want := "one\ntwo\nthree\nfour\n"; followed != want {
		t.Errorf("followed: got %q, want %q", followed, want)
	}
	if got := logs(t, k, ns, "p", &corev1.PodLogOptions{TailLines: new(int64(2))}); got != "three\nfour\n" {
		t.Errorf("tail: got %q", got)
	}
	stamped := logs(t, k, ns, "p", &corev1.PodLogOptions{Timestamps: true})
	stamp, _, _ := strings.Cut(stamped, " ")
	if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil {
		t.Errorf("timestamps: %v in %q", err, stamped)
	}
}

func TestDeploymentBecomesAvailable(t *testing.T) {
	k := client(t, shared)
	ns := namespace(t, k)
	c := sh("web", "trap 'exit 0' TERM; sleep 0.3; touch /tmp/up; while :; do sleep 0.1; done")
	c.ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-f", "/tmp/up"}}}}
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}},
	}}
	if _, err := k.AppsV1().Deployments(ns).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two ready replicas", func(ctx context.Context) (bool, error) {
		d, err := k.AppsV1().Deployments(ns).Get(ctx, "web", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 2, err
	})
	if err := k.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace to be gone", func(ctx context.Context) (bool, error) {
		_, err := k.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
