// SPDX-License-Identifier: Apache-2.0

package results

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/discovery"
	"github.com/scanyard/scanyard/registry/internal/manifest"
)

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func TestNames(t *testing.T) {
	for name, tc := range map[string]struct {
		id   ImageID
		want string
	}{
		"Tag":       {ImageID{"prod/nginx", "v1.19.0", digest("a"), "linux/amd64"}, "nginx-v1.19.0-amd64"},
		"Digest":    {ImageID{"prod/nginx", "", digest("a"), "linux/arm/v7"}, "nginx-aaaaaaaaaaaa-arm"},
		"UpperCase": {ImageID{"api", "RC_1", digest("a"), "linux/arm64"}, "api-rc-1-arm64"},
		"Long":      {ImageID{"api", strings.Repeat("x", 128), digest("a"), "linux/arm64"}, "api-" + strings.Repeat("x", 36)},
		"OddDots":   {ImageID{"api", "1..2.-3", digest("a"), "windows/amd64:10.0.1"}, "api-1--2--3-amd64"},
		"CutAtADot": {ImageID{"api", strings.Repeat("x", 35) + ".9", digest("a"), "linux/amd64"}, "api-" + strings.Repeat("x", 35)},
		"AllOdd":    {ImageID{"_", "_", digest("a"), "_/_"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ImageName("uid", tc.id)
			if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
				t.Errorf("%s: %v", got, problems)
			}
			if readable := strings.TrimSuffix(got[:len(got)-hashDigits], "-"); readable != tc.want {
				t.Errorf("%s begins with %s, want %s", got, readable, tc.want)
			}
		})
	}
	// The hash is that of the contract: other programs may compute it. printf 'uid\0a/b\0t\0sha256:…\0linux/amd64' | sha256sum
	if got, want := ImageName("uid", ImageID{"a/b", "t", digest("0"), "linux/amd64"}), "b-t-amd64-ac6449b79cc02b6d0e88"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := RepositoryName("uid", "a/b"), "a-b-0021217adaa57ccf8696"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := RepositoryName("uid", ""); !strings.HasPrefix(got, "catalog-") {
		t.Errorf("the catalogue is called %s", got)
	}
}

func TestNamesAreDistinct(t *testing.T) {
	base := ImageID{"a", "t", digest("a"), "linux/amd64"}
	seen := map[string]bool{ImageName("uid", base): true, ImageName("other", base): true}
	for _, change := range []func(*ImageID){
		func(i *ImageID) { i.Repository = "b" }, func(i *ImageID) { i.Tag = "u" }, func(i *ImageID) { i.Digest = digest("b") },
		func(i *ImageID) { i.Platform = "linux/arm64" },
	} {
		id := base
		change(&id)
		seen[ImageName("uid", id)] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d names, want 6", len(seen))
	}
}

func TestLabels(t *testing.T) {
	got := Labels("prod", "shop", "prod/nginx", "v1.19.0", digest("a"))
	want := map[string]string{
		LabelImage: "nginx_v1.19.0", LabelDigest: "sha256-" + strings.Repeat("a", 56), LabelRegistry: "prod", LabelRegistryNamespace: "shop", LabelRepository: "prod_nginx",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	for _, labels := range []map[string]string{
		got, Labels(strings.Repeat("r", 253), "shop", strings.Repeat("a/", 120)+"b", strings.Repeat("-_.", 42), digest("a")), Labels("prod", "shop", "", "", ""),
		Labels("prod", "shop", "a", "", digest("b")),
	} {
		for key, value := range labels {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 || value == "" {
				t.Errorf("%s=%s: %v", key, value, problems)
			}
		}
	}
}

var prod = Registry{Namespace: "shop", Name: "prod", UID: "uid", Host: "r.example.com"}

// found is a repository with a tag of two platforms, one of one image, and one that is left out.
func found(change ...func(*discovery.Result)) discovery.Result {
	r := discovery.Result{
		Selected: true, Name: "api", Complete: true,
		Tags: []discovery.Tag{
			{Name: "1.0", Digest: digest("1"), Selected: true, Images: []discovery.Image{{Digest: digest("a"), Platform: "linux/amd64"}, {Digest: digest("b"), Platform: "linux/arm64"}}},
			{Name: "2.0", Digest: digest("c"), Selected: true, Images: []discovery.Image{{Digest: digest("c"), Platform: "linux/amd64"}}},
			{Name: "dev", Digest: digest("d"), Reason: "Excluded"},
		},
		Resolved: map[string]manifest.Answer{
			digest("1"): {Images: []manifest.Image{
				{Digest: digest("a"), Platform: "linux/amd64", Config: digest("e"), CompressedBytes: 7, Created: "2025-02-03T04:05:06.7+02:00", Flags: []string{"ForeignLayers"}, Content: manifest.Content{
					MediaType: "m", User: "me", Labels: map[string]string{"a": "b"}, Layers: []manifest.Layer{{Digest: digest("f"), DiffID: digest("9"), MediaType: "l", Bytes: 7, Command: "RUN"}},
				}},
				{Digest: digest("b"), Platform: "linux/arm64"},
			}},
			digest("c"): {Images: []manifest.Image{{Digest: digest("c"), Platform: "linux/amd64"}}},
		},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

// stored are the Images of a plan as the reports API has them afterwards.
func stored(c Changes) []reportsv1.Image {
	list := append([]reportsv1.Image{}, c.Create...)
	for i := range list {
		list[i].Status.Presence = reportsv1.ImagePresent
	}
	return list
}

func TestNewImages(t *testing.T) {
	c := Plan(prod, found(), nil)
	if len(c.Create) != 3 || c.Found != 3 || c.Unchanged != 0 || len(c.Change)+len(c.Unread) != 0 {
		t.Fatalf("%d to create, %d found, %d unchanged, change %v, unread %v", len(c.Create), c.Found, c.Unchanged, c.Change, c.Unread)
	}
	created := metav1.Date(2025, 2, 3, 2, 5, 6, 0, time.UTC)
	want := reportsv1.Image{
		TypeMeta: metav1.TypeMeta{APIVersion: "reports.scanyard.io/v1alpha1", Kind: "Image"},
		ObjectMeta: metav1.ObjectMeta{
			Name: ImageName("uid", ImageID{"api", "1.0", digest("a"), "linux/amd64"}), Namespace: "shop", Labels: Labels("prod", "shop", "api", "1.0", digest("a")),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "registry.scanyard.io/v1alpha1", Kind: "Registry", Name: "prod", UID: "uid", Controller: new(true)}},
		},
		Spec: reportsv1.ImageSpec{
			Registry: reportsv1.RegistryRef{Name: "prod", UID: "uid", Host: "r.example.com"}, Repository: "api", Tag: "1.0", Digest: digest("a"), IndexDigest: digest("1"),
			Platform: "linux/amd64", MediaType: "m", ConfigDigest: digest("e"), Created: &created, CompressedBytes: 7, Flags: []string{"ForeignLayers"},
			Layers: []reportsv1.ImageLayer{{Digest: digest("f"), DiffID: digest("9"), MediaType: "l", Bytes: 7, Command: "RUN"}},
			Config: &reportsv1.ImageConfig{User: "me", Labels: map[string]string{"a": "b"}},
		},
	}
	if diff := cmp.Diff(want, c.Create[0]); diff != "" {
		t.Errorf("image (-want +got):\n%s", diff)
	}
	if c.Create[2].Spec.IndexDigest != "" {
		t.Error("an image without an index has one")
	}
	if len(c.Names["1.0"]) != 2 || len(c.Names["2.0"]) != 1 || len(c.Names["dev"]) != 0 {
		t.Errorf("names %v", c.Names)
	}
}

func TestPlan(t *testing.T) {
	first := stored(Plan(prod, found(), nil))
	moved := func(r *discovery.Result) {
		r.Tags[1] = discovery.Tag{Name: "2.0", Digest: digest("8"), Selected: true, Images: []discovery.Image{{Digest: digest("8"), Platform: "linux/amd64"}}}
		r.Resolved = map[string]manifest.Answer{digest("8"): {Images: []manifest.Image{{Digest: digest("8"), Platform: "linux/amd64"}}}}
	}
	gone := func(r *discovery.Result) { r.Tags = r.Tags[:1] }
	two := first[2].Name
	for name, tc := range map[string]struct {
		found    discovery.Result
		existing []reportsv1.Image
		create   int
		change   []Change
		unread   []string
	}{
		"Unchanged":        {found: found(func(r *discovery.Result) { r.Resolved = nil }), existing: first},
		"TagMoved":         {found(moved), first, 1, []Change{{two, reportsv1.ImageSuperseded, ReasonTagMoved}}, nil},
		"TagMovedBack":     {found(), stored(Plan(prod, found(moved), nil)), 3, []Change{{ImageName("uid", ImageID{"api", "2.0", digest("8"), "linux/amd64"}), reportsv1.ImageSuperseded, ReasonTagMoved}}, nil},
		"TagGone":          {found(gone), first, 0, []Change{{two, reportsv1.ImageGone, ReasonTagGone}}, nil},
		"IncompleteList":   {found(gone, func(r *discovery.Result) { r.Complete = false }), first, 0, nil, nil},
		"RepositoryLeft":   {discovery.Result{Name: "api", Complete: true}, first[2:], 0, []Change{{two, reportsv1.ImageGone, ReasonNotSelected}}, nil},
		"RepositoryGone":   {discovery.Result{Selected: true, Name: "api", Complete: true}, first[2:], 0, []Change{{two, reportsv1.ImageGone, ReasonTagGone}}, nil},
		"FilterChanged":    {found(func(r *discovery.Result) { r.Tags[1].Selected, r.Tags[1].Images = false, nil }), first, 0, []Change{{two, reportsv1.ImageGone, ReasonNotSelected}}, nil},
		"DeletedByAPerson": {found(func(r *discovery.Result) { r.Resolved = nil }), first[1:], 0, nil, []string{digest("1")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := Plan(prod, tc.found, tc.existing)
			if len(c.Create) != tc.create {
				t.Errorf("%d Images to create, want %d", len(c.Create), tc.create)
			}
			if diff := cmp.Diff(tc.change, c.Change); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.unread, c.Unread); diff != "" {
				t.Errorf("unread (-want +got):\n%s", diff)
			}
		})
	}
}

// TestImagesComeBack: an Image that has left and is found again is Present again, and is not left twice.
func TestImagesComeBack(t *testing.T) {
	images := stored(Plan(prod, found(), nil))
	for i := range images {
		images[i].Status.Presence = reportsv1.ImageGone
	}
	if c := Plan(prod, found(), images); len(c.Change) != 3 || c.Change[0].Presence != reportsv1.ImagePresent || len(c.Create) != 0 {
		t.Errorf("changes %v", c.Change)
	}
	if c := Plan(prod, discovery.Result{Selected: true, Name: "api", Complete: true}, images); len(c.Change) != 0 {
		t.Errorf("changes %v", c.Change)
	}
	images[0].Spec.External, images[0].Status.Presence = true, reportsv1.ImagePresent
	if c := Plan(prod, discovery.Result{Selected: true, Name: "api", Complete: true}, images[:1]); len(c.Change) != 0 {
		t.Errorf("an image that was brought along leaves: %v", c.Change)
	}
}
