// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/scanyard/scanyard/reports/internal/kinds"
)

// tableConvertor makes the rows that kubectl prints.
type tableConvertor struct{ resource *kinds.Resource }

// ConvertToTable implements rest.TableConvertor.
func (c tableConvertor) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if asked, ok := options.(*metav1.TableOptions); !ok || !asked.NoHeaders {
		for _, column := range c.resource.Columns {
			table.ColumnDefinitions = append(table.ColumnDefinitions, column.TableColumnDefinition)
		}
	}
	ago := kinds.Age(metav1.NewTime(clock.RealClock{}.Now()))
	add := func(obj runtime.Object) error {
		if _, ok := obj.(metav1.Object); !ok {
			return fmt.Errorf("make a row of a table: %T is not an object", obj)
		}
		row := metav1.TableRow{Object: runtime.RawExtension{Object: obj}}
		for _, column := range c.resource.Columns {
			row.Cells = append(row.Cells, column.Value(obj, ago))
		}
		table.Rows = append(table.Rows, row)
		return nil
	}
	if !meta.IsListType(obj) {
		accessor, err := meta.CommonAccessor(obj)
		if err != nil {
			return nil, err
		}
		table.ResourceVersion = accessor.GetResourceVersion()
		return table, add(obj)
	}
	list, err := meta.ListAccessor(obj)
	if err != nil {
		return nil, err
	}
	table.ResourceVersion, table.Continue, table.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(), list.GetRemainingItemCount()
	return table, meta.EachListItem(obj, add)
}
