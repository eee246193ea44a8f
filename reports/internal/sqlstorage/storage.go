// SPDX-License-Identifier: Apache-2.0

package sqlstorage

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// DamagedAnnotation marks an object in a list whose payload could not be read.
const DamagedAnnotation = "reports.scanyard.io/damaged"

// splitAbove is the size of a payload that is kept apart; smaller ones stay with their object.
const splitAbove = 4 << 10

// Kind says what storage has to know of a kind of objects.
type Kind struct {
	// Number is the kind's in the database; it never changes.
	Number int
	// Resource is the first part of keys, "reports" of /reports/namespace/name.
	Resource string
	// Payload is the path of the member that is kept apart, such as "results" or "report.results"; "" if none is.
	Payload string
	// Fields are the field selectors that have a column, besides metadata.name and metadata.namespace.
	Fields map[string]mvcc.Column
	// RowFields are the field selectors that have a column of RowTable, which Index fills.
	RowFields map[string]string
	RowTable  string
	// Columns fills those columns; nil if there are none.
	Columns func(obj runtime.Object) map[mvcc.Column]string
	// Index makes what else is kept of an object, to be queried; nil if nothing is.
	Index func(obj runtime.Object) (mvcc.Indexer, error)
}

// Options are what a Storage can do without: the zero value has the defaults.
type Options struct {
	// Clock defaults to the real one.
	Clock clock.WithTicker
	// WaitFresh is how long a request waits for a resource version that is still to come. Default 3 seconds.
	WaitFresh time.Duration
	// Bookmarks is the time between bookmarks of a watch. Default 1 minute.
	Bookmarks time.Duration
	// Watching is told of each watch that begins (1) and ends (-1); nil tells nobody.
	Watching func(delta int)
	// MaxListBytes bounds a list without a limit, in bytes of JSON. Default 256 MiB.
	MaxListBytes int64
}

// Config is what a Storage is made of.
type Config struct {
	Store *mvcc.Store
	Kind  Kind
	// Codec writes the storage version and reads into the internal one.
	Codec runtime.Codec
	// New and NewList make empty objects of the internal version.
	New, NewList  func() runtime.Object
	GroupResource schema.GroupResource
	Options       Options
}

// Storage is the storage of one kind.
type Storage struct {
	store     *mvcc.Store
	kind      Kind
	codec     runtime.Codec
	newObject func() runtime.Object
	versioner storage.APIObjectVersioner
	resource  schema.GroupResource
	prefix    string
	options   Options
}

var _ storage.Interface = (*Storage)(nil)

// New makes the storage of a kind.
func New(config Config) (*Storage, error) {
	switch {
	case config.Store == nil || config.Codec == nil || config.New == nil:
		return nil, errors.New("storage needs a store, a codec and a constructor of objects")
	case config.Kind.Resource == "" || strings.Contains(config.Kind.Resource, "/"):
		return nil, fmt.Errorf("storage: resource must be one part of a key, is %q", config.Kind.Resource)
	}
	options := config.Options
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.WaitFresh == 0 {
		options.WaitFresh = 3 * time.Second
	}
	if options.Bookmarks == 0 {
		options.Bookmarks = time.Minute
	}
	if options.Watching == nil {
		options.Watching = func(int) {}
	}
	if options.MaxListBytes == 0 {
		options.MaxListBytes = 256 << 20
	}
	return &Storage{
		store: config.Store, kind: config.Kind, codec: config.Codec, newObject: config.New, resource: config.GroupResource,
		prefix: "/" + config.Kind.Resource + "/", options: options,
	}, nil
}

type headOnlyKey struct{}

// WithHeadOnly tells reads with this context to leave payloads out: for tables and for metadata, which do not show them.
func WithHeadOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, headOnlyKey{}, true)
}

// HeadOnly tells whether reads with this context leave payloads out.
func HeadOnly(ctx context.Context) bool { return ctx.Value(headOnlyKey{}) != nil }

// Versioner implements storage.Interface.
func (s *Storage) Versioner() storage.Versioner { return s.versioner }

// ReadinessCheck implements storage.Interface. Whether the database answers is a check of the server.
func (s *Storage) ReadinessCheck() error { return nil }

// RequestWatchProgress implements storage.Interface. Only a Cacher asks for progress.
func (s *Storage) RequestWatchProgress(context.Context) error { return nil }

// EnableResourceSizeEstimation implements storage.Interface. Stats knows sizes without.
func (s *Storage) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }

// CompactRevision implements storage.Interface.
func (s *Storage) CompactRevision() int64 { return s.store.Compacted() }

// GetCurrentResourceVersion implements storage.Interface.
func (s *Storage) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	revision, err := s.store.Current(ctx)
	return uint64(revision), StatusOf(err)
}

// Stats implements storage.Interface.
func (s *Storage) Stats(ctx context.Context) (storage.Stats, error) {
	start, end := bounds(s.prefix)
	stats, err := s.store.Stats(ctx, mvcc.Range{Start: start, End: end})
	if err != nil || stats.Count == 0 {
		return storage.Stats{}, StatusOf(err)
	}
	return storage.Stats{ObjectCount: stats.Count, EstimatedAverageObjectSizeBytes: stats.Bytes / stats.Count}, nil
}

// key checks a key and gives it the form of the database's.
func (s *Storage) key(key string, recursive bool) (string, error) {
	return storage.PrepareKey(s.prefix, key, recursive)
}

// bounds are the first key with a prefix that ends in a slash, and the one behind the last.
func bounds(prefix string) (start, end string) {
	return prefix, prefix[:len(prefix)-1] + string(rune('/'+1))
}

// bounds are the keys that a request is about: those with a prefix, or one. Of a key that cannot be in the database it is
// none; which key that is, databases are not asked, because they refuse some texts.
func (s *Storage) bounds(key string, recursive bool) (start, end string) {
	switch {
	case !storable(key):
		return s.prefix, s.prefix
	case recursive:
		return bounds(key)
	}
	return key, behind(key)
}

// behind is the first text behind a key. No key holds a lower byte than its last: not even a space, with which MariaDB
// and MySQL fill the shorter of two texts to compare them.
func behind(key string) string { return key + "!" }

// maxKey is the longest key that every database indexes.
const maxKey = 768

// storable tells whether a key can be in the database. Names of objects are ASCII; a request may ask for others.
func storable(key string) bool {
	if len(key) > maxKey {
		return false
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return false
		}
	}
	return true
}

// nameOf is the last part of a key.
func nameOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// state is an object as it is, or is believed to be, in the database.
type state struct {
	obj      runtime.Object
	revision int64 // 0: there is none
	head     []byte
	sha      string
	damaged  bool
}

func (s *Storage) newFor(v reflect.Value) runtime.Object {
	if u, ok := reflect.TypeAssert[runtime.Unstructured](v.Addr()); ok {
		return u.NewEmptyInstance()
	}
	return reflect.New(v.Type()).Interface().(runtime.Object)
}

// present reads the state of a key.
func (s *Storage) present(ctx context.Context, key string, v reflect.Value, ignoreNotFound bool) (*state, error) {
	st := &state{obj: s.newFor(v)}
	var value *mvcc.Value
	if storable(key) {
		var err error
		if value, _, err = s.store.Get(ctx, key); err != nil {
			return nil, StatusOf(err)
		}
	}
	if value == nil {
		if !ignoreNotFound {
			return nil, storage.NewKeyNotFoundError(key, 0)
		}
		return st, runtime.SetZeroValue(st.obj)
	}
	st.revision, st.head, st.sha, st.damaged = value.Revision, value.Head, value.Sha, value.Damaged
	return st, s.decodeInto(value, st.obj)
}

// stateOf is the state that a caller believes the object to be in.
func (s *Storage) stateOf(obj runtime.Object) (*state, error) {
	revision, err := s.versioner.ObjectResourceVersion(obj)
	if err != nil {
		return nil, fmt.Errorf("read the resource version: %w", err)
	}
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return nil, fmt.Errorf("prepare the object: %w", err)
	}
	st := &state{obj: obj, revision: int64(revision)}
	var payload []byte
	if st.head, payload, err = s.encode(obj); err != nil {
		return nil, err
	}
	if payload != nil {
		st.sha = mvcc.Sum(payload)
	}
	return st, s.versioner.UpdateObject(obj, revision)
}

// encode returns the JSON of an object, and apart from it a payload that is large enough.
func (s *Storage) encode(obj runtime.Object) (head, payload []byte, err error) {
	data, err := runtime.Encode(s.codec, obj)
	if err != nil || s.kind.Payload == "" {
		return data, nil, err
	}
	head, payload, err = split(data, s.kind.Payload)
	if err != nil || len(payload) <= splitAbove {
		return data, nil, err
	}
	payload, err = canonical(payload)
	return head, payload, err
}

// decodeInto reads a value into an object.
func (s *Storage) decodeInto(value *mvcc.Value, into runtime.Object) error {
	if _, err := s.decode(value, into); err != nil {
		return err
	}
	return nil
}

func (s *Storage) decode(value *mvcc.Value, into runtime.Object) (runtime.Object, error) {
	data := value.Head
	if value.Payload != nil {
		var err error
		if data, err = join(value.Head, value.Payload, s.kind.Payload); err != nil {
			return nil, storage.NewInternalError(err)
		}
	}
	obj, _, err := s.codec.Decode(data, nil, into)
	if err != nil {
		return nil, storage.NewInternalError(fmt.Errorf("decode the stored object: %w", err))
	}
	return obj, s.versioner.UpdateObject(obj, uint64(value.Revision))
}

// toWrite is what the database keeps of an object that was encoded.
func (s *Storage) toWrite(obj runtime.Object, head, payload []byte) (*mvcc.State, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	to := &mvcc.State{
		Head: head, Payload: payload, Size: int64(len(head) + len(payload)), Kind: s.kind.Number,
		UID: string(accessor.GetUID()), Namespace: accessor.GetNamespace(), Name: accessor.GetName(), Labels: accessor.GetLabels(),
		Created: accessor.GetCreationTimestamp().Time,
	}
	if s.kind.Columns != nil {
		columns := s.kind.Columns(obj)
		to.Digest, to.Registry, to.Repository = columns[mvcc.DigestColumn], columns[mvcc.RegistryColumn], columns[mvcc.RepositoryColumn]
	}
	if s.kind.Index != nil {
		if to.Index, err = s.kind.Index(obj); err != nil {
			return nil, fmt.Errorf("index the object: %w", err)
		}
	}
	return to, nil
}

// Get implements storage.Interface.
func (s *Storage) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	wanted, err := s.minimum(opts.ResourceVersion)
	if err != nil {
		return err
	}
	if err := s.awaitFresh(ctx, wanted); err != nil {
		return err
	}
	var value *mvcc.Value
	if storable(key) {
		if value, _, err = s.store.Get(ctx, key); err != nil {
			return StatusOf(err)
		}
	}
	switch {
	case value == nil && opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	case value == nil:
		return storage.NewKeyNotFoundError(key, 0)
	case value.Damaged && !HeadOnly(ctx):
		return damaged(key)
	}
	return s.decodeInto(value, out)
}

// Create implements storage.Interface. Objects have no time to live.
func (s *Storage) Create(ctx context.Context, key string, obj, out runtime.Object, _ uint64) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	if !storable(key) {
		return storage.NewInvalidObjError(key, "must be ASCII and not longer than 768 characters")
	}
	if version, err := s.versioner.ObjectResourceVersion(obj); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return fmt.Errorf("prepare the object: %w", err)
	}
	head, payload, err := s.encode(obj)
	if err != nil {
		return err
	}
	to, err := s.toWrite(obj, head, payload)
	if err != nil {
		return err
	}
	outcome, err := s.store.Write(ctx, mvcc.Change{Key: key, To: to})
	switch {
	case err != nil:
		return StatusOf(err)
	case outcome.Exceeded != nil:
		return s.exceeded(to, outcome.Exceeded)
	case !outcome.Written:
		return storage.NewKeyExistsError(key, 0)
	case out == nil:
		return nil
	}
	return s.decodeInto(&mvcc.Value{Revision: outcome.Revision, Head: head, Payload: payload}, out)
}

// Delete implements storage.Interface.
func (s *Storage) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, suggestion runtime.Object, _ storage.DeleteOptions,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	v, err := conversion.EnforcePtr(out)
	if err != nil {
		return fmt.Errorf("delete: the object to be filled in: %w", err)
	}
	read := func() (*state, error) { return s.present(ctx, key, v, false) }
	st, current, err := s.first(suggestion, read)
	if err != nil {
		return err
	}
	for {
		err := preconditions.Check(key, st.obj)
		if err == nil {
			err = validate(ctx, st.obj)
		}
		if err != nil {
			if st, err = reread(st, current, err, read); err != nil {
				return err
			}
			current = true
			continue
		}
		outcome, err := s.store.Write(ctx, mvcc.Change{Key: key, From: st.revision})
		if err != nil {
			return StatusOf(err)
		}
		if outcome.Written {
			return s.fillDeleted(ctx, st, outcome.Revision, out)
		}
		if st, err = read(); err != nil {
			return err
		}
		current = true
	}
}

// fillDeleted answers a deletion: the last state, with the number of the deletion.
func (s *Storage) fillDeleted(ctx context.Context, st *state, revision int64, out runtime.Object) error {
	last := &mvcc.Value{Revision: revision, Head: st.head, Sha: st.sha, Damaged: st.damaged}
	if !HeadOnly(ctx) {
		// The change holds the payload until it is compacted; an answer without it would still be an answer.
		if err := s.store.Load(ctx, last); err != nil && !errors.Is(err, mvcc.ErrCompacted) {
			return StatusOf(err)
		}
	}
	return s.decodeInto(last, out)
}

// first is the state to begin with: the caller's suggestion, or the present one. A suggestion that does not say what it
// was read as is none.
func (s *Storage) first(suggestion runtime.Object, read func() (*state, error)) (st *state, current bool, err error) {
	if suggestion != nil {
		if st, err = s.stateOf(suggestion); err != nil || st.revision != 0 {
			return st, false, err
		}
	}
	st, err = read()
	return st, true, err
}

// reread gives a refusal a second chance where it was made of a state that may be stale. It returns the refusal if the
// state was the present one.
func reread(st *state, current bool, refusal error, read func() (*state, error)) (*state, error) {
	if current {
		return nil, refusal
	}
	fresh, err := read()
	if err != nil {
		return nil, err
	}
	if fresh.revision == st.revision {
		return nil, refusal
	}
	return fresh, nil
}

// GuaranteedUpdate implements storage.Interface.
func (s *Storage) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, suggestion runtime.Object,
) error {
	key, err := s.key(key, false)
	if err != nil {
		return err
	}
	v, err := conversion.EnforcePtr(destination)
	if err != nil {
		return fmt.Errorf("update: the object to be filled in: %w", err)
	}
	read := func() (*state, error) { return s.present(ctx, key, v, ignoreNotFound) }
	st, current, err := s.first(suggestion, read)
	if err != nil {
		return err
	}
	for {
		if st.damaged {
			return damaged(key)
		}
		updated, err := s.tryUpdate(key, st, preconditions, tryUpdate)
		if err != nil {
			if st, err = reread(st, current, err, read); err != nil {
				return err
			}
			current = true
			continue
		}
		done, err := s.write(ctx, key, st, current, updated, destination)
		if err != nil || done {
			return err
		}
		if st, err = read(); err != nil {
			return err
		}
		current = true
	}
}

// update is an object that a request wants to have stored.
type update struct {
	obj           runtime.Object
	head, payload []byte
	sha           string
}

func (s *Storage) tryUpdate(key string, st *state, preconditions *storage.Preconditions, try storage.UpdateFunc) (*update, error) {
	if err := preconditions.Check(key, st.obj); err != nil {
		return nil, err
	}
	obj, _, err := try(st.obj, storage.ResponseMeta{ResourceVersion: uint64(st.revision)})
	if err != nil {
		return nil, err
	}
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return nil, fmt.Errorf("prepare the object: %w", err)
	}
	u := &update{obj: obj}
	if u.head, u.payload, err = s.encode(obj); err != nil {
		return nil, err
	}
	if u.payload != nil {
		u.sha = mvcc.Sum(u.payload)
	}
	return u, nil
}

// write stores an update and answers it. It returns false if the state that the update was made from is not the present
// one. What changes nothing is not written; if the state was a suggestion, the present one has to be looked at first.
func (s *Storage) write(ctx context.Context, key string, st *state, current bool, u *update, destination runtime.Object) (bool, error) {
	answer := &mvcc.Value{Revision: st.revision, Head: u.head, Payload: u.payload}
	if st.revision != 0 && string(u.head) == string(st.head) && u.sha == st.sha {
		if !current {
			return false, nil
		}
		return true, s.decodeInto(answer, destination)
	}
	if !storable(key) {
		return true, storage.NewInvalidObjError(key, "must be ASCII and not longer than 768 characters")
	}
	to, err := s.toWrite(u.obj, u.head, u.payload)
	if err != nil {
		return true, err
	}
	outcome, err := s.store.Write(ctx, mvcc.Change{Key: key, From: st.revision, To: to})
	if outcome.Exceeded != nil {
		return true, s.exceeded(to, outcome.Exceeded)
	}
	if err != nil || !outcome.Written {
		return err != nil, StatusOf(err)
	}
	answer.Revision = outcome.Revision
	return true, s.decodeInto(answer, destination)
}

// minimum reads a resource version that an answer must not be older than.
func (s *Storage) minimum(resourceVersion string) (int64, error) {
	if resourceVersion == "" {
		return 0, nil
	}
	wanted, err := s.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		return 0, badVersion(err)
	}
	return int64(wanted), nil
}

// awaitFresh waits until the counter has reached a revision, for a bounded time.
func (s *Storage) awaitFresh(ctx context.Context, wanted int64) error {
	if wanted <= s.store.Revision() {
		return nil
	}
	current, err := s.store.Current(ctx)
	if err == nil && current < wanted {
		if _, err = s.store.WaitFor(ctx, wanted, s.options.WaitFresh); err == nil {
			current, err = s.store.Current(ctx)
		}
	}
	if err != nil {
		return StatusOf(err)
	}
	if current < wanted {
		return storage.NewTooLargeResourceVersionError(uint64(wanted), uint64(current), retryTooLarge)
	}
	return nil
}

// Key is the key of an object.
func (s *Storage) Key(namespace, name string) string {
	if namespace == "" {
		return s.prefix + name
	}
	return s.prefix + namespace + "/" + name
}

// ChangeTo is the change that makes an object what is stored, from the state that its resource version names; without one it
// creates the object. further is run in its transaction, behind what the kind keeps beside its objects; it may be nil.
// For objects that are written together with others: what a registry checks must have been checked.
func (s *Storage) ChangeTo(obj runtime.Object, further mvcc.Indexer) (mvcc.Change, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return mvcc.Change{}, err
	}
	key := s.Key(accessor.GetNamespace(), accessor.GetName())
	if !storable(key) {
		return mvcc.Change{}, storage.NewInvalidObjError(key, "must be ASCII and not longer than 768 characters")
	}
	from, err := s.versioner.ObjectResourceVersion(obj)
	if err != nil {
		return mvcc.Change{}, fmt.Errorf("read the resource version: %w", err)
	}
	if err := s.versioner.PrepareObjectForStorage(obj); err != nil {
		return mvcc.Change{}, fmt.Errorf("prepare the object: %w", err)
	}
	head, payload, err := s.encode(obj)
	if err != nil {
		return mvcc.Change{}, err
	}
	to, err := s.toWrite(obj, head, payload)
	if err != nil {
		return mvcc.Change{}, err
	}
	if own := to.Index; further != nil {
		to.Index = func(ctx context.Context, tx *sqldb.Tx, object int64, at time.Time) error {
			if own != nil {
				if err := own(ctx, tx, object, at); err != nil {
					return err
				}
			}
			return further(ctx, tx, object, at)
		}
	}
	return mvcc.Change{Key: key, From: int64(from), To: to}, nil
}
