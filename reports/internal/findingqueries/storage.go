// SPDX-License-Identifier: Apache-2.0

package findingqueries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/utils/clock"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/answer"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
)

const (
	// atOnce is how many queries one replica answers at a time.
	atOnce = 4
	// retryAfter is what a client is told to wait, in seconds.
	retryAfter = 1
)

// Answerer answers questions, see [answer.Answerer].
type Answerer interface {
	// Answer returns the answer. Errors are *answer.InvalidError, *answer.TimeoutError and those of the database.
	Answer(ctx context.Context, input *answer.Input) (*reportsv1.FindingQueryStatus, error)
}

// Observer counts queries. Its methods must return at once.
type Observer interface {
	// Answered is called for each answer, with the table that it is made of.
	Answered(plan string, took time.Duration)
	// QueryRejected is called for a query that was refused because too many were in work.
	QueryRejected()
}

// Config is what storages are made of.
type Config struct {
	Answerer Answerer
	// Clock defaults to the real one.
	Clock clock.PassiveClock
	// Observer counts queries; nil counts nothing.
	Observer Observer
	// Revision reads where the counter of the database stands. An answer is right as long as it stays there. Nil: nobody knows.
	Revision func(ctx context.Context) (int64, error)
	// Warmer renews answers while nobody asks, once it runs; nil: nobody does.
	Warmer *Warmer
}

// Storage is a create-only kind of questions.
type Storage struct {
	rest.TableConvertor

	kind kind
	desk *desk
}

var (
	_ rest.Storage              = (*Storage)(nil)
	_ rest.Creater              = (*Storage)(nil)
	_ rest.Scoper               = (*Storage)(nil)
	_ rest.SingularNameProvider = (*Storage)(nil)
	_ rest.ShortNamesProvider   = (*Storage)(nil)
	_ rest.CategoriesProvider   = (*Storage)(nil)
	_ rest.TableConvertor       = (*Storage)(nil)
)

// kind is what differs between the two kinds.
type kind struct {
	resource, name, singular, short string

	namespaced bool
	empty      func() runtime.Object
	open       func(obj runtime.Object) (question, bool)
}

// question is an object in parts.
type question struct {
	meta   *metav1.ObjectMeta
	spec   reportsv1.ClusterFindingQuerySpec
	status *reportsv1.FindingQueryStatus
}

var namespacedKind = kind{
	resource: "findingqueries", name: "FindingQuery", singular: "findingquery", short: "fq", namespaced: true,
	empty: func() runtime.Object { return &reportsv1.FindingQuery{} },
	open: func(obj runtime.Object) (question, bool) {
		q, ok := obj.(*reportsv1.FindingQuery)
		if !ok {
			return question{}, false
		}
		return question{&q.ObjectMeta, reportsv1.ClusterFindingQuerySpec{FindingQuerySpec: q.Spec}, &q.Status}, true
	},
}

var clusterKind = kind{
	resource: "clusterfindingqueries", name: "ClusterFindingQuery", singular: "clusterfindingquery", short: "cfq",
	empty: func() runtime.Object { return &reportsv1.ClusterFindingQuery{} },
	open: func(obj runtime.Object) (question, bool) {
		q, ok := obj.(*reportsv1.ClusterFindingQuery)
		if !ok {
			return question{}, false
		}
		return question{&q.ObjectMeta, q.Spec, &q.Status}, true
	},
}

// New makes the storages of findingqueries and clusterfindingqueries.
func New(config Config) (namespaced, clusterwide *Storage) {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Revision == nil {
		config.Revision = func(context.Context) (int64, error) { return 0, nil }
	}
	d := &desk{config: config, gate: gate{free: atOnce}, renew: func(run func()) { go run() }}
	if config.Warmer != nil {
		config.Warmer.desk = d
	}
	storage := func(k kind) *Storage {
		return &Storage{TableConvertor: rest.NewDefaultTableConvertor(k.groupResource()), kind: k, desk: d}
	}
	return storage(namespacedKind), storage(clusterKind)
}

func (k *kind) groupResource() schema.GroupResource {
	return reportsv1.SchemeGroupVersion.WithResource(k.resource).GroupResource()
}

// New implements rest.Storage.
func (s *Storage) New() runtime.Object { return s.kind.empty() }

// Destroy implements rest.Storage. There is nothing to clean up.
func (s *Storage) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (s *Storage) NamespaceScoped() bool { return s.kind.namespaced }

// GetSingularName implements rest.SingularNameProvider.
func (s *Storage) GetSingularName() string { return s.kind.singular }

// ShortNames implements rest.ShortNamesProvider.
func (s *Storage) ShortNames() []string { return []string{s.kind.short} }

// Categories implements rest.CategoriesProvider.
func (s *Storage) Categories() []string { return []string{"scanyard"} }

// Create implements rest.Creater: it answers the question.
func (s *Storage) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	q, ok := s.kind.open(obj)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("must be a %s, is a %T", s.kind.name, obj))
	}
	scope := answer.Scope{Cluster: true}
	if s.kind.namespaced {
		namespace, ok := request.NamespaceFrom(ctx)
		if !ok || namespace == "" {
			return nil, apierrors.NewBadRequest("namespace is required")
		}
		q.meta.Namespace = namespace
		scope = answer.Scope{Namespace: namespace}
	}
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	q.meta.ManagedFields = nil // nobody updates an answer
	*q.status = reportsv1.FindingQueryStatus{}
	dry := options != nil && dryrun.IsDryRun(options.DryRun)
	status, err := s.desk.answer(ctx, &answer.Input{Spec: q.spec, Scope: scope, Now: s.desk.config.Clock.Now()}, dry)
	if err != nil {
		return nil, s.kind.statusOf(q.meta.Name, err)
	}
	*q.status = *status
	return obj, nil
}

// desk answers the questions of both kinds.
type desk struct {
	config Config
	gate   gate
	shelf  shelf
	// renew runs what makes an answer anew, beside who has asked.
	renew func(run func())
}

func (d *desk) answer(ctx context.Context, input *answer.Input, dry bool) (*reportsv1.FindingQueryStatus, error) {
	if err := answer.Check(input); err != nil || dry { // who asks nonsense need not wait to hear so
		return &reportsv1.FindingQueryStatus{}, err
	}
	spec := &input.Spec
	if spec.Continue != "" || spec.Limit > mostRows && len(spec.GroupBy) == 0 && spec.Trend == nil {
		return d.ask(ctx, input)
	}
	key, err := answer.KeyOf(input)
	if err != nil {
		return nil, err
	}
	revision, err := d.config.Revision(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the counter: %w", err)
	}
	before, done, err := d.shelf.find(ctx, asking{key, d.config.Clock.Now, revision})
	switch {
	case err != nil:
		return nil, err
	case done == nil:
		return answer.At(before, input.Now), nil
	case before == nil:
		return d.anew(ctx, input, key, done)
	}
	// Nobody waits for an answer that is recent enough. Who has asked may be gone before the new one is there.
	later := context.WithoutCancel(ctx)
	d.renew(func() {
		// What is wrong with it hears who asks when this answer is too old.
		_, _ = d.anew(request.WithUser(later, &user.DefaultInfo{Name: renewing + key}), input, key, done)
	})
	return answer.At(before, input.Now), nil
}

// renewing begins the name under which an answer is renewed: there is one for each question, so that none is refused because of another one.
const renewing = "\x00renewing "

// anew has a question answered, and keeps the answer if it took long.
func (d *desk) anew(
	ctx context.Context, input *answer.Input, key string, done func(*reportsv1.FindingQueryStatus),
) (status *reportsv1.FindingQueryStatus, err error) {
	defer func() { done(status) }()
	begun := d.config.Clock.Now()
	if status, err = d.ask(ctx, input); err != nil {
		return nil, err
	}
	k := kept{status: status, at: begun, took: d.config.Clock.Since(begun), asked: begun, until: answer.RightUntil(input)}
	if !answer.NamesMoments(input) {
		k.input = input
	}
	d.shelf.keep(key, k)
	return status, nil
}

// ask has a question answered when it is its turn.
func (d *desk) ask(ctx context.Context, input *answer.Input) (*reportsv1.FindingQueryStatus, error) {
	name := ""
	if user, ok := request.UserFrom(ctx); ok {
		name = user.GetName()
	}
	if err := d.gate.enter(ctx, name); err != nil {
		if errors.Is(err, errCrowded) && d.config.Observer != nil {
			d.config.Observer.QueryRejected()
		}
		return nil, err
	}
	defer d.gate.leave()
	begun := d.config.Clock.Now()
	status, err := d.config.Answerer.Answer(ctx, input)
	if err != nil {
		return nil, err
	}
	took := d.config.Clock.Since(begun)
	status.TookMillis = int64((took + time.Millisecond - 1) / time.Millisecond)
	if d.config.Observer != nil {
		d.config.Observer.Answered(status.Plan, took)
	}
	return status, nil
}

// statusOf is what a client is told.
func (k *kind) statusOf(name string, err error) error {
	var invalid *answer.InvalidError
	var late *answer.TimeoutError
	switch {
	case errors.As(err, &invalid):
		return apierrors.NewInvalid(reportsv1.SchemeGroupVersion.WithKind(k.name).GroupKind(), cmp.Or(name, k.singular), invalid.Mistakes)
	case errors.As(err, &late):
		return apierrors.NewTimeoutError(late.Error(), 0)
	case errors.Is(err, errCrowded):
		return apierrors.NewTooManyRequests(errCrowded.Error(), retryAfter)
	}
	return sqlstorage.StatusOf(err)
}
