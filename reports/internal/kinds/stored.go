// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/json"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
)

// Numbers of kinds in the database. They never change.
const (
	ReportNumber              = 1
	ClusterReportNumber       = 2
	ImageNumber               = 3
	SBOMNumber                = 4
	VulnerabilityReportNumber = 5
	RepositoryNumber          = 6
	DatabaseNumber            = 7
)

// Stored is a kind of objects in the database.
type Stored struct {
	sqlstorage.Kind
	// Version is the kind as it is stored; clients see a hash of it.
	Version schema.GroupVersionKind
	// Codec writes and reads what is stored.
	Codec runtime.Codec
	// New makes an empty object of the internal version.
	New func() runtime.Object
	// Selectable gives the values of the field selectors, besides name and namespace; nil if there are none.
	Selectable func(obj runtime.Object) fields.Set
	// Strip takes the document out of an object, for lists and watches; nil if they hold all.
	Strip func(obj runtime.Object)
}

// The kinds that are stored.
var (
	Reports = &Stored{
		Kind:    sqlstorage.Kind{Number: ReportNumber, Resource: "reports", Payload: "results", Index: indexReport},
		Version: OpenReports.WithKind("Report"), New: func() runtime.Object { return &Report{} },
		Codec: newCodec[Report](OpenReports.WithKind("Report")),
	}
	ClusterReports = &Stored{
		Kind:    sqlstorage.Kind{Number: ClusterReportNumber, Resource: "clusterreports", Payload: "results", Index: indexClusterReport},
		Version: OpenReports.WithKind("ClusterReport"), New: func() runtime.Object { return &ClusterReport{} },
		Codec: newCodec[ClusterReport](OpenReports.WithKind("ClusterReport")),
	}
	Images = &Stored{
		Kind: sqlstorage.Kind{
			Number: ImageNumber, Resource: "images", Payload: "spec.layers", Columns: imageColumns, Index: indexImage, RowTable: images.Table,
			RowFields: imageFields,
			Fields:    map[string]mvcc.Column{imageDigest: mvcc.DigestColumn, imageRegistry: mvcc.RegistryColumn, imageRepository: mvcc.RepositoryColumn},
		},
		Version: Scanyard.WithKind("Image"), New: func() runtime.Object { return &reportsv1.Image{} },
		Codec: newCodec[reportsv1.Image](Scanyard.WithKind("Image")), Selectable: selectableOfImage,
	}
	SBOMs = &Stored{
		Kind: sqlstorage.Kind{
			Number: SBOMNumber, Resource: "sboms", Payload: "document", Columns: digestColumn, Index: indexSBOM, RowTable: images.Table,
			RowFields: documentFields,
			Fields:    map[string]mvcc.Column{imageDigest: mvcc.DigestColumn},
		},
		Version: Scanyard.WithKind("SBOM"), New: func() runtime.Object { return &reportsv1.SBOM{} },
		Codec:      &codec[reportsv1.SBOM, storedSBOM]{kind: Scanyard.WithKind("SBOM"), pack: packSBOM, unpack: unpackSBOM},
		Selectable: selectableOfDigest, Strip: stripSBOM,
	}
	VulnerabilityReports = &Stored{
		Kind: sqlstorage.Kind{
			Number: VulnerabilityReportNumber, Resource: "vulnerabilityreports", Payload: "document", Columns: digestColumn, Index: indexVulnerabilityReport,
			RowTable: images.Table, RowFields: reportFields,
			Fields: map[string]mvcc.Column{imageDigest: mvcc.DigestColumn},
		},
		Version: Scanyard.WithKind("VulnerabilityReport"), New: func() runtime.Object { return &reportsv1.VulnerabilityReport{} },
		Codec: &codec[reportsv1.VulnerabilityReport, storedVulnerabilityReport]{
			kind: Scanyard.WithKind("VulnerabilityReport"), pack: packVulnerabilityReport, unpack: unpackVulnerabilityReport,
		},
		Selectable: selectableOfDigest, Strip: stripVulnerabilityReport,
	}
	Repositories = &Stored{
		Kind: sqlstorage.Kind{
			Number: RepositoryNumber, Resource: "repositories", Index: indexRepository, RowTable: images.Table, RowFields: repositoryFields,
		},
		Version: Scanyard.WithKind("Repository"), New: func() runtime.Object { return &reportsv1.Repository{} },
		Codec: newCodec[reportsv1.Repository](Scanyard.WithKind("Repository")), Selectable: selectableOfRepository,
	}
	Databases = &Stored{
		Kind:    sqlstorage.Kind{Number: DatabaseNumber, Resource: "vulnerabilitydatabases", Index: indexDatabase},
		Version: Scanyard.WithKind("VulnerabilityDatabase"), New: func() runtime.Object { return &reportsv1.VulnerabilityDatabase{} },
		Codec: newCodec[reportsv1.VulnerabilityDatabase](Scanyard.WithKind("VulnerabilityDatabase")),
	}
)

// AllStored are the kinds that are stored.
var AllStored = []*Stored{Reports, ClusterReports, Images, SBOMs, VulnerabilityReports, Repositories, Databases}

// codec writes an internal object as the JSON of its stored form. T is the object, S its stored form.
type codec[T, S any] struct {
	kind   schema.GroupVersionKind
	pack   func(in *T, out *S, kind metav1.TypeMeta)
	unpack func(in *S, out *T)
}

// newCodec makes a codec for objects that are stored as they are.
func newCodec[T any, P interface {
	*T
	GetObjectKind() schema.ObjectKind
}](kind schema.GroupVersionKind) runtime.Codec {
	return &codec[T, T]{
		kind:   kind,
		pack:   func(in, out *T, _ metav1.TypeMeta) { *out = *in; P(out).GetObjectKind().SetGroupVersionKind(kind) },
		unpack: func(in, out *T) { *out = *in; P(out).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) },
	}
}

// Identifier implements runtime.Encoder.
func (c *codec[T, S]) Identifier() runtime.Identifier {
	return runtime.Identifier("stored:" + c.kind.String())
}

// Encode implements runtime.Encoder.
func (c *codec[T, S]) Encode(obj runtime.Object, w io.Writer) error {
	in, ok := any(obj).(*T)
	if !ok {
		return fmt.Errorf("encode a stored %s: it is a %T", c.kind.Kind, obj)
	}
	var stored S
	apiVersion, kind := c.kind.ToAPIVersionAndKind()
	c.pack(in, &stored, metav1.TypeMeta{APIVersion: apiVersion, Kind: kind})
	data, err := json.Marshal(&stored)
	if err != nil {
		return fmt.Errorf("encode a stored %s: %w", c.kind.Kind, err)
	}
	_, err = w.Write(data)
	return err
}

// Decode implements runtime.Decoder.
func (c *codec[T, S]) Decode(data []byte, _ *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	var stored S
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &stored); err != nil {
		return nil, &c.kind, fmt.Errorf("decode a stored %s: %w", c.kind.Kind, err)
	}
	out, ok := any(into).(*T)
	if !ok {
		out = new(T)
	}
	c.unpack(&stored, out)
	obj, ok := any(out).(runtime.Object)
	if !ok {
		return nil, &c.kind, fmt.Errorf("decode a stored %s: %T is not an object", c.kind.Kind, out)
	}
	return obj, &c.kind, nil
}

// storedSBOM is an SBOM whose document is a member apart.
type storedSBOM struct {
	reportsv1.SBOM
	Document *runtime.RawExtension `json:"document,omitempty"`
}

func packSBOM(in *reportsv1.SBOM, out *storedSBOM, kind metav1.TypeMeta) {
	out.SBOM = *in
	out.TypeMeta, out.Document = kind, in.Spec.SBOM
	out.Spec.SBOM, out.Spec.SBOMOmitted = nil, in.Spec.SBOM != nil || in.Spec.SBOMOmitted
}

func unpackSBOM(in *storedSBOM, out *reportsv1.SBOM) {
	*out = in.SBOM
	out.TypeMeta = metav1.TypeMeta{}
	if in.Document != nil {
		out.Spec.SBOM, out.Spec.SBOMOmitted = in.Document, false
	}
}

func stripSBOM(obj runtime.Object) {
	if sbom, ok := obj.(*reportsv1.SBOM); ok && sbom.Spec.SBOM != nil {
		sbom.Spec.SBOM, sbom.Spec.SBOMOmitted = nil, true
	}
}

// storedVulnerabilityReport is a VulnerabilityReport whose documents are a member apart.
type storedVulnerabilityReport struct {
	reportsv1.VulnerabilityReport
	Document *vulnerabilityDocument `json:"document,omitempty"`
}

type vulnerabilityDocument struct {
	Report   *runtime.RawExtension            `json:"report,omitempty"`
	Findings []reportsv1.VulnerabilityFinding `json:"findings,omitempty"`
}

func packVulnerabilityReport(in *reportsv1.VulnerabilityReport, out *storedVulnerabilityReport, kind metav1.TypeMeta) {
	out.VulnerabilityReport = *in
	out.TypeMeta = kind
	if in.Spec.Report == nil && in.Spec.Findings == nil {
		return
	}
	out.Document = &vulnerabilityDocument{Report: in.Spec.Report, Findings: in.Spec.Findings}
	out.Spec.Report, out.Spec.Findings, out.Spec.ReportOmitted = nil, nil, true
}

func unpackVulnerabilityReport(in *storedVulnerabilityReport, out *reportsv1.VulnerabilityReport) {
	*out = in.VulnerabilityReport
	out.TypeMeta = metav1.TypeMeta{}
	if in.Document != nil {
		out.Spec.Report, out.Spec.Findings, out.Spec.ReportOmitted = in.Document.Report, in.Document.Findings, false
	}
}

func stripVulnerabilityReport(obj runtime.Object) {
	report, ok := obj.(*reportsv1.VulnerabilityReport)
	if ok && (report.Spec.Report != nil || report.Spec.Findings != nil) {
		report.Spec.Report, report.Spec.Findings, report.Spec.ReportOmitted = nil, nil, true
	}
}
