// SPDX-License-Identifier: Apache-2.0

package output

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/cli/follow"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

// tableAccept asks the API server for a table, with the metadata of each object.
const tableAccept = "application/json;as=Table;v=v1;g=meta.k8s.io"

// Tables gets tables of one kind from the API server, made of the columns of its CRD.
type Tables struct {
	client   rest.Interface
	resource schema.GroupVersionResource
	scoped   bool
}

// Row is a row of such a table, with its object.
type Row struct {
	metav1.Object
	Table *metav1.Table
}

// NewTables prepares to get tables of a kind.
func NewTables(s *session.Session, gvk schema.GroupVersionKind) (*Tables, error) {
	config, err := s.Config()
	if err != nil {
		return nil, err
	}
	mapper, err := s.ConfigFlags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config = rest.CopyConfig(config)
	gv := gvk.GroupVersion()
	config.GroupVersion, config.APIPath = &gv, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	c, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Tables{client: c, resource: mapping.Resource, scoped: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, nil
}

func (t *Tables) request(namespace, name string, o *metav1.ListOptions) *rest.Request {
	r := t.client.Get().NamespaceIfScoped(namespace, t.scoped && namespace != "").Resource(t.resource.Resource).
		SetHeader("Accept", tableAccept, "application/json").Param("includeObject", string(metav1.IncludeMetadata))
	if name != "" {
		return r.Name(name)
	}
	return r.VersionedParams(o, metav1.ParameterCodec)
}

// Get returns the table of one object.
func (t *Tables) Get(ctx context.Context, namespace, name string) (*metav1.Table, error) {
	table := &metav1.Table{}
	if err := t.request(namespace, name, nil).Do(ctx).Into(table); err != nil {
		return nil, err
	}
	return table, nil
}

// pageSize is how many rows one request asks for, as in kubectl.
const pageSize = 500

// List hands over the tables of the objects of a namespace, or of all with "", page by page; a list of
// any length needs the memory of one page. It returns the resource version of the list.
func (t *Tables) List(ctx context.Context, namespace string, o metav1.ListOptions, page func(*metav1.Table) error) (string, error) {
	o.Limit = pageSize
	for {
		table := &metav1.Table{}
		if err := t.request(namespace, "", &o).Do(ctx).Into(table); err != nil {
			return "", err
		}
		if err := page(table); err != nil || table.Continue == "" {
			return table.ResourceVersion, err
		}
		o.Continue = table.Continue
	}
}

// Feed follows the rows of the objects of a namespace; with a name, only of the object of that name.
func (t *Tables) Feed(namespace, selector, name string) follow.Feed[Row] {
	options := func() *metav1.ListOptions {
		o := &metav1.ListOptions{LabelSelector: selector}
		if name != "" {
			o.FieldSelector = "metadata.name=" + name
		}
		return o
	}
	var columns []metav1.TableColumnDefinition
	return follow.Feed[Row]{
		List: func(ctx context.Context) ([]Row, string, error) {
			table := &metav1.Table{}
			if err := t.request(namespace, "", options()).Do(ctx).Into(table); err != nil {
				return nil, "", err
			}
			columns = table.ColumnDefinitions
			rows, err := Rows(table)
			return rows, table.ResourceVersion, err
		},
		Watch: func(ctx context.Context, resourceVersion string) (watch.Interface, error) {
			o := options()
			o.Watch, o.ResourceVersion, o.AllowWatchBookmarks = true, resourceVersion, true
			return t.request(namespace, "", o).Watch(ctx)
		},
		Decode: func(o runtime.Object) (Row, error) {
			table, ok := o.(*metav1.Table)
			if !ok {
				return Row{}, fmt.Errorf("the API server sent %T", o)
			}
			if len(table.ColumnDefinitions) == 0 { // only the first event has them
				table.ColumnDefinitions = columns
			}
			rows, err := Rows(table)
			if err != nil || len(rows) != 1 {
				return Row{}, fmt.Errorf("the API server sent %d rows: %w", len(rows), err)
			}
			return rows[0], nil
		},
	}
}

// Rows splits a table into its rows.
func Rows(table *metav1.Table) ([]Row, error) {
	out := make([]Row, 0, len(table.Rows))
	for i := range table.Rows {
		one := &metav1.Table{ColumnDefinitions: table.ColumnDefinitions, Rows: table.Rows[i : i+1]}
		o := &metav1.PartialObjectMetadata{}
		if err := runtime.DecodeInto(metadataDecoder, table.Rows[i].Object.Raw, o); err != nil {
			return nil, fmt.Errorf("decode a row: %w", err)
		}
		out = append(out, Row{Object: o, Table: one})
	}
	return out, nil
}

var metadataDecoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	// AddToScheme fails only for types that clash, which these do not.
	_ = metav1.AddMetaToScheme(scheme)
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

// TableOptions are the options of a table.
type TableOptions struct {
	Wide, NoHeaders, WithNamespace, ShowLabels bool
	// Columns is the width of the terminal, or 0. A wide table, and one with labels, is as wide as it is.
	Columns int
}

const (
	// gapOfTables is the space between columns of kubectl's printer.
	gapOfTables = 3
	// least is what a column keeps where the terminal is narrow.
	least = 8
)

// narrow shortens the texts of a page so that its rows fit. Names stay whole: people copy them.
func (o TableOptions) narrow(table *metav1.Table) {
	if o.Wide || o.ShowLabels || o.Columns <= 0 {
		return
	}
	var shown, widths []int // columns of the table that are printed, and their widths
	for i, c := range table.ColumnDefinitions {
		if c.Priority == 0 {
			shown, widths = append(shown, i), append(widths, widthOf(table, i))
		}
	}
	room := o.Columns
	if o.WithNamespace {
		room -= widthOfNamespaces(table) + gapOfTables
	}
	kept := func(column int) bool {
		c := &table.ColumnDefinitions[shown[column]]
		return c.Format == "name" || c.Type != "string" || widths[column] <= termsafe.Width(c.Name)
	}
	termsafe.Narrow(widths, kept, gapOfTables, least, max(room, 1))
	for at, i := range shown {
		fit(table, i, widths[at])
	}
}

// widthOf is the width of a column with its title.
func widthOf(table *metav1.Table, column int) int {
	width := termsafe.Width(table.ColumnDefinitions[column].Name)
	for r := range table.Rows {
		if cells := table.Rows[r].Cells; column < len(cells) {
			width = max(width, termsafe.Width(fmt.Sprint(cells[column])))
		}
	}
	return width
}

// fit shortens the texts of a column.
func fit(table *metav1.Table, column, width int) {
	for r := range table.Rows {
		cells := table.Rows[r].Cells
		if column >= len(cells) {
			continue
		}
		if text, ok := cells[column].(string); ok {
			cells[column] = termsafe.Fit(text, width)
		}
	}
}

func widthOfNamespaces(table *metav1.Table) int {
	width := len("NAMESPACE")
	for i := range table.Rows {
		if o, err := meta.Accessor(table.Rows[i].Object.Object); err == nil {
			width = max(width, len(o.GetNamespace()))
		}
	}
	return width
}

// PrintTables prints tables, with headers before the first one only.
func PrintTables(w io.Writer, o TableOptions) func(*metav1.Table) error {
	p := printers.NewTablePrinter(printers.PrintOptions{
		Wide: o.Wide, NoHeaders: o.NoHeaders, WithNamespace: o.WithNamespace, ShowLabels: o.ShowLabels,
	})
	aligned := printers.GetNewTabWriter(w)
	return func(table *metav1.Table) error {
		for i := range table.Rows { // the printer needs objects, not their bytes
			row := &table.Rows[i]
			if row.Object.Object == nil && len(row.Object.Raw) > 0 {
				o := &metav1.PartialObjectMetadata{}
				if err := runtime.DecodeInto(metadataDecoder, row.Object.Raw, o); err != nil {
					return fmt.Errorf("decode a row: %w", err)
				}
				row.Object.Object = o
			}
		}
		o.narrow(table)
		if err := p.PrintObj(table, aligned); err != nil {
			return err
		}
		return aligned.Flush()
	}
}
