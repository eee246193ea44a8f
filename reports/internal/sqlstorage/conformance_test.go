// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/apitesting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// The tests of k8s.io/apiserver for implementations of its storage, on each database. Left out are CreateWithTTL and
// GuaranteedUpdateWithTTL, as reports have no time to live, and TransformationFailure, WatchError, WatchWithUnsafeDelete,
// WatchErrorIsBlockingFurtherEvents and those of unsafe deletion, which are about transformers that encrypt for etcd.

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func TestMain(m *testing.M) {
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	dbtest.Main(m)
}

// prefix stands for that of the suite; here it has to be space, since what is stored has to be JSON.
const prefix = "\n"

// transformingCodec puts the suite's transformer into the codec: etcd's storage has a hook for it, ours does not.
type transformingCodec struct {
	runtime.Codec
	mu          sync.Mutex
	transformer value.Transformer
	stale       bool
	staleWrites int
	inside      atomic.Bool
}

func (c *transformingCodec) current() value.Transformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.transformer
}

func (c *transformingCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if !c.inside.CompareAndSwap(false, true) { // a transformer that writes is not asked about what it writes
		return c.Codec.Decode(data, defaults, into)
	}
	data, stale, err := c.current().TransformFromStorage(context.Background(), data, value.DefaultContext{})
	c.inside.Store(false)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	c.stale = stale
	c.mu.Unlock()
	return c.Codec.Decode(data, defaults, into)
}

func (c *transformingCodec) Encode(obj runtime.Object, w io.Writer) error {
	data, err := runtime.Encode(c.Codec, obj)
	if err != nil {
		return err
	}
	if data, err = c.current().TransformToStorage(context.Background(), data, value.DefaultContext{}); err != nil {
		return err
	}
	c.mu.Lock()
	if c.stale { // what is stale has to be written anew, so what is written differs from what is stored
		c.staleWrites++
		data = append(data, strings.Repeat(" ", c.staleWrites)...)
	}
	c.mu.Unlock()
	_, err = w.Write(data)
	return err
}

// suiteStorage is a Storage whose transformer the suite can replace.
type suiteStorage struct {
	*Storage
	codec *transformingCodec
}

// UpdatePrefixTransformer implements the suite's InterfaceWithPrefixTransformer.
func (s *suiteStorage) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	s.codec.mu.Lock()
	defer s.codec.mu.Unlock()
	original := s.codec.transformer.(*storagetesting.PrefixTransformer)
	copied := storagetesting.NewPrefixTransformer([]byte(prefix), false)
	s.codec.transformer = modify(copied)
	return func() {
		s.codec.mu.Lock()
		defer s.codec.mu.Unlock()
		s.codec.transformer, s.codec.stale = original, false
	}
}

func newSuiteStorage(t *testing.T, config sqldb.Config) *suiteStorage {
	t.Helper()
	store, err := mvcc.Open(t.Context(), config, mvcc.Options{CompactEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	codec := &transformingCodec{
		Codec: apitesting.TestCodec(codecs, examplev1.SchemeGroupVersion), transformer: storagetesting.NewPrefixTransformer([]byte(prefix), false),
	}
	s, err := New(Config{
		Store: store, Kind: Kind{Number: 1, Resource: "pods"}, Codec: codec, GroupResource: schema.GroupResource{Resource: "pods"},
		New:     func() runtime.Object { return &example.Pod{} },
		NewList: func() runtime.Object { return &example.PodList{} },
		Options: Options{WaitFresh: 50 * time.Millisecond, Bookmarks: 300 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &suiteStorage{Storage: s, codec: codec}
}

func (s *suiteStorage) validate(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	stored, _, err := s.store.Get(ctx, key)
	if err != nil || stored == nil {
		t.Fatalf("get %s: %v, %v", key, stored, err)
	}
	obj, _, err := s.codec.Decode(stored.Head, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if pod := obj.(*example.Pod); pod.ResourceVersion != "" {
		t.Errorf("stored resourceVersion %q: must be empty", pod.ResourceVersion)
	}
}

// compact consumes one number, as etcd's does.
func (s *suiteStorage) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	revision, err := s.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Compact(ctx, int64(revision)); err != nil {
		t.Fatal(err)
	}
}

func (s *suiteStorage) increase(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	revision, err := s.store.Tick(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func anyCalls(*testing.T, uint64, uint64) {} // etcd's storage counts its calls; ours are reads in SQL

var suite = map[string]func(context.Context, *testing.T, *suiteStorage){
	"Create": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestCreate(ctx, t, s, s.validate)
	},
	"CreateWithKeyExist":                         plain(storagetesting.RunTestCreateWithKeyExist),
	"Get":                                        plain(storagetesting.RunTestGet),
	"UnconditionalDelete":                        plain(storagetesting.RunTestUnconditionalDelete),
	"ConditionalDelete":                          plain(storagetesting.RunTestConditionalDelete),
	"DeleteWithSuggestion":                       plain(storagetesting.RunTestDeleteWithSuggestion),
	"DeleteWithSuggestionAndConflict":            plain(storagetesting.RunTestDeleteWithSuggestionAndConflict),
	"DeleteWithSuggestionOfDeletedObject":        plain(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
	"DeleteWithConflict":                         plain(storagetesting.RunTestDeleteWithConflict),
	"ValidateDeletionWithSuggestion":             plain(storagetesting.RunTestValidateDeletionWithSuggestion),
	"ValidateDeletionWithOnlySuggestionValid":    plain(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
	"PreconditionalDeleteWithSuggestion":         plain(storagetesting.RunTestPreconditionalDeleteWithSuggestion),
	"PreconditionalDeleteWithOnlySuggestionPass": plain(storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
	"List": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestList(ctx, t, s, s.compact, false, nil)
	},
	"ConsistentList": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestConsistentList(ctx, t, s, s.increase, false, true, false)
	},
	"GetListNonRecursive": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestGetListNonRecursive(ctx, t, s.increase, s)
	},
	"GetListRecursivePrefix": plain(storagetesting.RunTestGetListRecursivePrefix),
	"ListContinuation": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestListContinuation(ctx, t, s, anyCalls)
	},
	"ListPaginationRareObject": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestListPaginationRareObject(ctx, t, s, anyCalls)
	},
	"ListContinuationWithFilter": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestListContinuationWithFilter(ctx, t, s, anyCalls)
	},
	"ListInconsistentContinuation": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestListInconsistentContinuation(ctx, t, s, s.compact)
	},
	"ListResourceVersionMatch": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestListResourceVersionMatch(ctx, t, s)
	},
	"ListPaging":          plain(storagetesting.RunTestListPaging),
	"NamespaceScopedList": plain(storagetesting.RunTestNamespaceScopedList),
	"GuaranteedUpdate": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestGuaranteedUpdate(ctx, t, s, s.validate)
	},
	"GuaranteedUpdateChecksStoredData": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestGuaranteedUpdateChecksStoredData(ctx, t, s)
	},
	"GuaranteedUpdateWithConflict":              plain(storagetesting.RunTestGuaranteedUpdateWithConflict),
	"GuaranteedUpdateWithSuggestionAndConflict": plain(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
	"CompactRevision": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestCompactRevision(ctx, t, s, s.increase, s.compact)
	},
	"KeySchema": plain(storagetesting.RunTestKeySchema),
	"Stats": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestStats(ctx, t, s, s.codec.Codec, s.codec.current(), true)
	},

	"Watch": plain(storagetesting.RunTestWatch),
	"WatchFromZero": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestWatchFromZero(ctx, t, s, s.compact)
	},
	"WatchFromNonZero":                    plain(storagetesting.RunTestWatchFromNonZero),
	"DeleteTriggerWatch":                  plain(storagetesting.RunTestDeleteTriggerWatch),
	"DelayedWatchDelivery":                plain(storagetesting.RunTestDelayedWatchDelivery),
	"WatchContextCancel":                  plain(storagetesting.RunTestWatchContextCancel),
	"WatcherTimeout":                      plain(storagetesting.RunTestWatcherTimeout),
	"WatchDeleteEventObjectHaveLatestRV":  plain(storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
	"WatchInitializationSignal":           plain(storagetesting.RunTestWatchInitializationSignal),
	"ClusterScopedWatch":                  plain(storagetesting.RunTestClusterScopedWatch),
	"NamespaceScopedWatch":                plain(storagetesting.RunTestNamespaceScopedWatch),
	"SendInitialEventsBackwardCompatible": plain(storagetesting.RunSendInitialEventsBackwardCompatibility),
	"ProgressNotify": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunOptionalTestProgressNotify(ctx, t, s, s.increase)
	},
	"WatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, s *suiteStorage) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, s, true)
	},
	"WatchBookmarksWithCorrectResourceVersion": plain(storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion),
}

// semantics switch a feature gate while they run, which tests that run beside them would see.
var semantics = map[string]func(context.Context, *testing.T, *suiteStorage){
	"WatchSemantics":                     plain(storagetesting.RunWatchSemantics),
	"WatchSemanticInitialEventsExtended": plain(storagetesting.RunWatchSemanticInitialEventsExtended),
	"WatchListMatchSingle":               plain(storagetesting.RunWatchListMatchSingle),
}

func plain(run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, *suiteStorage) {
	return func(ctx context.Context, t *testing.T, s *suiteStorage) { run(ctx, t, s) }
}

func TestConformance(t *testing.T) {
	for name, run := range suite {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, config sqldb.Config) { run(t.Context(), t, newSuiteStorage(t, config)) })
		})
	}
}

func TestConformanceOfWatchList(t *testing.T) {
	for name, run := range semantics {
		for _, driver := range dbtest.Drivers {
			t.Run(fmt.Sprintf("%s/%s", name, driver), func(t *testing.T) {
				run(t.Context(), t, newSuiteStorage(t, dbtest.New(t, driver)))
			})
		}
	}
}
