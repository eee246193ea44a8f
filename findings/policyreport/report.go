// SPDX-License-Identifier: Apache-2.0

package policyreport

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/scanyard/scanyard/apis/names"
)

// Labels and annotations of a report.
const (
	LabelScan      = "scanyard.io/scan"
	LabelScanType  = "scanyard.io/scan-type"
	LabelChunk     = "scanyard.io/chunk"
	LabelSchedule  = "scanyard.io/schedule"
	LabelManagedBy = "app.kubernetes.io/managed-by"

	AnnotationScanUID = "scanyard.io/scan-uid"
	annotationCreated = "scanyard.io/scan-created"
	AnnotationRun     = "scanyard.io/run"
	AnnotationChunks  = "scanyard.io/chunks"
	// AnnotationTarget says what was scanned by which means: Scans with the same value can be compared.
	AnnotationTarget = "scanyard.io/scan-target"

	// Annotations of a Scan that name the object which the Scan is about.
	annotationAPIVersion = "scanyard.io/resource-api-version"
	annotationKind       = "scanyard.io/resource-kind"
	annotationNamespace  = "scanyard.io/resource-namespace"
	annotationName       = "scanyard.io/resource-name"

	// targetDigits are those of the digest that tells targets apart.
	targetDigits = 12

	// longestScan leaves room for the number of a chunk.
	longestScan = 240
	nameDigits  = 8
)

// Origin is what reports say about the Scan they come from.
type Origin struct {
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
		// What decides what is scanned; many scan types fetch it by an init container.
		ResourceMode   string   `json:"resourceMode"`
		Parameters     []string `json:"parameters"`
		Env            any      `json:"env"`
		InitContainers any      `json:"initContainers"`
		Volumes        any      `json:"volumes"`
		VolumeMounts   any      `json:"volumeMounts"`
	} `json:"spec"`
	Status struct {
		FinishedAt string `json:"finishedAt"`
	} `json:"status"`

	exceptionsIgnored bool
}

// TakesNoNotice says in the reports that exceptions are not for their results.
func (o *Origin) TakesNoNotice() { o.exceptionsIgnored = true }

// Schedule is the ScheduledScan that made the Scan; empty where none did.
func (o *Origin) Schedule() string {
	for _, owner := range o.Metadata.OwnerReferences {
		if owner.Kind == "ScheduledScan" {
			return owner.Name
		}
	}
	return ""
}

// target names what the Scan scans and by which means, as "only what is new" of the operator tells it: the scan type and all that decides
// what is scanned. The digest shows nothing of that, which may hold what is secret.
func (o *Origin) target() string {
	of := &o.Spec
	text, err := json.Marshal([]any{cmp.Or(of.ResourceMode, "namespaceLocal"), of.Parameters, of.Env, of.InitContainers, of.Volumes, of.VolumeMounts})
	if err != nil {
		return "" // such as a number that is none: the Scan is compared with no other
	}
	sum := sha256.Sum256(text)
	return of.ScanType + "/" + hex.EncodeToString(sum[:])[:targetDigits]
}

// SourceOf is the source of results of a scan type.
func SourceOf(scanType string) string { return "scanyard/" + scanType }

// Mapping completes how results are made by what the Scan says.
func (o *Origin) Mapping(m Mapping) Mapping {
	m.Source = SourceOf(o.Spec.ScanType)
	m.Finished = o.Status.FinishedAt
	a := o.Metadata.Annotations
	m.Resource = named(ObjectReference{APIVersion: a[annotationAPIVersion], Kind: a[annotationKind], Namespace: a[annotationNamespace], Name: a[annotationName]})
	return m
}

// reportName is that of one chunk.
func (o *Origin) reportName(number int) string {
	name := o.Metadata.Name
	if len(name) > longestScan {
		sum := sha256.Sum256([]byte(name))
		name = name[:longestScan-nameDigits-1] + "-" + hex.EncodeToString(sum[:])[:nameDigits]
	}
	return name + "-" + chunkLabel(number)
}

func chunkLabel(number int) string { return fmt.Sprintf("%02d", number) }

// API is where reports of a group are, and what they are called.
type API struct {
	Group, Version, Kind, Resource string
}

// APIs are the groups of reports that there are; the first is the one that is used where nobody says another.
func APIs() []API {
	return []API{
		{"wgpolicyk8s.io", "v1alpha2", "PolicyReport", "policyreports"},
		{"openreports.io", "v1alpha1", "Report", "reports"},
	}
}

// Plan is what the first pass over the findings found out.
type Plan struct {
	Chunks int
	Run    string // digest of all results
}

// Report is one PolicyReport, or Report of openreports.io.
type Report struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   Metadata         `json:"metadata"`
	Scope      *ObjectReference `json:"scope,omitempty"`
	Summary    summary          `json:"summary"`
	Results    json.RawMessage  `json:"results"`
}

// Metadata is that of a report.
type Metadata struct {
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

// New builds the report of one chunk. A report that is kept has no owner, so it outlives its Scan.
func New(o *Origin, to API, p Plan, keep bool, c *Chunk) *Report {
	labels := maps.Clone(o.Metadata.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelScan] = names.LabelValue(o.Metadata.Name)
	labels[LabelScanType] = names.LabelValue(o.Spec.ScanType)
	labels[LabelChunk] = chunkLabel(c.number)
	labels[LabelManagedBy] = "scanyard"
	if schedule := o.Schedule(); schedule != "" {
		labels[LabelSchedule] = names.LabelValue(schedule)
	}
	r := &Report{
		APIVersion: to.Group + "/" + to.Version, Kind: to.Kind,
		Metadata: Metadata{
			Name: o.reportName(c.number), Namespace: o.Metadata.Namespace, Labels: labels,
			Annotations: map[string]string{
				AnnotationScanUID: o.Metadata.UID, annotationCreated: o.Metadata.CreationTimestamp,
				AnnotationRun: p.Run, AnnotationChunks: strconv.Itoa(p.Chunks), AnnotationTarget: o.target(),
			},
		},
		Scope:   &ObjectReference{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, UID: o.Metadata.UID},
		Summary: c.summary,
		Results: append(append([]byte{'['}, c.Encoded...), ']'),
	}
	if o.exceptionsIgnored {
		r.Metadata.Annotations[AnnotationExceptions] = ExceptionsIgnored
	}
	if !keep && o.Metadata.UID != "" {
		r.Metadata.OwnerReferences = []ownerReference{{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Metadata.Name, UID: o.Metadata.UID}}
	}
	return r
}
