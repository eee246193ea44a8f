// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/scanyard/scanyard/tests/scans"
)

// registry is the prefix of the images that tests build. The images map does not know
// it, so they run as built.
const registry = "e2e.example/scanyard"

// builds are the images that are built, by recipe, each once.
var builds struct {
	sync.Mutex
	done map[string]func() (tag string, err error)
}

// build builds one of the project's images, puts it where the cluster looks, and
// returns the values of a chart with which the image is run.
func build(t *testing.T, recipe string) map[string]any {
	t.Helper()
	builds.Lock()
	once, begun := builds.done[recipe]
	if !begun {
		once = sync.OnceValues(func() (string, error) { return buildImage(context.WithoutCancel(t.Context()), recipe) })
		if builds.done == nil {
			builds.done = map[string]func() (string, error){}
		}
		builds.done[recipe] = once
	}
	builds.Unlock()
	tag, err := once()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"image": map[string]any{"repository": registry + "/" + recipe, "tag": tag}}
}

func buildImage(ctx context.Context, recipe string) (tag string, err error) {
	tag = "built"
	// The cluster reads the folder at any moment: an image appears there when it is
	// complete.
	dir, err := os.MkdirTemp(filepath.Dir(w.images), "build-")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, w.tools.Path("images"), "build", recipe, "--root", w.tools.Root, "--registry", registry, "--tag", tag,
		"--platform", "linux/"+runtime.GOARCH, "--out", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("images build %s: %w\n%s", recipe, err, out)
	}
	return tag, os.Rename(filepath.Join(dir, recipe), filepath.Join(w.images, recipe))
}

// scanner are the values of a chart for a scanner that the project has an image of:
// none, so that the program of this machine runs, or, if the variable BUILT_IMAGES is
// set, those that run the image.
func scanner(t *testing.T, recipe string) map[string]any {
	t.Helper()
	if os.Getenv("BUILT_IMAGES") == "" {
		return map[string]any{}
	}
	return map[string]any{"scanner": build(t, recipe)}
}

// TestBuiltParserImage parses with the image as it is released, instead of the program.
func TestBuiltParserImage(t *testing.T) {
	t.Parallel()
	values := build(t, "parser")
	ns := namespace(t)
	chart(t, "test-scan", ns, map[string]any{"parser": values})
	got := done(t, scans.New(ns, "built", "test-scan"))
	wantStats(t, got, findings(t, got))
	image := jobsOf(got)["parser"].Spec.Template.Spec.Containers[0].Image
	if want := registry + "/parser:"; !strings.HasPrefix(image, want) {
		t.Errorf("the parser ran as %s, want %s…", image, want)
	}
}

// TestSSHAudit runs the project's image, with the wrapper script in it: distributions
// that are not quite new have an ssh-audit without recommendations in its report.
func TestSSHAudit(t *testing.T) {
	t.Parallel()
	values := build(t, "scanner-ssh-audit")
	ssh, ns := sshServer(t), namespace(t)
	chart(t, "ssh-audit", ns, map[string]any{"scanner": values})
	all, _ := scanned(t, scans.New(ns, "audit", "ssh-audit", ssh.Host, fmt.Sprintf("--port=%d", ssh.Port)), "ssh-audit.json")
	where := "ssh://" + ssh.Host
	wantLines(t, keep(all, "SSH Service"), []string{fmt.Sprintf("SSH Service | INFORMATIONAL | %s | %s", where, ssh.Host)}, "name", "severity", "location", "ip_address")
	// What it recommends to add changes with its version.
	wantAmong(t, keep(all, "SSH Policy Violation"), []string{
		fmt.Sprintf("Insecure SSH KEX Algorithms | HIGH | %s | [%s]", where, ssh.WeakKex),
		fmt.Sprintf("Insecure SSH MAC Algorithms | HIGH | %s | [%s]", where, ssh.WeakMAC),
		fmt.Sprintf("SSH Key Algorithms must be changed | MEDIUM | %s | [rsa-sha2-256 (Note: %[2]s) rsa-sha2-512 (Note: %[2]s)]", where, "increase modulus size to 3072 bits or larger"),
	}, "name", "severity", "location", "algorithms")
}
