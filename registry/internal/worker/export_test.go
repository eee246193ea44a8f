// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/export"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

// exported are the parts of the document that the test goes by.
type exported struct {
	Schema   string
	Job      string
	Registry metav1.ObjectMeta
	Images   []struct {
		Name, Reference, Platform, State, Reason string
		Tags                                     []string
		Provenance                               *reportsv1.Provenance
		Findings                                 []reportsv1.VulnerabilityFinding
	}
}

// What workers have found is what a Scan of the Registry's findings gets: each image once, with the findings of its report.
func TestExport(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1.0", 1)
	w.known("shop/api", "latest", 1)
	w.known("shop/web", "2.0", 2)
	w.known("base/os", "12", 3)
	w.work()
	w.discovered(jobUID)
	w.well(w.message(queue.Database))
	for _, key := range []string{"shop/api:1.0", "shop/api:latest", "shop/web:2.0"} {
		image := w.image(key)
		w.well(w.message(queue.SBOM, itemOf(image)))
		if i := w.image(key); i.Status.State == reportsv1.ImageWaitingForMatch {
			w.well(w.message(queue.Match, itemOf(image)))
		}
	}
	w.patch("images", w.image("base/os:12").Name, object{"state": reportsv1.ImageSkipped, "reason": "TooLarge"})

	read := func(change ...func(*export.Options)) exported {
		t.Helper()
		o := export.Options{Namespace: namespace, Registry: "prod", Job: jobUID, MinSeverity: "LOW", Dir: t.TempDir()}
		for _, c := range change {
			c(&o)
		}
		var text bytes.Buffer
		if err := export.Write(t.Context(), export.Source{Registries: w.cluster, Reports: w.client}, o, &text); err != nil {
			t.Fatal(err)
		}
		var document exported
		if err := json.Unmarshal(text.Bytes(), &document); err != nil {
			t.Fatalf("%v: %s", err, text.String())
		}
		return document
	}
	counts := func(d exported) map[string]int {
		all := map[string]int{}
		for _, i := range d.Images {
			_, short, _ := bytes.Cut([]byte(i.Reference), []byte("/"))
			all[string(short)] = len(i.Findings)
		}
		return all
	}
	all := read()
	if all.Schema != export.Schema || all.Registry.Name != "prod" || all.Registry.Namespace != namespace || all.Job != jobUID {
		t.Errorf("%+v", all)
	}
	if diff := cmp.Diff(map[string]int{"shop/api:1.0": 5, "shop/api:latest": 5, "shop/web:2.0": 5, "base/os:12": 0}, counts(all)); diff != "" {
		t.Error(diff)
	}
	for _, i := range all.Images {
		switch {
		case i.State == reportsv1.ImageSkipped:
			if i.Reason != "TooLarge" || i.Provenance != nil {
				t.Errorf("%+v", i)
			}
		case i.Provenance == nil || i.Provenance.Engine.Name == "" || i.Provenance.Database.Version == "" || i.Platform != "linux/amd64":
			t.Errorf("%+v", i)
		case len(i.Tags) == 2 && !cmp.Equal(i.Tags, []string{"1.0", "latest"}):
			t.Errorf("%v", i.Tags)
		}
	}
	for name, tc := range map[string]struct {
		change func(*export.Options)
		want   map[string]int
	}{
		"MinSeverity": {func(o *export.Options) { o.MinSeverity = "CRITICAL" }, map[string]int{"shop/api:1.0": 2, "shop/api:latest": 2, "shop/web:2.0": 2, "base/os:12": 0}},
		"Repository":  {func(o *export.Options) { o.Repository = "base/*" }, map[string]int{"base/os:12": 0}},
		"OtherJob":    {func(o *export.Options) { o.Job, o.ChangedOnly = "other", true }, map[string]int{}},
		"ChangedOnly": {func(o *export.Options) { o.ChangedOnly = true }, map[string]int{"shop/api:1.0": 5, "shop/api:latest": 5, "shop/web:2.0": 5}},
	} {
		if diff := cmp.Diff(tc.want, counts(read(tc.change))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if err := export.Write(t.Context(), export.Source{Registries: w.cluster, Reports: w.client}, export.Options{Namespace: namespace, Registry: "none"}, &bytes.Buffer{}); err == nil {
		t.Error("a Registry that is not there has an export")
	}
}
