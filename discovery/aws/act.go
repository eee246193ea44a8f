// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/discovery/internal/scanconfig"
)

// Reasons of Events on ScheduledScans.
const (
	// ReasonDiscovered is the reason of the Event on a ScheduledScan that was created.
	ReasonDiscovered = "Discovered"
	// ReasonConfigurationChanged is the reason of the Event on a ScheduledScan that was
	// rewritten since the configuration has changed.
	ReasonConfigurationChanged = "ConfigurationChanged"
)

const (
	changeCreated = "created"
	changeUpdated = "updated"
	changeDeleted = "deleted"

	// maxPlans bounds how often one image is looked at when others write its objects too.
	maxPlans = 10
)

// errLookAgain says that an object is not what it was taken for; the ledger has been corrected.
var errLookAgain = errors.New("the object has changed")

// isPermanent says whether trying again is of no use: the message or the configuration is
// wrong, not the API server.
func isPermanent(err error) bool {
	return scanconfig.IsRenderError(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// settle makes the ScheduledScans of images right. Permanent and other errors come apart:
// after the latter the same call may succeed.
func (r *Runner) settle(ctx context.Context, images []imageKey) (permanent, transient error) {
	for _, key := range images {
		p, t := r.settleImage(ctx, key)
		permanent, transient = errors.Join(permanent, p), errors.Join(transient, t)
	}
	r.count()
	return permanent, transient
}

func (r *Runner) settleImage(ctx context.Context, key imageKey) (permanent, transient error) {
	for range maxPlans {
		changes, err := r.settings.plan(r.state.images[key], r.ledger[key])
		permanent, transient = err, nil
		again := false
		for _, c := range changes {
			switch err := r.write(ctx, key, c); {
			case err == nil:
			case errors.Is(err, errLookAgain):
				again = true
			case isPermanent(err):
				permanent = errors.Join(permanent, err)
			default:
				transient = errors.Join(transient, err)
			}
		}
		if !again {
			return permanent, transient
		}
	}
	return permanent, errors.Join(transient, errors.New("ScheduledScans change faster than they can be written"))
}

func (r *Runner) write(ctx context.Context, key imageKey, c change) error {
	switch {
	case c.from == nil:
		return r.create(ctx, key, c.to)
	case c.to == nil:
		return r.remove(ctx, key, c.from)
	default:
		return r.update(ctx, key, c.from, c.to)
	}
}

func (r *Runner) create(ctx context.Context, key imageKey, scan *executionv1.ScheduledScan) error {
	err := r.client.Create(ctx, scan)
	if apierrors.IsAlreadyExists(err) {
		return r.lookAgain(ctx, key, scan)
	}
	if err != nil {
		return fmt.Errorf("create ScheduledScan %s/%s: %w", scan.Namespace, scan.Name, err)
	}
	r.ledger.put(key, scan)
	r.metrics.changes.WithLabelValues(changeCreated).Inc()
	target := r.state.images[key].target
	logr.FromContextOrDiscard(ctx).Info("Created a ScheduledScan", "scheduledScan", klog.KObj(scan), "image", target.Image.Id, "container", target.Id)
	r.events.Eventf(scan, nil, corev1.EventTypeNormal, ReasonDiscovered, "Create", "The image %s runs in the container %s", target.Image.Id, target.Id)
	return nil
}

func (r *Runner) update(ctx context.Context, key imageKey, from, to *executionv1.ScheduledScan) error {
	err := r.client.Patch(ctx, to, client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return r.lookAgain(ctx, key, from)
	}
	if err != nil {
		return fmt.Errorf("patch ScheduledScan %s/%s: %w", to.Namespace, to.Name, err)
	}
	r.ledger.put(key, to)
	r.metrics.changes.WithLabelValues(changeUpdated).Inc()
	log := logr.FromContextOrDiscard(ctx).WithValues("scheduledScan", klog.KObj(to))
	if from.Annotations[AnnotationConfig] == to.Annotations[AnnotationConfig] {
		log.V(1).Info("Noted in which containers the image runs")
		return nil
	}
	log.Info("Rewrote a ScheduledScan, since the configuration has changed")
	r.events.Eventf(to, nil, corev1.EventTypeNormal, ReasonConfigurationChanged, "Update", "The configuration of auto-discovery has changed")
	return nil
}

func (r *Runner) remove(ctx context.Context, key imageKey, scan *executionv1.ScheduledScan) error {
	uid := scan.UID
	err := r.client.Delete(ctx, scan.DeepCopy(), client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) {
		return r.lookAgain(ctx, key, scan)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ScheduledScan %s/%s: %w", scan.Namespace, scan.Name, err)
	}
	r.ledger.remove(key, scan.Name)
	r.metrics.changes.WithLabelValues(changeDeleted).Inc()
	logr.FromContextOrDiscard(ctx).
		Info("Deleted a ScheduledScan, since nothing runs its image or the configuration has it no more", "scheduledScan", klog.KObj(scan))
	return nil
}

// lookAgain reads an object that is not what it was taken for. One that secureCodeBox's
// discovery for AWS has made is taken over. One that people or a discovery for Kubernetes
// have made is left alone: the image is being scanned already.
func (r *Runner) lookAgain(ctx context.Context, key imageKey, scan *executionv1.ScheduledScan) error {
	now := &executionv1.ScheduledScan{}
	err := r.reader.Get(ctx, client.ObjectKeyFromObject(scan), now)
	switch {
	case apierrors.IsNotFound(err):
		r.ledger.remove(key, scan.Name)
	case err != nil:
		return fmt.Errorf("get ScheduledScan %s/%s: %w", scan.Namespace, scan.Name, err)
	case isForeign(now):
		r.ledger.remove(key, scan.Name)
		logr.FromContextOrDiscard(ctx).
			Info("Left a ScheduledScan alone that something else has made under the name that this image would have; to have both, give the scanConfig another name",
				"scheduledScan", klog.KObj(scan))
		return nil
	default:
		r.ledger.put(key, now)
	}
	return errLookAgain
}

// FieldOwner is the field manager of this discovery's writes. By it, the discovery for Kubernetes
// recognizes a ScheduledScan that is not its own.
const FieldOwner = "scanyard-discovery-aws"

// Field managers of the discoveries for Kubernetes, ours (a prefix) and secureCodeBox's.
const (
	kubernetesOwner   = "scanyard-autodiscovery"
	secureCodeBoxName = "manager"
)

// isForeign says whether a ScheduledScan belongs to people or to a discovery for Kubernetes.
func isForeign(scan *executionv1.ScheduledScan) bool {
	if scan.Labels[LabelManagedBy] != ManagedBy {
		return true
	}
	if _, ours := scan.Annotations[AnnotationTarget]; ours {
		return false
	}
	return slices.ContainsFunc(scan.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Subresource == "" && (strings.HasPrefix(m.Manager, kubernetesOwner) || m.Manager == secureCodeBoxName)
	})
}
