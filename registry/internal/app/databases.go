// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/feeder"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

const (
	// lookAtData is how often it is looked whether a database has another version.
	lookAtData = 15 * time.Second
	// checkJitter of the period is by how much workers are asked earlier.
	checkJitter = 10
	// conditionAvailable of a VulnerabilityDatabase: a worker writes it.
	conditionAvailable = "Available"

	nameLength = 40
	hashDigits = 10
)

// databases has workers look for newer data, and starts ScanJobs where there is some.
type databases struct {
	client  client.Client
	reports client.Client
	config  *config.Config
	feeder  *feeder.Feeder
	clock   clock.WithTicker
	log     logr.Logger
	events  events.EventRecorder
	// counted is told of all Registries at each look.
	counted func([]registryv1alpha1.Registry)

	// told is what Events have said of each adapter's data; only the look writes it.
	told map[string]string
	// next is when an adapter's data is looked at again.
	next map[string]time.Time
}

// run looks until ctx ends.
func (d *databases) run(ctx context.Context, q *queue.Queue) {
	d.next = map[string]time.Time{} // a new leader asks at once
	ticker := d.clock.NewTicker(lookAtData)
	defer ticker.Stop()
	for {
		if err := d.pass(ctx, q); err != nil && ctx.Err() == nil {
			d.log.Error(err, "Look for newer vulnerability data")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

func (d *databases) pass(ctx context.Context, q *queue.Queue) error {
	now := d.clock.Now()
	adapters := d.feeder.Adapters()
	period := d.config.CheckPeriod()
	for name := range adapters {
		if now.Before(d.next[name]) {
			continue
		}
		if err := q.Window(ctx, queue.Database, name, 1); err != nil {
			return err
		}
		if err := q.Put(ctx, queue.Message{Step: queue.Database, Adapter: name, ID: rand.Text()}); err != nil {
			return err
		}
		// Without the jitter all installations would ask at the same minute.
		d.next[name] = now.Add(period - time.Duration(now.UnixNano())%(period/checkJitter+1))
	}
	list := &reportsv1.VulnerabilityDatabaseList{}
	if err := d.reports.List(ctx, list); err != nil {
		return fmt.Errorf("list VulnerabilityDatabases: %w", err)
	}
	registries := &registryv1alpha1.RegistryList{}
	if err := d.client.List(ctx, registries); err != nil {
		return fmt.Errorf("list Registries: %w", err)
	}
	d.counted(registries.Items)
	d.tell(list.Items, registries.Items, now)
	for i := range registries.Items {
		if err := d.start(ctx, &registries.Items[i], list.Items); err != nil {
			return err
		}
	}
	return nil
}

// tell writes an Event on Registries whose vulnerability data has become stale, or cannot be had any more.
func (d *databases) tell(all []reportsv1.VulnerabilityDatabase, registries []registryv1alpha1.Registry, now time.Time) {
	for i := range all {
		v := &all[i]
		reason, note := d.wrong(v, now)
		before := d.told[v.Name]
		if d.told[v.Name] = reason; reason == "" || reason == before {
			continue
		}
		for j := range registries {
			if r := &registries[j]; d.config.Adapter(r.Spec.Adapter) == v.Name {
				d.events.Eventf(r, nil, corev1.EventTypeWarning, reason, "LookAtDatabase", "%s", note)
			}
		}
	}
}

// wrong says what is wrong with an adapter's data; "": nothing.
func (d *databases) wrong(v *reportsv1.VulnerabilityDatabase, now time.Time) (reason, note string) {
	available := meta.FindStatusCondition(v.Status.Conditions, conditionAvailable)
	switch {
	case available != nil && available.Status == metav1.ConditionFalse:
		why := available.Reason + ": " + available.Message
		return "DatabaseUnavailable", "no newer vulnerability data of " + v.Name + " can be had, the old data stays in use: " + why
	case v.Status.BuiltAt != nil && now.Sub(v.Status.BuiltAt.Time) > d.config.MaxAge():
		return registryv1alpha1.ReasonDatabaseStale, "the vulnerability data of " + v.Name + " is older than " + d.config.Database.MaxAge
	}
	return "", ""
}

// start makes the ScanJob of a Registry whose reports are of older data.
func (d *databases) start(ctx context.Context, r *registryv1alpha1.Registry, all []reportsv1.VulnerabilityDatabase) error {
	adapter := d.config.Adapter(r.Spec.Adapter)
	at := slices.IndexFunc(all, func(v reportsv1.VulnerabilityDatabase) bool { return v.Name == adapter })
	if at < 0 || !wants(r, all[at].Status.Version) {
		return nil
	}
	job := &registryv1alpha1.ScanJob{
		ObjectMeta: metav1.ObjectMeta{
			Name: databaseJob(r, all[at].Status.Version), Namespace: r.Namespace,
			Labels:          map[string]string{registryv1alpha1.LabelTrigger: string(registryv1alpha1.TriggerDatabaseChange)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(r, registryv1alpha1.SchemeGroupVersion.WithKind("Registry"))},
		},
		Spec: registryv1alpha1.ScanJobSpec{JobSpec: registryv1alpha1.JobSpec{Registry: r.Name, Priority: registryv1alpha1.Scheduled}},
	}
	err := d.client.Create(ctx, job)
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return nil
	}
	return fmt.Errorf("create ScanJob: %w", err)
}

// wants tells whether the reports of a Registry are of older data than this version.
func wants(r *registryv1alpha1.Registry, version string) bool {
	s := r.Status
	return version != "" && s.LastDiscovery != nil && !r.Spec.Suspend && r.DeletionTimestamp.IsZero() &&
		slices.Contains(r.Spec.ScanOn, registryv1alpha1.OnDatabaseChange) && (s.Database == nil || s.Database.Version != version)
}

// databaseJob is the name of the ScanJob for a version: a controller that dies between two writes makes no second one.
func databaseJob(r *registryv1alpha1.Registry, version string) string {
	sum := sha256.Sum256([]byte(string(r.UID) + "\x00" + version))
	name := r.Name
	if len(name) > nameLength {
		name = strings.TrimRight(name[:nameLength], "-.")
	}
	return name + "-s-" + hex.EncodeToString(sum[:])[:hashDigits]
}
