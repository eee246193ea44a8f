// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/adapter"
	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
	"github.com/scanyard/scanyard/registry/internal/distribution"
)

// A dry run tells what the filter of the job takes, and writes nothing.
func TestDryRunWritesNothing(t *testing.T) {
	w := newWorld(t)
	for i, tag := range []string{"1.0", "2.0", "latest"} {
		w.known("shop/api", tag, i)
	}
	w.known("shop/web", "1.0", 9)
	job := w.discoveryJob("dry")
	job.Spec.DryRun = true
	job.Spec.Override = &registryv1alpha1.Filter{Tags: &registryv1alpha1.TagFilter{SemVer: &registryv1alpha1.SemVer{Range: ">=2"}}}
	w.create(job)
	w.work()
	w.reports.forget()
	e := w.do(withJob(w.catalog(), "dry"))[0]
	if e.Outcome != "Done" || e.Row != "DryRun" || e.Preview == nil {
		t.Fatalf("%+v", e)
	}
	want := &registryv1alpha1.Preview{Selected: []string{"shop/api:2.0"}, Skipped: []registryv1alpha1.SkippedTag{
		{Tag: "shop/api:1.0", Reason: "OutOfRange"}, {Tag: "shop/api:latest", Reason: "NotAVersion"}, {Tag: "shop/web:1.0", Reason: "OutOfRange"},
	}}
	if diff := cmp.Diff(want, e.Preview.Preview); diff != "" || e.Preview.Repositories.Done != 2 || e.Preview.Tags.Listed != 4 || e.Preview.Images.Found != 1 {
		t.Errorf("%s %+v", diff, e.Preview)
	}
	if writes := w.reports.writes(); len(writes) != 0 {
		t.Errorf("%v", writes)
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		err, ended error
		want       string
	}{
		"Done":        {nil, nil, "Done "},
		"Crash":       {&adapter.CrashError{Reason: adapter.MemoryExceeded}, nil, "Crashed MemoryExceeded"},
		"Unscannable": {protocol.Errorf(protocol.TooManyFiles, "x"), nil, "Unscannable TooManyFiles"},
		"Broken":      {protocol.Errorf(protocol.InvalidInput, "x"), nil, "Broken InvalidInput"},
		"Retryable":   {protocol.Errorf(protocol.DiskFull, "x"), nil, "Transient DiskFull"},
		"Refused":     {&distribution.Error{Reason: distribution.Unauthorized}, nil, "Refused Unauthorized"},
		"Forbidden":   {&distribution.Error{Reason: distribution.Forbidden}, nil, "Broken Forbidden"},
		"Throttled":   {&distribution.Error{Reason: distribution.RateLimited}, nil, "Throttled RateLimited"},
		"Draining":    {context.Canceled, errDraining, "GivenBack GivenBack"},
		"Cancelled":   {protocol.Errorf(protocol.Cancelled, "x"), errCancelled, "GivenBack GivenBack"},
		"Late":        {context.DeadlineExceeded, nil, "Transient Timeout"},
		"Unknown":     {errors.New("x"), nil, "Transient Internal"},
	} {
		t.Run(name, func(t *testing.T) {
			v := judge(c.err, c.ended)
			if got := outcomes[v.outcome] + " " + v.reason; got != c.want || v.dropped {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	if v := judge(context.Canceled, errDropped); !v.dropped {
		t.Errorf("%+v", v)
	}
	if got := clean("a\x1b[31m\u202eb\n"); got != "a [31m b " {
		t.Errorf("%q", got)
	}
}
