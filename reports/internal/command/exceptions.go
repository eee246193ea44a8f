// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/access"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/marks"
	"github.com/scanyard/scanyard/reports/internal/server"
)

// exceptions have stored reports follow what is excepted. Nil follows nothing.
type exceptions struct {
	source *marks.Cluster
	marker *marks.Marker
}

// newExceptions prepares it. Nothing is watched yet.
func newExceptions(cluster *access.Cluster) (*exceptions, error) {
	config, err := cluster.ClientConfig()
	if err != nil {
		return nil, err
	}
	source, err := marks.NewCluster(config)
	return &exceptions{source: source}, err
}

// bind says where the reports are.
func (e *exceptions) bind(deps server.Deps) {
	if e != nil {
		e.marker = marks.New(marks.Config{Store: deps.Store, Reports: deps.Storage(kinds.Reports.Resource), Findings: deps.Documents, Source: e.source})
	}
}

// suppressed is what is said of an exception; nil where no exceptions are followed.
func (e *exceptions) suppressed() func(namespace, name string) *reportsv1.Suppressed {
	if e == nil {
		return nil
	}
	return e.source.Suppressed
}

// tasks are what runs while the server serves.
func (e *exceptions) tasks() []server.Task {
	if e == nil {
		return nil
	}
	return []server.Task{
		{Name: "exceptions", Run: e.source.Run},
		{Name: "marks", Run: func(ctx context.Context) error { return e.marker.Run(ctx) }},
	}
}
