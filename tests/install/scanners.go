// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Scanners says where the scanners are that the end-to-end tests run beyond those of
// the demo, and what they need for them.
type Scanners struct {
	Programs

	// FFUF, SSHD and TestSSL are paths, or names to be looked up in PATH.
	FFUF, SSHD, TestSSL string
	// Root is the repository's folder.
	Root string
	// Recipes is the folder of the recipes of images, with the wrapper scripts.
	Recipes string
	// Parsers is the folder of the parsers, with their recorded raw results.
	Parsers string
}

// ScannersFromEnvironment finds them for tests: FFUF, SSHD and TESTSSL are
// programs. What is not set is where make or the distribution puts it.
func ScannersFromEnvironment(p Programs, root string) (Scanners, error) {
	s := Scanners{
		Programs: p, FFUF: installed(root, "ffuf"), SSHD: "sshd", TestSSL: "testssl",
		Root: root, Recipes: filepath.Join(root, "scanners", "images"), Parsers: filepath.Join(root, "parsers"),
	}
	if usual := "/usr/sbin/sshd"; exists(usual) {
		s.SSHD = usual // not in the PATH of most users
	}
	for name, path := range map[string]*string{"FFUF": &s.FFUF, "SSHD": &s.SSHD, "TESTSSL": &s.TestSSL} {
		if v := os.Getenv(name); v != "" {
			*path = v
		}
	}
	return s, s.check()
}

func (s *Scanners) check() error {
	var problems []error
	for _, dir := range []*string{&s.Root, &s.Recipes, &s.Parsers} {
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("find the scanners: %w", err)
		}
		if *dir = abs; !exists(abs) {
			problems = append(problems, fmt.Errorf("%s is missing: the tests want the whole repository", abs))
		}
	}
	for _, name := range []string{"git-repo-scanner", "images", "autodiscovery", "autodiscovery-aws"} {
		if !exists(s.Path(name)) {
			problems = append(problems, fmt.Errorf("%s is not built: make build", s.Path(name)))
		}
	}
	return errors.Join(append(problems, lookUp(
		tool{&s.FFUF, "make tools"},
		tool{&s.SSHD, "apt-get install openssh-server"},
		tool{new("ssh-keygen"), "apt-get install openssh-client"},
		tool{new("ncrack"), "apt-get install ncrack"},
		tool{new("whatweb"), "apt-get install whatweb"},
		tool{new("firefox"), "apt-get install firefox-esr"},
		tool{&s.TestSSL, "apt-get install testssl.sh"},
	)...)...)
}

// Wrapper is the script that an image of a recipe starts its scanner with.
func (s *Scanners) Wrapper(recipe string) string {
	return filepath.Join(s.Recipes, recipe, "wrapper.sh")
}

// Images lists the images of those scanners and of the auto-discovery, and of all that Programs has.
func (s *Scanners) Images() []Image {
	const home = "/home/securecodebox"
	return append(s.Programs.Images(),
		s.own("auto-discovery-kubernetes", "autodiscovery"), s.own("auto-discovery-cloud-aws", "autodiscovery-aws"),
		Image{Image: "docker.io/securecodebox/scanner-ncrack:*"},
		Image{Image: "docker.io/securecodebox/scanner-whatweb:*", Env: map[string]string{"HOME": home}},
		Image{
			Image: "docker.io/securecodebox/scanner-ffuf:*", Env: map[string]string{"HOME": home},
			Binaries: map[string]string{"/usr/bin/ffuf": s.FFUF},
		},
		Image{
			Image: "docker.io/securecodebox/scanner-git-repo-scanner:*", Entrypoint: []string{"/git-repo-scanner"},
			Binaries: map[string]string{"/git-repo-scanner": s.Path("git-repo-scanner")},
		},
		Image{
			Image: "docker.io/securecodebox/scanner-screenshooter:*", Env: map[string]string{"HOME": home},
			Binaries: map[string]string{"/wrapper.sh": s.Wrapper("scanner-screenshooter")},
		},
		Image{
			Image: "docker.io/drwetter/testssl.sh:*", Entrypoint: []string{"testssl.sh"}, Env: map[string]string{"HOME": home},
			Binaries: map[string]string{"/usr/local/bin/testssl.sh": s.TestSSL},
		},
	)
}
