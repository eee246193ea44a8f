// SPDX-License-Identifier: Apache-2.0

package aws

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// maxRemembered bounds what an annotation holds. Of an image that runs in more
	// containers it holds some, and that there are more.
	maxRemembered = 1000
	// goneFor is how long it is remembered that a container has ended, at least.
	goneFor = 12 * time.Hour
	// recentFor is how long a listing of ECS may lag behind its events.
	recentFor = 5 * time.Minute
	// maxGone bounds how many ended containers are remembered, twice.
	maxGone = 200_000
	// entrySize is that of a container in an annotation: eight bytes of a hash, four of a version.
	entrySize = 12
	// moreKey is the key for the containers that did not fit into an annotation.
	moreKey = "more"
)

type (
	// imageKey identifies an image.
	imageKey string
	// containerKey identifies a container by a hash of its ARN, which is far longer.
	containerKey [8]byte
)

func keyOf(arn string) containerKey {
	sum := sha256.Sum256([]byte(arn))
	return containerKey(sum[:8])
}

// Target is what templates see as .Target: the container in which an image was first seen.
type Target struct {
	// Id is the ARN of the container.
	Id string
	// Image is what it runs.
	Image Image
}

// running is an image, and where it runs.
type running struct {
	target Target
	// containers are the versions of their tasks, by cluster and container.
	containers map[string]map[containerKey]uint32
	// more says that there are containers that are not listed: the annotation had no room.
	more bool
}

func (r *running) runsOnlyIn(clusters map[string]bool) bool {
	for c := range r.containers {
		if !clusters[c] {
			return false
		}
	}
	return true
}

func (r *running) count() int {
	n := 0
	for _, c := range r.containers {
		n += len(c)
	}
	return n
}

// state is what is known of the clusters. It has no client and no clock: the loop owns
// it, events and listings change it, and it says which images are touched.
type state struct {
	images map[imageKey]*running
	places map[containerKey]place
	// gone are versions at which containers have ended, so that an event which comes late starts nothing.
	gone generations
	// recent are containers of recent events: a listing may not have them yet.
	recent generations
}

type place struct {
	image   imageKey
	cluster string
}

func newState() *state {
	return &state{
		images: map[imageKey]*running{}, places: map[containerKey]place{},
		gone: generations{lasts: goneFor}, recent: generations{lasts: recentFor},
	}
}

// outcome is what an event has changed.
type outcome struct {
	touched []imageKey
	// stale counts containers of which something newer is known.
	stale int
	// errs is about containers that make no sense; the others have been taken in.
	errs error
}

// apply takes an event in. Doing it twice changes nothing.
func (s *state) apply(t task, now time.Time) outcome {
	var o outcome
	version := clamp(t.Version)
	for _, c := range t.Containers {
		touched, stale, err := s.applyContainer(t, c, version, now)
		if err != nil {
			o.errs = errors.Join(o.errs, fmt.Errorf("container %q: %w", c.ARN, err))
		}
		if stale {
			o.stale++
		}
		o.touched = append(o.touched, touched...)
	}
	slices.Sort(o.touched)
	o.touched = slices.Compact(o.touched)
	return o
}

func (s *state) applyContainer(t task, c container, version uint32, now time.Time) (touched []imageKey, stale bool, err error) {
	if c.ARN == "" {
		return nil, false, errors.New("the event does not say which container it is about: containerArn is empty")
	}
	key := keyOf(c.ARN)
	if version != 0 && version < s.version(key) {
		return nil, true, nil
	}
	status := c.LastStatus
	if t.LastStatus == containerStopped { // whatever its containers were last seen doing
		status = containerStopped
	}
	switch status {
	case containerRunning:
		img, err := newImage(c.Image, c.Digest)
		if err != nil {
			return nil, false, err
		}
		s.recent.put(key, version, now)
		return s.put(t.ClusterARN, key, version, Target{Id: c.ARN, Image: img}), false, nil
	case containerPending, containerStopped:
		touched = s.forget(key)
		if version != 0 {
			s.gone.put(key, version, now)
		}
		return touched, false, nil
	default:
		return nil, false, fmt.Errorf("lastStatus is %q, not %s, %s or %s", status, containerPending, containerRunning, containerStopped)
	}
}

// version is the newest known of a container.
func (s *state) version(key containerKey) uint32 {
	v := s.gone.get(key)
	if p, ok := s.places[key]; ok {
		v = max(v, s.images[p.image].containers[p.cluster][key])
	}
	return v
}

// put says that a container runs, and which images that concerns.
func (s *state) put(cluster string, key containerKey, version uint32, target Target) []imageKey {
	image := target.Image.key()
	var touched []imageKey
	if p, ok := s.places[key]; ok && (p.image != image || p.cluster != cluster) {
		touched = s.forget(key) // seen before its digest was known, for example
	}
	r := s.image(target)
	if r.containers[cluster] == nil {
		r.containers[cluster] = map[containerKey]uint32{}
	}
	r.containers[cluster][key] = version
	s.places[key] = place{image: image, cluster: cluster}
	return append(touched, image)
}

// image is what is known of a target's image.
func (s *state) image(target Target) *running {
	key := target.Image.key()
	if s.images[key] == nil {
		s.images[key] = &running{target: target, containers: map[string]map[containerKey]uint32{}}
	}
	return s.images[key]
}

// remembersNotAll says that an image runs in further, unknown containers.
func (s *state) remembersNotAll(target Target) { s.image(target).more = true }

// forget says that a container does not run, and which images that concerns.
func (s *state) forget(key containerKey) []imageKey {
	p, ok := s.places[key]
	if !ok {
		return nil
	}
	delete(s.places, key)
	r := s.images[p.image]
	delete(r.containers[p.cluster], key)
	if len(r.containers[p.cluster]) == 0 {
		delete(r.containers, p.cluster)
	}
	if len(r.containers) == 0 && !r.more {
		delete(s.images, p.image)
	}
	return []imageKey{p.image}
}

// listing is what ECS says runs in some clusters.
type listing struct {
	clusters []string
	tasks    []task
}

// applyListing makes the state agree with a listing. Containers of clusters that were not listed stay,
// and so do the containers of events since shortly before the listing.
func (s *state) applyListing(l listing, now time.Time) outcome {
	var o outcome
	listed := map[containerKey]bool{}
	for _, t := range l.tasks {
		running := t
		running.Containers = slices.DeleteFunc(slices.Clone(t.Containers), func(c container) bool {
			return c.ARN == "" || c.LastStatus != containerRunning || t.LastStatus == containerStopped
		})
		for _, c := range running.Containers {
			listed[keyOf(c.ARN)] = true
		}
		of := s.apply(running, now)
		o.touched, o.stale, o.errs = append(o.touched, of.touched...), o.stale+of.stale, errors.Join(o.errs, of.errs)
	}
	clusters := map[string]bool{}
	for _, c := range l.clusters {
		clusters[c] = true
	}
	for key, p := range maps.Clone(s.places) {
		if clusters[p.cluster] && !listed[key] && !s.recent.has(key, now) {
			s.gone.put(key, s.version(key)+1, now)
			o.touched = append(o.touched, s.forget(key)...)
		}
	}
	o.touched = append(o.touched, s.endMore(clusters)...)
	slices.Sort(o.touched)
	o.touched = slices.Compact(o.touched)
	return o
}

// endMore says that all containers of these clusters are known now, and which images that
// concerns: what was not remembered has been listed, or is gone.
func (s *state) endMore(clusters map[string]bool) []imageKey {
	var touched []imageKey
	for image, r := range s.images {
		if !r.more || !r.runsOnlyIn(clusters) {
			continue
		}
		r.more = false
		touched = append(touched, image)
		if len(r.containers) == 0 {
			delete(s.images, image)
		}
	}
	return touched
}

func clamp(version int64) uint32 { return uint32(min(max(version, 0), math.MaxUint32-1)) }

// encodeContainers makes the text of the annotation that remembers where an image runs.
func (r *running) encodeContainers() (string, error) {
	room, more := maxRemembered, r.more
	text := map[string]string{}
	for _, cluster := range slices.Sorted(maps.Keys(r.containers)) {
		members := r.containers[cluster]
		keys := slices.SortedFunc(maps.Keys(members), func(a, b containerKey) int { return slices.Compare(a[:], b[:]) })
		if len(keys) > room {
			keys, more = keys[:room], true
		}
		room -= len(keys)
		raw := make([]byte, 0, entrySize*len(keys))
		for _, k := range keys {
			raw = binary.BigEndian.AppendUint32(append(raw, k[:]...), members[k])
		}
		if len(raw) > 0 {
			text[cluster] = base64.RawStdEncoding.EncodeToString(raw)
		}
	}
	if more {
		text[moreKey] = ""
	}
	out, err := json.Marshal(text)
	return string(out), err
}

// decodeContainers reads what encodeContainers has written.
func decodeContainers(text string) (containers map[string]map[containerKey]uint32, more bool, err error) {
	var encoded map[string]string
	if err := json.Unmarshal([]byte(text), &encoded); err != nil {
		return nil, false, err
	}
	_, more = encoded[moreKey]
	delete(encoded, moreKey)
	containers = map[string]map[containerKey]uint32{}
	for cluster, entries := range encoded {
		raw, err := base64.RawStdEncoding.DecodeString(entries)
		if err != nil {
			return nil, false, err
		}
		if len(raw)%entrySize != 0 {
			return nil, false, fmt.Errorf("%d bytes are not a list of containers", len(raw))
		}
		containers[cluster] = map[containerKey]uint32{}
		for entry := range slices.Chunk(raw, entrySize) {
			containers[cluster][containerKey(entry[:8])] = binary.BigEndian.Uint32(entry[8:])
		}
	}
	return containers, more, nil
}

// generations remembers versions for a time between lasts and twice that, or until there
// are too many. The zero value but for lasts is ready.
type generations struct {
	lasts      time.Duration
	young, old map[containerKey]uint32
	since      time.Time
}

func (g *generations) put(key containerKey, version uint32, now time.Time) {
	g.turn(now)
	if g.young == nil {
		g.young = map[containerKey]uint32{}
	}
	g.young[key] = max(version, g.get(key))
}

func (g *generations) get(key containerKey) uint32 { return max(g.young[key], g.old[key]) }

// has says whether a key was put in, in a time of lasts before now at least.
func (g *generations) has(key containerKey, now time.Time) bool {
	g.turn(now)
	_, young := g.young[key]
	_, old := g.old[key]
	return young || old
}

func (g *generations) turn(now time.Time) {
	age := now.Sub(g.since)
	if age < g.lasts && len(g.young) < maxGone {
		return
	}
	g.old, g.young, g.since = g.young, nil, now
	if age >= 2*g.lasts {
		g.old = nil
	}
}
