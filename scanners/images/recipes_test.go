// SPDX-License-Identifier: Apache-2.0

package images

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/scanners/internal/recipe"
)

// unlocked are recipes over vendors' images whose lock is made where their registries can be reached, with "images
// lock". Take a name out once its lock is committed.
var unlocked = []string{"scanner-kube-hunter", "scanner-nikto", "scanner-sslyze", "scanner-wpscan"}

func TestAllRecipes(t *testing.T) {
	all, err := recipe.List(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 16 {
		t.Errorf("%d recipes", len(all))
	}
	for _, r := range all {
		t.Run(r.Name, func(t *testing.T) {
			_, err := recipe.LoadLock(r)
			if slices.Contains(unlocked, r.Name) {
				if !errors.Is(err, recipe.ErrNoLock) {
					t.Errorf("has a lock (%v): take it out of the list of those without", err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if r.Base == "" && (r.User != "65532:65532" || !r.Accounts) {
				t.Error("images that are not a vendor's run as nonroot")
			}
			if uid, _, _ := strings.Cut(r.User, ":"); uid == "" || uid == "0" {
				t.Errorf("user %q: each image says as whom it runs, and none as root", r.User)
			}
			for _, f := range r.Files {
				if strings.HasSuffix(f.Source, ".sh") && f.Mode != "0755" {
					t.Errorf("%s is not executable", f.Path)
				}
			}
			for _, p := range r.Programs {
				dir := filepath.Join("..", "..", filepath.FromSlash(p.Package))
				if found, err := filepath.Glob(filepath.Join(dir, "*.go")); err != nil || len(found) == 0 {
					t.Errorf("there is no program %s", p.Package)
				}
			}
		})
	}
}

// ours are the images of this project that a chart takes unless it is told otherwise.
var ours = regexp.MustCompile(`(?m)^\s*repository: docker\.io/scanyard/(\S+)$`)

// TestImagesOfCharts holds the charts against the recipes: what nobody can build nobody can install.
func TestImagesOfCharts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "charts", "*", "values.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no charts: %v", err)
	}
	named := map[string]bool{}
	for _, file := range files {
		values, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range ours.FindAllStringSubmatch(string(values), -1) {
			named[found[1]] = true
			if _, err := recipe.Load(found[1]); err != nil {
				t.Errorf("%s names an image without a recipe: %v", file, err)
			}
		}
	}
	if !named["operator"] {
		t.Error("the charts were not understood: none of them names the operator's image")
	}
}

// TestNoOtherFiles looks for files beside recipes that no recipe uses.
func TestNoOtherFiles(t *testing.T) {
	all, err := recipe.List(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		used := []string{recipe.File, recipe.LockFile, "README.md"}
		for _, f := range r.Files {
			used = append(used, f.Source)
		}
		entries, err := os.ReadDir(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !slices.Contains(used, e.Name()) {
				t.Errorf("%s/%s is used by nothing", r.Name, e.Name())
			}
		}
	}
}
