// SPDX-License-Identifier: Apache-2.0

package apiservices

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	registration "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset/typed/apiregistration/v1"
	"k8s.io/utils/clock"
)

const (
	// Round is how often APIServices are looked at; what somebody has reset is taken again within 30 s.
	Round = 10 * time.Second
	// ReleasedAnnotation on the Service says that the release is about to be removed: no APIService is made any longer.
	ReleasedAnnotation = "reports.scanyard.io/released"

	fieldManager = "reports-apiserver"
)

// Options say which groups are kept, and for which Service.
type Options struct {
	Client   kubernetes.Interface
	Services registration.APIServiceInterface
	// Events is told of what users have to know. Its events are about the Service.
	Events record.EventRecorder
	Clock  clock.WithTicker

	Groups             []Group
	TakeOver           TakeOver
	Namespace, Service string
	Port               int32
	// CABundle returns the authorities to trust; nil if cert-manager writes them from the Certificate InjectCAFrom.
	CABundle     func() []byte
	InjectCAFrom string
}

// Keeper keeps the APIServices. All replicas run one: what one has written leaves the others nothing to do.
type Keeper struct {
	options Options
	changed chan struct{}
	// told are the steps that were told last, by APIService, so that an Event says something new.
	told map[string]string
	// held are the APIServices that have named this server.
	held map[string]bool

	retaken atomic.Int64
	lost    atomic.Int64
}

// New returns a Keeper.
func New(o Options) *Keeper {
	return &Keeper{options: o, changed: make(chan struct{}, 1), told: map[string]string{}, held: map[string]bool{}}
}

// Enqueue has the Keeper look at once, since the authorities to trust have changed. The Keeper is a dynamiccertificates.Listener.
func (k *Keeper) Enqueue() {
	select {
	case k.changed <- struct{}{}:
	default: // a look is due already
	}
}

// Retaken is how often an APIService was taken again.
func (k *Keeper) Retaken() int64 { return k.retaken.Load() }

// Lost is how many APIServices have named this server and do not any longer.
func (k *Keeper) Lost() int64 { return k.lost.Load() }

// Run keeps the APIServices until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	ticker := k.options.Clock.NewTicker(Round)
	defer ticker.Stop()
	for {
		if err := k.RunOnce(ctx); err != nil && ctx.Err() == nil {
			utilruntime.HandleErrorWithContext(ctx, err, "APIServices are not kept; tried again")
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		case <-k.changed:
		}
	}
}

// RunOnce looks at each APIService and does what is to be done.
func (k *Keeper) RunOnce(ctx context.Context) error {
	service, err := k.options.Client.CoreV1().Services(k.options.Namespace).Get(ctx, k.options.Service, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("an APIService needs its Service: %w", err)
	}
	if service.Annotations[ReleasedAnnotation] != "" {
		return nil
	}
	var failures []error
	lost := int64(0)
	for _, group := range k.options.Groups {
		here, err := k.keep(ctx, service, group)
		if err != nil {
			failures = append(failures, fmt.Errorf("APIService %s: %w", group.Name(), err))
			continue
		}
		if k.held[group.Name()] && !here && group.Served {
			lost++
		}
		k.held[group.Name()] = here || k.held[group.Name()]
	}
	k.lost.Store(lost)
	return errors.Join(failures...)
}

// keep does what one APIService needs and reports whether it names this server then.
func (k *Keeper) keep(ctx context.Context, service *corev1.Service, group Group) (bool, error) {
	found, err := k.options.Services.Get(ctx, group.Name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		found = nil
	} else if err != nil {
		return false, err
	}
	w := &Wanted{
		Group: group, TakeOver: k.options.TakeOver, Namespace: k.options.Namespace, Service: k.options.Service, Port: k.options.Port,
		InjectCAFrom: k.options.InjectCAFrom,
	}
	if k.options.CABundle != nil {
		w.CABundle = k.options.CABundle()
	}
	s := decide(found, w)
	switch s.verb {
	case create:
		err = k.patch(ctx, group, types.ApplyPatchType, w.manifest())
	case update:
		err = k.patch(ctx, group, types.MergePatchType, w.change(found))
	case remove:
		err = k.options.Services.Delete(ctx, group.Name(), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(found.UID))})
	case leave:
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil // somebody was faster: the next look tells
	}
	if err != nil {
		return false, err
	}
	if s.name == retaken {
		k.retaken.Add(1)
	}
	k.tell(ctx, service, group, s)
	return s.verb == create || s.verb == update || calledHere(found, w), nil
}

func (k *Keeper) patch(ctx context.Context, group Group, kind types.PatchType, body map[string]any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = k.options.Services.Patch(ctx, group.Name(), kind, raw, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

// tell says what is new in the log and, where users have to know, in an Event.
func (k *Keeper) tell(ctx context.Context, service *corev1.Service, group Group, s step) {
	again := k.told[group.Name()] == s.name && s.verb == leave
	k.told[group.Name()] = s.name
	if again {
		return
	}
	klog.FromContext(ctx).Info("APIService", "name", group.Name(), "step", s.name)
	if s.message == "" {
		return
	}
	kind := corev1.EventTypeNormal
	if s.warning {
		kind = corev1.EventTypeWarning
	}
	k.options.Events.Eventf(service, kind, s.name, s.message, group.Name())
}

// Release gives all groups back: the servers are told to make no APIService any longer, then what is ours is deleted. A
// server that had read the Service before the mark may still make one: what is there when such a write must be over is
// deleted as well.
func Release(ctx context.Context, o Options) error {
	mark, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{ReleasedAnnotation: "true"}}})
	if err != nil {
		return err
	}
	_, err = o.Client.CoreV1().Services(o.Namespace).Patch(ctx, o.Service, types.MergePatchType, mark, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mark Service %s/%s: %w", o.Namespace, o.Service, err)
	}
	if err := release(ctx, o); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-o.Clock.After(requestTime):
	}
	return release(ctx, o)
}

// requestTime is how long a write that a server has begun may take.
const requestTime = 3 * time.Second

func release(ctx context.Context, o Options) error {
	for _, group := range o.Groups {
		found, err := o.Services.Get(ctx, group.Name(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("APIService %s: %w", group.Name(), err)
		}
		w := &Wanted{Group: group, Namespace: o.Namespace, Service: o.Service}
		if !calledHere(found, w) && !ours(found, w) {
			continue
		}
		err = o.Services.Delete(ctx, group.Name(), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(found.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("APIService %s: %w", group.Name(), err)
		}
	}
	return nil
}
