// SPDX-License-Identifier: Apache-2.0

package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	api "github.com/scanyard/scanyard/apis/results"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/operator/internal/scan/life"
	"github.com/scanyard/scanyard/operator/internal/store"
	"github.com/scanyard/scanyard/settings"
)

// releaseTries bounds how often a release is tried again after a conflict.
const releaseTries = 5

// Releasing has what removing results needs.
type Releasing struct {
	// Client writes into the API server.
	Client client.Client
	// Effective returns the settings in force for a namespace, read without a cache.
	Effective func(ctx context.Context, namespace string) (*settings.Effective, error)
	// Compared returns whether hooks of later runs may compare with the findings of a Scan.
	Compared func(ctx context.Context, scan *executionv1.Scan) (bool, error)
	// Released is called for each Scan whose results are removed; may be nil.
	Released func(scan *executionv1.Scan, asked *api.ReleaseRequest)
	Clock    clock.PassiveClock
}

// release has the results of a Scan removed, or refuses.
func (h *Handler) release(ctx context.Context, user *authenticationv1.UserInfo, asked *api.ReleaseRequest) (*api.ReleaseAnswer, error) {
	if h.Release.Client == nil {
		return nil, refuse(http.StatusConflict, api.ReasonModeIsKeep, "this operator gives no results up")
	}
	var err error
	for range releaseTries {
		var answer *api.ReleaseAnswer
		if answer, err = h.releaseNow(ctx, user, asked); !apierrors.IsConflict(err) {
			return answer, err
		}
	}
	return nil, err
}

func (h *Handler) releaseNow(ctx context.Context, user *authenticationv1.UserInfo, asked *api.ReleaseRequest) (*api.ReleaseAnswer, error) {
	scan, err := h.scanOf(ctx, user, "delete", asked.Namespace, asked.Name, asked.UID)
	if err != nil {
		return nil, err
	}
	if scan.Released() && scan.Revision() == asked.Revision && scan.Settled() {
		return &api.ReleaseAnswer{Released: true}, nil // an earlier call did this, and its answer was lost
	}
	f, err := h.facts(ctx, scan, asked)
	if err != nil {
		return nil, err
	}
	if no := decide(f); no != nil {
		return nil, &refusal{http.StatusConflict, *no}
	}
	if asked.DryRun {
		return &api.ReleaseAnswer{}, nil
	}
	if err := h.markReleased(ctx, scan); err != nil {
		return nil, err
	}
	if h.Release.Released != nil {
		h.Release.Released(scan, asked)
	}
	return &api.ReleaseAnswer{Released: true}, nil
}

// facts reads what decide needs.
func (h *Handler) facts(ctx context.Context, scan *executionv1.Scan, asked *api.ReleaseRequest) (*facts, error) {
	effective, err := h.Release.Effective(ctx, scan.Namespace)
	if err != nil {
		return nil, fmt.Errorf("read the settings of namespace %s: %w", scan.Namespace, err)
	}
	f := &facts{asked: asked, scan: scan, forwarding: effective.Forwarding, compared: true}
	if f.health, err = h.healthOf(ctx, scan.Namespace); err != nil {
		return nil, err
	}
	object, err := h.stat(ctx, store.OwnerOf(scan), executionv1.FindingsFile)
	if missing, ok := errors.AsType[*refusal](err); ok && missing.Reason == api.ReasonResultsMissing {
		object, err = store.Object{}, nil
	}
	if err != nil {
		return nil, err
	}
	f.etag = object.ETag
	if f.forwarding.AfterForwarding == settingsv1alpha2.AfterForwardingKeepLastRun {
		if f.compared, err = h.Release.Compared(ctx, scan); err != nil {
			return nil, fmt.Errorf("look for later runs: %w", err)
		}
	}
	return f, nil
}

// healthOf returns the status of the sinks in the settings of the cluster and of a namespace, by ID.
func (h *Handler) healthOf(ctx context.Context, namespace string) (map[string]settingsv1alpha2.SinkStatus, error) {
	all := map[string]settingsv1alpha2.SinkStatus{}
	var cluster settingsv1alpha2.ClusterScanSetting
	var own settingsv1alpha2.ScanSetting
	for _, one := range []struct {
		key    client.ObjectKey
		object client.Object
		sinks  *[]settingsv1alpha2.SinkStatus
	}{
		{client.ObjectKey{Name: settingsv1alpha2.Name}, &cluster, &cluster.Status.Sinks},
		{client.ObjectKey{Namespace: namespace, Name: settingsv1alpha2.Name}, &own, &own.Status.Sinks},
	} {
		if err := h.Live.Get(ctx, one.key, one.object); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the status of sinks: %w", err)
		}
		for _, s := range *one.sinks {
			all[settings.SinkID(one.key.Namespace, s.Name)] = s
		}
	}
	return all, nil
}

// markReleased annotates the Scan and writes its status, each with the read version as precondition. The annotation comes first: with it,
// missing results do not mean a lost Job. If the status is not written, the life of the Scan writes it.
func (h *Handler) markReleased(ctx context.Context, scan *executionv1.Scan) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": scan.UID, "resourceVersion": scan.ResourceVersion,
		"annotations": map[string]string{executionv1.AnnotationReleased: strconv.Itoa(int(scan.Revision()))},
	}})
	if err != nil {
		return fmt.Errorf("encode the annotation of a release: %w", err)
	}
	if err := h.Release.Client.Patch(ctx, scan, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("annotate Scan %s/%s whose results are removed: %w", scan.Namespace, scan.Name, err)
	}
	before := scan.DeepCopy()
	scan.Status = *life.Removing(&scan.Status, scan.Generation, h.Release.Clock.Now())
	err = h.Release.Client.Status().Patch(ctx, scan, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return nil // the operator has seen the annotation, and writes the status
	}
	if err != nil {
		return fmt.Errorf("write the status of Scan %s/%s whose results are removed: %w", scan.Namespace, scan.Name, err)
	}
	return nil
}
