// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"context"
	"encoding/base64"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/images"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

const (
	defaultItems = 100
	mostItems    = 1000
)

var queriesResource = reportsv1.SchemeGroupVersion.WithResource("imagequeries").GroupResource()

// queries is ImageQuery: created, answered, not stored.
type queries struct {
	rest.TableConvertor

	service *Service
}

var (
	_ rest.Storage              = &queries{}
	_ rest.Creater              = &queries{}
	_ rest.Scoper               = &queries{}
	_ rest.SingularNameProvider = &queries{}
	_ rest.CategoriesProvider   = &queries{}
)

// New implements rest.Storage.
func (*queries) New() runtime.Object { return &reportsv1.ImageQuery{} }

// Destroy implements rest.Storage. There is nothing to clean up.
func (*queries) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (*queries) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (*queries) GetSingularName() string { return "imagequery" }

// Categories implements rest.CategoriesProvider.
func (*queries) Categories() []string { return []string{kinds.Category} }

// Create implements rest.Creater: it answers the question.
func (q *queries) Create(ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	query, ok := obj.(*reportsv1.ImageQuery)
	namespace, scoped := request.NamespaceFrom(ctx)
	if !ok || !scoped || namespace == "" {
		return nil, apierrors.NewBadRequest("must be an ImageQuery in a namespace")
	}
	query.Namespace = namespace
	if validate != nil {
		if err := validate(ctx, obj.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	asked, mistakes := questionOf(query)
	if len(mistakes) > 0 {
		name := query.Name
		if name == "" {
			name = "imagequery"
		}
		return nil, apierrors.NewInvalid(reportsv1.SchemeGroupVersion.WithKind("ImageQuery").GroupKind(), name, mistakes)
	}
	var answered *images.Answer
	err := q.service.store.Query(ctx, func(tx *sqldb.Tx) error {
		var err error
		numbers := images.Kinds{Image: kinds.ImageNumber, SBOM: kinds.SBOMNumber, Report: kinds.VulnerabilityReportNumber}
		answered, err = images.Ask(ctx, tx, numbers, asked)
		return err
	})
	if err != nil {
		return nil, statusOf(err)
	}
	query.Status = statusOfAnswer(answered)
	return query, nil
}

// questionOf checks a query.
func questionOf(query *reportsv1.ImageQuery) (*images.Question, field.ErrorList) {
	spec, path := &query.Spec, field.NewPath("spec")
	asked := &images.Question{Namespace: query.Namespace, Spec: spec, Limit: int(spec.Limit)}
	var mistakes field.ErrorList
	switch spec.Need {
	case "":
		spec.Need = reportsv1.NeedAny
	case reportsv1.NeedMatch:
		if spec.Adapter == "" {
			mistakes = append(mistakes, field.Required(path.Child("adapter"), "what is touched depends on it"))
		}
	case reportsv1.NeedSBOM, reportsv1.NeedAny:
	default:
		needs := []reportsv1.Need{reportsv1.NeedSBOM, reportsv1.NeedMatch, reportsv1.NeedAny}
		mistakes = append(mistakes, field.NotSupported(path.Child("need"), spec.Need, needs))
	}
	if asked.Limit == 0 {
		asked.Limit = defaultItems
	}
	if asked.Limit < 0 || asked.Limit > mostItems {
		mistakes = append(mistakes, field.Invalid(path.Child("limit"), spec.Limit, "must be from 1 to 1000"))
	}
	after, err := base64.RawURLEncoding.DecodeString(spec.Continue)
	if err != nil {
		mistakes = append(mistakes, field.Invalid(path.Child("continue"), spec.Continue, "must be that of an answer"))
	}
	asked.After = string(after)
	return asked, mistakes
}

func statusOfAnswer(answered *images.Answer) reportsv1.ImageQueryStatus {
	status := reportsv1.ImageQueryStatus{Total: answered.Total, ByState: answered.ByState}
	for i := range answered.Items {
		item := &answered.Items[i]
		shown := reportsv1.ImageItem{
			Name: item.Name, UID: types.UID(item.UID), Digest: item.Digest, Bytes: item.Bytes, State: item.State, Attempt: int32(item.Attempt), Lost: int32(item.Lost),
		}
		if item.NotBefore != 0 {
			at := metav1.NewTime(time.UnixMilli(item.NotBefore).UTC())
			shown.NotBefore = &at
		}
		status.Items = append(status.Items, shown)
	}
	if answered.More {
		status.Continue = base64.RawURLEncoding.EncodeToString([]byte(answered.Items[len(answered.Items)-1].Name))
	}
	return status
}
