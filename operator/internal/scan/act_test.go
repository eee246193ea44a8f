// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestIsRefusal(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	cases := map[string]struct {
		err  error
		want bool
	}{
		"None":          {nil, false},
		"Lost":          {errors.New("connection reset by peer"), false},
		"Timeout":       {apierrors.NewTimeoutError("it takes long", 1), false},
		"ServerTimeout": {apierrors.NewServerTimeout(jobs, "create", 1), false},
		"Forbidden":     {apierrors.NewForbidden(jobs, "j", errors.New("exceeded quota")), true},
		"Webhook":       {apierrors.NewInternalError(errors.New("failed calling webhook")), true},
		"TakenName":     {&nameConflictError{"a", "b"}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := isRefusal(tc.err); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
