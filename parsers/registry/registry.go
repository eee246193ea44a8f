// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/findings/vulnerability"
	"github.com/scanyard/scanyard/parsers/internal/jsondoc"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// schema is what the document says of itself.
const schema = "scanyard.io/registry-findings/1"

// notScanned is the category of images that could not be looked at.
const notScanned = "Image Not Scanned"

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "registry-json",
		Summary:    "findings of a Registry's images (registry-export)",
		Kinds:      kinds(),
		Reach:      "the images of the Registry that were scanned",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	const text, list, numbers, object = sdk.Text | sdk.Optional, sdk.List | sdk.Optional, sdk.Number | sdk.Optional, sdk.Map | sdk.Optional
	image := []sdk.Attribute{
		{Name: "registry", Type: text, Doc: "name of the Registry"},
		{Name: "repository", Type: text},
		{Name: "tag", Type: text, Doc: "absent where the image was found by its digest"},
		{Name: "platform", Type: text, Doc: "linux/amd64"},
		{Name: "digest", Type: text},
	}
	ofFinding := append([]sdk.Attribute{
		{Name: "vulnerabilityId", Type: sdk.Text},
		{Name: "aliases", Type: list},
		{Name: "packageName", Type: sdk.Text},
		{Name: "packageType", Type: text, Doc: "deb, npm, gomod, …"},
		{Name: "installedVersion", Type: text},
		{Name: "fixedVersion", Type: text, Doc: "all of fixedVersions in one text"},
		{Name: "fixedVersions", Type: list},
		{Name: "purl", Type: text},
		{Name: "foundIn", Type: text, Doc: "the file that names the package, or os"},
		{Name: "layerDiffId", Type: text, Doc: "the layer that brought the package"},
		{Name: "cvssScore", Type: numbers},
		{Name: "cvssVector", Type: text, Doc: "that of the score"},
		{Name: "severityOfEngine", Type: text, Doc: "CRITICAL, HIGH, MEDIUM, LOW, UNKNOWN"},
		{Name: "severitySource", Type: text},
		{Name: "kev", Type: object, Doc: "known to be exploited: dateAdded, dueDate"},
		{Name: "epss", Type: object, Doc: "score, percentile, date"},
		{Name: "engine", Type: text},
		{Name: "engineVersion", Type: text},
		{Name: "databaseVersion", Type: text},
		{Name: "databaseBuiltAt", Type: text},
		{Name: "report", Type: text, Doc: "namespace/name of the VulnerabilityReport"},
		{Name: "origin", Type: text, Doc: "VulnerabilityReport/name: queries over reports do not count the finding twice"},
	}, image...)
	all := []sdk.Kind{{
		Category: notScanned, When: "an image that could not be scanned", Severities: []string{finding.Informational},
		Attributes: append([]sdk.Attribute{
			{Name: "state", Type: sdk.Text, Doc: "Failed, Quarantined or Skipped"},
			{Name: "reason", Type: text},
		}, image...),
		Identity: []string{"location", "attributes.platform"},
	}}
	for _, language := range append([]string{""}, vulnerability.Languages()...) {
		when := "a vulnerability of a package of the operating system, or of a kind that is none of the others"
		if language != "" {
			when = "a vulnerability of a package of " + language
		}
		all = append(all, sdk.Kind{
			Category: vulnerability.CategoryOf(language), When: when, Severities: []string{finding.Informational, finding.Low, finding.Medium, finding.High},
			Attributes: ofFinding,
			Identity: []string{
				"location", "attributes.platform", "attributes.vulnerabilityId", "attributes.packageName", "attributes.packageType", "attributes.foundIn",
			},
		})
	}
	return all
}

// report is a document that is being read.
type report struct {
	ctx      context.Context //nolint:containedctx // one pass over one document
	emit     sdk.Emit
	registry finding.Object
	known    bool
	images   int
	scanned  int
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	r := &report{ctx: ctx, emit: emit}
	if err := jsonstream.Read(ctx, in, r.document); err != nil {
		return err
	}
	if !r.known {
		return errors.New("is not an export of a Registry: schema is not " + schema)
	}
	looked := "of " + sdk.Counted(r.images, "image", "images")
	switch {
	case r.images == 0:
		in.ReachUnknown("there are no images to be looked at")
	case r.scanned == 0:
		in.NothingReached("none %s was scanned", looked)
	default:
		in.Reached("%d %s were scanned", r.scanned, looked)
	}
	return nil
}

func (r *report) document(from *jsonstream.Reader) error {
	return from.Object(func(key string) error {
		switch key {
		case "schema":
			v, err := from.Value()
			if err == nil && v != schema {
				err = fmt.Errorf("schema is %s, not %s", finding.ToString(v), schema)
			}
			r.known = true
			return err
		case "registry":
			v, err := from.Value()
			r.registry, _ = v.(finding.Object)
			return err
		case "images":
			if !r.known {
				return errors.New("is not an export of a Registry: schema does not come first")
			}
			return from.Array(func(i int) error {
				if err := r.image(from); err != nil {
					return fmt.Errorf("image %d: %w", i, err)
				}
				return r.ctx.Err()
			})
		}
		return nil
	})
}

// image reads one image. Its findings come last.
func (r *report) image(from *jsonstream.Reader) error {
	r.images++
	about := finding.Object{}
	err := from.Object(func(key string) error {
		if key != "findings" {
			v, err := from.Value()
			about.Set(key, v)
			return err
		}
		if jsondoc.Text(about, "reference") == "" {
			return errors.New("has no reference before its findings")
		}
		return jsondoc.Elements(r.ctx, from, "finding", func(o finding.Object) error { return r.vulnerability(about, o) })
	})
	if err != nil {
		return err
	}
	if jsondoc.Text(about, "reference") == "" {
		return errors.New("has no reference")
	}
	switch state := jsondoc.Text(about, "state"); state {
	case "Failed", "Quarantined", "Skipped":
		return r.unscanned(about, state)
	case "Scanned":
		r.scanned++
	}
	return nil
}

// location is where an image is; one without a tag has its digest there.
func location(image finding.Object) finding.Text {
	return finding.String(vulnerability.Location(jsondoc.Text(image, "reference")))
}

// imageAttributes are those that all findings of an image have.
func (r *report) imageAttributes(into *finding.Object, image finding.Object) {
	jsondoc.Set(into, "registry", jsondoc.Text(r.registry, "name"))
	for _, key := range []string{"repository", "tag", "platform", "digest"} {
		jsondoc.Set(into, key, jsondoc.Text(image, key))
	}
}

func (r *report) unscanned(image finding.Object, state string) error {
	name := jsondoc.Text(image, "reference")
	name = name[strings.LastIndexByte(name, '/')+1:]
	f := &finding.Finding{
		Name: finding.String(notScanned + ": " + name), Category: finding.String(notScanned), Severity: finding.String(finding.Informational),
		Location: location(image), OSILayer: finding.String("NOT_APPLICABLE"),
	}
	if message := jsondoc.Text(image, "message"); message != "" {
		f.Description = finding.String(message)
	}
	jsondoc.Set(&f.Attributes, "state", state)
	jsondoc.Set(&f.Attributes, "reason", jsondoc.Text(image, "reason"))
	r.imageAttributes(&f.Attributes, image)
	return r.emit(f)
}
