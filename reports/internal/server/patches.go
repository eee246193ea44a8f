// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"slices"

	"github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
)

// withoutStrategicPatches takes strategic merge patches from the routes, and with them from OpenAPI: custom resources have none, and
// clients choose by what OpenAPI says how they patch. Such a patch is answered with 415 and what is taken instead, as kube-apiserver does.
func withoutStrategicPatches(container *restful.Container, serializer runtime.NegotiatedSerializer) {
	var accepted []string
	for _, service := range container.RegisteredWebServices() {
		routes := service.Routes() // not a copy: these are the ones that are served
		for i := range routes {
			if routes[i].Method != http.MethodPatch {
				continue
			}
			routes[i].Consumes = slices.DeleteFunc(slices.Clone(routes[i].Consumes), func(kind string) bool { return kind == string(types.StrategicMergePatchType) })
			accepted = routes[i].Consumes
		}
	}
	container.ServiceErrorHandler(func(refused restful.ServiceError, req *restful.Request, resp *restful.Response) {
		var err error = apierrors.NewGenericServerResponse(refused.Code, "", schema.GroupResource{}, "", refused.Message, 0, false)
		if refused.Code == http.StatusUnsupportedMediaType && req.Request.Method == http.MethodPatch {
			err = negotiation.NewUnsupportedMediaTypeError(accepted)
		}
		responsewriters.ErrorNegotiated(err, serializer, schema.GroupVersion{}, resp, req.Request)
	})
}
