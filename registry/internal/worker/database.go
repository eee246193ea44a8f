// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/config"
	"github.com/scanyard/scanyard/registry/internal/engine"
	"github.com/scanyard/scanyard/registry/internal/item"
	"github.com/scanyard/scanyard/registry/internal/queue"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

const (
	// AnnotationAllowOlder on a VulnerabilityDatabase takes a version that was built before the one in use.
	AnnotationAllowOlder = "registry.scanyard.io/allow-older"

	// databaseTimeout of a download with its comparison.
	databaseTimeout = 30 * time.Minute
	// failures in a row after which a database is not available.
	failures = 3

	conditionFresh     = "Fresh"
	conditionAvailable = "Available"
)

// The results of a look for a newer database, in metrics.
const (
	resultChanged   = "changed"
	resultUnchanged = "unchanged"
	resultFailed    = "failed"
)

// database looks for a newer database of an adapter.
func (w *Worker) database(ctx context.Context, d *queue.Delivery) {
	began := w.Clock.Now()
	err := w.update(ctx, d.Adapter, d.Database)
	w.Metrics.seconds.WithLabelValues(string(d.Step)).Observe(w.Clock.Now().Sub(began).Seconds())
	v := judge(err, context.Cause(ctx))
	if err != nil {
		w.Log.Warn("the database of an adapter was not renewed; the one in use stays", "adapter", d.Adapter, "error", err)
	}
	w.say(queue.Ended{Name: d.Adapter, Step: queue.Database, Outcome: outcomes[v.outcome], Reason: v.reason})
	w.tellWorker()
}

// haveDatabase sees to it that the database in use is not older than a version that a message names.
func (w *Worker) haveDatabase(ctx context.Context, adapter, version string) error {
	database, has := w.Engine.Database(adapter)
	if has && (version == "" || database.Version == version) {
		return nil
	}
	if !has && version == "" && w.Config.Source(adapter) == (config.Source{}) {
		return nil
	}
	return w.update(ctx, adapter, version)
}

// update fetches the database where it has changed, and tells the reports API. One is fetched at a time.
func (w *Worker) update(ctx context.Context, adapter, version string) error {
	w.updating.Lock()
	defer w.updating.Unlock()
	if now, has := w.Engine.Database(adapter); has && version != "" && now.Version == version {
		return nil
	}
	stored, err := w.storedDatabase(ctx, adapter)
	if err != nil {
		return err
	}
	_, older := stored.Annotations[AnnotationAllowOlder]
	result, err := w.fetch(ctx, adapter, older)
	if err != nil {
		w.failed[adapter]++
		w.Metrics.updates.WithLabelValues(adapter, resultFailed).Inc()
		if w.failed[adapter] >= failures {
			err = errors.Join(err, w.unavailable(ctx, stored, err))
		}
		return err
	}
	w.failed[adapter] = 0
	kind := resultUnchanged
	if result.Changed {
		kind = resultChanged
	}
	w.Metrics.updates.WithLabelValues(adapter, kind).Inc()
	return w.publish(ctx, adapter, result, older)
}

// fetch has the engine look where the database is.
func (w *Worker) fetch(ctx context.Context, adapter string, older bool) (*engine.DatabaseResult, error) {
	source := w.Config.Source(adapter)
	r := engine.DatabaseRequest{Adapter: adapter, File: source.File, AllowOlder: older, Deadline: w.Clock.Now().Add(databaseTimeout)}
	if source.File == "" {
		s, repository, reference, err := w.databaseSession(ctx, adapter)
		if err != nil {
			return nil, err
		}
		defer s.close()
		r.Client, r.Repository, r.Reference = s, repository, reference
	}
	return w.Engine.UpdateDatabase(ctx, r)
}

// storedDatabase reads what the reports API knows of a database. It is made where there is none.
func (w *Worker) storedDatabase(ctx context.Context, adapter string) (*reportsv1.VulnerabilityDatabase, error) {
	stored := &reportsv1.VulnerabilityDatabase{}
	_, err := w.Reports.Get(ctx, "", reportsclient.Databases, adapter, stored)
	if !apierrors.IsNotFound(err) {
		return stored, err
	}
	made := &reportsv1.VulnerabilityDatabase{
		TypeMeta:   metav1.TypeMeta{APIVersion: reportsv1.SchemeGroupVersion.String(), Kind: "VulnerabilityDatabase"},
		ObjectMeta: metav1.ObjectMeta{Name: adapter},
	}
	if err := w.Reports.Create(ctx, "", reportsclient.Databases, made, stored); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	_, err = w.Reports.Get(ctx, "", reportsclient.Databases, adapter, stored)
	return stored, err
}

// publish tells the reports API which database is in use, and which keys have changed, unless somebody knows a newer one.
func (w *Worker) publish(ctx context.Context, adapter string, result *engine.DatabaseResult, older bool) error {
	var err error
	for range rounds {
		var stored *reportsv1.VulnerabilityDatabase
		if stored, err = w.storedDatabase(ctx, adapter); err != nil {
			return err
		}
		was := stored.Status
		if was.BuiltAt != nil && was.BuiltAt.After(result.Database.BuiltAt) && !older {
			return nil
		}
		linked := result.Diff != nil && result.Diff.From == was.Version && was.Version != result.Database.Version
		if linked {
			err = w.Reports.PutChanges(ctx, adapter, was.Version, result.Database.Version, result.Diff.Total, result.Diff.Hashes)
			if apierrors.IsConflict(err) {
				continue
			}
			if err != nil {
				return err
			}
		}
		about, _ := w.Engine.Describe(adapter)
		patch := databasePatch(stored, result, linked, about.Engine.Version, w.sourceOf(adapter), w.Clock.Now(), w.Config.MaxAge())
		if patch == nil {
			return nil
		}
		_, err = w.Reports.PatchStatus(ctx, "", reportsclient.Databases, adapter, patch, &struct{}{})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// sourceOf is what people read of where a database comes from.
func (w *Worker) sourceOf(adapter string) string {
	source := w.Config.Source(adapter)
	if source.File != "" {
		return "file"
	}
	return source.Repository
}

// databasePatch is what is to be written of a database; nil: nothing has changed.
func databasePatch(
	stored *reportsv1.VulnerabilityDatabase, result *engine.DatabaseResult, linked bool, engineVersion, source string, now time.Time, maxAge time.Duration,
) object {
	database, was := result.Database, stored.Status
	conditions := slices.Clone(was.Conditions)
	changed := setCondition(&conditions, conditionAvailable, metav1.ConditionTrue, "Downloaded", "", now)
	if now.Sub(database.BuiltAt) > maxAge {
		message := "the data was built at " + database.BuiltAt.UTC().Format(time.RFC3339)
		changed = setCondition(&conditions, conditionFresh, metav1.ConditionFalse, "Stale", message, now) || changed
	} else {
		changed = setCondition(&conditions, conditionFresh, metav1.ConditionTrue, "Built", "", now) || changed
	}
	status := object{"conditions": conditions}
	if was.Version != database.Version || was.EngineVersion != engineVersion {
		changed = true
		maps.Copy(status, object{
			"version": database.Version, "schema": orNull(database.Schema), "builtAt": metaTime(database.BuiltAt), "downloadedAt": metaTime(database.DownloadedAt),
			"source": orNull(source), "engineVersion": orNull(engineVersion), "records": database.Records,
		})
	}
	if was.Version != database.Version {
		status["previousVersion"], status["changedKeys"] = orNull(was.Version), nil
		if linked {
			status["changedKeys"] = result.Diff.Changed
		}
	}
	if !changed {
		return nil
	}
	return object{"metadata": object{"resourceVersion": stored.ResourceVersion}, "status": status}
}

func setCondition(conditions *[]metav1.Condition, kind string, status metav1.ConditionStatus, reason, message string, now time.Time) bool {
	return meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now.UTC().Truncate(time.Second)),
	})
}

// unavailable writes why a database could not be had.
func (w *Worker) unavailable(ctx context.Context, stored *reportsv1.VulnerabilityDatabase, why error) error {
	conditions := slices.Clone(stored.Status.Conditions)
	v := judge(why, nil)
	if v.outcome == item.GivenBack || !setCondition(&conditions, conditionAvailable, metav1.ConditionFalse, v.reason, v.message, w.Clock.Now()) {
		return nil
	}
	patch := object{"metadata": object{"resourceVersion": stored.ResourceVersion}, "status": object{"conditions": conditions}}
	if _, err := w.Reports.PatchStatus(ctx, "", reportsclient.Databases, stored.Name, patch, &struct{}{}); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("write that there is no database: %w", err)
	}
	return nil
}
