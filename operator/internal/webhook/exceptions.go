// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
	"github.com/scanyard/scanyard/settings"
)

// exceptionChecks return what would keep an exception from matching, and what is beyond the limits of settings.
type exceptionChecks struct {
	reader client.Reader
	clock  clock.PassiveClock
	sealer *stamp.Sealer
}

// written is an exception as admission sees it.
type written struct {
	exception exception.Exception
	stamped   *stamp.Stamped
}

func readException(raw []byte) (*written, error) {
	e := &settingsv1alpha2.FindingException{}
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, err
	}
	stamped, err := stamp.Of(e)
	return &written{exception.Of(e), stamped}, err
}

func readClusterException(raw []byte) (*written, error) {
	e := &settingsv1alpha2.ClusterFindingException{}
	if err := json.Unmarshal(raw, e); err != nil {
		return nil, err
	}
	stamped, err := stamp.OfCluster(e)
	return &written{exception.OfCluster(e), stamped}, err
}

func (c exceptionChecks) checkNamespace(ctx context.Context, asked *Asked) (field.ErrorList, error) {
	return c.check(ctx, asked, readException)
}

func (c exceptionChecks) checkCluster(ctx context.Context, asked *Asked) (field.ErrorList, error) {
	return c.check(ctx, asked, readClusterException)
}

// check refuses a new exception that has ended: whoever ends one that is there sets its end to now.
func (c exceptionChecks) check(ctx context.Context, asked *Asked, read func([]byte) (*written, error)) (errs field.ErrorList, err error) {
	w, err := read(asked.Object)
	if err != nil {
		return nil, fmt.Errorf("read the exception: %w", err)
	}
	invalid := func(path, detail string) *field.Error {
		return &field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: field.OmitValueType{}, Detail: detail}
	}
	if problem := exception.Check(w.exception); problem != nil {
		errs = append(errs, invalid(problem.Field, problem.Err.Error()))
	}
	now := c.clock.Now()
	if asked.created() && w.exception.PhaseAt(now) == exception.Expired {
		errs = append(errs, invalid("spec.expiresAt", fmt.Sprintf("must be later than now, which is %s here", now.UTC().Format(time.RFC3339))))
	}
	limits, err := c.limits(ctx, w.exception.Namespace)
	if err != nil {
		return nil, err
	}
	x := &settings.Excepting{Spec: &w.exception.Spec, Cluster: w.exception.Namespace == "", User: asked.User, Now: now}
	if !asked.created() {
		before, err := read(asked.Before)
		if err != nil {
			return nil, fmt.Errorf("read the exception as it was: %w", err)
		}
		x.Before, x.Creator = &before.exception.Spec, c.sealer.Last(before.stamped).CreatedBy
	}
	errs = append(errs, limits.Refuse(x)...)
	if asked.created() && !x.Cluster {
		full, err := c.full(ctx, w.exception.Namespace, limits.MaxPerNamespace)
		return append(errs, full...), err
	}
	return errs, nil
}

// limits are those of a namespace and, for "", of the cluster.
func (c exceptionChecks) limits(ctx context.Context, namespace string) (settings.ExceptionLimits, error) {
	cluster, own := &settingsv1alpha2.ClusterScanSetting{}, &settingsv1alpha2.ScanSetting{}
	if err := c.reader.Get(ctx, client.ObjectKey{Name: settingsv1alpha2.Name}, cluster); apierrors.IsNotFound(err) {
		cluster = nil
	} else if err != nil {
		return settings.ExceptionLimits{}, fmt.Errorf("get ClusterScanSetting: %w", err)
	}
	spec := settings.ClusterInForce(cluster)
	if namespace == "" {
		return settings.ExceptionsOf(spec, nil), nil
	}
	if err := c.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: settingsv1alpha2.Name}, own); apierrors.IsNotFound(err) {
		own = nil
	} else if err != nil {
		return settings.ExceptionLimits{}, fmt.Errorf("get ScanSetting: %w", err)
	}
	return settings.ExceptionsOf(spec, settings.InForce(spec, own)), nil
}

// full refuses one exception more than a namespace may have.
func (c exceptionChecks) full(ctx context.Context, namespace string, most int) (field.ErrorList, error) {
	var list settingsv1alpha2.FindingExceptionList
	if err := c.reader.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil, fmt.Errorf("count the exceptions: %w", err)
	}
	if len(list.Items) < most {
		return nil, nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "namespace"), fmt.Sprintf(
		"namespace %s has %d FindingExceptions, and %d are the most that it may have (exceptions.maxPerNamespace of the settings): delete some that have ended",
		namespace, len(list.Items), most))}, nil
}
