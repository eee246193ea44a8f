// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/credentials"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/item"
	"github.com/scanyard/scanyard/registry/internal/limits"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

// around are a Registry and a job, as a message names them.
type around struct {
	registry *registryv1alpha1.Registry
	task     task
}

// look reads the Registry and the job of a message.
func (w *Worker) look(ctx context.Context, d *queue.Delivery) (around, error) {
	a := around{registry: &registryv1alpha1.Registry{}, task: task{gone: true}}
	err := w.Cluster.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Registry.Name}, a.registry)
	if err != nil && !apierrors.IsNotFound(err) {
		return a, fmt.Errorf("read Registry: %w", err)
	}
	if d.Job == nil {
		return a, nil
	}
	a.task.uid = d.Job.UID
	key := client.ObjectKey{Namespace: d.Namespace, Name: d.Job.Name}
	switch d.Job.Kind {
	case "DiscoveryJob":
		var job registryv1alpha1.DiscoveryJob
		if err = w.Cluster.Get(ctx, key, &job); err == nil {
			a.task = taskOf(job.ObjectMeta, job.Spec.JobSpec, d.Job.UID)
			a.task.force, a.task.dryRun, a.task.override, a.task.stopAfter = job.Spec.Force, job.Spec.DryRun, job.Spec.Override, job.Spec.StopAfter
		}
	case "ScanJob":
		var job registryv1alpha1.ScanJob
		if err = w.Cluster.Get(ctx, key, &job); err == nil {
			a.task = taskOf(job.ObjectMeta, job.Spec.JobSpec, d.Job.UID)
			a.task.full = job.Spec.Mode == registryv1alpha1.ModeFull
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return a, fmt.Errorf("read %s: %w", d.Job.Kind, err)
	}
	return a, nil
}

// circumstances are those of an item that Registry and job tell.
func (a around) circumstances(d *queue.Delivery, now time.Time) circumstances {
	return circumstances{
		now: now, task: a.task, paused: a.registry.Spec.Suspend,
		registryGone: string(a.registry.UID) != d.Registry.UID || a.registry.DeletionTimestamp != nil,
	}
}

// session is a registry that is asked for one item.
type session struct {
	*distribution.Client

	host string
	// secret is the version of the Secret whose credentials are used; "": there is none.
	secret string
	// account knows what the host has told of its limits; accountUID is the UID of its Secret, "" is anonymous.
	account    *limits.Host
	accountUID string
	// shareable: what is made here may be shared with other namespaces. scope is who may share analyses of layers.
	shareable bool
	scope     string
	heads     atomic.Int64
	gets      atomic.Int64
	close     func()
}

// hostOf is the host of a Registry, as it is asked.
func hostOf(r *registryv1alpha1.Registry) string {
	u, err := url.Parse(r.Spec.URL)
	if err != nil {
		return ""
	}
	return distribution.Host(u.Host)
}

// open begins to ask a registry, with the credentials that its Secret has now.
func (w *Worker) open(ctx context.Context, r *registryv1alpha1.Registry, d *queue.Delivery) (*session, error) {
	s := &session{host: hostOf(r)}
	s.shareable = w.mayShare(around{registry: r})
	switch {
	case s.shareable:
		s.scope = "host/" + s.host
	case w.Config.Dedupe == reportsv1.DedupeOff:
		s.scope = "registry/" + string(r.UID)
	default:
		s.scope = "namespace/" + r.Namespace + "/" + s.host
	}
	set, secret, err := w.credentialsOf(ctx, r, s.host)
	s.secret = secret.version
	if err != nil {
		return s, err
	}
	own := 0.0
	if l := r.Spec.Limits; l != nil && l.RequestsPerSecond != nil {
		own = float64(*l.RequestsPerSecond)
	}
	o := distribution.Options{
		URL: r.Spec.URL, PlainHTTP: r.Spec.Insecure == registryv1alpha1.PlainHTTP, SkipVerify: r.Spec.Insecure == registryv1alpha1.SkipVerify,
		CABundle: []byte(r.Spec.CABundle), Credentials: set,
	}
	o.Dialer = w.Dialer
	if d.Bounds != nil {
		o.Dialer = w.Dialer.Within(d.Bounds.AllowedHosts)
	}
	return s, w.connect(s, o, secret.account, d.RequestsPerSecond, own)
}

// connect makes the client of a session.
func (w *Worker) connect(s *session, o distribution.Options, account string, share, own float64) (err error) {
	host := w.hosts.Host(limits.Key{Host: s.host, Account: account})
	s.account, s.accountUID = host, account
	entry := host.NewItem(w.Clock.Now(), share, own)
	o.Item, o.Roots, o.Clock, o.Chance = entry, w.Roots, w.Clock, w.Chance
	o.Observe = func(method string, status int) {
		if method == "HEAD" {
			s.heads.Add(1)
		} else {
			s.gets.Add(1)
		}
		w.Metrics.asked(s.host, method, status)
	}
	w.enlist(s.host, entry)
	if s.Client, err = distribution.New(o); err != nil {
		w.delist(s.host, entry)
		return err
	}
	s.close = func() {
		s.Close()
		w.delist(s.host, entry)
	}
	return nil
}

// enlist remembers who asks a host, so that the controller can tell limits.
func (w *Worker) enlist(name string, entry *limits.Item) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.items[name] == nil {
		w.items[name] = map[*limits.Item]bool{}
	}
	w.items[name][entry] = true
}

func (w *Worker) delist(name string, entry *limits.Item) {
	w.mutex.Lock()
	delete(w.items[name], entry)
	w.mutex.Unlock()
	entry.Close()
}

// used tells of a Secret that was read: its account counts requests, its version changes with each write.
type used struct{ account, version string }

// credentialsOf gives the credentials of a Registry: of the pod's identity at a cloud, of a Secret, or none.
func (w *Worker) credentialsOf(ctx context.Context, r *registryv1alpha1.Registry, host string) (credentials.Set, used, error) {
	if r.Spec.Auth == nil || r.Spec.Auth.Provider == "" {
		secretName := ""
		if r.Spec.Auth != nil {
			secretName = r.Spec.Auth.SecretName
		}
		return w.credentials(ctx, r.Namespace, secretName, host)
	}
	provider := r.Spec.Auth.Provider
	switch {
	// The controller has looked at these; a worker that has the identity does not rely on that.
	case w.Identities == nil || !slices.Contains(w.Config.CloudIdentityNamespaces, r.Namespace):
		const denied = "the installation does not allow this namespace the identity of its workers"
		return credentials.Set{}, used{}, &refusedError{string(distribution.Unauthorized), denied}
	case r.Spec.Insecure != "" || r.Spec.CABundle != "":
		const unverified = "the identity of workers is for registries whose certificate the system trusts"
		return credentials.Set{}, used{}, &refusedError{string(distribution.Unauthorized), unverified}
	}
	set, err := w.Identities.Credentials(ctx, provider, host)
	if err != nil && ctx.Err() == nil {
		return credentials.Set{}, used{}, &refusedError{string(distribution.Unauthorized), err.Error()}
	}
	return set, used{account: "identity/" + string(provider)}, err
}

// credentials reads a Secret. The worker may read those only that somebody has granted.
func (w *Worker) credentials(ctx context.Context, namespace, name, host string) (credentials.Set, used, error) {
	if name == "" {
		return credentials.Set{}, used{}, nil
	}
	var secret corev1.Secret
	err := w.Cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return credentials.Set{}, used{}, &refusedError{registryv1alpha1.ReasonSecretNotFound, fmt.Sprintf("there is no Secret %q", name)}
	case apierrors.IsForbidden(err):
		return credentials.Set{}, used{}, &refusedError{
			registryv1alpha1.ReasonSecretForbidden, fmt.Sprintf("workers may not read Secret %q; run scanyard registry grant", name),
		}
	case err != nil:
		return credentials.Set{}, used{}, fmt.Errorf("read Secret: %w", err)
	}
	of := used{account: string(secret.UID), version: string(secret.UID) + "/" + secret.ResourceVersion}
	set, err := credentials.Read(string(secret.Type), secret.Data, host)
	if err != nil {
		return credentials.Set{}, of, &refusedError{string(distribution.Unauthorized), fmt.Sprintf("Secret %q: %v", name, err)}
	}
	return set, of, nil
}

// isStillRefused tells whether the Secret of a Registry is the one that the registry has refused. Nobody is asked then, and no item is
// touched.
func (w *Worker) isStillRefused(ctx context.Context, d *queue.Delivery) bool {
	if d.Refused == "" {
		return false
	}
	a, err := w.look(ctx, d)
	if err != nil || a.registry.Spec.Auth == nil || a.registry.Spec.Auth.SecretName == "" {
		return false // the step says what is wrong
	}
	var secret corev1.Secret
	if err := w.Cluster.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: a.registry.Spec.Auth.SecretName}, &secret); err != nil {
		return false
	}
	if string(secret.UID)+"/"+secret.ResourceVersion != d.Refused {
		return false
	}
	e := endedOf(d, d.Items[0].Name)
	e.Outcome, e.Row, e.Reason, e.Secret = outcomes[item.Refused], "StillRefused", string(distribution.Unauthorized), d.Refused
	w.say(e)
	return true
}

// databaseSession begins to ask where the database of an adapter is.
func (w *Worker) databaseSession(ctx context.Context, adapter string) (s *session, repository, reference string, err error) {
	source := w.Config.Source(adapter)
	host, repository, reference := splitReference(source.Repository)
	if host == "" {
		return nil, "", "", &refusedError{registryv1alpha1.ReasonInvalid, fmt.Sprintf("database.%s.repository: %q is not host/name:tag", adapter, source.Repository)}
	}
	s = &session{host: distribution.Host(host)}
	set, secret, err := w.credentials(ctx, w.Namespace, source.SecretName, s.host)
	if err != nil {
		return nil, "", "", err
	}
	scheme := "https://"
	if source.Insecure {
		scheme = "http://"
	}
	o := distribution.Options{URL: scheme + s.host, PlainHTTP: source.Insecure, CABundle: []byte(source.CABundle), Credentials: set, Dialer: w.Dialer}
	return s, repository, reference, w.connect(s, o, secret.account, 0, 0)
}

// splitReference reads host/name:tag or host/name@digest.
func splitReference(text string) (host, repository, reference string) {
	host, rest, found := strings.Cut(text, "/")
	if !found {
		return "", "", ""
	}
	if name, digest, pinned := strings.Cut(rest, "@"); pinned {
		if i := strings.LastIndexByte(name, ':'); i >= 0 {
			name = name[:i]
		}
		return host, name, digest
	}
	name, tag, _ := strings.Cut(rest, ":")
	return host, name, cmp.Or(tag, "latest")
}

// event tells people of a Registry that something has happened.
func (w *Worker) event(ctx context.Context, d *queue.Delivery, reason, note string) {
	now := metav1.NewMicroTime(w.Clock.Now())
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "registry-worker-", Namespace: d.Namespace},
		EventTime:  now, ReportingController: "scanyard.io/registry-worker", ReportingInstance: w.Name, Action: "Work", Reason: reason, Type: corev1.EventTypeWarning,
		Regarding: corev1.ObjectReference{
			APIVersion: registryv1alpha1.SchemeGroupVersion.String(), Kind: "Registry", Namespace: d.Namespace, Name: d.Registry.Name, UID: types.UID(d.Registry.UID),
		},
		Note: clean(note),
	}
	if err := w.Cluster.Create(ctx, e); err != nil {
		w.Log.Warn("an Event was not written", "reason", reason, "error", err)
	}
}

// filterOf compiles the filter that a job wants.
func (a around) filterOf() (*filter.Compiled, error) {
	wanted := a.registry.Spec.Filter
	if a.task.dryRun && a.task.override != nil {
		wanted = *a.task.override
	}
	compiled, wrong := filter.Compile(wanted)
	if wrong != nil {
		return nil, wrong
	}
	return compiled, nil
}
