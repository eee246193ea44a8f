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

	. "github.com/onsi/ginkgo/v2"

	"github.com/scanyard/scanyard/tests/scans"
)

// registry is the prefix of the images that tests build. The images map does not know
// it, so they run as built.
const registry = "e2e.example/scanyard"

// build builds one of the project's images, puts it where the cluster looks, and
// returns the values of a chart with which the image is run.
func build(ctx context.Context, recipe string) map[string]any {
	GinkgoHelper()
	tag := onceForAll("image-"+recipe, func() (string, error) { return buildImage(context.WithoutCancel(ctx), recipe) })
	return map[string]any{"image": map[string]any{"repository": registry + "/" + recipe, "tag": tag}}
}

func buildImage(ctx context.Context, recipe string) (tag string, err error) {
	tag = "built"
	// The cluster reads the folder at any moment: an image appears there when it is
	// complete.
	dir, err := os.MkdirTemp(w.place.Dir, "build-")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, w.tools.Path("images"), "build", recipe, "--root", w.tools.Root, "--registry", registry, "--tag", tag,
		"--platform", "linux/"+runtime.GOARCH, "--out", dir)
	if mirror := os.Getenv("IMAGES_MIRROR"); mirror != "" && mirror != "machine" {
		cmd.Args = append(cmd.Args, "--mirror", mirror)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("images build %s: %w\n%s", recipe, err, out)
	}
	return tag, os.Rename(filepath.Join(dir, recipe), filepath.Join(w.place.images(), recipe))
}

// scanner are the values of a chart for a scanner that the project has an image of:
// none, so that the program of this machine runs, or, if the variable BUILT_IMAGES is
// set, those that run the image.
func scanner(ctx context.Context, recipe string) map[string]any {
	GinkgoHelper()
	if os.Getenv("BUILT_IMAGES") == "" {
		return map[string]any{}
	}
	return map[string]any{"scanner": build(ctx, recipe)}
}

var _ = Describe("Built images", Label("images"), func() {
	It("parse as they are released", slow, func(ctx SpecContext) {
		values := build(ctx, "parser")
		ns := namespace(ctx)
		chart(ctx, "test-scan", ns, map[string]any{"parser": values})
		got := done(ctx, scans.New(ns, "built", "test-scan"))
		wantStats(got, findings(ctx, got))
		image := jobsOf(got)["scanner"].Spec.Template.Spec.Containers[1].Image // the parser runs in the scanner's pod
		if want := registry + "/parser:"; !strings.HasPrefix(image, want) {
			Fail(fmt.Sprintf("the parser ran as %s, want %s…", image, want))
		}
	})

	// Runs the project's image, with the wrapper script in it: distributions
	// that are not quite new have an ssh-audit without recommendations in its report.
	It("scan as they are released, with the wrapper script in them", slow, func(ctx SpecContext) {
		values := build(ctx, "scanner-ssh-audit")
		ssh, ns := sshServer(ctx), namespace(ctx)
		chart(ctx, "ssh-audit", ns, map[string]any{"scanner": values})
		all, _ := scanned(ctx, scans.New(ns, "audit", "ssh-audit", ssh.Host, fmt.Sprintf("--port=%d", ssh.Port)), "ssh-audit.json")
		where := "ssh://" + ssh.Host
		wantLines(keep(all, "SSH Service"), []string{fmt.Sprintf("SSH Service | INFORMATIONAL | %s | %s", where, ssh.Host)}, "name", "severity", "location", "ip_address")
		// What it recommends to add changes with its version.
		wantAmong(keep(all, "SSH Policy Violation"), []string{
			fmt.Sprintf("Insecure SSH KEX Algorithms | HIGH | %s | [%s]", where, ssh.WeakKex),
			fmt.Sprintf("Insecure SSH MAC Algorithms | HIGH | %s | [%s]", where, ssh.WeakMAC),
			fmt.Sprintf("SSH Key Algorithms must be changed | MEDIUM | %s | [rsa-sha2-256 (Note: %[2]s) rsa-sha2-512 (Note: %[2]s)]", where, "increase modulus size to 3072 bits or larger"),
		}, "name", "severity", "location", "algorithms")
	})
})
