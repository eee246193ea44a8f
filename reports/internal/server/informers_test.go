// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/scanyard/scanyard/reports/internal/dbtest"
	"github.com/scanyard/scanyard/reports/internal/server"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// follow starts informers as consumers of reports have them: of whole objects in each group, and of their metadata, as the garbage collector
// and policy engines do.
func (d *door) follow(t *testing.T) map[string]cache.SharedIndexInformer {
	t.Helper()
	client, err := metadata.NewForConfig(d.config())
	if err != nil {
		t.Fatal(err)
	}
	whole, heads := dynamicinformer.NewDynamicSharedInformerFactory(d.dynamic(t), 0), metadatainformer.NewSharedInformerFactory(client, 0)
	found := map[string]informers.GenericInformer{
		"PolicyReports": whole.ForResource(policyReports), "Reports": whole.ForResource(openReports), "metadata": heads.ForResource(policyReports),
	}
	all := map[string]cache.SharedIndexInformer{}
	for name, of := range found {
		all[name] = of.Informer()
	}
	whole.Start(t.Context().Done())
	heads.Start(t.Context().Done())
	return all
}

// agree waits until each informer holds what a list shows.
func (d *door) agree(t *testing.T, when string, all map[string]cache.SharedIndexInformer) {
	t.Helper()
	list, err := d.dynamic(t).Resource(policyReports).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	_ = list.EachListItem(func(o runtime.Object) error { // the function has no errors
		item := o.(*unstructured.Unstructured)
		want[item.GetNamespace()+"/"+item.GetName()] = item.GetResourceVersion()
		return nil
	})
	deadline := time.After(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for name, of := range all {
		for got := held(of); !maps.Equal(want, got); got = held(of) {
			select {
			case <-ticker.C:
			case <-deadline:
				t.Fatalf("%s: the informer of %s holds %v, the list %v", when, name, got, want)
			}
		}
	}
}

func held(of cache.SharedIndexInformer) map[string]string {
	found := map[string]string{}
	for _, item := range of.GetStore().List() {
		if object, ok := item.(metav1.Object); ok {
			found[object.GetNamespace()+"/"+object.GetName()] = object.GetResourceVersion()
		}
	}
	return found
}

// Informers live through an outage of the database, a restart of the server, and a compaction while they are away.
func TestInformersLiveThroughFaults(t *testing.T) {
	config, proxy := dbtest.Proxied(t, sqldb.PostgreSQL)
	d := serve(t, config, nil)
	write := func(d *door, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			d.create(t, policyReports, fmt.Sprintf("team-%d", i%2), report(fmt.Sprintf("r-%d", i)))
		}
	}
	drop := func(d *door, i int) {
		t.Helper()
		d.ask(t, request{method: http.MethodDelete, path: fmt.Sprintf("%s/r-%d", path(policyReports, fmt.Sprintf("team-%d", i%2)), i)}).is(http.StatusOK)
	}
	write(d, 0, 4)
	all := d.follow(t)
	d.agree(t, "at first", all)
	write(d, 4, 6)
	drop(d, 0)
	d.agree(t, "after changes", all)

	proxy.Down()
	eventually(t, d, "/readyz", http.StatusInternalServerError)
	proxy.Up(t)
	eventually(t, d, "/readyz", http.StatusOK)
	write(d, 6, 8)
	drop(d, 1)
	d.agree(t, "after an outage", all)

	d.stop()
	if err := <-d.ended; err != nil {
		t.Fatal(err)
	}
	away := serve(t, config, nil) // where nobody who follows is
	write(away, 8, 10)
	drop(away, 2)
	current, err := away.store.Current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := away.store.Compact(t.Context(), current); err != nil {
		t.Fatal(err)
	}
	again := serve(t, config, func(o *server.Options) {
		if err := o.Listener.Close(); err != nil {
			t.Error(err)
		}
		if o.Listener, err = net.Listen("tcp", strings.TrimPrefix(d.url, "http://")); err != nil {
			t.Error(err)
		}
	})
	again.agree(t, "after a restart and a compaction", all)
	write(again, 10, 12)
	drop(again, 3)
	again.agree(t, "after more changes", all)
}
