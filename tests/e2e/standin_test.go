// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/tests/install"
)

// standIn is an image whose scanner is not run here. This program takes its place:
// it wants exactly the arguments that the test expects of chart and Scan, and leaves a
// result that the scanner itself once wrote where they say.
type standIn struct {
	image string
	// program is where the image has its scanner.
	program string
	// recipe is the image's folder of the project, if it starts by a wrapper script.
	recipe string
}

var standIns = []standIn{
	{"docker.io/securecodebox/scanner-kube-hunter:*", "/usr/local/bin/kube-hunter", "scanner-kube-hunter"},
	{"docker.io/securecodebox/scanner-nikto:*", "/usr/local/bin/nikto.pl", "scanner-nikto"},
	{"docker.io/securecodebox/scanner-sslyze:*", "/usr/local/bin/sslyze", "scanner-sslyze"},
	{"docker.io/securecodebox/scanner-wpscan:*", "/usr/local/bin/wpscan", "scanner-wpscan"},
	{"docker.io/projectdiscovery/nuclei:*", "/usr/local/bin/nuclei", ""},
	{"docker.io/projectdiscovery/subfinder:*", "/usr/local/bin/subfinder", ""},
	{"docker.io/semgrep/semgrep:*", "/usr/local/bin/semgrep", ""},
	{"docker.io/aquasec/trivy:*", "/usr/local/bin/trivy", ""},
	{"docker.io/zaproxy/zap-stable:*", "/zap/zap.sh", ""},
}

// recordedFolder is where those images have the recorded results.
const recordedFolder = "/recorded"

// imagesOfStandIns makes the images, with files below dir. Each holds all recorded
// results that any case uses.
func imagesOfStandIns(dir, tool string, tools *install.Scanners) ([]install.Image, error) {
	binaries := map[string]string{inside: tool}
	for _, c := range recordedCases {
		binaries[filepath.Join(recordedFolder, c.raw)] = filepath.Join(tools.Parsers, c.raw)
	}
	var images []install.Image
	for _, s := range standIns {
		im := install.Image{Image: s.image, Binaries: maps.Clone(binaries)}
		name := filepath.Base(s.program)
		im.Binaries[s.program] = filepath.Join(dir, name)
		script := fmt.Sprintf("#!/bin/sh\nexec %s %s recorded %s \"$@\"\n", inside, inImage, name)
		if err := os.WriteFile(im.Binaries[s.program], []byte(script), 0o755); err != nil {
			return nil, err
		}
		if s.recipe != "" {
			im.Binaries["/wrapper.sh"] = tools.Wrapper(s.recipe)
		}
		images = append(images, im)
	}
	return images, nil
}

// What a Scan tells a stand-in.
const (
	// envRaw names the recorded result.
	envRaw = "RECORDED_RAW"
	// envArguments is what the scanner is to be started with, as JSON.
	envArguments = "RECORDED_ARGUMENTS"
)

// fileArgument stands in expected arguments for the path that the result goes to.
const fileArgument = "FILE"

// playRecorded is the scanner of all stand-ins.
func playRecorded(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("a scanner without arguments")
	}
	name, args := args[0], args[1:]
	if name == "trivy" && args[0] == "server" {
		return untilTerminated(ctx)
	}
	var want []string
	if err := json.Unmarshal([]byte(os.Getenv(envArguments)), &want); err != nil {
		return fmt.Errorf("%s: %w", envArguments, err)
	}
	output, err := matchArguments(want, args)
	if err == nil && name == "zap.sh" {
		output, err = reportOfPlan(args)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	raw, err := os.ReadFile(os.Getenv(envRaw))
	if err != nil {
		return err
	}
	if output == "" {
		_, err = os.Stdout.Write(raw)
		return err
	}
	// As scanners do: the lurker, which uploads it, is another user.
	return os.WriteFile(output, raw, 0o644)
}

// untilTerminated is a server without clients.
func untilTerminated(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return nil
}

// matchArguments compares arguments with what is wanted and returns the one in the
// place of fileArgument, also where it is only the end of an argument.
func matchArguments(want, got []string) (file string, err error) {
	differ := fmt.Errorf("started with %q, want %q", got, want)
	if len(want) != len(got) {
		return "", differ
	}
	for i, w := range want {
		if prefix, ok := strings.CutSuffix(w, fileArgument); ok && strings.HasPrefix(got[i], prefix) && len(got[i]) > len(prefix) {
			file = got[i][len(prefix):]
			continue
		}
		if w != got[i] {
			return "", differ
		}
	}
	return file, nil
}

// reportOfPlan reads from ZAP's automation plan where its report goes.
func reportOfPlan(args []string) (string, error) {
	i := slices.Index(args, "-autorun")
	if i < 0 || i+1 == len(args) {
		return "", errors.New("-autorun PLAN is missing")
	}
	b, err := os.ReadFile(args[i+1])
	if err != nil {
		return "", err
	}
	if strings.Contains(string(b), "${TARGET_URL}") && os.Getenv("TARGET_URL") == "" {
		return "", errors.New("the plan takes its URL from TARGET_URL, which is not set")
	}
	var plan struct {
		Jobs []struct {
			Type       string
			Parameters struct{ Template, ReportDir, ReportFile string }
		}
	}
	if err := yaml.Unmarshal(b, &plan); err != nil {
		return "", fmt.Errorf("%s: %w", args[i+1], err)
	}
	for _, j := range plan.Jobs {
		if p := j.Parameters; j.Type == "report" && p.Template == "traditional-xml" && p.ReportDir != "" && p.ReportFile != "" {
			return filepath.Join(p.ReportDir, p.ReportFile+".xml"), nil
		}
	}
	return "", fmt.Errorf("%s has no report of template traditional-xml", args[i+1])
}

var _ = Describe("Stand-ins", Label("scanners"), func() {
	Describe("compare the arguments of a scanner with those that are wanted", func() {
		cases := map[string]struct {
			want, got []string
			file      string
			fails     bool
		}{
			"Path":         {want: []string{"-o", "FILE", "x"}, got: []string{"-o", "/a", "x"}, file: "/a"},
			"PathAfter":    {want: []string{"--log=FILE"}, got: []string{"--log=/a"}, file: "/a"},
			"NoPath":       {want: []string{"--log=FILE"}, got: []string{"--log="}, fails: true},
			"StandardOut":  {want: []string{"--json"}, got: []string{"--json"}},
			"OtherFlag":    {want: []string{"-o", "FILE"}, got: []string{"-x", "/a"}, fails: true},
			"NoParameters": {want: []string{"-o", "FILE", "x"}, got: []string{"-o", "/a"}, fails: true},
			"TooMany":      {want: []string{"-o", "FILE"}, got: []string{"-o", "/a", "x"}, fails: true},
		}
		for name, tc := range inOrder(cases) {
			It(name, func() {
				file, err := matchArguments(tc.want, tc.got)
				Expect(err != nil).To(Equal(tc.fails), "error %v", err)
				Expect(file).To(BeComparableTo(tc.file), "path")
			})
		}
	})
})
