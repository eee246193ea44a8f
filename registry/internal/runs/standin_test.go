// SPDX-License-Identifier: Apache-2.0

package runs

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// reports is a reports API in memory, as far as jobs ask it.
type reports struct {
	client.Client

	repositories map[string]*reportsv1.Repository
	images       map[string]*reportsv1.Image
	databases    map[string]*reportsv1.VulnerabilityDatabase
}

func newReports() *reports {
	return &reports{
		repositories: map[string]*reportsv1.Repository{}, images: map[string]*reportsv1.Image{}, databases: map[string]*reportsv1.VulnerabilityDatabase{},
	}
}

func (r *reports) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch o := into.(type) {
	case *reportsv1.Repository:
		if found := r.repositories[key.Name]; found != nil {
			found.DeepCopyInto(o)
			return nil
		}
	case *reportsv1.VulnerabilityDatabase:
		if found := r.databases[key.Name]; found != nil {
			found.DeepCopyInto(o)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (r *reports) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	asked := &client.ListOptions{}
	asked.ApplyOptions(options)
	switch list := into.(type) {
	case *reportsv1.RepositoryList:
		for _, o := range r.repositories {
			list.Items = append(list.Items, *o.DeepCopy())
		}
	case *reportsv1.ImageList:
		for _, o := range r.images {
			set := fields.Set{"spec.registry.uid": o.Spec.Registry.UID, "status.presence": string(o.Status.Presence), "status.state": o.Status.State}
			if asked.FieldSelector.Matches(set) {
				list.Items = append(list.Items, *o.DeepCopy())
			}
		}
	}
	return nil
}

func (r *reports) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	query := o.(*reportsv1.ImageQuery)
	query.Status.ByState = map[string]int64{}
	for name, image := range r.images {
		job := ""
		if w := image.Status.Work; w != nil && w.Job != nil {
			job = w.Job.UID
		}
		state := image.Status.State
		needs := map[reportsv1.Need]bool{
			"": true, reportsv1.NeedAny: true, reportsv1.NeedSBOM: state == reportsv1.ImagePending,
			reportsv1.NeedMatch: state == reportsv1.ImageWaitingForMatch || state == reportsv1.ImageScanned && image.Status.Database.Version != query.Spec.DatabaseVersion,
		}
		if !needs[query.Spec.Need] || query.Spec.JobUID != "" && query.Spec.JobUID != job || len(query.Spec.States) > 0 && !slices.Contains(query.Spec.States, state) {
			continue
		}
		query.Status.Total++
		query.Status.ByState[state]++
		if len(query.Status.Items) < int(query.Spec.Limit) {
			query.Status.Items = append(query.Status.Items, reportsv1.ImageItem{Name: name, UID: image.UID, State: state, Digest: image.Spec.Digest})
		}
	}
	return nil
}
