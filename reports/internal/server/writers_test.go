// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// Row 1 of the fault list: writers that change one object lose no change. Who was too late is told so and tries again.
func TestConcurrentWritesOfOneObject(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, config sqldb.Config) {
		const writers = 8
		changes := dbtest.Size(12, 100)
		if config.Driver == sqldb.SQLite { // no server in between: quick enough at its full size
			changes = 100
		}
		d := serve(t, config, nil)
		d.create(t, policyReports, "team-a", report("a", with("summary", object{"pass": 0})))
		place := path(policyReports, "team-a") + "/a"
		client := d.dynamic(t).Resource(policyReports).Namespace("team-a")
		problems := make(chan error, writers)
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for done := 0; done < changes; {
					err := countOne(t.Context(), client)
					switch {
					case err == nil:
						done++
					case !apierrors.IsConflict(err):
						problems <- err
						return
					}
				}
			})
		}
		all.Wait()
		close(problems)
		for problem := range problems {
			t.Error(problem)
		}
		if got := d.ask(t, request{path: place}).is(http.StatusOK); got.at("summary", "pass") != strconv.Itoa(writers*changes) {
			t.Errorf("counted to %s", got.at("summary", "pass"))
		}
	})
}

// countOne reads the report, counts, and writes it back.
func countOne(ctx context.Context, client dynamic.ResourceInterface) error {
	read, err := client.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		return err
	}
	count, _, err := unstructured.NestedInt64(read.Object, "summary", "pass")
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(read.Object, count+1, "summary", "pass"); err != nil {
		return err
	}
	_, err = client.Update(ctx, read, metav1.UpdateOptions{})
	return err
}
