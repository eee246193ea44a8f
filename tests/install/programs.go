// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs says where the programs are that the charts' images stand for, and
// the charts themselves.
type Programs struct {
	// Bin is the folder of the project's binaries: localcluster, operator, lurker, parser, hook, scanyard, reports-apiserver,
	// forwarder and receiver; and, for those who install their charts, the exporter and those of registry scanning and auto-discovery.
	Bin string
	// Charts is the folder of the charts.
	Charts string
	// Helm and Gitleaks are paths, or names to be looked up in PATH.
	Helm     string
	Gitleaks string
}

// Path is where one of the project's binaries is.
func (p Programs) Path(binary string) string { return filepath.Join(p.Bin, binary) }

// Check returns all that is missing, each with the command that makes it. It
// turns all paths into absolute ones.
func (p *Programs) Check() error {
	var problems []error
	missing := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, dir := range []*string{&p.Bin, &p.Charts} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("find the programs: %w", err)
		}
		*dir = abs
	}
	for _, name := range []string{
		"localcluster", "operator", "lurker", "parser", "hook", "scanyard", "reports-apiserver", "forwarder", "receiver",
	} {
		if !exists(p.Path(name)) {
			missing("%s is not built: make build", p.Path(name))
		}
	}
	if !exists(filepath.Join(p.Charts, "scanyard", "Chart.yaml")) {
		missing("%s holds no charts: name their folder", p.Charts)
	}
	problems = append(problems, lookUp(
		tool{&p.Helm, "go install helm.sh/helm/v4/cmd/helm@v4.3.1"},
		tool{&p.Gitleaks, "go install github.com/zricethezav/gitleaks/v8@v8.30.1"},
		tool{new("nmap"), "apt-get install nmap"},
		tool{new("git"), "apt-get install git"},
	)...)
	return errors.Join(problems...)
}

// tool is a program, and the command that installs it.
type tool struct {
	path *string
	how  string
}

// lookUp makes names of programs absolute paths, and says which are missing.
func lookUp(tools ...tool) []error {
	var problems []error
	for _, t := range tools {
		found, err := exec.LookPath(*t.path)
		if err == nil {
			found, err = filepath.Abs(found)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s is not installed: %s", *t.path, t.how))
			continue
		}
		*t.path = found
	}
	return problems
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Default says where the programs are below the repository: what make has built
// and installed, or what is in PATH.
func Default(root string) Programs {
	return Programs{
		Bin: filepath.Join(root, "bin"), Charts: filepath.Join(root, "charts"), Helm: installed(root, "helm"), Gitleaks: installed(root, "gitleaks"),
	}
}

// installed is a tool as make installs it, or its name.
func installed(root, name string) string {
	if path := filepath.Join(root, "bin", "tools", name); exists(path) {
		return path
	}
	return name
}

// FromEnvironment finds the programs for tests: SCANYARD_BIN is the folder of the
// binaries, SCANYARD_CHARTS that of the charts, HELM and GITLEAKS are the tools. What
// is not set is as in Default.
func FromEnvironment(root string) (Programs, error) {
	p := Default(root)
	for name, path := range map[string]*string{"SCANYARD_BIN": &p.Bin, "SCANYARD_CHARTS": &p.Charts, "HELM": &p.Helm, "GITLEAKS": &p.Gitleaks} {
		if v := os.Getenv(name); v != "" {
			*path = v
		}
	}
	return p, p.Check()
}
