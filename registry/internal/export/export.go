// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

// Schema is what the document says of itself.
const Schema = "scanyard.io/registry-findings/1"

// Options say what is exported.
type Options struct {
	Namespace, Registry string
	// Job is the name of the job that asks; ChangedOnly narrows to images whose report it has changed.
	Job         string
	ChangedOnly bool
	// MinSeverity leaves out what is less bad. "" leaves out nothing.
	MinSeverity string
	// Repository is a pattern of names; "" takes all.
	Repository string
	// IncludeSuppressed takes accepted findings as well.
	IncludeSuppressed bool
	// Dir is where the findings of one report are kept for a moment.
	Dir string
}

// Source is where the findings are.
type Source struct {
	Registries client.Reader
	Reports    *reportsclient.Client
}

// document is what comes before the images.
type document struct {
	Schema   string   `json:"schema"`
	Registry registry `json:"registry"`
	Job      string   `json:"job,omitempty"`
}

type registry struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
	URL       string `json:"url"`
}

// image is what is said of an image before its findings.
type image struct {
	Name       string                `json:"name"`
	Reference  string                `json:"reference"`
	Repository string                `json:"repository"`
	Tag        string                `json:"tag,omitempty"`
	Digest     string                `json:"digest"`
	Platform   string                `json:"platform,omitempty"`
	Tags       []string              `json:"tags,omitempty"`
	State      string                `json:"state,omitempty"`
	Reason     string                `json:"reason,omitempty"`
	Message    string                `json:"message,omitempty"`
	Provenance *reportsv1.Provenance `json:"provenance,omitempty"`
}

// Write writes the document.
func Write(ctx context.Context, from Source, o Options, to io.Writer) error {
	r := &registryv1alpha1.Registry{}
	if err := from.Registries.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Registry}, r); err != nil {
		return fmt.Errorf("read Registry %s: %w", o.Registry, err)
	}
	images, err := from.images(ctx, o, string(r.UID))
	if err != nil {
		return err
	}
	head := document{Schema: Schema, Registry: registry{Name: r.Name, Namespace: r.Namespace, UID: string(r.UID), URL: r.Spec.URL}, Job: o.Job}
	out := bufio.NewWriter(to)
	if err := open(out, head, "images"); err != nil {
		return err
	}
	for i, of := range images {
		if err := from.write(ctx, o, of, i > 0, out); err != nil {
			return err
		}
	}
	if _, err := out.WriteString("]}\n"); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// open writes an object up to the beginning of its last member, a list.
func open(out *bufio.Writer, object any, list string) error {
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if _, err := out.Write(append(bytes.TrimSuffix(data, []byte("}")), `,"`+list+`":[`...)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// images are those that go into the document, by name.
func (s Source) images(ctx context.Context, o Options, registryUID string) ([]*image, error) {
	pattern := filter.NamePattern(o.Repository)
	kept, tags := map[string]*image{}, map[string][]string{}
	selector := reportsclient.Selector("spec.registry.uid", registryUID, "status.presence", string(reportsv1.ImagePresent))
	err := reportsclient.List(ctx, s.Reports, o.Namespace, reportsclient.Images, selector, func(i *reportsv1.Image) error {
		if o.Repository != "" && !pattern(i.Spec.Repository) {
			return nil
		}
		if _, again := kept[i.Name]; again {
			return nil // the list was begun anew
		}
		if key := contentOf(i.Spec.Repository, i.Spec.Digest, i.Spec.Platform); i.Spec.Tag != "" {
			tags[key] = append(tags[key], i.Spec.Tag)
		}
		if !o.ChangedOnly || isChanged(i, o.Job) {
			kept[i.Name] = newImage(i)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	selector = reportsclient.Selector("spec.registry.uid", registryUID)
	err = reportsclient.List(ctx, s.Reports, o.Namespace, reportsclient.Reports, selector, func(r *reportsv1.VulnerabilityReport) error {
		if of := kept[r.Spec.Image]; of != nil && r.Spec.Provenance != nil {
			of.Provenance = r.Spec.Provenance
			of.Provenance.Job = "" // it stands in the row only
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := make([]*image, 0, len(kept))
	for _, of := range kept {
		of.Tags = tags[contentOf(of.Repository, of.Digest, of.Platform)]
		slices.Sort(of.Tags)
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b *image) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func contentOf(repository, digest, platform string) string {
	return repository + "\x00" + digest + "\x00" + platform
}

// isChanged tells whether the job has changed the report of an image.
func isChanged(i *reportsv1.Image, job string) bool {
	w := i.Status.Work
	return i.Status.State == reportsv1.ImageScanned && i.Status.Reason == reportsv1.ReasonChanged && w != nil && w.Job != nil && w.Job.Name == job
}

func newImage(i *reportsv1.Image) *image {
	of := &image{
		Name: i.Name, Reference: i.Spec.Registry.Host + "/" + i.Spec.Repository, Repository: i.Spec.Repository, Tag: i.Spec.Tag, Digest: i.Spec.Digest,
		Platform: i.Spec.Platform, State: i.Status.State,
	}
	if of.Tag == "" {
		of.Reference += "@" + of.Digest
	} else {
		of.Reference += ":" + of.Tag
	}
	if of.State != reportsv1.ImageScanned {
		of.Reason, of.Message = i.Status.Reason, i.Status.Message
	}
	return of
}

// write writes an image with its findings.
func (s Source) write(ctx context.Context, o Options, of *image, further bool, out *bufio.Writer) error {
	if further {
		if err := out.WriteByte(','); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if err := open(out, of, "findings"); err != nil {
		return err
	}
	if of.Provenance != nil {
		if err := s.findings(ctx, o, of.Name, out); err != nil {
			return err
		}
	}
	if _, err := out.WriteString("]}"); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// findings copies those of a report. They are read whole before the first one is written: a call that broke off is made again.
func (s Source) findings(ctx context.Context, o Options, name string, out *bufio.Writer) (err error) {
	query := url.Values{"format": {"jsonl"}}
	if o.MinSeverity != "" {
		query.Set("minSeverity", o.MinSeverity)
	}
	if !o.IncludeSuppressed {
		query.Set("suppressed", strconv.FormatBool(false))
	}
	path := filepath.Join(o.Dir, "findings.jsonl")
	if err := s.Reports.Findings(ctx, o.Namespace, name, query, path); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read findings: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	lines := bufio.NewReader(file)
	for first := true; ; first = false {
		line, err := lines.ReadBytes('\n')
		line = bytes.TrimSpace(line)
		if len(line) > 0 {
			if !first {
				line = append([]byte(","), line...)
			}
			if _, err := out.Write(line); err != nil {
				return fmt.Errorf("write: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read findings: %w", err)
		}
	}
}
