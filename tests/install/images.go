// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"
)

// Image lets an image name stand for a program, in the form of the local
// cluster's images map.
type Image struct {
	Image      string            `json:"image"`
	Entrypoint []string          `json:"entrypoint,omitempty"`
	User       string            `json:"user,omitempty"`
	Env        map[string]string `json:"env,omitempty"`
	Binaries   map[string]string `json:"binaries,omitempty"`
}

// Images lists the images of the operator, the hooks, the reports API server, the programs of forwarding and of registries, the
// console, and the demo's scanners. Users are those of the real images, as far as it matters to file permissions. An image whose program
// is not built is left out: the cluster says of its pods that the image cannot be pulled.
func (p Programs) Images() []Image {
	return slices.DeleteFunc([]Image{
		p.own("operator", "operator"), p.own("lurker", "lurker"), p.own("parser", "parser"), p.own("hook", "hook"), p.own("reports-apiserver", "reports-apiserver"),
		p.own("forwarder", "forwarder"), p.own("exporter", "exporter"), p.own("receiver", "receiver"),
		p.own("console", "console"),
		p.own("registry-controller", "registry-controller"), p.own("registry-worker", "registry-worker"),
		{
			Image: "docker.io/scanyard/registry-export:*", Entrypoint: []string{"/registry-export"}, User: "65532:65532",
			Binaries: map[string]string{"/registry-export": p.Path("registry-export")},
		},
		{
			Image: "docker.io/scanyard/import-result:*", Entrypoint: []string{"/import-result"}, User: "65532:65532",
			Binaries: map[string]string{"/import-result": p.Path("import-result")},
		},
		{Image: "docker.io/securecodebox/scanner-nmap:*"},
		{Image: "docker.io/securecodebox/scanner-test-scan:*"},
		{Image: "docker.io/zricethezav/gitleaks:*", User: "0:0", Binaries: map[string]string{"/usr/bin/gitleaks": p.Gitleaks}},
		{Image: "docker.io/alpine/git:*", User: "0:0", Entrypoint: []string{"git"}},
	}, func(i Image) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(i.Binaries)), func(program string) bool { return !exists(program) })
	})
}

// own is an image of this project, which holds one of its binaries.
func (p Programs) own(name, binary string) Image {
	inside := "/usr/local/bin/scanyard-" + name
	return Image{
		Image: "docker.io/scanyard/" + name + ":*", Entrypoint: []string{inside}, User: "65532:65532",
		Binaries: map[string]string{inside: p.Path(binary)},
	}
}

// WriteImagesMap writes the images map of a local cluster.
func WriteImagesMap(path string, images []Image) error {
	b, err := yaml.Marshal(map[string]any{"images": images})
	if err != nil {
		return fmt.Errorf("write images map: %w", err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		return fmt.Errorf("write images map: %w", err)
	}
	return nil
}
