// SPDX-License-Identifier: Apache-2.0

package persistencereports

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/scanyard/scanyard/apis/names"
	"github.com/scanyard/scanyard/hooks/sdk"
)

const (
	labelScan      = "scanyard.io/scan"
	labelScanType  = "scanyard.io/scan-type"
	labelChunk     = "scanyard.io/chunk"
	labelSchedule  = "scanyard.io/schedule"
	labelManagedBy = "app.kubernetes.io/managed-by"

	annotationScanUID = "scanyard.io/scan-uid"
	annotationCreated = "scanyard.io/scan-created"
	annotationRun     = "scanyard.io/run"
	annotationChunks  = "scanyard.io/chunks"

	// Annotations of a Scan that name the object which the Scan is about.
	annotationAPIVersion = "scanyard.io/resource-api-version"
	annotationKind       = "scanyard.io/resource-kind"
	annotationNamespace  = "scanyard.io/resource-namespace"
	annotationName       = "scanyard.io/resource-name"

	// longestScan leaves room for the number of a chunk.
	longestScan = 240
	nameDigits  = 8
)

// origin is what reports say about the Scan they come from.
type origin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name              string            `json:"name"`
		Namespace         string            `json:"namespace"`
		UID               string            `json:"uid"`
		CreationTimestamp string            `json:"creationTimestamp"`
		Labels            map[string]string `json:"labels"`
		Annotations       map[string]string `json:"annotations"`
		OwnerReferences   []struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"ownerReferences"`
	} `json:"metadata"`
	Spec struct {
		ScanType string `json:"scanType"`
	} `json:"spec"`
	Status struct {
		FinishedAt string `json:"finishedAt"`
	} `json:"status"`
}

func originOf(scan *sdk.Scan) (*origin, error) {
	o := &origin{APIVersion: "execution.securecodebox.io/v1", Kind: "Scan"}
	if err := json.Unmarshal(scan.Raw, o); err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	return o, nil
}

// schedule is the ScheduledScan that made the Scan; empty where none did.
func (o *origin) schedule() string {
	for _, owner := range o.Metadata.OwnerReferences {
		if owner.Kind == "ScheduledScan" {
			return owner.Name
		}
	}
	return ""
}

// mapping completes how results are made by what the Scan says.
func (o *origin) mapping(m mapping) mapping {
	m.source = "scanyard/" + o.Spec.ScanType
	m.finished = o.Status.FinishedAt
	a := o.Metadata.Annotations
	m.resource = named(objectReference{APIVersion: a[annotationAPIVersion], Kind: a[annotationKind], Namespace: a[annotationNamespace], Name: a[annotationName]})
	return m
}

// reportName is that of one chunk.
func (o *origin) reportName(number int) string {
	name := o.Metadata.Name
	if len(name) > longestScan {
		sum := sha256.Sum256([]byte(name))
		name = name[:longestScan-nameDigits-1] + "-" + hex.EncodeToString(sum[:])[:nameDigits]
	}
	return name + "-" + chunkLabel(number)
}

func chunkLabel(number int) string { return fmt.Sprintf("%02d", number) }

// plan is what the first pass over the findings found out.
type plan struct {
	chunks int
	run    string // digest of all results
}

type report struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   metadata         `json:"metadata"`
	Scope      *objectReference `json:"scope"`
	Summary    summary          `json:"summary"`
	Results    json.RawMessage  `json:"results"`
}

type metadata struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	OwnerReferences []ownerReference  `json:"ownerReferences,omitempty"`
}

type ownerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
}

// newReport builds the report of one chunk. A report that is kept has no owner, so it outlives its Scan.
func newReport(o *origin, to api, p plan, keep bool, c *chunk) *report {
	labels := maps.Clone(o.Metadata.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[labelScan] = names.LabelValue(o.Metadata.Name)
	labels[labelScanType] = names.LabelValue(o.Spec.ScanType)
	labels[labelChunk] = chunkLabel(c.number)
	labels[labelManagedBy] = "scanyard"
	if schedule := o.schedule(); schedule != "" {
		labels[labelSchedule] = names.LabelValue(schedule)
	}
	r := &report{
		APIVersion: to.group + "/" + to.version, Kind: to.kind,
		Metadata: metadata{
			Name: o.reportName(c.number), Namespace: o.Metadata.Namespace, Labels: labels,
			Annotations: map[string]string{
				annotationScanUID: o.Metadata.UID, annotationCreated: o.Metadata.CreationTimestamp,
				annotationRun: p.run, annotationChunks: strconv.Itoa(p.chunks),
			},
		},
		Scope:   &objectReference{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, UID: o.Metadata.UID},
		Summary: c.summary,
		Results: append(append([]byte{'['}, c.encoded...), ']'),
	}
	if !keep && o.Metadata.UID != "" {
		r.Metadata.OwnerReferences = []ownerReference{{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Metadata.Name, UID: o.Metadata.UID}}
	}
	return r
}
