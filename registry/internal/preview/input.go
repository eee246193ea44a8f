// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/apis/strictyaml"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/manifest"
	"github.com/scanyard/scanyard/registry/internal/platform"
)

// defaultImageBytes is the default of a Registry's limits.imageBytes.
const defaultImageBytes = 16 << 30

// tagsFile is what is known of a repository. Dates that cannot be read are not known, as those in configs.
type tagsFile struct {
	Registry   string     `json:"registry"`
	Repository string     `json:"repository"`
	Now        *time.Time `json:"now"`
	Tags       []struct {
		Tag       *string  `json:"tag"`
		Digest    string   `json:"digest"`
		Created   string   `json:"created"`
		FirstSeen string   `json:"firstSeen"`
		Platforms []string `json:"platforms"`
	} `json:"tags"`
}

// selectTags reads filter and tags, and judges the tags. What is wrong with the filter is in the answer.
func selectTags(streams Streams, f files) (filter.Answer, error) {
	wanted, err := readFilter(streams.In, f.filter)
	if err != nil {
		return filter.Answer{}, err
	}
	repository, err := readTags(streams, f.tags)
	if err != nil {
		return filter.Answer{}, err
	}
	compiled, failure := filter.Compile(wanted)
	if failure != nil {
		return filter.Refuse(failure), nil
	}
	return compiled.Select(repository), nil
}

// What the schema of the kind allows. Absent takes the default.
var (
	knownOnError = []registryv1alpha1.OnError{"", registryv1alpha1.OnErrorSkip, registryv1alpha1.OnErrorSelect, registryv1alpha1.OnErrorFail}
	knownOrders  = []registryv1alpha1.NewestBy{"", registryv1alpha1.NewestByCreated, registryv1alpha1.NewestBySemVer, registryv1alpha1.NewestByName}
)

func readFilter(in io.Reader, name string) (registryv1alpha1.Filter, error) {
	var wanted registryv1alpha1.Filter
	content, err := read(in, name)
	if err != nil {
		return wanted, err
	}
	file, err := strictyaml.Decode(called(name), content, &wanted)
	if err != nil {
		return wanted, unreadable{err}
	}
	check := func(field string, platforms []string, tags *registryv1alpha1.TagFilter) error {
		if _, err := platform.NewFilter(platforms); err != nil {
			return unreadable{fmt.Errorf("%s: %s%w", file.Where(field+"platforms"), field, err)}
		}
		if tags == nil {
			return nil
		}
		if !slices.Contains(knownOnError, tags.OnError) {
			return unreadable{fmt.Errorf("%s: %stags.onError: %q must be Skip, Select or Fail", file.Where(field+"tags.onError"), field, tags.OnError)}
		}
		if !slices.Contains(knownOrders, tags.NewestBy) {
			return unreadable{fmt.Errorf("%s: %stags.newestBy: %q must be Created, SemVer or Name", file.Where(field+"tags.newestBy"), field, tags.NewestBy)}
		}
		return nil
	}
	if err := check("", wanted.Platforms, wanted.Tags); err != nil {
		return wanted, err
	}
	for i, rule := range wanted.Rules {
		if err := check(fmt.Sprintf("rules[%d].", i), rule.Platforms, rule.Tags); err != nil {
			return wanted, err
		}
	}
	return wanted, nil
}

func readTags(streams Streams, name string) (filter.Repository, error) {
	var repository filter.Repository
	var file tagsFile
	if err := readJSON(streams.In, name, &file); err != nil {
		return repository, err
	}
	repository.Registry, repository.Name, repository.Now = file.Registry, file.Repository, streams.Now()
	if file.Now != nil {
		repository.Now = *file.Now
	}
	for i, t := range file.Tags {
		if t.Tag == nil {
			return repository, unreadable{fmt.Errorf("%s: tags[%d].tag is missing", called(name), i)}
		}
		repository.Tags = append(repository.Tags, filter.Tag{
			Name: *t.Tag, Digest: t.Digest, Created: date(t.Created), FirstSeen: date(t.FirstSeen), Platforms: t.Platforms,
		})
	}
	return repository, nil
}

// date reads a date of an image; zero: the text is none.
func date(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// manifestsFile is a reference with the documents behind it. Digest is the top.
type manifestsFile struct {
	Reference     string   `json:"reference"`
	Digest        string   `json:"digest"`
	Platforms     []string `json:"platforms"`
	MaxImageBytes *int64   `json:"maxImageBytes"`
	Documents     map[string]struct {
		ContentType string `json:"contentType"`
		Body        string `json:"body"`
	} `json:"documents"`

	selected platform.Filter
}

func readManifests(in io.Reader, name string) (manifestsFile, error) {
	var file manifestsFile
	if err := readJSON(in, name, &file); err != nil {
		return file, err
	}
	if file.Digest == "" {
		return file, unreadable{fmt.Errorf("%s: digest is missing: it names the document to begin with", called(name))}
	}
	var err error
	if file.selected, err = platform.NewFilter(file.Platforms); err != nil {
		return file, unreadable{fmt.Errorf("%s: %w", called(name), err)}
	}
	return file, nil
}

func findImages(in io.Reader, name string) (manifest.Answer, error) {
	f, err := readManifests(in, name)
	if err != nil {
		return manifest.Answer{}, err
	}
	limits := manifest.Limits{Platforms: f.selected, MaxImageBytes: defaultImageBytes}
	if f.MaxImageBytes != nil {
		limits.MaxImageBytes = *f.MaxImageBytes
	}
	return manifest.Images(f.Digest, limits, func(_ manifest.Part, digest string) (manifest.Document, bool, error) {
		document, found := f.Documents[digest]
		return manifest.Document{ContentType: document.ContentType, Body: []byte(document.Body)}, found, nil
	})
}

// readJSON reads a document that programs write. Members that are not known are passed over.
func readJSON(in io.Reader, name string, into any) error {
	content, err := read(in, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return unreadable{fmt.Errorf("%s: %w", called(name), err)}
	}
	return nil
}
