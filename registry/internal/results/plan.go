// SPDX-License-Identifier: Apache-2.0

package results

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/discovery"
	"github.com/scanyard/scanyard/registry/internal/manifest"
)

// The reasons of Images that have left.
const (
	// ReasonTagMoved: the tag points to another image.
	ReasonTagMoved = "TagMoved"
	// ReasonTagGone: the registry has the tag no more.
	ReasonTagGone = "TagGone"
	// ReasonNotSelected: the filter does not take the tag or the platform any more.
	ReasonNotSelected = "NotSelected"
)

// Registry is where something was found.
type Registry struct{ Namespace, Name, UID, Host string }

// Change is a new presence of an Image.
type Change struct {
	Name     string
	Presence reportsv1.ImagePresence
	Reason   string
}

// Changes are what a discovery has to write.
type Changes struct {
	// Create are new Images. Each is Present and Pending; FirstSeen tells since when.
	Create []reportsv1.Image
	// Change are Images that have left, or are there again.
	Change []Change
	// Unread are digests of selected tags of which only names are known: they have to be read again before their Images can be made.
	Unread []string
	// Found are the selected images, Unchanged those that are as they were.
	Found, Unchanged int
	// Names are those of the images of a tag, "" for those that are named by their digest alone.
	Names map[string][]string
}

// Plan says what a discovery has to write, given the Images that there are of this repository of the Registry.
func Plan(registry Registry, found discovery.Result, existing []reportsv1.Image) Changes {
	p := plan{registry: registry, repository: found.Name, known: map[string]*reportsv1.Image{}, wanted: map[string]bool{}, details: map[string]manifest.Image{}}
	p.Names = map[string][]string{}
	for i := range existing {
		p.known[existing[i].Name] = &existing[i]
	}
	for _, answer := range found.Resolved {
		for _, image := range answer.Images {
			p.details[image.Digest+" "+image.Platform] = image
		}
	}
	for _, tag := range found.Tags {
		if tag.Selected {
			p.take(tag)
		}
	}
	if found.Complete {
		p.leave(found)
	}
	slices.Sort(p.Unread)
	p.Unread = slices.Compact(p.Unread)
	return p.Changes
}

type plan struct {
	Changes

	registry   Registry
	repository string
	known      map[string]*reportsv1.Image
	wanted     map[string]bool
	details    map[string]manifest.Image
}

// take plans the images of a selected tag.
func (p *plan) take(tag discovery.Tag) {
	for _, image := range tag.Images {
		id := ImageID{p.repository, tag.Name, image.Digest, image.Platform}
		name := ImageName(p.registry.UID, id)
		p.Names[tag.Name] = append(p.Names[tag.Name], name)
		if p.wanted[name] {
			continue
		}
		p.wanted[name] = true
		p.Found++
		known, exists := p.known[name]
		details, read := p.details[image.Digest+" "+image.Platform]
		switch {
		case exists && known.Status.Presence == reportsv1.ImagePresent:
			p.Unchanged++
		case exists:
			p.Change = append(p.Change, Change{Name: name, Presence: reportsv1.ImagePresent})
		case read:
			p.Create = append(p.Create, p.image(name, id, tag, details))
		default:
			p.Unread = append(p.Unread, tag.Digest)
		}
	}
}

// leave plans the Images that were not found.
func (p *plan) leave(found discovery.Result) {
	tags := map[string]discovery.Tag{}
	for _, tag := range found.Tags {
		tags[tag.Name] = tag
	}
	for _, name := range slices.Sorted(maps.Keys(p.known)) {
		image := p.known[name]
		if p.wanted[name] || image.Spec.External {
			continue
		}
		change := Change{Name: name, Presence: reportsv1.ImageGone, Reason: ReasonNotSelected}
		tag, listed := tags[image.Spec.Tag]
		switch {
		case !found.Selected:
		case !listed:
			change.Reason = ReasonTagGone
		case tag.Digest != cmp.Or(image.Spec.IndexDigest, image.Spec.Digest):
			change.Presence, change.Reason = reportsv1.ImageSuperseded, ReasonTagMoved
		}
		if image.Status.Presence != change.Presence {
			p.Change = append(p.Change, change)
		}
	}
}

// image makes an Image.
func (p *plan) image(name string, id ImageID, tag discovery.Tag, m manifest.Image) reportsv1.Image {
	i := reportsv1.Image{
		TypeMeta: metav1.TypeMeta{APIVersion: reportsv1.SchemeGroupVersion.String(), Kind: "Image"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: p.registry.Namespace, Labels: Labels(p.registry.Name, p.registry.Namespace, id.Repository, id.Tag, id.Digest),
			OwnerReferences: []metav1.OwnerReference{Owner(p.registry)},
		},
		Spec: reportsv1.ImageSpec{
			Registry:   reportsv1.RegistryRef{Name: p.registry.Name, UID: p.registry.UID, Host: p.registry.Host},
			Repository: id.Repository, Tag: id.Tag, Digest: id.Digest, Platform: id.Platform, MediaType: m.Content.MediaType, ConfigDigest: m.Config,
			CompressedBytes: m.CompressedBytes, Flags: m.Flags,
		},
	}
	if tag.Digest != id.Digest {
		i.Spec.IndexDigest = tag.Digest
	}
	if created, err := time.Parse(time.RFC3339Nano, m.Created); err == nil {
		i.Spec.Created = &metav1.Time{Time: created.UTC().Truncate(time.Second)}
	}
	for _, l := range m.Content.Layers {
		i.Spec.Layers = append(i.Spec.Layers, reportsv1.ImageLayer{Digest: l.Digest, DiffID: l.DiffID, MediaType: l.MediaType, Bytes: l.Bytes, Command: l.Command})
	}
	if m.Content.User != "" || len(m.Content.Labels) > 0 {
		i.Spec.Config = &reportsv1.ImageConfig{User: m.Content.User, Labels: m.Content.Labels}
	}
	return i
}

// Owner refers to the Registry, so that nothing of it outlives it.
func Owner(r Registry) metav1.OwnerReference {
	version := registryv1alpha1.SchemeGroupVersion.String()
	return metav1.OwnerReference{APIVersion: version, Kind: "Registry", Name: r.Name, UID: types.UID(r.UID), Controller: new(true)}
}

// NewRepository makes the item of a repository, or of the catalogue where repository is "".
func NewRepository(r Registry, repository string) reportsv1.Repository {
	return reportsv1.Repository{
		TypeMeta: metav1.TypeMeta{APIVersion: reportsv1.SchemeGroupVersion.String(), Kind: "Repository"},
		ObjectMeta: metav1.ObjectMeta{
			Name: RepositoryName(r.UID, repository), Namespace: r.Namespace, Labels: Labels(r.Name, r.Namespace, repository, "", ""),
			OwnerReferences: []metav1.OwnerReference{Owner(r)},
		},
		Spec: reportsv1.RepositorySpec{Registry: reportsv1.RegistryRef{Name: r.Name, UID: r.UID, Host: r.Host}, Repository: repository},
	}
}
