// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/manifest"
)

// contentOf gives what is kept of an image with layers of 1, 2, … bytes and a config.
func contentOf(t *testing.T, layers int, config string) manifest.Content {
	t.Helper()
	s := store{}
	digest := s.put(ociConfig, config)
	var list []string
	for i := range layers {
		list = append(list, of("mediaType", quoted(layer), "digest", quoted(digestOf(strconv.Itoa(i))), "size", strconv.Itoa(i+1)))
	}
	top := s.put(ociManifest, of("schemaVersion", "2", "mediaType", quoted(ociManifest),
		"config", of("mediaType", quoted(ociConfig), "digest", quoted(digest), "size", strconv.Itoa(len(config))), "layers", "["+strings.Join(list, ",")+"]"))
	answer, err := manifest.Images(top, manifest.Limits{MaxImageBytes: 1 << 30}, s.get)
	if err != nil || len(answer.Images) != 1 {
		t.Fatalf("want one image, got %v, error %v", answer, err)
	}
	return answer.Images[0].Content
}

func TestContentHasLayersWithTheirCommands(t *testing.T) {
	got := contentOf(t, 2, of("os", `"linux"`, "architecture", `"amd64"`, "config", `{"User":"app","Labels":{"a":"1","b":2}}`,
		"rootfs", of("type", `"layers"`, "diff_ids", "["+quoted(digestOf("x"))+","+quoted(digestOf("y"))+"]"),
		"history", `[{"created_by":"ADD root"},{"created_by":"ENV A=1","empty_layer":true},{"created_by":"RUN make"}]`))
	want := manifest.Content{MediaType: ociManifest, User: "app", Labels: map[string]string{"a": "1"}, Layers: []manifest.Layer{
		{Digest: digestOf("0"), DiffID: digestOf("x"), MediaType: layer, Bytes: 1, Command: "ADD root"},
		{Digest: digestOf("1"), DiffID: digestOf("y"), MediaType: layer, Bytes: 2, Command: "RUN make"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestContentOfAConfigThatSaysOtherwise(t *testing.T) {
	for name, config := range map[string]string{
		"Empty": `{}`, "OneHistoryForTwoLayers": `{"history":[{"created_by":"RUN a"}],"rootfs":{"diff_ids":["sha256:00"]}}`,
		"Strange": `{"history":[1,"a"],"rootfs":{"diff_ids":[{},7]},"config":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, l := range contentOf(t, 2, config).Layers {
				if l.DiffID != "" || l.Command != "" {
					t.Errorf("nothing is known of the layer, got %+v", l)
				}
			}
		})
	}
}

func TestContentHasBounds(t *testing.T) {
	var labels, ids, history []string
	for i := range 600 {
		labels = append(labels, fmt.Sprintf(`"label-%03d":%q`, i, strings.Repeat("v", 1000)))
		ids = append(ids, quoted(digestOf(strconv.Itoa(i))))
		history = append(history, `{"created_by":`+quoted(strings.Repeat("c", 2000))+`}`)
	}
	got := contentOf(t, 600, of("config", `{"Labels":{`+strings.Join(labels, ",")+`}}`, "history", "["+strings.Join(history, ",")+"]",
		"rootfs", `{"diff_ids":[`+strings.Join(ids, ",")+`]}`))
	if len(got.Layers) != 512 || got.LayersOmitted != 88 || utf8.RuneCountInString(got.Layers[511].Command) != 512 || got.Layers[511].DiffID != digestOf("511") {
		t.Errorf("want 512 layers with short commands, got %d, last %+v", len(got.Layers), got.Layers[len(got.Layers)-1])
	}
	if len(got.Labels) != 32 || utf8.RuneCountInString(got.Labels["label-000"]) != 256 || got.Labels["label-031"] == "" {
		t.Errorf("want the first 32 labels with short values, got %d", len(got.Labels))
	}
}
