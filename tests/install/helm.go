// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Helm runs the real Helm against one cluster.
type Helm struct {
	binary, charts string
	kubeconfig     string
	// home keeps what Helm writes beside the cluster, so that a user's own settings
	// and repositories neither matter nor change.
	home string
}

// NewHelm prepares Helm for a cluster. It copies the charts below home and packs
// the library chart into those that use it, so that the repository stays as it is.
func NewHelm(ctx context.Context, p Programs, kubeconfig, home string) (*Helm, error) {
	h := OpenHelm(p, kubeconfig, home)
	if err := os.RemoveAll(h.charts); err != nil {
		return nil, fmt.Errorf("copy charts: %w", err)
	}
	if err := os.CopyFS(h.charts, os.DirFS(p.Charts)); err != nil {
		return nil, fmt.Errorf("copy charts: %w", err)
	}
	if err := h.packLibrary(ctx); err != nil {
		return nil, fmt.Errorf("pack the library chart: %w", err)
	}
	return h, nil
}

// library is the chart that others are built on. It is their only dependency.
const library = "scanyard-lib"

// packLibrary packs the library chart once and gives it to all charts that are built on it. "helm dependency build" would pack it
// anew for each of them, in a process each.
func (h *Helm) packLibrary(ctx context.Context) error {
	users, err := filepath.Glob(filepath.Join(h.charts, "*", "Chart.lock"))
	if err != nil {
		return err
	}
	packed := filepath.Join(h.home, "packed")
	if err := os.RemoveAll(packed); err != nil {
		return err
	}
	if err := h.run(ctx, nil, "package", filepath.Join(h.charts, library), "--destination", packed); err != nil {
		return err
	}
	for _, user := range users {
		dependencies := filepath.Join(filepath.Dir(user), "charts")
		if err := os.RemoveAll(dependencies); err != nil {
			return err
		}
		if err := os.CopyFS(dependencies, os.DirFS(packed)); err != nil {
			return err
		}
	}
	return nil
}

// OpenHelm is the Helm that another process has prepared with NewHelm.
func OpenHelm(p Programs, kubeconfig, home string) *Helm {
	return &Helm{binary: p.Helm, charts: filepath.Join(home, "charts"), kubeconfig: kubeconfig, home: home}
}

// Charts lists the charts below a folder that can be installed, by their own folders' names.
func Charts(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "Chart.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list charts: %w", err)
	}
	var names []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("list charts: %w", err)
		}
		var chart struct{ Type string }
		if err := yaml.Unmarshal(b, &chart); err != nil {
			return nil, fmt.Errorf("list charts: %s: %w", file, err)
		}
		if chart.Type != "library" {
			names = append(names, filepath.Base(filepath.Dir(file)))
		}
	}
	return names, nil
}

// Release is one chart to install.
type Release struct {
	// Name of the release; empty takes that of the chart.
	Name string
	// Chart is its folder's name.
	Chart     string
	Namespace string
	Values    map[string]any
}

// Install installs or upgrades a release and makes its namespace where it does
// not exist. The error holds what Helm said.
func (h *Helm) Install(ctx context.Context, r Release) error {
	values, err := yaml.Marshal(r.Values)
	if err != nil {
		return fmt.Errorf("helm install %s: %w", r.Chart, err)
	}
	name := r.Name
	if name == "" {
		name = r.Chart
	}
	return h.run(ctx, values, "upgrade", "--install", name, filepath.Join(h.charts, r.Chart),
		"--namespace", r.Namespace, "--create-namespace", "--values", "-")
}

// Template renders one file of a release, as Helm would install it.
func (h *Helm) Template(ctx context.Context, r Release, file string) ([]byte, error) {
	values, err := yaml.Marshal(r.Values)
	if err != nil {
		return nil, fmt.Errorf("helm template %s: %w", r.Chart, err)
	}
	return h.output(ctx, values, "template", r.Name, filepath.Join(h.charts, r.Chart), "--namespace", r.Namespace, "--values", "-", "--show-only", file)
}

// Uninstall removes a release.
func (h *Helm) Uninstall(ctx context.Context, name, namespace string) error {
	return h.run(ctx, nil, "uninstall", name, "--namespace", namespace)
}

func (h *Helm) run(ctx context.Context, stdin []byte, args ...string) error {
	_, err := h.output(ctx, stdin, args...)
	return err
}

func (h *Helm) output(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, h.binary, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.Env = append(withoutHelm(os.Environ()), "KUBECONFIG="+h.kubeconfig,
		"HELM_CACHE_HOME="+filepath.Join(h.home, "cache"), "HELM_CONFIG_HOME="+filepath.Join(h.home, "config"), "HELM_DATA_HOME="+filepath.Join(h.home, "data"))
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("helm %s: %w\n%s", strings.Join(args[:3], " "), err, strings.TrimSpace(out.String()+complaints.String()))
	}
	return out.Bytes(), nil
}

// withoutHelm drops settings of a user's own Helm, such as another namespace.
func withoutHelm(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "HELM_") {
			out = append(out, e)
		}
	}
	return out
}
