// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Scan is what the queue needs of a Scan that waits or runs.
type Scan struct {
	UID             string
	Namespace, Name string
	ScanType        string
	// Labels are the labels of the Scan. The State keeps them and does not change them.
	Labels   map[string]string
	Priority int32
	Created  time.Time
	// Running says that the Scan has begun and holds a slot. It waits otherwise.
	Running bool
	// OutOfTurn says that the Scan was started by rule 3 of the package.
	OutOfTurn bool
}

// State is the listing of the Scans that wait or run. It is not safe for concurrent use.
type State struct {
	limits   Limits
	items    map[string]*item
	tenants  map[string]*tenant
	classes  map[classKey]*class
	counters map[Limit]*counter

	running, waiting, outOfTurn int

	// The rest is of the decision in the making. Its memory is reused.
	round  uint64
	turns  turns
	starts []Start
	taken  []*counter
	texts  strings.Builder
}

// item is a Scan of the listing.
type item struct {
	scan  Scan
	since int64 // when it was created, in a form that is compared fast
	rank  int32 // the priority that counts
	class *class
	round uint64 // the decision that lets it start
}

// tenant is a namespace with Scans.
type tenant struct {
	name    string
	limits  Tenant
	running int
	// waiting are in the order in which they start, unless unsorted says that they are
	// still to be sorted.
	waiting  []*item
	unsorted bool
	// eldest is the Scan that has waited longest; nil where it is still to be found.
	eldest *item

	// The rest is of the decision in the making.
	next  int // the first of waiting that may still start
	given int
}

// class is a set of Scans to which the same limits apply.
type class struct {
	key      classKey
	tenant   *tenant
	counters []*counter
	refs     int
	full     uint64 // the decision that found the class at a limit
}

type classKey struct{ namespace, scanType, targets string }

// counter counts the running Scans that one limit bounds.
type counter struct {
	limit Limit
	bound int
	used  int
	given int // in the decision in the making
	refs  int
}

// NewState returns the listing of Scans.
func NewState(limits Limits, scans ...Scan) *State {
	s := &State{limits: limits}
	s.reset(len(scans))
	items := make([]item, len(scans)) // at once, since one by one takes as long as the decision
	for i := range scans {
		s.put(&scans[i], &items[i], true)
	}
	return s
}

func (s *State) reset(size int) {
	s.items, s.tenants = make(map[string]*item, size), map[string]*tenant{}
	s.classes, s.counters = map[classKey]*class{}, map[Limit]*counter{}
	s.running, s.waiting, s.outOfTurn = 0, 0, 0
}

// SetLimits replaces the limits.
func (s *State) SetLimits(l Limits) {
	old := s.items
	s.limits = l
	s.reset(len(old))
	for _, it := range old {
		s.put(&it.scan, &item{}, true)
	}
}

// Put adds a Scan, or replaces it.
func (s *State) Put(scan Scan) { s.put(&scan, &item{}, false) }

// Load adds many Scans before the next decision: they are sorted then.
func (s *State) Load(scan Scan) { s.put(&scan, &item{}, true) }

// put lists a Scan; fresh is a Scan that is not listed yet.
func (s *State) put(scan *Scan, fresh *item, many bool) {
	it := s.items[scan.UID]
	if it != nil {
		s.unlist(it)
	} else {
		it = fresh
		s.items[scan.UID] = it
	}
	it.scan, it.since = *scan, scan.Created.UnixNano()
	s.list(it, many)
}

// Delete removes a Scan if it is listed.
func (s *State) Delete(uid string) {
	if it := s.items[uid]; it != nil {
		s.unlist(it)
		delete(s.items, uid)
	}
}

// Get returns a listed Scan.
func (s *State) Get(uid string) (Scan, bool) {
	if it := s.items[uid]; it != nil {
		return it.scan, true
	}
	return Scan{}, false
}

// Running is how many Scans run, Waiting how many wait.
func (s *State) Running() int { return s.running }

// Waiting is how many Scans wait.
func (s *State) Waiting() int { return s.waiting }

// Fits reports whether a waiting Scan could start without exceeding a limit.
func (s *State) Fits(uid string) bool {
	it := s.items[uid]
	return it != nil && !it.scan.Running && it.class.held() == nil
}

func (s *State) list(it *item, many bool) {
	t := s.tenant(it.scan.Namespace)
	it.class = s.class(t, &it.scan)
	it.class.refs++
	it.rank = 0
	if t.limits.ByPriority {
		it.rank = it.scan.Priority
		if m := t.limits.MaxPriority; m != nil {
			it.rank = min(it.rank, *m)
		}
	}
	if !it.scan.Running {
		s.waiting++
		t.insert(it, many)
		return
	}
	s.running++
	t.running++
	if it.scan.OutOfTurn {
		s.outOfTurn++
	}
	for _, c := range it.class.counters {
		c.used++
	}
}

func (s *State) unlist(it *item) {
	c := it.class
	t := c.tenant
	if it.scan.Running {
		s.running--
		t.running--
		if it.scan.OutOfTurn {
			s.outOfTurn--
		}
		for _, n := range c.counters {
			n.used--
		}
	} else {
		s.waiting--
		t.remove(it)
	}
	c.refs--
	if c.refs == 0 {
		s.dropClass(c)
	}
	if t.running == 0 && len(t.waiting) == 0 {
		delete(s.tenants, t.name)
	}
}

func (s *State) tenant(name string) *tenant {
	t := s.tenants[name]
	if t == nil {
		t = &tenant{name: name, limits: s.limits.of(name)}
		s.tenants[name] = t
	}
	return t
}

// class returns the class of a Scan, with the counters of all limits that apply to it.
func (s *State) class(t *tenant, scan *Scan) *class {
	key := classKey{namespace: t.name, targets: s.targets(t, scan)}
	if s.bounds(t, scan.ScanType) {
		key.scanType = scan.ScanType
	}
	if c := s.classes[key]; c != nil {
		return c
	}
	c := &class{key: key, tenant: t}
	for _, of := range []struct {
		namespace string
		bounds    *Bounds
	}{{t.name, &t.limits.Bounds}, {"", &s.limits.Cluster}} {
		if m := of.bounds.MaxRunning; m != nil {
			kind := ClusterLimit
			if of.namespace != "" {
				kind = NamespaceLimit
			}
			s.count(c, Limit{Kind: kind, Namespace: of.namespace}, *m)
		}
		if m, ok := of.bounds.ScanTypes[scan.ScanType]; ok {
			s.count(c, Limit{Kind: ScanTypeLimit, Namespace: of.namespace, Name: scan.ScanType}, m)
		}
		for label, m := range of.bounds.Targets {
			if value, ok := scan.Labels[label]; ok {
				s.count(c, Limit{Kind: TargetLimit, Namespace: of.namespace, Name: label, Value: value}, m)
			}
		}
	}
	slices.SortFunc(c.counters, compareCounters)
	s.classes[key] = c
	return c
}

// compareCounters puts first the limit that is named first to the user.
func compareCounters(a, b *counter) int {
	return cmp.Or(cmp.Compare(a.limit.Kind, b.limit.Kind), -strings.Compare(a.limit.Namespace, b.limit.Namespace), strings.Compare(a.limit.Name, b.limit.Name))
}

func (s *State) count(c *class, l Limit, bound int32) {
	n := s.counters[l]
	if n == nil {
		n = &counter{limit: l, bound: int(bound)}
		s.counters[l] = n
	}
	n.refs++
	c.counters = append(c.counters, n)
}

func (s *State) dropClass(c *class) {
	delete(s.classes, c.key)
	for _, n := range c.counters {
		n.refs--
		if n.refs == 0 {
			delete(s.counters, n.limit)
		}
	}
}

// bounds reports whether a limit names a scan type.
func (s *State) bounds(t *tenant, scanType string) bool {
	_, cluster := s.limits.Cluster.ScanTypes[scanType]
	_, own := t.limits.ScanTypes[scanType]
	return cluster || own
}

// targets writes down the labels of a Scan that limits name.
func (s *State) targets(t *tenant, scan *Scan) string {
	if len(s.limits.Cluster.Targets) == 0 && len(t.limits.Targets) == 0 || len(scan.Labels) == 0 {
		return ""
	}
	s.texts.Reset()
	for _, targets := range []map[string]int32{s.limits.Cluster.Targets, t.limits.Targets} {
		for _, label := range slices.Sorted(maps.Keys(targets)) {
			if value, ok := scan.Labels[label]; ok {
				s.texts.WriteString(label + "=" + value + ",") // neither may contain a comma
			}
		}
		s.texts.WriteByte(';')
	}
	return s.texts.String()
}

// held returns the limit that keeps the Scans of a class from starting, nil where none does.
func (c *class) held() *counter {
	for _, n := range c.counters {
		if n.used+n.given >= n.bound {
			return n
		}
	}
	return nil
}

// compare is the order in which the Scans of a namespace start.
func compare(a, b *item) int {
	if a.rank != b.rank {
		return cmp.Compare(b.rank, a.rank)
	}
	return compareAge(a, b)
}

// compareAge puts the older Scan first. Scans of the same second are ordered by name, as their creator orders them.
func compareAge(a, b *item) int {
	if a.since != b.since {
		return cmp.Compare(a.since, b.since)
	}
	if c := strings.Compare(a.scan.Name, b.scan.Name); c != 0 {
		return c
	}
	return strings.Compare(a.scan.UID, b.scan.UID)
}

func (t *tenant) insert(it *item, many bool) {
	n := len(t.waiting)
	if t.eldest != nil && compareAge(it, t.eldest) < 0 {
		t.eldest = it
	}
	switch {
	case n == 0 || !t.unsorted && compare(t.waiting[n-1], it) <= 0, t.unsorted:
		t.waiting = append(t.waiting, it)
	case many:
		t.waiting = append(t.waiting, it)
		t.unsorted = true
	default:
		at, _ := slices.BinarySearchFunc(t.waiting, it, compare)
		t.waiting = slices.Insert(t.waiting, at, it)
	}
}

func (t *tenant) remove(it *item) {
	t.sort()
	if t.eldest == it {
		t.eldest = nil
	}
	at, found := slices.BinarySearchFunc(t.waiting, it, compare)
	switch {
	case !found:
	case at == 0: // most leave from the front
		t.waiting[0] = nil
		t.waiting = t.waiting[1:]
	default:
		t.waiting = slices.Delete(t.waiting, at, at+1)
	}
}

func (t *tenant) sort() {
	if t.unsorted {
		slices.SortFunc(t.waiting, compare)
		t.unsorted = false
	}
}

// oldest returns the Scan that has waited longest.
func (t *tenant) oldest() *item {
	if !t.limits.ByPriority {
		return t.waiting[0]
	}
	if t.eldest == nil {
		t.eldest = slices.MinFunc(t.waiting, compareAge)
	}
	return t.eldest
}
