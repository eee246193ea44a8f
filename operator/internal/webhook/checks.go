// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/cascade/plan"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/operator/internal/exception/stamp"
	"github.com/scanyard/scanyard/operator/internal/schedule"
	"github.com/scanyard/scanyard/operator/internal/tenancy"
	"github.com/scanyard/scanyard/settings"
)

// Checks returns the checks of all kinds. The reader has the objects that settings are compared with: the settings of the
// cluster, the installed ScanTypes and hooks, and the exceptions that there are. The sealer knows who made an exception.
func Checks(reader client.Reader, now clock.PassiveClock, sealer *stamp.Sealer) map[schema.GroupKind]Check {
	own, exceptions := settingsChecks{reader}, exceptionChecks{reader, now, sealer}
	return map[schema.GroupKind]Check{
		{Group: cascadingv1.SchemeGroupVersion.Group, Kind: "CascadingRule"}:           checkRule,
		{Group: cascadingv1.SchemeGroupVersion.Group, Kind: "ClusterCascadingRule"}:    checkRule,
		{Group: executionv1.SchemeGroupVersion.Group, Kind: "ScheduledScan"}:           own.checkScheduledScan,
		{Group: executionv1.SchemeGroupVersion.Group, Kind: "Scan"}:                    own.checkScan,
		{Group: settingsv1alpha2.SchemeGroupVersion.Group, Kind: "ScanSetting"}:        own.checkNamespace,
		{Group: settingsv1alpha2.SchemeGroupVersion.Group, Kind: "ClusterScanSetting"}: own.checkCluster,

		{Group: settingsv1alpha2.SchemeGroupVersion.Group, Kind: exception.Kind}:        exceptions.checkNamespace,
		{Group: settingsv1alpha2.SchemeGroupVersion.Group, Kind: exception.ClusterKind}: exceptions.checkCluster,
	}
}

// checkRule returns what the hook cascading-scans would refuse.
func checkRule(_ context.Context, asked *Asked) (field.ErrorList, error) {
	value, err := finding.DecodeValue(asked.Object, 0)
	if err != nil {
		return nil, fmt.Errorf("read the rule: %w", err)
	}
	rule, ok := value.(finding.Object)
	if !ok {
		return nil, errors.New("read the rule: it is not an object")
	}
	var errs field.ErrorList
	for _, m := range plan.Check(rule) {
		errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: m.Field, BadValue: field.OmitValueType{}, Detail: m.Err.Error()})
	}
	return errs, nil
}

// checkScheduledScan returns why a ScheduledScan could never run.
func (c settingsChecks) checkScheduledScan(ctx context.Context, asked *Asked) (field.ErrorList, error) {
	var s executionv1.ScheduledScan
	if err := json.Unmarshal(asked.Object, &s); err != nil {
		return nil, fmt.Errorf("read the ScheduledScan: %w", err)
	}
	if s.Spec.ScanSpec == nil {
		return problems(schedule.Check(&s.Spec)), nil
	}
	scope, err := c.targetScope(ctx, s.Namespace)
	if err != nil {
		return nil, err
	}
	return problems(schedule.Check(&s.Spec), scope.Refuses("spec.scanSpec", s.Spec.ScanSpec)), nil
}

// checkScan returns why the targets of a Scan are refused. A Scan that a schedule or another Scan owns is made by programs
// that nobody watches: the life of that Scan refuses it, and tells so in its status.
func (c settingsChecks) checkScan(ctx context.Context, asked *Asked) (field.ErrorList, error) {
	var s executionv1.Scan
	if err := json.Unmarshal(asked.Object, &s); err != nil {
		return nil, fmt.Errorf("read the Scan: %w", err)
	}
	if len(s.OwnerReferences) > 0 {
		return nil, nil
	}
	scope, err := c.targetScope(ctx, s.Namespace)
	if err != nil {
		return nil, err
	}
	return problems(scope.Refuses("spec", &s.Spec)), nil
}

// targetScope is the scope in force in a namespace.
func (c settingsChecks) targetScope(ctx context.Context, namespace string) (settings.TargetScope, error) {
	cluster := &settingsv1alpha2.ClusterScanSetting{}
	if err := c.reader.Get(ctx, client.ObjectKey{Name: settingsv1alpha2.Name}, cluster); apierrors.IsNotFound(err) {
		cluster = nil
	} else if err != nil {
		return settings.TargetScope{}, fmt.Errorf("get ClusterScanSetting: %w", err)
	}
	own := &settingsv1alpha2.ScanSetting{}
	if err := c.reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: settingsv1alpha2.Name}, own); apierrors.IsNotFound(err) {
		own = nil
	} else if err != nil {
		return settings.TargetScope{}, fmt.Errorf("get ScanSetting of namespace %s: %w", namespace, err)
	}
	inForce := settings.ClusterInForce(cluster)
	return settings.NewTargetScope(inForce, settings.InForce(inForce, own)), nil
}

// problems are sentences that name their field themselves.
func problems(sentences ...string) (errs field.ErrorList) {
	for _, s := range sentences {
		if s != "" {
			errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: "spec", BadValue: field.OmitValueType{}, Detail: s})
		}
	}
	return errs
}

// settingsChecks return what the controller of the settings would refuse.
type settingsChecks struct{ reader client.Reader }

func (c settingsChecks) checkNamespace(ctx context.Context, asked *Asked) (field.ErrorList, error) {
	s, err := readScanSetting(asked.Object)
	if err != nil {
		return nil, fmt.Errorf("read the ScanSetting: %w", err)
	}
	cluster := &settingsv1alpha2.ClusterScanSetting{}
	err = c.reader.Get(ctx, client.ObjectKey{Name: settingsv1alpha2.Name}, cluster)
	if apierrors.IsNotFound(err) {
		cluster = nil
	} else if err != nil {
		return nil, fmt.Errorf("get ClusterScanSetting: %w", err)
	}
	unmatched, err := c.unmatched(ctx, s.Namespace, s.Spec.JobPatches)
	return append(settings.ValidateScanSetting(cluster, s), unmatched...), err
}

func (c settingsChecks) checkCluster(ctx context.Context, asked *Asked) (field.ErrorList, error) {
	s, err := readClusterScanSetting(asked.Object)
	if err != nil {
		return nil, fmt.Errorf("read the ClusterScanSetting: %w", err)
	}
	unmatched, err := c.unmatched(ctx, "", s.Spec.JobPatches)
	return append(settings.ValidateClusterScanSetting(s), unmatched...), err
}

// unmatched are the patches for targets that are not installed, in one namespace and, for "", in all.
func (c settingsChecks) unmatched(ctx context.Context, namespace string, patches []settingsv1alpha2.JobPatch) (field.ErrorList, error) {
	if len(patches) == 0 {
		return nil, nil
	}
	installed, err := tenancy.ListInstalled(ctx, c.reader, namespace)
	if err != nil {
		return nil, err
	}
	return settings.UnmatchedPatches(patches, installed, field.NewPath("spec", "jobPatches")), nil
}
