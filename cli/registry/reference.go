// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/cli/session"
)

// reference is an image as people write it: [HOST/]REPOSITORY[:TAG][@DIGEST].
type reference struct {
	path, tag, digest string
}

func parseReference(text string) reference {
	var r reference
	r.path, r.digest, _ = strings.Cut(text, "@")
	if i := strings.LastIndexByte(r.path, ':'); i > strings.LastIndexByte(r.path, '/') {
		r.path, r.tag = r.path[:i], r.path[i+1:]
	}
	return r
}

// names tells whether the reference means a repository of a host.
func (r reference) names(host, repository string) bool {
	paths := []string{repository, host + "/" + repository}
	if isDockerHub(host) {
		short := strings.TrimPrefix(repository, "library/")
		paths = append(paths, short, "docker.io/"+short, "docker.io/"+repository)
	}
	return slices.Contains(paths, r.path)
}

func isDockerHub(host string) bool {
	return host == "registry-1.docker.io" || host == "docker.io" || host == "index.docker.io"
}

// selector has the field that is looked for.
func (r reference) selector() fields.Set {
	if r.digest == "" && r.tag != "" {
		return fields.Set{"spec.tag": r.tag}
	}
	return fields.Set{}
}

// fits tells whether an Image is one that the reference means.
func (r reference) fits(image *reportsv1.Image) bool {
	spec := &image.Spec
	return r.names(spec.Registry.Host, spec.Repository) && (r.tag == "" || r.tag == spec.Tag) &&
		(r.digest == "" || r.digest == spec.Digest || r.digest == spec.IndexDigest)
}

// called is an image as people write it.
func called(image *reportsv1.Image) string {
	spec := &image.Spec
	text := spec.Repository
	switch {
	case isDockerHub(spec.Registry.Host):
		text = "docker.io/" + text
	case spec.Registry.Host != "":
		text = spec.Registry.Host + "/" + text
	}
	if spec.Tag != "" {
		return text + ":" + spec.Tag
	}
	return text + "@" + spec.Digest
}

// chosen are the flags that tell images of one reference apart.
type chosen struct{ platform, registry string }

func (o *chosen) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.platform, "platform", "", "the `platform` that is meant, such as linux/amd64")
	cmd.Flags().StringVar(&o.registry, "registry", "", "the `Registry` that is meant")
}

func (o *chosen) takes(image *reportsv1.Image) bool {
	return (o.platform == "" || o.platform == image.Spec.Platform) && (o.registry == "" || o.registry == image.Spec.Registry.Name)
}

// image finds the one Image that a text means: the name of an Image, or a reference of it.
func (r *reader) image(ctx context.Context, text string, o chosen) (*reportsv1.Image, error) {
	if len(validation.IsDNS1123Subdomain(text)) == 0 {
		image := &reportsv1.Image{}
		err := r.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: text}, image)
		if err == nil {
			return image, nil
		}
		if !apierrors.IsNotFound(err) || isNotServed(err) {
			return nil, explainReports(r.session, err)
		}
	}
	found, err := r.find(ctx, text, o)
	if err != nil {
		return nil, err
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return nil, ambiguous(text, found)
}

// find lists the Images that a reference means: those that are present, or else those that were.
func (r *reader) find(ctx context.Context, text string, o chosen) ([]*reportsv1.Image, error) {
	wanted := parseReference(text)
	var present, past []*reportsv1.Image
	var known []string
	err := r.eachImage(ctx, r.namespace, wanted.selector(), func(image *reportsv1.Image) error {
		known = append(known, called(image), strings.TrimPrefix(called(image), image.Spec.Registry.Host+"/"))
		switch {
		case !wanted.fits(image) || !o.takes(image):
		case image.Status.Presence == reportsv1.ImagePresent || image.Spec.External:
			present = append(present, image.DeepCopy())
		default:
			past = append(past, image.DeepCopy())
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, explainReports(r.session, err)
	case len(present) > 0:
		return present, nil
	case len(past) > 0:
		return past, nil
	}
	message := fmt.Sprintf("there is no image %q in namespace %s", text, r.namespace)
	if near := session.Near(text, known); len(near) > 0 {
		message += "; did you mean " + strings.Join(near, " or ") + "?"
	} else {
		message += "; see " + r.session.Suggest("registry", "images")
	}
	return nil, errors.New(message)
}

// ambiguous asks for what tells images apart.
func ambiguous(text string, found []*reportsv1.Image) error {
	var platforms, registries, references []string
	for _, image := range found {
		platforms, registries = append(platforms, image.Spec.Platform), append(registries, image.Spec.Registry.Name)
		references = append(references, called(image))
	}
	compact := func(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }
	for _, c := range []struct {
		say   string
		texts []string
	}{
		{"write one of them whole", compact(references)},
		{"choose one with --platform", compact(platforms)},
		{"choose one with --registry", compact(registries)},
	} {
		if len(c.texts) > 1 {
			return fmt.Errorf("%q means %d images: %s: %s", text, len(found), c.say, session.Some(c.texts, 8))
		}
	}
	var names []string
	for _, image := range found {
		names = append(names, image.Name)
	}
	return fmt.Errorf("%q means %d images: write the name of one: %s", text, len(found), session.Some(names, 8))
}
