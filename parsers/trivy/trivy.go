// SPDX-License-Identifier: Apache-2.0

package trivy

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "trivy-json",
		Summary:    "trivy JSON report of an image, file system, repository or cluster",
		Kinds:      kinds(),
		Reach:      "an image that was read, results with what was looked at, resources of a cluster",
		Parse:      parse,
	}
}

// Keys of a report that decide how it is read.
const (
	clusterName  = "ClusterName"
	artifactName = "ArtifactName"
	artifactType = "ArtifactType"
	resourcesKey = "Resources"
	resultsKey   = "Results"
)

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	open := func() (*jsonstream.Reader, io.Closer, error) {
		raw, err := in.Source.Open(ctx)
		if err != nil {
			return nil, nil, err
		}
		return jsonstream.NewReader(raw, in.Limits.JSON()), raw, nil
	}
	p := &report{open: open, emit: func(f *finding.Finding) error { return errors.Join(emit(f), ctx.Err()) }}
	defer p.close()
	err := p.read(p.firstPass)
	if err == nil && p.later != "" {
		err = p.read(p.secondPass)
	}
	p.reportReach(in)
	return err
}

// reportReach reports what was reached. trivy reads an image before it writes a report of it, so also one in which it knows no
// package was looked at. Of a directory in which it knows nothing it reports the same as of an empty one.
func (p *report) reportReach(in *sdk.Input) {
	name, _ := p.names.Get(artifactName)
	switch {
	case p.isCluster():
		in.Reached("%s of the cluster", sdk.Counted(p.looked, "resource", "resources"))
	case p.artifact == "container_image":
		in.Reached("the image was read: %.300s", finding.ToString(name))
	case p.looked > 0:
		in.Reached("%s looked at", sdk.Counted(p.looked, "target was", "targets were"))
	case name != nil:
		in.ReachUnknown("trivy reports nothing that it looked at in %.300s", finding.ToString(name))
	default:
		in.ReachUnknown("the report names no artifact")
	}
}

// report is what is known of one report.
type report struct {
	open func() (*jsonstream.Reader, io.Closer, error)
	emit sdk.Emit

	artifact any // ArtifactType
	looked   int // how many results or resources there are

	names  finding.Object // ClusterName and ArtifactName, if they are there
	other  string         // the first key that a cluster's report does not have
	listed bool           // a cluster's resources were seen
	later  string         // the list that was skipped because what it needs came after it

	resources *ahead[finding.Object]
	results   *ahead[result]
	missed    *ahead[any]

	f    finding.Finding // made again and again
	refs []finding.Reference
}

func (p *report) close() {
	p.resources.close()
	p.results.close()
	p.missed.close()
}

// read reads the report once.
func (p *report) read(pass func(r *jsonstream.Reader) error) (err error) {
	r, raw, err := p.open()
	if err != nil {
		return err
	}
	defer raw.Close() //nolint:errcheck // it was only read
	kind, err := r.Kind()
	if err != nil {
		return err
	}
	switch kind {
	case jsonstream.Nothing:
		return nil
	case jsonstream.Null:
		return errors.New("the report is null, must be an object")
	case jsonstream.Object:
		if err := pass(r); err != nil {
			return err
		}
	default: // a report without results
		if err := r.Skip(); err != nil {
			return err
		}
	}
	return r.End()
}

func (p *report) isCluster() bool {
	_, ok := p.names.Get(clusterName)
	return ok
}

// firstPass makes findings as long as what they need comes before them.
func (p *report) firstPass(r *jsonstream.Reader) error {
	err := r.Object(func(key string) error {
		if key != clusterName && key != resourcesKey && p.other == "" {
			p.other = key
		}
		if key == clusterName {
			p.names = append(p.names, finding.Member{Key: key})
		}
		if p.isCluster() && p.other != "" {
			return fmt.Errorf("Unexpected attribute '%s' on top-level of scan-result document", p.other) //nolint:staticcheck // ST1005: as clients know it
		}
		switch key {
		case clusterName, artifactName:
			v, err := r.Value()
			p.names.Set(key, v)
			return err
		case artifactType:
			v, err := r.Value()
			p.artifact = v
			return err
		case resourcesKey:
			p.listed = true
			if p.isCluster() {
				return p.readResources(r)
			}
			p.later = key
		case resultsKey:
			if _, ok := p.names.Get(artifactName); ok {
				return p.readImage(r)
			}
			p.later = key
		}
		return nil
	})
	if err != nil {
		return err
	}
	return p.afterFirstPass()
}

func (p *report) afterFirstPass() error {
	switch {
	case !p.isCluster() && p.later == resourcesKey:
		p.later = ""
	case p.isCluster() && !p.listed:
		return errNoResources
	}
	return nil
}

var errNoResources = errors.New("No resources listed in scan-result document") //nolint:staticcheck // ST1005: as clients know it

// secondPass makes the findings that the first could not.
func (p *report) secondPass(r *jsonstream.Reader) error {
	return r.Object(func(key string) error {
		switch {
		case key != p.later:
			return nil
		case p.isCluster():
			return p.readResources(r)
		}
		return p.readImage(r)
	})
}

// elements walks a list that may be missing in JavaScript's way: null, false, 0 and "" are not a list.
func elements(r *jsonstream.Reader, name string, one func(index int) error) error {
	kind, err := r.Kind()
	if err != nil {
		return err
	}
	if kind == jsonstream.Array {
		return r.Array(one)
	}
	if kind != jsonstream.Object { // an object may be large, and is never falsy
		v, err := r.Value()
		if err != nil || !ecma.Truthy(v) {
			return err
		}
	}
	return fmt.Errorf("%s is %s, must be an array", name, kind)
}
