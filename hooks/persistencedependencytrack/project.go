// SPDX-License-Identifier: Apache-2.0

package persistencedependencytrack

import (
	"errors"
	"fmt"

	"github.com/distribution/reference"

	"github.com/scanyard/scanyard/hooks/sdk"
)

// annotations are what a Scan says about its project.
const annotations = "dependencytrack.securecodebox.io/"

// project is where an SBOM goes.
type project struct {
	name, version string
	// more are fields that only annotations set, in their order.
	more [][2]string
}

// further maps annotations that are passed on as they are to the fields of an upload.
var further = [][2]string{
	{"parent-name", "parentName"}, {"parent-version", "parentVersion"}, {"project-tags", "projectTags"}, {"is-latest", "isLatest"},
}

func (h *handler) projectOf(scan *sdk.Scan, b *bom) (*project, error) {
	p := &project{name: scan.Metadata.Annotations[annotations+"project-name"], version: scan.Metadata.Annotations[annotations+"project-version"]}
	for _, f := range further {
		if value := scan.Metadata.Annotations[annotations+f[0]]; value != "" {
			p.more = append(p.more, [2]string{f[1], value})
		}
	}
	if p.name != "" && p.version != "" {
		return p, nil
	}
	name, version, err := h.nameOf(b)
	if err != nil {
		return nil, err
	}
	if p.name == "" {
		p.name = name
	}
	if p.version == "" {
		p.version = version
	}
	return p, nil
}

// latest is the version of what has none.
const latest = "latest"

// nameOf is what the SBOM says that it is about.
func (h *handler) nameOf(b *bom) (name, version string, err error) {
	parts := reference.ReferenceRegexp.FindStringSubmatch(b.name)
	switch {
	case parts != nil:
		return parts[1], firstOf(parts[2], parts[3], latest), nil
	case b.name == "":
		return "", "", errors.New("the SBOM does not say what it is about (metadata.component.name); " + advice)
	case h.anyName:
		return b.name, firstOf(b.version, latest), nil
	}
	return "", "", fmt.Errorf(
		"the SBOM is about %q (metadata.component.name), which is not a reference of an image; %s, or DEPENDENCYTRACK_ANY_NAME to true",
		b.name, advice,
	)
}

const advice = "set the Scan's annotations " + annotations + "project-name and " + annotations + "project-version"

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
